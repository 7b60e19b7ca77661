"""The events that generators make of recorded logs, compared with what `tailrace.transactions` has."""

import pytest

import tailrace
from tailrace import generators
from tests.generators.conftest import run
from tests.generators.test_rpl_event_row import Tables
from tests.recorded import CORPUS
from tools.expected import load_expected


class Counted(generators.RowConsumer):
    """Counts all events by name."""

    def __init__(self):
        self.count = {}

    def event(self, event):
        assert event.keep().values() == event.values()
        self.count[event.name] = self.count.get(event.name, 0) + 1


@pytest.mark.parametrize("server", ["mysql-9.7", "mariadb-11.8"])
def test_the_rows_that_were_committed_are_given_once(server):
    log = CORPUS / f"{server}.several-tables"
    counted = Counted()
    with generators.EventStream(log) as stream:
        stream.row.register(counted)
        stream.run()
        with tailrace.transactions(log) as found:
            transactions = list(found)
            assert stream.position == found.position
            assert stream.gtids == found.gtids
    rows = [row.operation for each in transactions for row in each.rows]
    for name, operation in (("write", "insert"), ("update", "update"), ("delete", "delete")):
        assert counted.count[f"row_{name}"] == rows.count(operation)
    assert counted.count["trx_commit"] == counted.count["trx_start"] == len(transactions)
    assert counted.count["stmt_query"] == sum(len(each.statements) for each in transactions)


@pytest.mark.parametrize("server", ["mysql-9.7", "mariadb-11.8"])
def test_a_relay_log_of_a_real_replica_is_a_source(server):
    """The rows make the tables that the replica had."""
    folder = CORPUS / f"{server}.relay-log"
    expected = load_expected(folder)["tables"]
    tables = Tables()
    run(generators.EventStream(folder), tables)
    assert expected
    for name, table in expected.items():
        at = table["columns"].index("id")
        found = [str(key) for of, key in tables.rows if f"corpus.{of}" == name]
        assert sorted(found) == sorted(row[at] for row in table["rows"])


def test_each_generator_makes_what_is_asked_of_it_and_no_other():
    """The counts that `benchmarks generators` shows: changes are offered, events made on demand."""
    owner = {None: None, "trx_commit": "transaction", "stmt_start": "statement", "row_batch": "row"}
    for method, generator in owner.items():
        consumer = type(
            "Asks", (generators.RowConsumer,), {method: lambda *_: None} if method else {}
        )
        log = generators.EventStream(CORPUS / "mysql-9.7.several-tables")
        counts = run(log, *[consumer()] * bool(method)).stack.counts
        assert all(each.taken for each in counts.values())
        assert [name for name, each in counts.items() if each.made] == [generator] * bool(method)
        for name, each in counts.items():
            assert each.made <= each.taken == each.offered - each.deferred, name
