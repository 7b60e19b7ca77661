"""Transmit observers: they observe what is sent to a replica, a dump at a time (WL#4398's binlog
transmit observers).

What an observer can do with the connection to the replica is the worklog's part B: its
``thd_net_read``, ``_write`` and ``_flush``, and the getters of user variables (`UserVariables`).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from tailrace.observers.delegate import Delegate, Observer, Seen, call, call_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tailrace.observers.variables import UserVariables

Data = bytes | bytearray | memoryview
_PACKET_POINTS: Final = ("reserve_header", "before_send_event", "after_send_event")


class ReplicaService(Protocol):
    """The authenticated connection of a replica, while a dump is sent on it.

    The dump's thread writes. One other thread may read at the same time. All raise ConnectionLost
    if the connection is lost, or was closed by another thread.
    """

    variables: UserVariables
    """The user variables (``@name``) that the replica set in its session."""
    user: str
    host: str
    port: int
    """The replica's address, as the server sees it."""
    thread_id: int
    """The number of the connection, as the handshake told it to the replica."""
    sequence: int
    """The number of the next packet that is sent, 0 to 255; for the dump's thread."""

    def read(self) -> bytes:
        """One packet's payload, without header; waits for it."""

    def poll(self) -> bytes | None:
        """One packet's payload if it has arrived whole, else None; never waits."""

    def write(self, payload: bytes) -> None:
        """Put a packet with this payload into the write buffer, after what is in it already."""

    def flush(self) -> None:
        """Send everything in the write buffer."""

    def fileno(self) -> int:
        """The socket's number, for a selector."""

    def pending(self) -> bool:
        """Whether bytes were received that no selector shows: decrypted by TLS, or buffered."""


@dataclass(slots=True, eq=False)
class Watched:
    """Who observes a dump, and what they reserved."""

    started: list[TransmitObserver] = field(default_factory=list)
    """The observers that were told of the dump's start, in order."""
    packets: list[TransmitObserver] = field(default_factory=list)
    """Those of them that want its packets."""
    reserved: dict[int, bytes] = field(default_factory=dict)
    """The header bytes that each of them (its ``id``) last reserved."""


@dataclass(slots=True, eq=False)
class TransmitIo:
    """The dump that observers are told of (the worklog's ``Binlog_transmit_param``): one object for
    the whole of it.
    """

    server_id: int
    """The replica's server id; for ``after_reset_source`` that of the log."""
    flags: int = 0
    """The flags of the replica's dump command."""
    connection: ReplicaService | None = None
    """The replica's connection. None at ``after_reset_source``."""
    watched: Watched = field(default_factory=Watched, init=False, repr=False)
    """What `TransmitDelegate` keeps about the dump; nothing for observers."""


class TransmitObserver(Observer):
    """The base of transmit observers: a method for each point; these methods do nothing.

    They are called in the thread that sends the dump. An observer is told of a dump from its start:
    one that is added later is told of later dumps only.
    """

    def transmit_start(self, io: TransmitIo, file: str, position: int) -> bool | None:  # noqa: ARG002 - for subclasses
        """A dump starts, at ``position`` of ``file`` (empty: the oldest file, or by GTID).

        An observer that returns False is told nothing of the dump's packets: if none wants them,
        they are sent in large blocks.
        """
        return None

    def transmit_stop(self, io: TransmitIo) -> None:
        """The dump ended, whatever the reason, or the observer was removed. Called if its start
        was.
        """

    def reserve_header(self, io: TransmitIo) -> bytes:  # noqa: ARG002 - for subclasses
        """The bytes to put before the next event, after the 00 byte and the bytes of observers that
        were added earlier. Usually the same for each packet of a dump.
        """
        return b""

    def before_send_event(
        self, io: TransmitIo, header: memoryview, event: memoryview, file: str, position: int
    ) -> None:
        """An event is about to be sent; it ends at ``position`` of ``file``.

        ``header`` are the observer's own reserved bytes, which it may change; ``event`` is the
        whole event, read-only. Both are valid during the call. For an artificial event, which is in
        no file, ``position`` is where the dump stands.
        """

    def after_send_event(self, io: TransmitIo, event: memoryview) -> None:
        """The event was written to the connection: read-only, valid during the call."""

    def after_reset_source(self, io: TransmitIo) -> None:
        """All log files were removed, and the log starts again with its first (RESET MASTER)."""


