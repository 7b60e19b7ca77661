"""One dump on one connection: the bytes of its socket as `FileBegin` and `Chunk` items."""

from __future__ import annotations

import selectors
import ssl
from array import array
from time import monotonic
from typing import TYPE_CHECKING, Final

from tailrace.constants import HEADER_SIZE, MAGIC, MAX_EVENT_SIZE, TYPE_AT, event_name
from tailrace.errors import ConnectionLost, HeartbeatTimeout, MalformedPacket
from tailrace.events.walk import event_length
from tailrace.live.chunks import END, PADDING, Chunk, EndOfDump, FileBegin
from tailrace.live.place import Verdict
from tailrace.live.server_errors import is_garbage, no_event_error, server_error
from tailrace.position import Position
from tailrace.wire.packets import HEADER_SIZE as FRAME
from tailrace.wire.packets import LARGEST, ErrorPacket, is_end, is_error
from tailrace.wire.unframe import (
    ANSWER,
    BAD_LENGTH,
    BEGIN,
    CONTROL,
    COUNT,
    FULL,
    HOLE,
    MORE,
    NEED,
    OFFSET,
    PLAIN,
    READ,
    STATE_WORDS,
    WRITE,
    look,
    unframe,
)
from tailrace.wire.unframe import END as ARRIVED

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, MutableSequence

    from tailrace.errors import ServerError
    from tailrace.live.chunks import Item
    from tailrace.live.place import Place
    from tailrace.live.sockets import Socket
    from tailrace.observers import RelayIo, RelayIoDelegate

    Unframe = Callable[[memoryview, MutableSequence[int], MutableSequence[int]], int]

SIZE: Final = 4 << 20
"""Bytes of a buffer; it grows for a larger packet, and shrinks when that is consumed."""
_PARTS: Final = 8
"""The number of waits into which the time limit for silence is divided."""
_WANTS = (BlockingIOError, InterruptedError, ssl.SSLWantReadError)
EVENTS: Final = 1 << 16
"""The most events of a chunk."""
QUIET: Final = 2
"""Heartbeats in a row after which a source is checked: one that was reset continues to send them,
with the same file and offset as before.
"""


