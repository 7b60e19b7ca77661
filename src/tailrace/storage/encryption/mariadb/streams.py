"""Reads and writes logs as MariaDB encrypts them: event by event, each at its offset."""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Final
from zlib import crc32

from tailrace.constants import CHECKSUM_SIZE, HEADER_SIZE, LOG_POS_AT, ChecksumAlgorithm, EventType
from tailrace.errors import (
    BadEventLength,
    EncryptionError,
    MissingExtra,
    StorageError,
    UsageError,
)
from tailrace.events import FormatDescriptionEvent, StartEncryptionEvent
from tailrace.events.walk import (
    LENGTH_END,
    checked_length,
    event_at,
    event_length,
    frames,
    is_event_length,
    walk,
)
from tailrace.storage.encryption.mariadb.batch import BatchCipher
from tailrace.storage.encryption.mariadb.format import (
    KEY_ID,
    SCHEME,
    EventCipher,
    MariadbHead,
    Mode,
    format_of,
    head_end,
    sound,
)
from tailrace.storage.streams.base import (
    RandomInput,
    RandomOutput,
    check_cut,
    check_within,
    end_output,
    needs,
    read_exactly,
)
from tailrace.storage.streams.input import OffsetInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.storage.encryption.mariadb.batch import BlockCipher
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.streams.base import Data


_LARGEST_READ: Final = 8 << 20
_PIECE: Final = 1 << 18
_MARKS_APART: Final = 1 << 16


