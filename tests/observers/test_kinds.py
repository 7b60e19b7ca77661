"""The four kinds of observers and their delegates (WL#4398): order, errors, versions, plugins."""

import pickle
import threading
from contextlib import suppress

import pytest

from tailrace.errors import ObserverError, UsageError
from tailrace.observers import (
    INTERFACE_VERSION,
    LogStorageDelegate,
    LogStorageFlag,
    LogStorageIo,
    LogStorageObserver,
    RelayFlag,
    RelayIo,
    RelayIoDelegate,
    TransactionDelegate,
    TransactionIo,
    TransactionObserver,
    TransmitDelegate,
    TransmitIo,
    TransmitObserver,
    add,
)
from tests.cases import each_case
from tests.waiting import DEADLINE, ended, in_thread, wait_for

EVENT = memoryview(b"event")


def _send(delegate, io, event=EVENT):
    """A packet, as a dump sends it."""
    sent = []
    with delegate.packets(io) as packets:
        if packets is None:
            return b"\0" + event
        size = packets.send(event, "b.000001", 99, lambda packet: sent.append(bytes(packet)))
    assert [len(each) for each in sent] == [size]
    return sent[0]


CALLS = {
    TransactionDelegate: {
        "after_commit": lambda d, io: d.after_commit(io),
        "after_rollback": lambda d, io: d.after_rollback(io),
    },
    LogStorageDelegate: {
        "after_flush": lambda d, io: d.after_flush(io, "b.000001", 4, LogStorageFlag.SYNCED),
        "after_sync": lambda d, io: d.after_sync(io, "b.000001", 4),
    },
    TransmitDelegate: {
        "transmit_start": lambda d, io: d.transmit_start(io, "b.000001", 4),
        "reserve_header": _send,
        "before_send_event": _send,
        "after_send_event": _send,
        "transmit_stop": lambda d, io: d.transmit_stop(io),
        "after_reset_source": lambda d, io: d.after_reset_source(io),
    },
    RelayIoDelegate: {
        "thread_start": lambda d, io: d.thread_start(io),
        "before_request_transmit": lambda d, io: d.before_request_transmit(io, 0),
        "after_read_event": lambda d, io: d.after_read_event(io, EVENT),
        "after_queue_event": lambda d, io: d.after_queue_event(io, EVENT, RelayFlag.SYNCED),
        "thread_stop": lambda d, io: d.thread_stop(io),
        "after_reset_replica": lambda d, io: d.after_reset_replica(io),
    },
}
"""Every hook, in an order in which it may be called."""
IOS = {
    TransactionDelegate: lambda: TransactionIo(7),
    LogStorageDelegate: lambda: LogStorageIo(7),
    TransmitDelegate: lambda: TransmitIo(7),
    RelayIoDelegate: lambda: RelayIo(7),
}
ALL_CALLED = {
    "after_commit",
    "after_rollback",
    "after_flush",
    "after_sync",
    "transmit_stop",
    "after_reset_source",
    "thread_stop",
    "after_reset_replica",
}
RESULT = {"reserve_header": b"", "after_read_event": EVENT, "before_request_transmit": 0}
EACH = each_case(
    ("delegate_of", "point"),
    [(kind, point) for kind, points in CALLS.items() for point in points],
)


def run(delegate, point):
    """Call one hook as its user would: a dump has begun before its other hooks are called."""
    kind = type(delegate)
    io = IOS[kind]()
    if kind is TransmitDelegate and point not in {"transmit_start", "after_reset_source"}:
        delegate.transmit_start(io, "b.000001", 4)
    return CALLS[kind][point](delegate, io)


def observer_of(kind, point, act, version=INTERFACE_VERSION):
    """An observer that overrides one hook with ``act``, called without arguments."""

    def hook(_self, *_given):
        act()
        return RESULT.get(point)

    return type("Made", (kind,), {point: hook, "interface_version": version})()


def test_there_are_the_worklogs_15_hooks_and_after_sync():
    hooks = [point for points in CALLS.values() for point in points]
    assert len(hooks) == 16
    assert {point for kind in CALLS for point in kind.points} == set(hooks)
    assert [kind.since for kind in CALLS if kind.since] == [{"after_sync": 2}]


@EACH
def test_each_hook_is_called_in_the_order_of_registration(delegate_of, point):
    calls = []
    observers = [
        observer_of(delegate_of.kind, point, lambda number=number: calls.append(number))
        for number in range(3)
    ]
    delegate = delegate_of(observers)
    assert list(delegate) == observers
    assert all(each in delegate for each in observers)
    run(delegate, point)
    assert calls == [0, 1, 2]
    delegate.remove(observers[1])
    assert list(delegate) == [observers[0], observers[2]]
    assert observers[1] not in delegate
    run(delegate, point)
    assert calls == [0, 1, 2, 0, 2]


