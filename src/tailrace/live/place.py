"""The stream's position in the source's files, and the control events that change it.

The state machine (facts sheet 4.7, 6.1; NAME is the artificial ROTATE before each file, LIST is
MariaDB's artificial GTID_LIST):

    ASKED    the dump was requested            NAME → NAMED
    NAMED    a file's name came                DESCRIPTION → READING    HEARTBEAT, LIST → NAMED
    READING  its description came              ROTATE → TURNED          HEARTBEAT, LIST → READING
                                               NAME → NAMED: the file before has no ROTATE, its
                                               server was shut down (STOP) or crashed
    TURNED   its ROTATE came                   NAME → NAMED: of the file that the ROTATE named
                                               HEARTBEAT, LIST → TURNED

Plain events come in READING only. In position mode all bytes of a file come: a gap is an error. By
GTID the source leaves out the transactions that we have, and says where it continues.

A source does not check that an event begins at the requested offset: it sends whatever bytes are
there as an event. So the first event from inside a file is verified: by its checksum, if the file
has checksums, else by its ``log_pos``, which is its end. Without either (MariaDB inside of groups,
from 11.4 on) it cannot be verified: `Unproved`.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final, TypeVar
from zlib import crc32

from tailrace.constants import (
    CHECKSUM_SIZE,
    HEADER_SIZE,
    MAGIC,
    ChecksumAlgorithm,
    EventFlag,
    EventType,
    Flavour,
    event_name,
)
from tailrace.errors import LogError, LogReset, ProtocolError
from tailrace.events import (
    DecodeContext,
    FormatDescription,
    FormatDescriptionEvent,
    HeartbeatEvent,
    RotateEvent,
)
from tailrace.events.header import EventHeader, unpack_header
from tailrace.live.chunks import FileBegin
from tailrace.live.server_errors import TORN_FILE, is_garbage, is_torn, no_event_error
from tailrace.log_name import LogName, file_number
from tailrace.position import Position
from tailrace.printable import one_line

if TYPE_CHECKING:
    from tailrace.errors import TailraceError
    from tailrace.events import Event
    from tailrace.wire.packets import ErrorPacket

_WRAP: Final = 1 << 32
_FARTHEST: Final = 1 << 62
"""The largest offset of a file, as in file systems; adding an event to it does not overflow."""
_LONGEST: Final = 1000
"""Characters of a source's text that are put into a message."""
_EITHER: Final = FormatDescription(4, "", 0, b"", ChecksumAlgorithm.NONE, Flavour.MARIADB)
"""For events that come before their file's description: the layouts of both flavours. MariaDB's
has the long heartbeat, which MySQL never sends.
"""
_E = TypeVar("_E", bound="Event")


class _State(Enum):
    ASKED = "before the name of a file"
    NAMED = "before the file's description"
    READING = "inside a file"
    TURNED = "after a ROTATE"


class _Token(Enum):
    NAME = auto()
    DESCRIPTION = auto()
    ROTATE = auto()
    HEARTBEAT = auto()
    LIST = auto()
    ENCRYPTION = auto()


class Unproved(Exception):
    """The first event alone does not show whether an event begins at the requested position."""


class LeftOff(Exception):
    """A file ended without ROTATE or STOP: its source crashed there, or was reset."""


class Verdict(Enum):
    """What happens to a control event."""

    KEPT = "it is part of the file, and is given as one of its events"
    DROPPED = "it is about the stream"


_S, _T = _State, _Token
_TABLE: Final[dict[tuple[_State, _Token], _State]] = {
    (_S.ASKED, _T.NAME): _S.NAMED,
    (_S.NAMED, _T.DESCRIPTION): _S.READING,
    (_S.READING, _T.ROTATE): _S.TURNED,
    (_S.READING, _T.NAME): _S.NAMED,
    (_S.READING, _T.ENCRYPTION): _S.READING,
    (_S.TURNED, _T.NAME): _S.NAMED,
    **{
        (state, token): state
        for state in (_S.NAMED, _S.READING, _S.TURNED)
        for token in (_T.HEARTBEAT, _T.LIST)
    },
}
_TOKENS: Final[dict[int, _Token]] = {
    EventType.FORMAT_DESCRIPTION: _T.DESCRIPTION,
    EventType.HEARTBEAT: _T.HEARTBEAT,
    EventType.HEARTBEAT_V2: _T.HEARTBEAT,
    EventType.GTID_LIST: _T.LIST,
    EventType.START_ENCRYPTION: _T.ENCRYPTION,
}


