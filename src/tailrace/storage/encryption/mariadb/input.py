"""Reads logs that MariaDB encrypts: event by event, at any offset of the log."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TYPE_CHECKING, Final

from tailrace.constants import HEADER_SIZE, MAX_EVENT_SIZE
from tailrace.errors import EncryptionError, StorageError
from tailrace.events.walk import LENGTH_END, event_length
from tailrace.storage.encryption.mariadb.batch import BatchCipher
from tailrace.storage.encryption.mariadb.event import sound
from tailrace.storage.encryption.mariadb.head import MariadbHead, check_length, head_end
from tailrace.storage.encryption.mysql.streams import read_exactly
from tailrace.storage.streams.base import RandomInput, needs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.storage.encryption.mariadb.batch import BlockCipher
    from tailrace.storage.encryption.mariadb.event import EventCipher
    from tailrace.storage.keyring.base import Keyring

_LARGEST_READ: Final = 8 << 20
_PIECE: Final = 1 << 18
_MARKS_APART: Final = 1 << 16


class MariadbInput:
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
        self._at = 0
        self._marks = [head.size]  # where events begin, in order
        self._held_at = -1  # the event that was read in part: where it begins
        self._held = b""
        self._held_whole = False

    def read(self, count: int, /) -> bytes:
        """At most ``count`` bytes."""
        buffer = bytearray(max(0, min(count, _LARGEST_READ, self.size() - self._at)))
        got = self.readinto(buffer)
        del buffer[got:]
        return bytes(buffer)

    def readinto(self, view: bytearray | memoryview, /) -> int:
        """As `read`, decrypted in place. Raises WrongKey, BadEventLength, StorageError."""
        target = memoryview(view)
        if not target:
            return 0
        if self._at < self._head.size:
            return self._give(target, self._head.raw, 0)
        held_end = self._held_at + len(self._held)
        if self._held_at <= self._at < held_end:
            return self._give(target, self._held, self._held_at)
        if self._at == held_end and self._held and not self._held_whole:
            self._hold(self._held_at)  # more of it may have been written by now
        elif self._at >= self.size():
            return 0
        elif not self._begins(self._at):
            self._hold(self._begin_of(self._at))
        else:
            return self._block(target)
        return self._give(target, self._held, self._held_at)

    def seek(self, offset: int, /) -> int:
        """Go to an offset."""
        if offset < 0:
            raise StorageError(f"{self._head.path}: there is no offset {offset}")
        self._at = offset
        return offset

    def tell(self) -> int:
        """The current offset."""
        return self._at

    def size(self) -> int:
        """The file's current size in bytes."""
        return self._lower.size()

    def close(self) -> None:
        """Close the stream below."""
        self._lower.close()

    def use(self, make: Callable[[EventCipher], BlockCipher]) -> None:
        """Decrypt blocks of events by another implementation from now on."""
        self._make_batch = make
        if self._cipher is not None:
            self._batch = make(self._cipher)

    # --- whole events ----------------------------------------------------------------------------

    def _block(self, view: memoryview) -> int:
        """Fill memory from the start of an event: whole events, and the beginning of one more."""
        at = self._at
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
            size = end + self._copy(view[end:size], self._held)
        self._at += size
        return size

    def _hold(self, offset: int, raw: bytes = b"") -> None:
        """Decrypt the event that begins at an offset; ``raw`` is the part that was read so far."""
        if len(raw) < LENGTH_END:
            raw += read_exactly(self._lower, offset + len(raw), HEADER_SIZE - len(raw))
        self._held_at, self._held, self._held_whole = offset, b"", False
        if len(raw) < LENGTH_END:
            return
        length = event_length(raw)
        check_length(length, self._head.path, offset)
        if len(raw) < length:
            raw += read_exactly(self._lower, offset + len(raw), length - len(raw))
        if self._cipher is None:
            self._find_cipher()
        if self._cipher is None:  # there is no whole event yet
            return
        self._held = self._cipher.decrypt(raw, offset)
        self._held_whole = len(raw) == length
        if self._held_whole:
            self._mark(offset)
            self._mark(offset + length)

    def _find_cipher(self) -> None:
        """Find the cipher by the first event, once it exists."""
        start = self._head.size
        raw = read_exactly(self._lower, start, HEADER_SIZE)
        if len(raw) == HEADER_SIZE:
            length = event_length(raw)
            check_length(length, self._head.path, start)
            raw += read_exactly(self._lower, start + HEADER_SIZE, length - HEADER_SIZE)
            if len(raw) == length:
                self._cipher = self._head.cipher(self._key, raw)
                self._batch = self._make_batch(self._cipher)

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
        raw = read_exactly(self._lower, offset, LENGTH_END)
        if len(raw) < LENGTH_END or not HEADER_SIZE <= event_length(raw) <= MAX_EVENT_SIZE:
            return False
        if offset + event_length(raw) > self.size():
            return False
        if self._cipher is None:
            self._find_cipher()
        if self._cipher is None:
            return False
        rest = read_exactly(self._lower, offset + LENGTH_END, event_length(raw) - LENGTH_END)
        plain = self._cipher.decrypt(raw + rest, offset)
        return sound(plain, offset, checksums=self._head.checksums)

    def _begin_of(self, offset: int) -> int:
        """The start of the event that contains an offset."""
        at = self._marks[bisect_right(self._marks, offset) - 1]
        piece, piece_at = b"", at
        while True:
            if at + LENGTH_END > piece_at + len(piece):
                piece, piece_at = read_exactly(self._lower, at, _PIECE), at
                if len(piece) < LENGTH_END:
                    return at
            length = event_length(piece[at - piece_at : at - piece_at + LENGTH_END])
            check_length(length, self._head.path, at)
            if at + length > offset:
                self._mark(at)
                return at
            at += length
            self._mark(at)

    # --- bytes -----------------------------------------------------------------------------------

    def _give(self, view: memoryview, data: bytes, begin: int) -> int:
        count = self._copy(view, data, self._at - begin)
        self._at += count
        return count

    @staticmethod
    def _copy(view: memoryview, data: bytes, start: int = 0) -> int:
        count = max(0, min(len(view), len(data) - start))
        view[:count] = data[start : start + count]
        return count


def _damaged(begun: memoryview) -> bool:
    """Whether an event's beginning has an invalid length."""
    return len(begun) >= LENGTH_END and not (HEADER_SIZE <= event_length(begun) <= MAX_EVENT_SIZE)


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
