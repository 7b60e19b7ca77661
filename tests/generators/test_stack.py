"""How a stack hands changes down and tells consumers: registrations, order, errors, rollbacks."""

import threading

import pytest

import tailrace
from tailrace import generators
from tailrace.errors import ObserverError, UsageError
from tailrace.generators import Change, KeptContext, Offer, RowGenerator, Stack
from tailrace.generators.statement import StatementGenerator
from tailrace.generators.transaction import TransactionGenerator
from tests.generators.conftest import run
from tests.recorded import CORPUS
from tests.waiting import DEADLINE

LOG = CORPUS / "mysql-9.7.several-tables"


class Told(generators.RowConsumer):
    """Notes the local id and the name of each event."""

    def __init__(self, then=lambda _event: None):
        self.events = []
        self.then = then

    def event(self, event):
        self.events.append((event.local_transaction_id, event.name))
        self.then(event)


class ToldOfRollbacks(Told):
    def trx_rollback(self, event):
        self.events.append((event.local_transaction_id, f"{event.name} {event.savepoint}"))


@pytest.fixture
def stack():
    return Stack([TransactionGenerator, StatementGenerator, RowGenerator])


def offer(stack, change, number, *, rolled_back=False, savepoint=None):
    context = KeptContext({"local_transaction_id": number, "savepoint": savepoint})
    stack.offer(Offer(change, context, number, rolled_back))


def test_who_registers_inside_a_transaction_is_told_of_the_next(stack):
    late = Told()

    def join(event):
        if not late.events and event.name == "trx_start" and event.local_transaction_id == 1:
            stack["row"].register(late)

    stack["row"].register(Told(join))
    for number in (1, 2):
        for change in (Change.START, Change.STATEMENT, Change.COMMIT):
            offer(stack, change, number)
    assert late.events == [(2, "trx_start"), (2, "stmt_query"), (2, "trx_commit")]


def test_who_registers_while_rolled_back_changes_are_told_is_told_of_the_next(stack):
    """Its transaction has started for the consumer that sees what is rolled back."""
    late = ToldOfRollbacks()
    first = ToldOfRollbacks(lambda event: event.name == "stmt_query" and not late.events and join())

    def join():
        if len(stack.registrations) == 1:
            stack["row"].register(late)

    stack["row"].register(first)
    offer(stack, Change.START, 1, rolled_back=True)
    offer(stack, Change.STATEMENT, 1, rolled_back=True)
    offer(stack, Change.ROLLBACK, 1, rolled_back=True, savepoint="s")
    offer(stack, Change.START, 1)
    offer(stack, Change.COMMIT, 1)
    assert late.events == []
    offer(stack, Change.START, 2)
    assert late.events == [(2, "trx_start")]


def test_rolled_back_ranges_are_told_to_who_has_trx_rollback(stack):
    told, plain = ToldOfRollbacks(), Told()
    stack["row"].register(told)
    stack["row"].register(plain)
    offer(stack, Change.START, 1, rolled_back=True)
    offer(stack, Change.STATEMENT, 1, rolled_back=True)
    offer(stack, Change.ROLLBACK, 1, rolled_back=True, savepoint="s")
    offer(stack, Change.START, 1)
    offer(stack, Change.STATEMENT, 1)
    offer(stack, Change.COMMIT, 1)
    names = [name for _, name in told.events]
    assert names == ["trx_start", "stmt_query", "trx_rollback s", "stmt_query", "trx_commit"]
    assert [name for _, name in plain.events] == ["trx_start", "stmt_query", "trx_commit"]


def test_no_other_thread_offers_between_what_is_offered_together(stack):
    told = Told()
    stack["row"].register(told)

    def another():
        for change in (Change.START, Change.COMMIT):
            offer(stack, change, 2)

    thread = threading.Thread(target=another)
    with stack.together():
        offer(stack, Change.START, 1)
        thread.start()
        thread.join(0.2)
        offer(stack, Change.COMMIT, 1)
    thread.join(DEADLINE)
    assert [number for number, _ in told.events] == [1, 1, 2, 2]


def test_cancel_inside_a_callback(stack):
    told = Told(lambda event: event.name == "stmt_query" and registration.cancel())
    other = Told()
    registration = stack["row"].register(told)
    stack["row"].register(other)
    for change in (Change.START, Change.STATEMENT, Change.COMMIT):
        offer(stack, change, 1)
    assert [name for _, name in told.events] == ["trx_start", "stmt_query"]
    assert len(other.events) == 3
    assert not registration.active
    with pytest.raises(UsageError, match="ended already"):
        registration.cancel()


def test_consumers_are_told_in_the_order_of_their_registration(stack):
    order = []
    for number in range(3):
        stack["row"].register(Told(lambda _event, number=number: order.append(number)))
    offer(stack, Change.START, 1)
    assert order == [0, 1, 2]


def test_no_row_is_decoded_once_nobody_listens():
    """A consumer that cancels at the first row of an event spares the others of it."""
    told = Told(lambda event: event.name == "row_write" and registration.cancel())
    with generators.EventStream(CORPUS / "mysql-9.7.big-statements") as stream:
        registration = stream.row.register(told)
        stream.run()
        assert stream.stack.counts["row"].made == 1