class MariadbInput(OffsetInput):
    """The plain bytes of an encrypted log, with START_ENCRYPTION as a server sends it.

    Offsets are the file's own. Sequential reads, and seeks to a known start of an event, cost
    nothing; any other seek first walks to its event from a known one. If the file ends inside an
    event, the part that can be decrypted is given: in CBC it ends with a block. It holds one event
    in addition to the caller's memory.
    """

    def __init__(self, lower: RandomInput, head: MariadbHead, key: bytes) -> None:
        self._lower = lower
        self._head = head
        self._key = key
        self._cipher: EventCipher | None = None
        self._batch: BlockCipher | None = None
        self._make_batch: Callable[[EventCipher], BlockCipher] = BatchCipher
        self._marks = [head.size]  # where events begin, in order
        self._held_at = -1  # the event that was read in part: where it begins
        self._held = b""
        self._held_whole = False

    def _read_at(self, offset: int, count: int) -> bytes:
        return super()._read_at(offset, max(0, min(count, _LARGEST_READ, self.size() - offset)))

    def _readinto_at(self, offset: int, view: bytearray | memoryview) -> int:
        """Decrypted in place. Raises WrongKey, BadEventLength, StorageError."""
        target = memoryview(view)
        if not target:
            return 0
        if offset < self._head.size:
            return _copy(target, self._head.raw, offset)
        held_end = self._held_at + len(self._held)
        if self._held_at <= offset < held_end:
            return _copy(target, self._held, offset - self._held_at)
        if offset == held_end and self._held and not self._held_whole:
            self._hold(self._held_at)  # more of it may have been written by now
        elif offset >= self.size():
            return 0
        elif not self._begins(offset):
            self._hold(self._begin_of(offset))
        else:
            return self._block(target, offset)
        return _copy(target, self._held, offset - self._held_at)

    def size(self) -> int:
        """The file's current size in bytes."""
        return self._lower.size()

    def close(self) -> None:
        """Close it, and the stream below."""
        super().close()
        self._lower.close()

    def use(self, make: Callable[[EventCipher], BlockCipher]) -> None:
        """Decrypt blocks of events by another implementation from now on."""
        self._make_batch = make
        if self._cipher is not None:
            self._batch = make(self._cipher)

    # --- whole events ----------------------------------------------------------------------------

    def _block(self, view: memoryview, at: int) -> int:
        """Fill memory from the start of an event: whole events, and the beginning of one more."""
        if self._cipher is None:
            self._find_cipher()
        self._lower.seek(at)
        size = end = 0
        while size < len(view) and (count := self._lower.readinto(view[size:])):
            size += count
        if self._batch is not None:
            end = self._batch.decrypt(view, size, at)
        if end:
            self._mark(at + end)
        if end < size and end and _damaged(view[end:size]):
            size = end  # whole events are given first
        elif end < size:
            self._hold(at + end, bytes(view[end:size]))
            size = end + _copy(view[end:size], self._held)
        return size

    def _hold(self, offset: int, begun: bytes = b"") -> None:
        """Decrypt the event at an offset; ``begun`` is the part that was read so far."""
        raw = self._event(offset, begun)
        self._held_at, self._held, self._held_whole = offset, b"", False
        if len(raw) < LENGTH_END:
            return
        if self._cipher is None:
            self._find_cipher()
        if self._cipher is None:  # there is no whole event yet
            return
        self._held = self._cipher.decrypt(raw, offset)
        self._held_whole = len(raw) == event_length(raw)
        if self._held_whole:
            self._mark(offset)
            self._mark(offset + len(raw))

    def _find_cipher(self) -> None:
        """Find the cipher by the first event, once it exists."""
        raw = self._event(self._head.size)
        if len(raw) >= HEADER_SIZE and len(raw) == event_length(raw):
            self._cipher = self._head.cipher(self._key, raw)
            self._batch = self._make_batch(self._cipher)

    def _event(self, offset: int, begun: bytes = b"") -> bytes:
        try:
            return event_at(self._read_stored, offset, begun)
        except BadEventLength as error:
            raise error.at(self._head.path, offset) from None

    def _read_stored(self, offset: int, count: int) -> bytes:
        return read_exactly(self._lower, offset, count)

    # --- where events begin ----------------------------------------------------------------------

    def _mark(self, offset: int) -> None:
        """Remember that an event begins here, or will begin here when the file grows."""
        marks = self._marks
        if offset > marks[-1]:
            if len(marks) > 1 and offset - marks[-2] < _MARKS_APART:
                marks[-1] = offset
            else:
                marks.append(offset)
        elif marks[bisect_right(marks, offset) - 1] + _MARKS_APART < offset:
            insort(marks, offset)

    def _begins(self, offset: int) -> bool:
        """Whether an event is known to begin at an offset, without walking there."""
        marks = self._marks
        if marks[bisect_right(marks, offset) - 1] == offset:
            return True
        raw = self._read_stored(offset, LENGTH_END)
        if len(raw) < LENGTH_END or not is_event_length(event_length(raw)):
            return False
        if offset + event_length(raw) > self.size():
            return False
        if self._cipher is None:
            self._find_cipher()
        if self._cipher is None:
            return False
        rest = self._read_stored(offset + LENGTH_END, event_length(raw) - LENGTH_END)
        plain = self._cipher.decrypt(raw + rest, offset)
        return sound(plain, offset, checksums=self._head.checksums)

    def _begin_of(self, offset: int) -> int:
        """The start of the event that contains an offset."""
        begin = self._marks[bisect_right(self._marks, offset) - 1]
        try:
            for at, length, _ in walk(self._read_stored, begin, self.size(), _PIECE):
                self._mark(at)
                if at + length > offset:
                    return at
                begin = at + length
        except BadEventLength as error:
            raise error.at(self._head.path, begin) from None
        self._mark(begin)
        return begin


def _copy(view: memoryview, data: bytes, start: int = 0) -> int:
    count = max(0, min(len(view), len(data) - start))
    view[:count] = data[start : start + count]
    return count


def _damaged(begun: memoryview) -> bool:
    """Whether an event's beginning has an invalid length."""
    return len(begun) >= LENGTH_END and not is_event_length(event_length(begun))


def mariadb_input(lower: RandomInput, keyring: Keyring | None, *, path: str) -> MariadbInput:
    """The plain bytes of a log that MariaDB encrypted; ``path`` is for errors.

    Raises EncryptionError if MariaDB did not encrypt it; KeyMissing; and when it is read, WrongKey.
    """
    needs(lower, RandomInput, "mariadb_input")
    head = read_head(lower, path)
    if head is None:
        raise EncryptionError("this is not a log that MariaDB encrypted", file=path, offset=0)
    return MariadbInput(lower, head, head.key(keyring))