class Packets:
    """Shows a dump's packets to its observers. Made by `TransmitDelegate.packets`."""

    def __init__(self, io: TransmitIo, seen: Seen[TransmitObserver]) -> None:
        self._io = io
        self._calls = [
            (observer, *(seen.method(observer, point) for point in _PACKET_POINTS))
            for observer in io.watched.packets
        ]

    def send(
        self, event: Data, file: str, position: int, write: Callable[[bytearray], object]
    ) -> int:
        """Send an event, which ends at ``position`` of ``file``, by ``write``; the packet's size.

        The packet is a 00 byte, what each observer reserves, and the event. `reserve_header` and
        `before_send_event` of all come before ``write``, and `after_send_event` after it.
        """
        io, reserved = self._io, self._io.watched.reserved
        packet = bytearray(1)
        layout = []
        for observer, method, _, _ in self._calls:
            if method is None:
                own = reserved.get(id(observer), b"")
            else:
                own = call(observer, "reserve_header", method, io, returns=bytes, what="the header")
                reserved[id(observer)] = own
            start = len(packet)
            packet += own
            layout.append((start, len(packet)))
        begin = len(packet)
        packet += event
        whole = memoryview(packet)
        shown = whole[begin:].toreadonly()
        for (observer, _, method, _), (start, end) in zip(self._calls, layout, strict=True):
            if method is not None:
                given = (io, whole[start:end], shown, file, position)
                call(observer, "before_send_event", method, *given)
        write(packet)
        for observer, _, _, method in self._calls:
            if method is not None:
                call(observer, "after_send_event", method, io, shown)
        return len(packet)


class TransmitDelegate(Delegate[TransmitObserver]):
    """Calls transmit observers, in order.

    For a dump: `transmit_start`; then `packets`, and for each packet `Packets.send`; at the end
    `transmit_stop`.

    An error that an observer raises in ``transmit_start`` rejects the dump: later observers are not
    called, and earlier ones are told that it stopped. One in ``reserve_header``,
    ``before_send_event`` or ``after_send_event`` ends the dump, and later observers are not called.
    In ``transmit_stop`` and ``after_reset_source`` all are called, and the first error is raised
    after them.

    Header bytes belong to the dump's protocol. Once an observer has reserved some, each further
    packet has them: if the observer is removed, as it last reserved them.
    """

    def __init__(self, observers: Iterable[TransmitObserver] = ()) -> None:
        self._dumps: set[TransmitIo] = set()
        """Those that run, and that observers were told of."""
        super().__init__(observers)

    kind = TransmitObserver
    points: ClassVar[Mapping[str, object]] = {
        point: getattr(TransmitObserver, point)
        for point in (
            "transmit_start",
            "transmit_stop",
            *_PACKET_POINTS,
            "after_reset_source",
        )
    }

    def transmit_start(self, io: TransmitIo, file: str, position: int) -> None:
        """A dump starts."""
        if self.is_empty:
            return
        seen = self._enter()
        self._dumps.add(io)
        try:
            for observer in seen.observers:
                method = seen.method(observer, "transmit_start")
                wants = method is None or (
                    call(observer, "transmit_start", method, io, file, position) is not False
                )
                io.watched.started.append(observer)
                if wants:
                    io.watched.packets.append(observer)
        except BaseException as error:
            try:
                self.transmit_stop(io)
            except Exception as other:  # noqa: BLE001 - the first error is raised
                error.add_note(str(other))
            raise
        finally:
            self._leave(seen)

    def transmit_stop(self, io: TransmitIo) -> None:
        """The dump ended. A second time does nothing."""
        with self._lock:
            self._dumps.discard(io)
            started = io.watched.started
            io.watched.started, io.watched.packets = [], []
        if not started or not self.calls("transmit_stop"):
            return
        seen = self._enter()
        try:
            methods = ((each, seen.method(each, "transmit_stop")) for each in started)
            call_all("transmit_stop", [pair for pair in methods if pair[1] is not None], io)
        finally:
            self._leave(seen)

    def remove(self, observer: TransmitObserver) -> None:
        """Remove an observer, as `Delegate.remove`; of the dumps that run, it is told that they
        stopped.
        """
        super().remove(observer)
        dumps: list[TransmitIo] = []
        with self._lock:
            for io in self._dumps:
                left = [each for each in io.watched.started if each is not observer]
                if len(left) < len(io.watched.started):
                    io.watched.started = left
                    dumps.append(io)
        for io in dumps:
            call(observer, "transmit_stop", observer.transmit_stop, io)

    def wants_packets(self, io: TransmitIo) -> bool:
        """Whether the packets of this dump must be sent one by one, by `packets`; it may change
        when observers are removed.
        """
        if not io.watched.packets:
            return False
        methods = self._now.methods
        return any(io.watched.reserved.values()) or any(
            any(observer is each for each in io.watched.packets)
            for point in _PACKET_POINTS
            for observer, _ in methods[point]
        )

    @contextmanager
    def packets(self, io: TransmitIo) -> Iterator[Packets | None]:
        """What sends packets that follow one another; None if no observer wants them.

        It uses the observers as they are now: `remove` waits until the block has ended.
        """
        if not self.wants_packets(io):
            yield None
            return
        seen = self._enter()
        try:
            yield Packets(io, seen)
        finally:
            self._leave(seen)

    def after_reset_source(self, io: TransmitIo) -> None:
        """All log files were removed."""
        self._all_called("after_reset_source", io)