def _framed(size: int) -> int:
    """The most bytes of an event's packets, with the prefix of semi-synchronous sources."""
    return size + (size // LARGEST + 2) * FRAME + 3


class Arrivals:
    """The bytes that came on a socket and are not consumed: ``data[state[READ]:state[ARRIVED]]``.

    The socket (plain, TLS or compressed) is made non-blocking and belongs to this object's reader.
    ``wake`` is a socket that becomes readable when a wait has to end. After ``silence`` seconds
    without a byte the source counts as lost (0: never). ``name`` is the source's name in errors.
    """

    def __init__(
        self,
        sock: Socket,
        *,
        name: str,
        silence: float,
        wake: socket.socket | None = None,
    ) -> None:
        self.data = memoryview(bytearray(SIZE + PADDING))
        self.state: array[int] = array("q", bytes(8 * STATE_WORDS))
        self.heard_at = self._listened = monotonic()
        self._capacity = self._usual = SIZE
        self._socket = sock
        self._pending = getattr(sock, "pending", None)  # TLS and compression have it
        self._name = name
        self.silence = silence
        sock.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(sock, selectors.EVENT_READ)
        if wake is not None:
            self._selector.register(wake, selectors.EVENT_READ)

    heard_at: float
    """When the last bytes came, by `time.monotonic`; later if we have not listened since then."""

    def close(self) -> None:
        """Stop watching the socket. Its owner closes it."""
        self._selector.close()

    def ready(self) -> bool:
        """Whether bytes can be read without waiting."""
        if self._pending is not None and self._pending():
            return True
        return any(key.fileobj is self._socket for key, _ in self._selector.select(0))

    def fill(self, need: int, room: int, deadline: float | None) -> bool:
        """Read until ``need`` bytes from READ on have come, and then all that is available.

        The chunk in the buffer becomes invalid. ``room`` is the announced size of the packet at
        READ in bytes, if it is known: the buffer grows towards it as bytes come. Returns False if
        ``deadline`` (`time.monotonic`) has passed or the reader was woken. Raises ConnectionLost,
        HeartbeatTimeout.
        """
        state = self.state
        self._make_room(max(need, min(room, 2 * (state[ARRIVED] - state[READ]))))
        if monotonic() - self._listened > self.silence / 2:
            self.heard_at = monotonic()  # we did not listen, so this was no silence of the source
        try:
            while True:
                self._read()
                if state[ARRIVED] - state[READ] >= need:
                    return True
                if not self._wait(deadline):
                    return False
        finally:
            self._listened = monotonic()

    def _make_room(self, wanted: int) -> None:
        """Move the unread bytes to the buffer's front, and make room for ``wanted`` bytes."""
        state = self.state
        read, left = state[READ], state[ARRIVED] - state[READ]
        if wanted > self._capacity or self._capacity > self._usual >= wanted > left:
            size = max(wanted, left, self._usual)
            larger = memoryview(bytearray(size + PADDING))
            larger[:left] = self.data[read : read + left]
            self.data, self._capacity = larger, size
        elif read and left:
            self.data[:left] = self.data[read : read + left]
        state[READ] = state[BEGIN] = state[WRITE] = state[COUNT] = 0
        state[ARRIVED] = left

    def _read(self) -> None:
        """Read all that is available, up to the free room."""
        state, capacity = self.state, self._capacity
        before = end = state[ARRIVED]
        lost: OSError | str | None = None
        while end < capacity:
            try:
                count = self._socket.recv_into(self.data[end:capacity])
            except _WANTS:
                break
            except OSError as error:
                lost = error
                break
            if not count:
                lost = "the source closed it"
                break
            end += count
        if lost is not None and end == before:  # else use what came first; the error recurs
            raise ConnectionLost(f"{self._name}: the connection is lost: {lost}")
        if end > before:
            state[ARRIVED] = end
            self.heard_at = monotonic()

    def _wait(self, deadline: float | None) -> bool:
        """Wait until something comes; False if time is up or the reader is woken.

        Only time in which we listened counts as silence. Where a wait took longer than its timeout,
        this process or the machine was paused: that time does not count as the source's silence,
        and bytes that came in it can still be read.
        """
        part = self.silence / _PARTS
        while True:
            before = monotonic()
            limits = [] if deadline is None else [deadline - before]
            if self.silence:
                limits.append(part)
            pause = max(min(limits), 0) if limits else None
            woken = self._selector.select(pause)
            if woken:
                return all(key.fileobj is self._socket for key, _ in woken)
            now = monotonic()
            if self.silence:
                stood_still = now - before - (pause or 0)
                if stood_still > part:
                    self.heard_at += stood_still
                elif now >= self.heard_at + self.silence:
                    raise HeartbeatTimeout(
                        f"{self._name} said nothing for {self.silence:g} seconds, two heartbeat"
                        " periods: the connection is half dead"
                    )
            if deadline is not None and now >= deadline:
                return False


class Dump:
    """Reads a dump that was requested. ``place`` tracks it; ``source`` is its name in errors.

    ``endless``: the dump waits for more at the log's end, so that it ends only when the source is
    shut down. With observers (``delegate``) each packet is shown to them first, one by one, in
    Python. Events before the offset ``behind`` of the first file are left out: they were given
    before. That file must reach that offset.
    """

    def __init__(
        self,
        arrivals: Arrivals,
        place: Place,
        *,
        source: str,
        endless: bool,
        unframe: Unframe = unframe,
        delegate: RelayIoDelegate | None = None,
        io: RelayIo | None = None,
        behind: int = 0,
    ) -> None:
        self.place = place
        self._arrivals = arrivals
        self._state = arrivals.state
        self._source = source
        self._endless = endless
        self._unframe = unframe
        self._delegate = delegate
        self._io = io
        self._after = behind
        self._starts: array[int] = array("q", bytes(8 * EVENTS))
        self._ahead: memoryview | None = None
        self._reason = MORE
        self._entered = self._over = False

    def take(self, deadline: float | None) -> Item | None:
        """The next item; None if the deadline (`time.monotonic`) has passed, the reader was woken,
        or only `QUIET` heartbeats came.

        Raises ConnectionLost, the server's errors (`tailrace.live.server_errors`), and
        ProtocolError for bytes that are no dump.
        """
        while not self._over:
            item = self._next()
            if isinstance(item, Chunk):
                item = self._trimmed(item)
            if item is not None:
                return item
            if self.place.quiet >= QUIET:
                return None
            if self._reason == MORE and not self._fill(deadline):
                return None
        return END

    def pending(self) -> bool:
        """Whether bytes have come that the next `take` would process."""
        state, data = self._state, self._arrivals.data
        read, left = state[READ], state[ARRIVED] - state[READ]
        if left >= FRAME and left >= FRAME + int.from_bytes(data[read : read + 3], "little"):
            return True
        return self._ahead is not None or self._over or self._arrivals.ready()

    def _fill(self, deadline: float | None) -> bool:
        return self._arrivals.fill(self._state[NEED], self._room(), deadline)

    def _room(self) -> int:
        """The bytes of the packets of the event at READ; 0 before its header has come."""
        said = self._said()
        if said is None:
            return 0
        if said > MAX_EVENT_SIZE:
            self._check_longest(self._state[ARRIVED] - self._state[READ])
        return _framed(said)

    @property
    def awaited(self) -> tuple[int, int]:
        """The size of the packet that is incomplete, and how many bytes of it and of those after it
        have come; zeros if none is. A packet of `LARGEST` bytes is not its event's last one.
        """
        read, left = self._state[READ], self._state[ARRIVED] - self._state[READ]
        if self._reason != MORE or left < FRAME:
            return 0, 0
        return int.from_bytes(self._arrivals.data[read : read + 3], "little"), left

    def _said(self) -> int | None:
        """The length in the header of the event at READ; None if it is unknown.

        It is unknown with observers, which may remove a prefix that a source puts before an event.
        """
        state, data = self._state, self._arrivals.data
        at = state[READ] + FRAME + 1
        if state[ARRIVED] < at + HEADER_SIZE or data[at - 1] != 0:
            return None
        if self._delegate is not None and not self._delegate.is_empty:
            return None
        return event_length(data, at)

    # --- chunks ----------------------------------------------------------------------------------

    def _next(self) -> Item | None:
        """The item in the bytes that have come: a chunk, or the one of the next single packet."""
        state = self._state
        state[BEGIN] = state[WRITE] = state[READ]
        state[COUNT] = 0
        offset = state[OFFSET] = self.place.offset
        if self._ahead is not None:
            event, self._ahead = self._ahead, None
            self._reason = FULL
            return self._event(event)
        if self._delegate is None or self._delegate.is_empty:
            reason = self._unframe(self._arrivals.data, self._starts, state)
        else:
            reason = self._observe()
        self._reason = reason
        count = state[COUNT]
        if count:
            if not self.place.reading:
                kind = self._arrivals.data[state[BEGIN] + 4]
                raise self.place.error(f"{event_name(kind)} comes where no event may come")
            data = self._arrivals.data[state[BEGIN] : state[WRITE]]
            self.place.prove(data[: self._starts[1] if count > 1 else len(data)])
            self.place.moved(state[OFFSET], data[self._starts[count - 1] + TYPE_AT])
            return Chunk(self.place.file, offset, data, memoryview(self._starts)[:count])
        return None if reason in {MORE, FULL} else self._packet(reason)

    def _trimmed(self, chunk: Chunk) -> Chunk | None:
        """The part of a chunk that was not given before."""
        if chunk.offset >= self._after:
            return chunk
        if chunk.end <= self._after:
            return None
        first = chunk.number_at(self._after)
        if first is None:
            raise self._no_event(chunk.file)
        return chunk.part(first, len(chunk.starts))

    def check_end(self) -> None:
        """Raise ServerError, LogReset if the log has ended before the offset ``behind``."""
        self._check_reached(self.place.file, self.place.offset)

    def _check_reached(self, file: str, end: int) -> None:
        if end < self._after:
            raise self._no_event(file)

    def _no_event(self, file: str, answer: ErrorPacket | None = None) -> ServerError:
        place = Position(file, self._after)
        return no_event_error(self._source, place, resumed=self.place.resumed, answer=answer)

    # --- single packets --------------------------------------------------------------------------

    def _packet(self, reason: int) -> Item | None:
        """The item of the packet at READ, which is no plain event; None if it is incomplete."""
        packet = self._whole()
        if packet is None:
            self._reason = MORE
            return None
        if reason == ANSWER or packet[0] != 0:
            return self._answer(packet)
        self._reason = FULL
        return self._event(packet[1:])

    def _whole(self) -> memoryview | None:
        """Join the packets of the payload at READ in place, and move READ after it; None if the
        payload is incomplete (then NEED is set).
        """
        state, data = self._state, self._arrivals.data
        at, sizes, size = state[READ], list[int](), LARGEST
        while size == LARGEST:
            if sizes:
                self._check_longest(at - state[READ])
            if state[ARRIVED] < at + FRAME:
                state[NEED] = at + FRAME - state[READ]
                return None
            size = int.from_bytes(data[at : at + 3], "little")
            at += FRAME + size
            if state[ARRIVED] < at:
                state[NEED] = at - state[READ]
                return None
            sizes.append(size)
        start = end = state[READ] + FRAME
        read = start
        for size in sizes:
            if end != read:
                data[end : end + size] = data[read : read + size]
            end += size
            read += size + FRAME
        state[READ] = at
        return data[start:end]

    def _check_longest(self, size: int) -> None:
        """Raise MalformedPacket if an event's packets have more bytes than is allowed."""
        said = self._said()
        most = MAX_EVENT_SIZE if said is None else said
        if most > MAX_EVENT_SIZE or size > _framed(most):
            raise MalformedPacket(
                f"{self._source}: the event at {self.place.position} announces {most} bytes, and"
                f" {size} arrived: it may have {MAX_EVENT_SIZE}, and no more than it announces"
            )

    def _answer(self, packet: memoryview) -> EndOfDump:
        if is_error(packet):
            error = ErrorPacket.decode(packet)
            if self.place.offset < self._after and is_garbage(error.message):
                raise self._no_event(self.place.file, error)
            raise self.place.no_event(error) or server_error(
                error.code,
                error.sqlstate,
                error.message,
                self._source,
                proved=self.place.proved,
                resumed=self.place.resumed,
            )
        if is_end(packet):
            if self._endless:
                raise ConnectionLost(f"{self._source} ended the dump: it is shutting down")
            self._over = True
            return END
        first = f"begins with {packet[0]:#04x}" if packet else "is empty"
        raise MalformedPacket(f"{self._source}: a packet of the dump {first}")

    def _event(self, event: memoryview) -> Item | None:
        """One event, by itself."""
        place = self.place
        verdict = look(event, place.offset)
        if verdict == BAD_LENGTH:
            said = event_length(event)
            raise MalformedPacket(
                f"{self._source}: at {place.position} an event of {len(event)} bytes says it has"
                f" {said}"
            )
        if verdict == CONTROL:
            file, end = place.file, place.offset
            given = place.control(event)
            if self._entered and (place.file != file or place.quiet):
                self._check_reached(file, end)  # that file, or all of the log, has come
            if isinstance(given, FileBegin):
                if self._entered:
                    self._after = 0
                elif not given.artificial and len(MAGIC) < self._after < given.offset:
                    raise self._no_event(given.file)
                self._entered = True
                return given
            return self._alone(event) if given is Verdict.KEPT else None
        if not place.reading:
            raise place.error(f"{event_name(event[4])} comes where no event may come")
        if verdict == HOLE:
            place.hole(event)
        place.prove(event)
        return self._alone(event)

    def _alone(self, event: memoryview) -> Chunk:
        """A chunk of one event, in memory that stays unchanged until the next take."""
        place, data = self.place, self._arrivals.data
        if event.obj is not data.obj:
            event = memoryview(bytearray(bytes(event) + bytes(PADDING)))[: len(event)]
        offset = place.offset
        place.moved(offset + len(event), event[TYPE_AT])
        return Chunk(place.file, offset, event, array("q", [0]))

    # --- observers -------------------------------------------------------------------------------

    def _observe(self) -> int:
        """`unframe`, with each packet shown to the observers. Any but a plain event goes ahead."""
        state, data = self._state, self._arrivals.data
        starts = self._starts
        assert self._delegate is not None  # noqa: S101 - `_next` has seen it
        assert self._io is not None  # noqa: S101 - it comes with the delegate
        while state[COUNT] < len(starts):
            read = state[READ]
            packet = self._whole()
            if packet is None:
                return MORE
            if not packet or packet[0] != 0:
                state[READ] = read
                return ANSWER
            self._io.log_name, self._io.log_pos = self.place.file, state[OFFSET]
            event = self._delegate.after_read_event(self._io, packet[1:])
            size, write = len(event), state[WRITE]
            if write + size > state[READ] or look(event, state[OFFSET]) != PLAIN:
                self._ahead = memoryview(bytearray(bytes(event) + bytes(PADDING)))[:size]
                return FULL
            data[write : write + size] = event
            starts[state[COUNT]] = write - state[BEGIN]
            state[WRITE] = write + size
            state[OFFSET] += size
            state[COUNT] += 1
        return FULL