def read_head(lower: RandomInput, path: str) -> MariadbHead | None:
    """A log's head; None if it is not encrypted, or is too short to know."""
    raw = b""
    while (wanted := head_end(raw)) > len(raw):
        more = read_exactly(lower, len(raw), wanted - len(raw))
        if not more:
            return None
        raw += more
    return MariadbHead.parse(raw, path)


_NONCE_SIZE: Final = 12
_U32: Final = Struct("<I")


class MariadbOutput:
    """A log that is encrypted as it is written. Offsets are the file's own.

    An event is written to the store when it is whole; until then it is held in memory. A file can
    be truncated only at the end of an event, and updated only in its unencrypted part: the format
    description. What follows cannot be updated, and MariaDB never does it: each event is encrypted
    as one text, with its offset as the nonce, so that a byte that changes would change all after it
    in its event, and two texts would be encrypted by the same key and nonce.
    """

    def __init__(
        self, lower: RandomOutput, cipher: EventCipher, clear: int, *, path: str = ""
    ) -> None:
        self._lower = lower
        self._cipher = cipher
        self._clear = clear
        self._path = path
        self._held = bytearray()

    @property
    def size(self) -> int:
        """The file's size, with the bytes that are held in memory."""
        return self._lower.size + len(self._held)

    def write(self, data: Data, /) -> None:
        """Append."""
        self._held += data
        made, end = [], 0
        offset = self._lower.size
        for start, end in frames(self._held):
            event = bytes(self._held[start:end])
            made.append(self._cipher.encrypt(event, offset + start))
        if len(self._held) - end >= HEADER_SIZE:
            _check_length(self._held, end, self._path, offset + end)
        if made:
            rest = bytes(self._held[end:])
            self._held.clear()  # after an error of the store, its size says what it has
            self._lower.write(b"".join(made))
            self._held += rest

    def update(self, offset: int, data: Data, /) -> None:
        """Overwrite bytes of the format description. Raises UsageError for others."""
        check_within(offset, len(data), self.size)
        if offset + len(data) > self._clear:
            raise UsageError(
                f"{self._path}: only the first {self._clear} bytes of a log that MariaDB encrypts"
                f" can be updated, not {len(data)} at {offset}"
            )
        self._lower.update(offset, data)

    def truncate(self, size: int, /) -> None:
        """Truncate the log to the end of an event."""
        check_cut(size, self.size)
        below = self._lower.size
        if size >= below:
            del self._held[size - below :]
            return
        self._held.clear()
        self._lower.truncate(size)

    def flush(self) -> None:
        """Flush what lies below. An event that is not whole stays held."""
        self._lower.flush()

    def sync(self) -> None:
        """Sync what lies below. An event that is not whole stays held."""
        self._lower.sync()

    def close(self) -> None:
        """Close the stream below. Raises StorageError if an event is incomplete."""
        end_output(self)
        self._lower.close()
        if self._held:
            count = len(self._held)
            self._held.clear()
            raise StorageError(
                f"{self._path}: an event was not written completely: {count} bytes of it are not in"
                " the log"
            )