@EACH
def test_a_raise_ends_the_call_or_comes_after_all_calls(delegate_of, point, caplog):
    calls, errors = [], [ValueError("it broke"), KeyError("second")]

    def breaks(error):
        calls.append(error)
        raise error

    kind = delegate_of.kind
    broken = [observer_of(kind, point, lambda error=error: breaks(error)) for error in errors]
    before, after = (
        observer_of(kind, point, lambda when=when: calls.append(when))
        for when in ("before", "after")
    )
    delegate = delegate_of([before, *broken, after])
    caplog.clear()
    with pytest.raises(ObserverError) as caught:
        run(delegate, point)
    name = f"the observer {__name__}.Made failed"
    assert caught.value.__cause__ is errors[0]
    assert str(caught.value) == f"{name} in {point}: ValueError: it broke"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    if point in ALL_CALLED:
        assert calls == ["before", *errors, "after"]
        assert caught.value.__notes__ == [f"{name} too, in {point}: KeyError('second')"]
        assert caplog.messages == caught.value.__notes__
    else:
        assert calls == ["before", errors[0]]
    for each in broken:  # the call that failed is over: this does not wait
        delegate.remove(each)
    calls.clear()
    run(delegate, point)
    assert calls == ["before", "after"]


@EACH
def test_an_empty_delegate_costs_nothing_measurable(delegate_of, point):
    """No lock is taken, and no observer is looked for."""
    delegate = delegate_of()
    delegate._enter = None
    CALLS[delegate_of][point](delegate, IOS[delegate_of]())


@each_case("delegate_of", CALLS)
def test_a_read_lock_holds_off_a_removal(delegate_of):
    one, other = delegate_of.kind(), delegate_of.kind()
    delegate = delegate_of([one])
    removed = threading.Event()
    with delegate.read_lock() as observers:
        thread = in_thread(lambda: (delegate.remove(one), removed.set()))
        delegate.add(other)
        assert observers == (one,)
        assert not removed.wait(0.05)
    assert removed.wait(DEADLINE)
    ended(thread)
    assert list(delegate) == [other]


# --- versions of the interface -----------------------------------------------------------------


def test_an_observer_of_version_1_keeps_working():
    """Its hooks are called. It may have a method of its own that is called as a later hook is."""
    calls = []

    class Old(LogStorageObserver):
        def after_flush(self, io, file, position, flags):
            calls.append((io.server_id, file, position, flags))

        def after_sync(self):
            raise AssertionError("a method of its own")

    delegate = LogStorageDelegate([Old()])
    assert Old.interface_version == 1
    delegate.after_flush(LogStorageIo(7), "b.000001", 99, LogStorageFlag.SYNCED)
    delegate.after_sync(LogStorageIo(7), "b.000001", 99)
    assert calls == [(7, "b.000001", 99, LogStorageFlag.SYNCED)]


def test_an_observer_that_was_written_without_the_base_class_lacks_later_hooks():
    class Old:
        def after_flush(self, io, file, position, flags):
            calls.append(position)

    class New(Old):
        interface_version = 2

    calls = []
    delegate = LogStorageDelegate([Old()])
    delegate.after_sync(LogStorageIo(7), "b.000001", 99)
    delegate.after_flush(LogStorageIo(7), "b.000001", 99, LogStorageFlag.NONE)
    assert calls == [99]
    with pytest.raises(UsageError, match=r"New is no observer here: .*after_sync"):
        delegate.add(New())


def test_an_observer_of_a_later_version_is_rejected():
    observer = observer_of(TransactionObserver, "after_commit", lambda: None, INTERFACE_VERSION + 1)
    with pytest.raises(UsageError, match=r"written for version 3 .* has version 2: update"):
        TransactionDelegate([observer])


# --- plugins of several kinds ------------------------------------------------------------------


class Several(TransactionObserver, LogStorageObserver, TransmitObserver):
    """Three kinds, one hook of each."""

    def __init__(self):
        self.calls = []

    def after_commit(self, io):
        self.calls.append("after_commit")

    def after_flush(self, io, file, position, flags):
        self.calls.append("after_flush")

    def transmit_stop(self, io):
        self.calls.append("transmit_stop")


def test_one_plugin_of_several_kinds_is_added_to_each_and_only_its_hooks_are_called():
    plugin = Several()
    delegates = [kind() for kind in CALLS]
    add([plugin], *delegates, to="a test")
    assert [plugin in delegate for delegate in delegates] == [True, True, True, False]
    for delegate in delegates:
        for point in CALLS[type(delegate)]:
            run(delegate, point)
    assert plugin.calls.count("after_commit") == plugin.calls.count("after_flush") == 1
    assert set(plugin.calls) == {"after_commit", "after_flush", "transmit_stop"}


def test_a_plugin_that_has_no_kind_that_fits_is_rejected():
    with pytest.raises(
        UsageError,
        match=r"Several is a transaction and log storage and transmit observer: receive calls"
        r" relay I/O observers only",
    ):
        add([Several()], RelayIoDelegate(), to="receive")
    with pytest.raises(UsageError, match=r"builtins\.dict is no observer of any kind"):
        add([{}], RelayIoDelegate(), to="receive")


# --- dumps -------------------------------------------------------------------------------------


