"""MWL#120 `rpl_event_base`: what holds for the events of all generators."""

from dataclasses import is_dataclass

import pytest

from tailrace import events, generators
from tailrace.errors import UsageError
from tailrace.generators import KeptContext, ReplicationEvent
from tailrace.generators.event import kinds_of
from tests.generators.conftest import run
from tests.recorded import CORPUS

KINDS = [each for each in kinds_of(ReplicationEvent) if each.__module__.startswith("tailrace.")]


def bases():
    found, rest = [], [ReplicationEvent]
    while rest:
        kind = rest.pop()
        rest += kind.__subclasses__()
        if not kind.name:
            found.append(kind)
    return found


def test_rpl_event_base_only_child_classes_can_be_instantiated():
    for kind in bases():
        with pytest.raises(TypeError, match="only kinds of it can be made"):
            kind(KeptContext({}))


def test_events_are_const():
    for kind in KINDS:
        event = kind(KeptContext({}))
        for name in (*kind.accessors, "anything"):
            with pytest.raises(AttributeError):
                setattr(event, name, 1)
        with pytest.raises((AttributeError, TypeError)):
            del event._context


def test_an_event_is_used_without_knowledge_of_its_details():
    """ "code that wants to treat events in a generic way": accessors and values by their names."""
    seen = set()

    class Generic(generators.RowConsumer):
        def event(self, event):
            assert set(event.values()) == set(type(event).accessors)
            seen.add(event.name)

    for case in ("savepoints", "load-data"):
        run(generators.EventStream(CORPUS / f"mariadb-11.8.{case}"), Generic())
    assert seen == {kind.name for kind in KINDS} - {"trx_rollback", "row_batch"}


def test_the_lifetime_of_an_event_is_the_callback():
    kept = {}

    class Keeps(generators.RowConsumer):
        def event(self, event):
            kept[event.name] = event, event.keep(), event.values()

    run(generators.EventStream(CORPUS / "mysql-9.7.savepoints"), Keeps())
    for event, copy, values in kept.values():
        assert not event.is_valid
        assert repr(event) == f"{type(event).__name__}(over)"
        for name in event.accessors:
            with pytest.raises(UsageError, match=r"only during the callback.*event\.keep\(\)"):
                getattr(event, name)
        with pytest.raises(UsageError, match="is over"):
            event.materialise()
        assert copy.is_valid
        assert copy.values() == copy.keep().values() == values


def _parts(value):
    yield value
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _parts(each)


def test_encapsulation_no_accessor_gives_an_event_or_a_decoder_of_the_log(recorded):
    for recording in recorded.values():
        for event in recording.events:
            for value in _parts(list(event.values().values())):
                assert not isinstance(value, (events.Event, events.FormatDescription))
                module = type(value).__module__
                if module.startswith("tailrace."):  # names, positions: plain values
                    assert is_dataclass(value) or isinstance(value, tuple), value


def test_position_is_where_mysqlbinlog_shows_the_event(recorded):
    for recording in recorded.values():
        shown = {int(at) for at in recording.shown(r"(?m)^# at (\d+)$")}
        at = {event.position.offset for event in recording.events}
        assert at <= shown
        assert {event.server_id for event in recording.events} == {1}


def test_not_materialised_nothing_is_read_that_nobody_asks_for(rows):
    """Accessors ask the context: a consumer that asks for nothing has nothing decoded."""
    asked = []

    class Context(KeptContext):
        def read(self, accessor):
            asked.append(accessor)
            return super().read(accessor)

    class Consumer(generators.TransactionConsumer):
        def trx_start(self, event):
            assert event.local_transaction_id == 4

    stack = generators.Stack([generators.TransactionGenerator])
    stack["transaction"].register(Consumer())
    values = {"local_transaction_id": 4}
    stack.offer(generators.Offer(generators.Change.START, Context(values), 4))
    assert asked == ["local_transaction_id"]

    class Starts(generators.TransactionConsumer):
        def trx_start(self, event):
            pass

    counts = run(generators.EventStream(rows.log), Starts(), of="transaction").stack.counts
    assert counts["row"].made == counts["statement"].made == 0
    assert counts["row"].taken > 0


def test_the_same_event_goes_to_each_consumer(rows):
    """ "the same event can be passed to each of multiple registered consumers"."""
    given = ([], [])

    class Takes(generators.RowConsumer):
        def __init__(self, into):
            self.into = into

        def event(self, event):
            self.into.append((event.name, id(event), event.position))

    run(generators.EventStream(rows.log), *map(Takes, given))
    assert given[0] == given[1]
    assert len(given[0]) > 100


def test_one_virtual_function_for_every_event():
    """In the interface of one generator, which those above inherit; the base does nothing."""
    stack = generators.Stack(generators.stack.generators())
    names = [each.name for each in stack]
    for kind in KINDS:
        having = [each for each in stack if hasattr(each.interface, kind.name)]
        (adding,) = [each for each in having if kind.name in vars(each.interface)]
        assert [each.name for each in having] == names[names.index(adding.name) :], kind
        for each in having:
            made = type("Nothing", (each.interface,), {})()
            assert getattr(made, kind.name)(kind(KeptContext({}))) is None