@dataclass(frozen=True, slots=True)
class MariadbBegin:
    """The beginning ``raw`` of a new file, as stored; its first ``clear`` bytes can be updated."""

    raw: bytes
    cipher: EventCipher
    clear: int

    @classmethod
    def of(
        cls, head: bytes, keyring: Keyring, *, mode: Mode | str = Mode.CBC, path: str
    ) -> MariadbBegin:
        """Make it from a plain beginning: magic, format description, and any whole events.

        START_ENCRYPTION is inserted after the format description, and the events after it move by
        its length: their ``log_pos`` and checksum are set. If there is one already (a copy that a
        server sent), it is replaced, and nothing moves. Raises KeyMissing, LogError, UsageError,
        StorageError.
        """
        import secrets  # noqa: PLC0415 - slow, and rarely needed

        form, start = format_of(head, path)
        version = keyring.latest(KEY_ID)
        key = keyring.key(KEY_ID, version)
        nonce = secrets.token_bytes(_NONCE_SIZE)
        try:
            cipher = EventCipher(key, nonce, Mode(mode))
        except MissingExtra:
            raise
        except ValueError as error:
            raise UsageError(f"key {KEY_ID}: {error}") from None
        begun = _start_encryption(form, start, version, nonce)
        rest = head[start:]
        moved = len(begun)
        if rest[4:5] == bytes([EventType.START_ENCRYPTION]):
            rest, moved = rest[event_length(rest) :], 0
        out = [head[:start], begun]
        offset = start + len(begun)
        checksums = form.description.checksum_algorithm is ChecksumAlgorithm.CRC32
        end = 0
        for begin, end in frames(rest):
            event = _moved(rest[begin:end], moved, checksums=checksums)
            out.append(cipher.encrypt(event, offset + begin))
        if end < len(rest):
            _check_length(rest, end, path, offset + end)
            raise UsageError(f"{path}: a file must begin with whole events")
        return cls(b"".join(out), cipher, start)

    def output(self, lower: RandomOutput, path: str) -> MariadbOutput:
        """Continue the file, which holds ``raw``."""
        return MariadbOutput(lower, self.cipher, self.clear, path=path)


def mariadb_output(
    lower: RandomOutput,
    keyring: Keyring,
    head: bytes,
    *,
    mode: Mode | str = Mode.CBC,
    path: str = "",
) -> MariadbOutput:
    """Encrypt a new file, as a server does with key 1 in its latest version.

    ``head`` is its plain beginning (see `MariadbBegin.of`), written at once; later bytes are
    written at the output's ``size``. ``mode`` is ``aes_cbc`` or ``aes_ctr``, the setting of the
    server that will read it. Raises KeyMissing, LogError, UsageError, StorageError.
    """
    needs(lower, RandomOutput, "mariadb_output")
    if lower.size:
        raise StorageError(
            f"mariadb_output starts a new file, and this one has {lower.size} bytes: use"
            " mariadb_reopened to continue it"
        )
    begin = MariadbBegin.of(head, keyring, mode=mode, path=path)
    lower.write(begin.raw)
    return begin.output(lower, path)


def mariadb_reopened(
    lower: RandomOutput,
    head: MariadbHead,
    first: bytes,
    keyring: Keyring | None,
    *,
    mode: Mode | str = Mode.CBC,
) -> MariadbOutput:
    """Continue an encrypted file at the end of an event.

    ``first`` is the first encrypted event as it is stored: it shows the mode. ``mode`` is used if
    there is none. Raises KeyMissing, WrongKey.
    """
    needs(lower, RandomOutput, "mariadb_reopened")
    key = head.key(keyring)
    cipher = head.cipher(key, first) if first else EventCipher(key, head.nonce, Mode(mode))
    return MariadbOutput(lower, cipher, head.event_at, path=head.path)


def _check_length(data: Data, at: int, path: str, offset: int) -> None:
    """Check the length of an event in a file. Raises BadEventLength, which names its place."""
    try:
        checked_length(data, at)
    except BadEventLength as error:
        raise error.at(path, offset) from None


def _start_encryption(
    form: FormatDescriptionEvent, offset: int, version: int, nonce: bytes
) -> bytes:
    event = StartEncryptionEvent.make(
        timestamp=form.header.timestamp,
        server_id=form.header.server_id,
        form=form.description,
        scheme=SCHEME,
        key_version=version,
        nonce=nonce,
    )
    algorithm = form.description.checksum_algorithm
    length = len(event.encode(algorithm))
    return event.encode(algorithm, log_pos=offset + length)


def _moved(event: bytes, by: int, *, checksums: bool) -> bytes:
    """An event moved by ``by`` bytes in its file."""
    if not by:
        return event
    made = bytearray(event)
    end = _U32.unpack_from(made, LOG_POS_AT)[0]
    if end:
        _U32.pack_into(made, LOG_POS_AT, end + by)
    if checksums:
        digest = crc32(memoryview(made)[:-CHECKSUM_SIZE])
        _U32.pack_into(made, len(made) - CHECKSUM_SIZE, digest)
    return bytes(made)
