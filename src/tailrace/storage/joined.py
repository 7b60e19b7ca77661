"""Log files whose bytes come one after the other in one stream (``cat binlog.* | ...``).

Such a stream is read as one log. In place of an event's header, there may be the magic number of
the next file, or the header of a file that MySQL encrypted; and a next file may be one that MariaDB
encrypted. Offsets count all plain bytes, including the magic numbers.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tailrace.constants import ENCRYPTED_MAGIC, HEADER_SIZE, MAGIC, MAX_FORMAT_SIZE, EventType
from tailrace.errors import EncryptionError, KeyMissing
from tailrace.events.walk import event_length, frames, is_event_length
from tailrace.storage.encryption.mariadb.format import MariadbHead, head_end
from tailrace.storage.encryption.mysql import HEADER_SIZE as MYSQL_HEADER_SIZE
from tailrace.storage.encryption.mysql import MysqlHeader
from tailrace.storage.streams.input import ForwardInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.storage.encryption.keystream import Keystream
    from tailrace.storage.encryption.mariadb.format import EventCipher
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.streams.base import InputStream

_PIECE: Final = 1 << 18
_SEEN: Final = len(MAGIC) + HEADER_SIZE
"""Bytes needed to distinguish an event from a file's beginning: the time stamp of an event may be
equal to the magic number (a second in 2028 is).
"""
_FIRST_FIELD: Final = b"\x01\x01"
"""Version and first field (key id) in the header of a file that MySQL encrypted."""
_NEVER: Final = 1 << 62


class JoinedInput(ForwardInput):
    """The plain bytes of log files that come one after the other, each with its magic number.

    It reads forward only. Damaged bytes are given unchanged. Raises KeyMissing, WrongKey and
    EncryptionError for an encrypted file that ``keyring`` does not decrypt.
    """

    def __init__(self, lower: InputStream, keyring: Keyring | None, *, path: str) -> None:
        super().__init__(lower)
        self._keyring = keyring
        self._path = self.name = path
        self._raw = b""  # received, not decrypted yet
        self._plain = b""  # decrypted, not given yet
        self._made = 0
        self._unreadable = 0
        self._left = 0  # bytes of the current event that have yet to come
        self._keystream: Keystream | None = None  # MySQL's
        self._head: MariadbHead | None = None
        self._cipher: EventCipher | None = None
        self._key = b""
        self._file_at = 0  # plain bytes of this file so far
        self._begins: deque[int] = deque()
        self._over = False

    def next_begin(self, offset: int) -> int:
        """Where the next file's magic is, from an offset on, among the bytes so far; else far away.

        Call it in the order of offsets.
        """
        while self._begins and self._begins[0] < offset:
            self._begins.popleft()
        return self._begins[0] if self._begins else _NEVER

    def _next(self, count: int) -> bytes:
        if not self._plain:
            self._plain = self._make()
        piece = self._plain[:count]
        self._plain = self._plain[len(piece) :]
        return piece

    def readinto(self, view: bytearray | memoryview, /) -> int:
        """As `read`, into the given memory."""
        piece = self.read(len(view))
        view[: len(piece)] = piece
        return len(piece)

    def size(self) -> int:
        """The bytes that came so far, with those of a torn event that cannot be decrypted."""
        return self._made + self._unreadable

    def _make(self) -> bytes:
        """The next plain bytes, of one file; empty at the end."""
        self._fill(_SEEN)
        if self._head is not None and self._raw and not self._file_begins(0):
            return self._took(self._decrypted(self._head))
        raw = self._raw
        plain = raw if self._keystream is None else self._keystream.apply(raw, self._file_at)
        at = min(self._left, len(raw))
        self._left -= at
        for start, end in frames(plain, at=at):
            if not self._event_begins(start):
                break
            at = end
        if self._event_begins(at):  # one that is not whole, or damaged
            length = event_length(plain, at)
            end = at + length if is_event_length(length) else _NEVER
            self._left, at = end - len(raw), len(raw)
        if raw and not at:
            return self._begin()
        self._raw = raw[at:]
        return self._took(plain[:at])

    def _fill(self, count: int) -> None:
        while len(self._raw) < count and not self._over:
            piece = self.lower.read(_PIECE)
            self._over = not piece
            self._raw += piece

    def _event_begins(self, at: int) -> bool:
        """Whether it is known that an event begins here, and not another file."""
        have = len(self._raw) - at
        return have > 0 and (have >= _SEEN or self._over) and not self._file_begins(at)

    def _file_begins(self, at: int) -> bool:
        """Whether another file begins here, in place of an event's header."""
        head = self._raw[at : at + _SEEN]
        if not self._made and not at:
            return head.startswith((MAGIC, ENCRYPTED_MAGIC))
        if head.startswith(ENCRYPTED_MAGIC):
            return head[4:6] == _FIRST_FIELD[: len(head) - 4]
        if not head.startswith(MAGIC):
            return False
        if len(head) < _SEEN:
            return True
        is_format = head[8] == EventType.FORMAT_DESCRIPTION
        return is_format and HEADER_SIZE <= event_length(head, len(MAGIC)) <= MAX_FORMAT_SIZE

    def _took(self, plain: bytes) -> bytes:
        self._file_at += len(plain)
        self._made += len(plain)
        return plain

    def _begin(self) -> bytes:
        """Begin another file: its magic, and the rest of its unencrypted head."""
        self._keystream = self._head = self._cipher = None
        self._file_at = 0
        self._begins.append(self._made)
        size = len(MAGIC)
        with self._placed():
            if self._raw.startswith(ENCRYPTED_MAGIC):
                self._keystream = self._opened()
                magic = self._keystream.apply(self._raw[:size], 0)
            else:
                self._head = self._mariadb_head()
                magic = self._raw[:size] if self._head is None else self._head.raw
        self._raw = self._raw[len(magic) :]
        return self._took(magic)

    @contextmanager
    def _placed(self) -> Iterator[None]:
        """Add the file's position in the stream to errors, whose offsets are those in a file."""
        try:
            yield
        except EncryptionError as error:
            error.offset = self._made - self._file_at + (error.offset or 0)
            raise
        except KeyMissing as error:
            offset = self._made - self._file_at + (error.offset or 0)
            text = error.message.replace(f"{self._path}:", f"{self._path} at {offset}:", 1)
            raise KeyMissing(
                text, key_id=error.key_id, version=error.version, file=self._path, offset=offset
            ) from error

    def _opened(self) -> Keystream:
        """Read the header of a file that MySQL encrypted."""
        self._fill(MYSQL_HEADER_SIZE + len(MAGIC))
        header = MysqlHeader.parse(self._raw[:MYSQL_HEADER_SIZE], self._path)
        keystream = header.open(self._keyring, self._path)
        self._raw = self._raw[MYSQL_HEADER_SIZE:]
        header.check(keystream, self._raw[: len(MAGIC)], self._path)
        return keystream

    def _mariadb_head(self) -> MariadbHead | None:
        """The head of a file that MariaDB encrypted; None for another file."""
        while (wanted := head_end(self._raw)) > len(self._raw):
            if self._over:
                return None
            self._fill(wanted)
        head = MariadbHead.parse(self._raw[:wanted], self._path)
        self._key = b"" if head is None else head.key(self._keyring)
        return head

    def _decrypted(self, head: MariadbHead) -> bytes:
        """The next events that MariaDB encrypted; at the end, the readable part of a torn one."""
        length = event_length(self._raw)
        if is_event_length(length):
            self._fill(length)
        raw = self._raw
        made: list[bytes] = []
        end = 0
        for start, stop in frames(raw):
            if start and not self._event_begins(start):
                break
            made.append(self._event(head, raw[start:stop], self._file_at + start, whole=True))
            end = stop
        if not end:  # damaged, or incomplete
            made.append(self._event(head, raw, self._file_at, whole=length < HEADER_SIZE))
            end = len(raw)
            self._unreadable = end - len(made[0])
        self._raw = raw[end:]
        return b"".join(made)

    def _event(self, head: MariadbHead, raw: bytes, offset: int, *, whole: bool) -> bytes:
        if len(raw) < HEADER_SIZE:
            return raw
        with self._placed():
            if self._cipher is None and whole:
                self._cipher = head.cipher(self._key, raw)
        return b"" if self._cipher is None else self._cipher.decrypt(raw, offset)
