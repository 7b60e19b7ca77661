"""The events that generators make of recorded logs, compared with what `tailrace.transactions` has."""

from __future__ import annotations

import json

import pytest

import tailrace
from tailrace import generators
from tailrace.errors import UsageError
from tests.recorded import CORPUS


class Counted(generators.RowConsumer):
    """Counts all events by name."""

    def __init__(self):
        self.count = {}

    def event(self, event):
        assert event.keep().values() == event.values()
        self.count[event.name] = self.count.get(event.name, 0) + 1


def test_the_rows_that_were_committed_are_given_once():
    for name in ("mysql", "mariadb"):
        counted = Counted()
        with generators.EventStream(f"examples/shop/{name}") as stream:
            stream.row.register(counted)
            stream.run()
            with tailrace.transactions(f"examples/shop/{name}") as found:
                transactions = list(found)
                assert stream.position == found.position
                assert stream.gtids == found.gtids
        rows = [row.operation for each in transactions for row in each.rows]
        assert counted.count["row_write"] == rows.count("insert")
        assert counted.count["row_update"] == rows.count("update")
        assert counted.count["row_delete"] == rows.count("delete")
        assert counted.count["trx_commit"] == counted.count["trx_start"] == len(transactions)
        assert counted.count["stmt_query"] == sum(len(each.statements) for each in transactions)


def test_an_event_is_valid_during_the_callback_only():
    kept = []

    class Keeps(generators.RowConsumer):
        def row_write(self, event):
            kept.append((event, event.keep()))

    with generators.EventStream("examples/shop/mysql", tables="shop.reviews") as stream:
        stream.row.register(Keeps())
        stream.run()
    event, copy = kept[0]
    assert copy.after_image["id"] == 1
    with pytest.raises(UsageError, match="only during the callback"):
        event.after_image  # noqa: B018 - it raises


@pytest.mark.parametrize("server", ["mysql-9.7", "mariadb-11.8", "mariadb-10.11"])
def test_a_relay_log_of_a_real_replica_is_a_source(server):
    """The rows make the tables that the replica had."""
    folder = CORPUS / f"{server}.relay-log"
    expected = json.loads((folder / "expected.json").read_text())["tables"]
    rows = {}

    class Tables(generators.RowConsumer):
        def row_write(self, event):
            row = event.after_image
            name = f"{event.table.database}.{event.table.name}"
            rows.setdefault(name, {})[row["id"]] = row

        def row_update(self, event):
            self.row_delete(event)
            self.row_write(event)

        def row_delete(self, event):
            name = f"{event.table.database}.{event.table.name}"
            del rows[name][event.before_image["id"]]

    with generators.EventStream(folder) as stream:
        stream.row.register(Tables())
        stream.run()
    assert expected
    for name, table in expected.items():
        at = table["columns"].index("id")
        assert sorted(map(str, rows[name])) == sorted(row[at] for row in table["rows"])


@pytest.mark.parametrize("names", [(), ("trx_commit",), ("stmt_start",), ("row_batch",)])
def test_each_generator_makes_what_is_asked_of_it_and_no_other(names):
    """The counts that `benchmarks generators` shows: changes are offered, events made on demand."""
    consumer = type("Asks", (generators.RowConsumer,), {n: lambda *_: None for n in names})()
    with generators.EventStream("examples/shop/mysql") as stream:
        if names:
            stream.row.register(consumer)
        stream.run()
        counts = stream.stack.counts
    taken = {name: each.taken for name, each in counts.items()}
    assert min(taken.values()) > 0
    owner = {"trx": "transaction", "stmt": "statement", "row": "row"}
    asked = {owner[name.partition("_")[0]] for name in names}
    assert {name for name, each in counts.items() if each.made} == asked
    for name, each in counts.items():
        assert each.made <= each.taken == each.offered - each.deferred, name