def test_a_change_of_a_transaction_that_has_not_started_is_an_error(stack):
    with pytest.raises(UsageError, match="has not started"):
        offer(stack, Change.STATEMENT, 7)


def test_a_stopping_consumer_keeps_the_position_before_its_transaction():
    with tailrace.transactions(LOG) as found:
        starts = [each.start for each in found]

    def fail(event):
        if event.local_transaction_id == 3 and event.name == "trx_commit":
            raise ValueError("full")

    with generators.EventStream(LOG) as stream:
        stream.row.register(Told(fail))
        with pytest.raises(ObserverError, match=r"Told failed in trx_commit at .*ValueError: full"):
            stream.run()
        assert stream.position == starts[2]
        with pytest.raises(UsageError, match="open one that starts at"):
            stream.run()
    told = Told()
    run(generators.EventStream(LOG, start=starts[2]), told)
    assert len([1 for _, name in told.events if name == "trx_commit"]) == len(starts) - 2


def test_a_dropped_consumer_leaves_the_others(caplog):
    def fail(event):
        raise ValueError(event.name)

    other = Told()
    with generators.EventStream(LOG) as stream:
        registration = stream.row.register(Told(fail), on_error="drop")
        stream.row.register(other)
        stream.run()
        assert stream.stack.registrations != ()
        assert not registration.active
    assert str(registration.error) == "trx_start"
    assert "it is dropped" in caplog.text
    assert other.events[-1][1] == "trx_commit"


def test_an_error_of_our_own_keeps_its_class(stack):
    def fail(_event):
        raise UsageError("wrong")

    stack["row"].register(Told(fail))
    with pytest.raises(UsageError, match="wrong") as raised:
        offer(stack, Change.START, 1)
    assert "failed in trx_start" in raised.value.__notes__[0]


def test_stop_ends_after_the_transaction():
    with generators.EventStream(LOG) as stream:
        told = Told(lambda event: event.name == "trx_start" and stream.stop())
        stream.row.register(told)
        stream.run()
        assert {number for number, _ in told.events} == {1}
        assert told.events[-1] == (1, "trx_commit")
        with tailrace.transactions(LOG) as found:
            assert stream.position == next(found).position


@pytest.mark.parametrize("end", ["stop", "close"])
def test_another_thread_ends_a_stream_that_is_followed(end):
    stream = generators.EventStream(LOG, follow=True)
    waits = threading.Event()
    with tailrace.transactions(LOG) as found:
        last = len(list(found))
    stream.row.register(
        Told(lambda event: event.local_transaction_id == last and waits.set())  # the log's end
    )
    running = threading.Thread(target=stream.run)
    running.start()
    assert waits.wait(DEADLINE)
    getattr(stream, end)()
    running.join(DEADLINE)
    assert not running.is_alive()
    stream.close()


def test_a_stream_that_was_closed_is_not_run():
    stream = generators.EventStream(LOG)
    stream.close()
    with pytest.raises(UsageError, match="this stream is closed"):
        stream.run()


def test_several_sources_number_their_transactions_together():
    told = Told()
    run(generators.EventStream([LOG, CORPUS / "mariadb-11.8.several-tables"]), told)
    starts = [number for number, name in told.events if name == "trx_start"]
    assert starts == list(range(1, len(starts) + 1))


def test_a_statement_over_tables_of_which_one_is_wanted():
    """Its last rows event is of another table: the next statement has a start of its own."""

    class Statements(generators.RowConsumer):
        def __init__(self):
            self.tables = []

        def stmt_start(self, event):
            self.tables.append(set())

        def row_batch(self, event):
            self.tables[-1].add(event.table.name)

    def of(tables):
        told = Statements()
        run(generators.EventStream(CORPUS / "mysql-9.7.several-tables", tables=tables), told)
        return [tables for tables in told.tables if tables]

    whole = of("corpus.*")
    for table in ("a", "b", "parent", "child", "log"):
        assert of(f"corpus.{table}") == [{table} for tables in whole if table in tables]


def test_the_blocks_of_load_data_are_inside_their_statement():
    told = Told()
    run(generators.EventStream(CORPUS / "mariadb-10.11.load-data"), told)
    names = [name for _, name in told.events]
    at = names.index("stmt_load_data_block")
    assert names[at - 1] == "stmt_start"
    assert names[names.index("stmt_load_query") + 1] == "stmt_end"


@pytest.mark.parametrize("server", ["mysql-9.7", "mariadb-11.8"])
def test_xa_transactions_that_are_in_doubt_are_counted(server, tmp_path):
    """Up to the commit of the last, which was prepared before."""
    told = Told()
    with generators.EventStream(CORPUS / f"{server}.xa") as stream:
        stream.row.register(told)
        seen = []
        stream.row.register(ToldOfRollbacks(lambda event: seen.append((event.name, event.keep()))))
        stream.run()
        assert stream.in_doubt == 0
    begun = [event.xa for name, event in seen if name == "trx_start"]
    last = [event.position for name, event in seen if name == "trx_start" and event.xa][-1]
    assert begun.count(None) < len(begun)
    with generators.EventStream(CORPUS / f"{server}.xa", until=last) as stream:
        stream.row.register(Told())
        stream.run()
        assert stream.in_doubt == 1
        assert stream.position < last