class Place:
    """The position of the next event: ``file`` and ``offset`` (own 64-bit count).

    ``asked`` is the position that was requested; None by GTID. ``source`` is the server's name in
    errors. ``heard`` is the server's own position, if it sent one; ``quiet`` is the number of
    heartbeats since the last event.

    ``proved`` says that an event is known to begin there. Otherwise, until an event has verified
    it, errors say that none does: as LogReset where ``resumed`` says that the log was read up to
    there before, else as ServerError. ``ends`` is where a file is known to end without ROTATE or
    STOP: elsewhere such an end is `LeftOff`, since a source that was reset continues in its new
    files as if they followed the one that it was sending.
    """

    def __init__(
        self,
        asked: Position | None,
        *,
        source: str,
        proved: bool = True,
        resumed: bool = False,
        ends: Position | None = None,
        skips_torn: bool = False,
    ) -> None:
        self._state = _S.ASKED
        self._asked = asked
        self._unproved = None if proved or not asked or asked.offset == len(MAGIC) else asked
        self.resumed = resumed
        self._checksums = False
        self._ends = ends
        self._skips_torn = skips_torn
        self._last = 0
        self.source = source
        self._next: Position | None = None
        self.file = asked.file if asked else ""
        self.offset = asked.offset if asked else 4
        self.heard: Position | None = None
        self.quiet = 0

    @property
    def by_gtid(self) -> bool:
        """Whether the source leaves out the transactions that we have."""
        return self._asked is None

    @property
    def reading(self) -> bool:
        """Whether plain events may come."""
        return self._state is _S.READING

    @property
    def position(self) -> Position:
        """Where reading continues: after a ROTATE, the next file's beginning."""
        return self._next or Position(self.file, self.offset)

    @property
    def proved(self) -> bool:
        """Whether an event is known to begin where the dump was requested."""
        return self._unproved is None

    def prove(self, event: memoryview) -> None:
        """Verify the first event of the file, before `moved`. Raises ServerError, Unproved."""
        if self._unproved is None:
            return
        length, log_pos = unpack_header(event)[3:5]
        if self._checksums:
            end = len(event) - CHECKSUM_SIZE
            if crc32(event[:end]) != int.from_bytes(event[end:], "little"):
                raise self.error(f"{event_name(event[4])} comes with a wrong checksum")
        elif not log_pos:
            raise Unproved
        elif log_pos != (self.offset + length) % _WRAP:
            raise self.error(f"{event_name(event[4])} ends at {log_pos} by its header")
        self._unproved = None

    def no_event(self, answer: ErrorPacket) -> TailraceError | None:
        """The error if a source says that it found no event; None if the start was verified.

        Raises Unproved if only the file's description verified it: a log that was reset within a
        second has the same. Also raises Unproved if the source says that its file ends inside an
        event, which may begin here, and torn tails are skipped. Without skipping, the error names
        both causes, since another dump would only show which one it is.
        """
        said = answer.message
        if self._state is not _S.READING or not is_garbage(said):
            return None
        if self._unproved is None:
            if self._asked is not None and self.offset == self._asked.offset > len(MAGIC):
                raise Unproved
            return None
        said = one_line(said, _LONGEST)
        if not is_torn(said):
            return self.error(said, answer)
        if self._skips_torn:
            raise Unproved
        return self.error(f"{said} (if one does, {TORN_FILE})", answer)

    def moved(self, offset: int, last: int) -> None:
        """Plain events came up to ``offset``; ``last`` is the type of the last one."""
        self._last = last
        self.offset = offset
        self.quiet = 0
        self._hear()

    def control(self, event: memoryview) -> FileBegin | Verdict:
        """Process a control event. Raises ProtocolError, LogReset."""
        code = event[4]
        token = self._token(event)
        step = _TABLE.get((self._state, token)) if token is not None else None
        if step is None or token is None:
            raise self.error(f"{event_name(code)} cannot come {self._state.value}")
        given: FileBegin | Verdict = Verdict.DROPPED
        if token is _T.NAME:
            self._name(event)
        elif token is _T.DESCRIPTION:
            given = self._description(event)
        elif token is _T.ROTATE:
            given = self._rotate(event)
        elif token is _T.HEARTBEAT:
            self._heartbeat(event)
        elif token is _T.LIST:
            self._stands_at(self.file, self._wide(unpack_header(event)[4]), "a GTID list")
        else:
            given = self._encryption(event)
        self._state = step
        return given

    @staticmethod
    def _token(event: memoryview) -> _Token | None:
        code, flags = event[4], unpack_header(event)[5]
        if code == EventType.ROTATE:
            return _T.NAME if flags & EventFlag.ARTIFICIAL else _T.ROTATE
        return _TOKENS.get(code)

    def hole(self, event: memoryview) -> None:
        """An event whose header has another end than our count: by GTID, skip to there."""
        length, log_pos = unpack_header(event)[3:5]
        start = self._wide(log_pos - length)
        if not self.by_gtid:
            raise self.error(
                f"{event_name(event[4])} ends at {log_pos} by its header, at"
                f" {self.offset + length} by the bytes that came: bytes are missing, or the log is"
                " not the one that was read before"
            )
        self.offset = start

    def error(self, text: str, answer: ErrorPacket | None = None) -> TailraceError:
        """The error for an invalid stream; ``answer`` is the source's own, if it sent one."""
        if self._unproved is not None and self._state is _S.READING:
            return no_event_error(
                self.source, self._unproved, resumed=self.resumed, why=text, answer=answer
            )
        return ProtocolError(
            f"{self.source}: the stream of {self.file or 'its logs'} is broken"
            f" at {self.offset}: {text}"
        )

    def _offset(self, said: int) -> int:
        """An offset from an event, checked."""
        if said > _FARTHEST:
            raise self.error(f"no file has an offset of {said}")
        return said

    def _wide(self, low: int) -> int:
        """The first 64-bit offset from ours on with these low 32 bits."""
        return self.offset + (low - self.offset) % _WRAP

    def _name(self, event: memoryview) -> None:
        named = self._named(event)
        file, offset = named.file, named.offset
        if self._next is not None and self._next != Position(file, offset):
            raise self.error(f"ROTATE named {self._next}, {Position(file, offset)} comes")
        if self._state is _S.ASKED:
            asked = self._asked
            if asked and (asked.file not in {"", file} or asked.offset != offset):
                raise self.error(f"{asked} was asked for, {Position(file, offset)} comes")
        elif self._next is None and (file_number(file) or 0) <= (file_number(self.file) or 0):
            raise LogReset(f"{self.source}: {file} comes after {self.file}: the logs were reset")
        elif self._next is None and not self.by_gtid and self._last != EventType.STOP:
            self._check_end()
        if self._state is not _S.ASKED:
            self._unproved = None  # the requested position was the end of the file before
        self.file, self.offset, self._next = file, offset, None
        self._hear()

    def _named(self, event: memoryview) -> Position:
        """What a ROTATE names."""
        rotate = self._checked(RotateEvent(EventHeader(*unpack_header(event)), plain_body(event)))
        offset = self._offset(rotate.next_offset)
        return Position(LogName.given_by(self.source, rotate.next_file), offset)

    def _checked(self, event: _E) -> _E:
        """An event whose body was read."""
        event.form = _EITHER
        try:
            event.check()
        except LogError as error:
            raise self.error(f"{event.name}: {error.message}") from None
        return event

    def _check_end(self) -> None:
        """Raise LeftOff if the file may not have ended here."""
        if self.position != self._ends:
            raise LeftOff

    def _description(self, event: memoryview) -> FileBegin:
        length, log_pos = unpack_header(event)[3:5]
        artificial = self.offset > 4
        if self._unproved is not None:
            form = DecodeContext().decode(bytes(event))
            self._checksums = (
                isinstance(form, FormatDescriptionEvent)
                and form.checksum_algorithm is ChecksumAlgorithm.CRC32
            )
        if not artificial:
            self.offset += length
            if log_pos != self.offset:
                raise self.error(f"its FORMAT_DESCRIPTION ends at {log_pos} by its header")
        self._hear()
        return FileBegin(LogName(self.file), self.offset, bytes(event), artificial)

    def _rotate(self, event: memoryview) -> Verdict:
        length, log_pos = unpack_header(event)[3:5]
        if log_pos and log_pos != (self.offset + length) % _WRAP:
            self.hole(event)
        self.prove(event)
        self._next = self._named(event)
        return Verdict.KEPT

    def _heartbeat(self, event: memoryview) -> None:
        self.quiet += 1
        header = EventHeader(*unpack_header(event))
        beat = self._checked(HeartbeatEvent(header, plain_body(event)))
        if header.type == EventType.HEARTBEAT and header.log_pos:  # the low 32 bits alone
            offset = self._wide(header.log_pos)
        else:
            offset = self._offset(beat.log_offset)
        self._stands_at(LogName.given_by(self.source, beat.log_file), offset, "a heartbeat")

    def _stands_at(self, file: str, offset: int, what: str) -> None:
        """Check the source's own position: by position it equals ours, by GTID it is not before."""
        if self._state is _S.TURNED:
            self.heard = Position(file, offset)
            return
        if file != self.file or offset < self.offset or (offset > self.offset and not self.by_gtid):
            raise self.error(
                f"{what} says that the source stands at {Position(file, offset)}: events between"
                " did not come"
            )
        self.offset = offset
        self._hear()

    def _encryption(self, event: memoryview) -> Verdict:
        """START_ENCRYPTION (MariaDB) is part of its file; a dump from inside repeats it."""
        length, log_pos = unpack_header(event)[3:5]
        if log_pos != (self.offset + length) % _WRAP:
            return Verdict.DROPPED
        self.prove(event)
        return Verdict.KEPT

    def _hear(self) -> None:
        self.heard = Position(self.file, self.offset)


def plain_body(event: memoryview) -> bytes:
    """An event's body, without the checksum if it has one.

    Whether it does is tried: the events before a file's description (its name, heartbeats) come as
    the source's setting was when it began to send, which may have changed since the session asked.
    """
    end = len(event) - CHECKSUM_SIZE
    if end > HEADER_SIZE and crc32(event[:end]) == int.from_bytes(event[end:], "little"):
        return bytes(event[HEADER_SIZE:end])
    return bytes(event[HEADER_SIZE:])
