"""Delegates: order, registration, what a call sees, and what an observer that raises does."""

import pytest

from tailrace.errors import ObserverError, SemisyncError, UsageError
from tailrace.observers import RelayFlag, RelayIo, RelayIoDelegate, RelayIoObserver
from tests.cases import each_case
from tests.observers.test_kinds import CALLS

POINTS = CALLS[RelayIoDelegate]


class Notes(RelayIoObserver):
    """Notes each call in a list that it shares with others; raises what it was told to."""

    def __init__(self, name, calls, error=None):
        self.name, self.calls, self.error = name, calls, error

    def _note(self, *call):
        self.calls.append((self.name, *call))
        if self.error is not None:
            raise self.error

    def thread_start(self, io):
        self._note("thread_start", io)

    def thread_stop(self, io):
        self._note("thread_stop", io)

    def before_request_transmit(self, io, flags):
        self._note("before_request_transmit", io, flags)
        return flags | 1 << self.name

    def after_read_event(self, io, packet):
        self._note("after_read_event", io, bytes(packet))
        return packet[1:]

    def after_queue_event(self, io, event, flags):
        self._note("after_queue_event", io, bytes(event), flags)

    def after_reset_replica(self, io):
        self._note("after_reset_replica", io)


def test_each_point_is_told_in_order_with_what_the_one_before_left():
    calls = []
    delegate = RelayIoDelegate(Notes(at, calls) for at in (3, 1, 2))
    io = RelayIo(server_id=7, host="h", user="u", port=1, log_name="binlog.000001", log_pos=4)
    assert delegate.thread_start(io) is None
    assert delegate.before_request_transmit(io, 1) == 0b1111
    assert bytes(delegate.after_read_event(io, memoryview(b"abcdef"))) == b"def"
    delegate.after_queue_event(io, memoryview(b"event"), RelayFlag.SYNCED)
    delegate.after_reset_replica(io)
    delegate.thread_stop(io)
    assert calls == [
        *((at, "thread_start", io) for at in (3, 1, 2)),
        (3, "before_request_transmit", io, 0b0001),
        (1, "before_request_transmit", io, 0b1001),
        (2, "before_request_transmit", io, 0b1011),
        (3, "after_read_event", io, b"abcdef"),
        (1, "after_read_event", io, b"bcdef"),
        (2, "after_read_event", io, b"cdef"),
        *((at, "after_queue_event", io, b"event", RelayFlag.SYNCED) for at in (3, 1, 2)),
        *((at, "after_reset_replica", io) for at in (3, 1, 2)),
        *((at, "thread_stop", io) for at in (3, 1, 2)),
    ]


@each_case("observers", [(), (RelayIoObserver(),)])
def test_without_observers_and_with_the_base_everything_is_left_as_it_is(observers):
    delegate, io = RelayIoDelegate(observers), RelayIo()
    assert delegate.is_empty is not bool(observers)
    packet = memoryview(b"packet")
    assert delegate.before_request_transmit(io, 5) == 5
    assert delegate.after_read_event(io, packet) is packet
    for call in POINTS.values():
        call(delegate, io)


def test_the_same_observer_is_refused_and_an_equal_one_is_not():
    class Equal(RelayIoObserver):
        def __eq__(self, other):
            return True

        __hash__ = None

    one, other = Equal(), Equal()
    delegate = RelayIoDelegate([one])
    delegate.add(other)
    for each in (one, other):
        with pytest.raises(UsageError, match=r"Equal is registered already"):
            delegate.add(each)
    delegate.remove(one)
    assert not delegate.is_empty
    with pytest.raises(UsageError, match=r"Equal is not registered"):
        delegate.remove(one)
    delegate.remove(other)
    assert delegate.is_empty
    delegate.add(one)
    assert not delegate.is_empty


def test_what_is_no_observer_is_refused():
    delegate = RelayIoDelegate()
    with pytest.raises(UsageError, match=r"builtins.dict is no observer here: .*thread_start"):
        delegate.add({})
    assert delegate.is_empty


def test_a_method_of_the_object_itself_counts():
    calls = []
    observer = RelayIoObserver()
    observer.thread_start = calls.append
    io = RelayIo()
    RelayIoDelegate([observer]).thread_start(io)
    assert calls == [io]


@each_case("point", POINTS)
def test_an_error_of_the_tree_passes_as_it_is(point):
    error = SemisyncError("no semi-sync")
    error.__cause__ = OSError("why")
    delegate = RelayIoDelegate([Notes(1, [], error)])
    with pytest.raises(SemisyncError) as caught:
        POINTS[point](delegate, RelayIo())
    assert caught.value is error
    assert isinstance(caught.value.__cause__, OSError)


@each_case("point", POINTS)
def test_an_interrupt_is_not_an_observers_error(point):
    delegate = RelayIoDelegate([Notes(1, [], KeyboardInterrupt())])
    with pytest.raises(KeyboardInterrupt):
        POINTS[point](delegate, RelayIo())


@each_case(
    ("point", "kind"), [("before_request_transmit", "int"), ("after_read_event", "memoryview")]
)
def test_what_returns_nothing_is_an_error(point, kind):
    class Silent(RelayIoObserver):
        def before_request_transmit(self, io, flags):
            """Forgets to return."""

        def after_read_event(self, io, packet):
            """Likewise."""

    with pytest.raises(
        ObserverError, match=rf"Silent failed in {point}.*returned NoneType.*{kind}"
    ):
        POINTS[point](RelayIoDelegate([Silent()]), RelayIo())


def test_an_observer_may_change_the_list_from_inside_a_call():
    calls = []

    class Changes(Notes):
        def thread_start(self, io):
            super().thread_start(io)
            delegate.remove(self)
            delegate.add(late)

    first, late = Changes(1, calls), Notes(3, calls)
    delegate = RelayIoDelegate([first, Notes(2, calls)])
    delegate.thread_start(RelayIo())
    assert [call[0] for call in calls] == [1, 2]  # as it stood when the call began
    delegate.thread_start(RelayIo())
    assert [call[0] for call in calls[2:]] == [2, 3]