class Header(TransmitObserver):
    """Reserves bytes, and writes its own number into them."""

    def __init__(self, size, mark):
        self.size, self.mark = size, mark
        self.seen = []

    def reserve_header(self, io):
        return bytes(self.size)

    def before_send_event(self, io, header, event, file, position):
        header[:] = bytes([self.mark]) * len(header)
        self.seen.append((bytes(event), file, position))
        assert event.readonly
        with suppress(ValueError):  # longer than its own
            header[:] = bytes(self.size + 1)

    def after_send_event(self, io, event):
        self.seen.append(bytes(event))


def test_reserve_header_puts_the_default_byte_first_and_each_writes_only_its_own_bytes():
    two, none, three = Header(2, 0xAA), TransmitObserver(), Header(3, 0xBB)
    delegate, io = TransmitDelegate([two, none, three]), TransmitIo(7)
    delegate.transmit_start(io, "b.000001", 4)
    assert delegate.wants_packets(io)
    assert _send(delegate, io) == b"\0\xaa\xaa\xbb\xbb\xbbevent"
    assert two.seen == three.seen == [(b"event", "b.000001", 99), b"event"]


def test_an_observer_that_is_removed_sees_the_packets_that_are_being_sent():
    sees = Header(1, 0xAA)
    delegate, io = TransmitDelegate([sees]), TransmitIo(7)
    delegate.transmit_start(io, "b.000001", 4)
    removed = threading.Event()
    with delegate.packets(io) as packets:
        in_thread(lambda: (delegate.remove(sees), removed.set()))
        wait_for(lambda: sees not in delegate)
        for event in (b"one", b"two"):
            packets.send(event, "b.000001", 99, len)
        assert not removed.is_set()
    assert removed.wait(DEADLINE)
    assert sees.seen == [(b"one", "b.000001", 99), b"one", (b"two", "b.000001", 99), b"two"]
    assert _send(delegate, io) == b"\0\0event"


def test_transmit_start_that_returns_false_sees_no_packets():
    class Picks(Header):
        def transmit_start(self, io, file, position):
            self.seen.append((file, position))
            return io.server_id == 7

        def transmit_stop(self, io):
            self.seen.append("stop")

    picks = Picks(2, 0xAA)
    delegate = TransmitDelegate([picks])
    seven, eight = TransmitIo(7), TransmitIo(8)
    for io in (seven, eight):
        delegate.transmit_start(io, "b.000001", 4)
    assert delegate.wants_packets(seven)
    assert not delegate.wants_packets(eight)
    assert _send(delegate, eight) == b"\0event"
    assert _send(delegate, seven) == b"\0\xaa\xaaevent"
    picks.seen.clear()
    for io in (seven, eight, eight):
        delegate.transmit_stop(io)
    assert picks.seen == ["stop", "stop"]  # once for each dump


class Counts(TransmitObserver):
    """Notes the dumps that begin and end in a list that it shares with others."""

    def __init__(self, calls):
        self.calls = calls

    def transmit_start(self, io, file, position):
        self.calls.append(("start", io.server_id))

    def transmit_stop(self, io):
        self.calls.append(("stop", io.server_id))


def test_transmit_stop_of_those_before_an_observer_that_rejects_the_dump():
    calls = []

    def breaks():
        raise ValueError("no")

    delegate = TransmitDelegate(
        [Counts(calls), observer_of(TransmitObserver, "transmit_start", breaks)]
    )
    io = TransmitIo(7)
    with pytest.raises(ObserverError):
        delegate.transmit_start(io, "b.000001", 4)
    delegate.transmit_stop(io)
    assert calls == [("start", 7), ("stop", 7)]


def test_transmit_stop_of_one_that_is_removed_while_dumps_run():
    calls = []
    counts = Counts(calls)
    delegate = TransmitDelegate([counts, Counts(calls)])
    ios = [TransmitIo(7), TransmitIo(8)]
    for io in ios:
        delegate.transmit_start(io, "b.000001", 4)
    delegate.transmit_stop(ios[0])
    calls.clear()
    delegate.remove(counts)
    assert calls == [("stop", 8)]
    for io in ios:
        delegate.transmit_stop(io)
    assert calls == [("stop", 8)] * 2  # the other one's


def test_observers_that_come_or_go_during_a_dump_leave_its_packets_layout():
    first, second, late = Header(2, 0xAA), Header(1, 0xBB), Header(1, 0xCC)
    delegate, io = TransmitDelegate([first, second]), TransmitIo(7)
    delegate.transmit_start(io, "b.000001", 4)
    assert _send(delegate, io) == b"\0\xaa\xaa\xbbevent"
    delegate.add(late)
    delegate.remove(first)
    assert _send(delegate, io) == b"\0\0\0\xbbevent"
    assert len(first.seen) == 2
    assert not late.seen
    delegate.remove(second)
    assert delegate.wants_packets(io)
    assert _send(delegate, io) == b"\0\0\0\0event"


def test_a_header_that_is_not_bytes_is_an_error():
    class Odd(TransmitObserver):
        def reserve_header(self, io):
            return None

    delegate, io = TransmitDelegate([Odd()]), TransmitIo(7)
    delegate.transmit_start(io, "b.000001", 4)
    with pytest.raises(ObserverError, match="returned NoneType, not the header"):
        _send(delegate, io)
