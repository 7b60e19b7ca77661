"""MWL#120 `rpl_event_consumer_transaction`, `_statement`, `_row`, and their registration."""

import pytest

from tailrace import generators
from tailrace.errors import UsageError
from tailrace.generators import RowConsumer, StatementConsumer, TransactionConsumer
from tests.generators.conftest import run

TRANSACTION = {"trx_start", "trx_commit", "trx_rollback"}
STATEMENT = {"stmt_start", "stmt_end", "stmt_query", "stmt_load_data_block", "stmt_load_query"}
ROW = {"row_write", "row_update", "row_delete", "row_batch"}


def methods(interface):
    return {name for name in dir(interface) if name.partition("_")[0] in ("trx", "stmt", "row")}


def test_each_interface_inherits_that_of_the_generator_below():
    assert methods(TransactionConsumer) == TRANSACTION
    assert methods(StatementConsumer) == TRANSACTION | STATEMENT
    assert methods(RowConsumer) == TRANSACTION | STATEMENT | ROW
    assert issubclass(RowConsumer, StatementConsumer)
    assert issubclass(StatementConsumer, TransactionConsumer)


def test_an_interface_cannot_be_instantiated():
    for interface in (generators.Consumer, TransactionConsumer, StatementConsumer, RowConsumer):
        with pytest.raises(TypeError, match="is an interface"):
            interface()


def consumer(base, *names):
    """A consumer with these methods, that notes what they are called with."""

    def method(name):
        def call(self, event):
            self.calls.append((name, event.name))

        return call

    made = type("Made", (base,), {name: method(name) for name in names})()
    made.calls = []
    return made


def calls(recording, generator, base, *methods):
    """What each of several consumers is called with, by the methods that it has."""
    made = [consumer(base, *names) for names in methods]
    run(generators.EventStream(recording.log), *made, of=generator)
    return [each.calls for each in made]


@pytest.mark.parametrize(
    ("generator", "base", "names"),
    [
        ("transaction", TransactionConsumer, TRANSACTION),
        ("statement", StatementConsumer, STATEMENT - {"stmt_query"}),
        ("row", RowConsumer, ROW - {"row_batch"}),
    ],
)
def test_rpl_event_consumer_transaction_statement_and_row(recorded, generator, base, names):
    """Each method is called with the events of its name, once each."""
    called = set()
    for recording in recorded.values():
        if generator == "statement" and recording.format != "STATEMENT":
            continue  # in which each statement is offered to it
        methods = [("trx_rollback", name) for name in sorted(names)]
        for (_, name), found in zip(
            methods, calls(recording, generator, base, *methods), strict=True
        ):
            of_it = [each for each in found if each[0] == name]
            assert of_it == [(name, name)] * len(recording.named(name))
            called |= {each for each, _ in of_it}
    assert called == names


def test_rpl_event_consumer_statement_stmt_load_query_falls_back_to_stmt_query(statements):
    methods = ("stmt_query",), ("stmt_query", "stmt_load_query")
    found, both = calls(statements, "statement", StatementConsumer, *methods)
    assert ("stmt_query", "stmt_load_query") in found
    assert ("stmt_load_query", "stmt_load_query") in both
    assert ("stmt_query", "stmt_load_query") not in both
    assert len(both) == len(found)


def test_the_most_specific_callback_once_per_registration(recorded):
    """`event` gets what no other method gets."""
    for recording in recorded.values():
        made = consumer(RowConsumer, "event", "trx_commit", "stmt_query", "trx_rollback")
        run(generators.EventStream(recording.log), made)
        expected = [
            (
                {"stmt_load_query": "stmt_query"}.get(event.name, event.name)
                if event.name in {"trx_commit", "trx_rollback", "stmt_query", "stmt_load_query"}
                else "event",
                event.name,
            )
            for event in recording.events
        ]
        assert made.calls == expected


def test_rpl_event_transaction_register_gives_transaction_calls_only(recorded):
    """Also to a consumer of rows."""
    for recording in recorded.values():
        (found,) = calls(recording, "transaction", RowConsumer, ("event",))
        assert {name for _, name in found} == {"trx_start", "trx_commit"}


def test_rpl_event_statement_register_gives_no_rows(recorded):
    for recording in recorded.values():
        (found,) = calls(recording, "statement", RowConsumer, ("event", "row_write"))
        assert not ROW & {name for _, name in found}
        assert {"stmt_start", "trx_commit"} <= {name for _, name in found}


@pytest.mark.parametrize(
    ("generator", "base"), [("row", StatementConsumer), ("statement", TransactionConsumer)]
)
def test_a_consumer_of_a_generator_below_cannot_register_above(generator, base):
    with generators.EventStream("examples/shop/mysql") as stream:
        with pytest.raises(UsageError, match=f"consumers of the {generator} generator derive from"):
            stream.stack[generator].register(consumer(base, "event"))
        with pytest.raises(UsageError, match="has no generator 'pbxt'"):
            stream.stack["pbxt"]
        with pytest.raises(UsageError, match="on_error"):
            stream.row.register(consumer(RowConsumer, "event"), on_error="retry")


def test_events_that_an_upper_generator_takes_are_not_fired_below(rows):
    """The row generator takes rows: the statement generator is not offered them."""
    made = consumer(RowConsumer, "event")
    stream = run(generators.EventStream(rows.log), made)
    counts = stream.stack.counts
    assert counts["row"].offered == counts["row"].taken + counts["row"].deferred
    assert counts["statement"].offered == counts["row"].deferred
    assert counts["transaction"].offered == counts["statement"].deferred
    assert counts["transaction"].deferred == 0
    assert stream.stack.unclaimed == 0


def test_de_register_and_register_again(rows):
    made = consumer(RowConsumer, "trx_commit")
    with generators.EventStream(rows.log) as stream:
        registration = stream.row.register(made)
        next(stream)
        registration.cancel()
        next(stream)
        stream.row.register(made)
        next(stream)
    assert len(made.calls) == 2
