"""Reads and writes logs that MySQL encrypts. Their offsets are those of the plain log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import StorageError
from tailrace.storage.encryption.mysql.header import HEADER_SIZE, MysqlHeader
from tailrace.storage.streams.base import RandomInput, RandomOutput, check_cut, check_within, needs

if TYPE_CHECKING:
    from tailrace.storage.encryption.keystream import Keystream
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.streams.base import Data


class MysqlInput:
    """The plain bytes of an encrypted log."""

    def __init__(self, lower: RandomInput, keystream: Keystream) -> None:
        self._lower = lower
        self._keystream = keystream
        self._at = 0
        lower.seek(HEADER_SIZE)

    def read(self, count: int, /) -> bytes:
        """At most ``count`` bytes."""
        raw = self._lower.read(count)
        plain = self._keystream.apply(raw, self._at)
        self._at += len(raw)
        return plain

    def readinto(self, view: bytearray | memoryview, /) -> int:
        """As `read`, decrypted in place."""
        count = self._lower.readinto(view)
        if count:
            self._keystream.apply_into(memoryview(view)[:count], self._at)
            self._at += count
        return count

    def seek(self, offset: int, /) -> int:
        """Go to an offset of the plain log."""
        self._at = self._lower.seek(offset + HEADER_SIZE) - HEADER_SIZE
        return self._at

    def tell(self) -> int:
        """The offset of the next plain byte."""
        return self._at

    def size(self) -> int:
        """The plain log's current size in bytes."""
        return max(self._lower.size() - HEADER_SIZE, 0)

    def close(self) -> None:
        """Close the stream below."""
        self._lower.close()


class MysqlOutput:
    """A log that is encrypted as it is written. Offsets and ``size`` are the plain log's.

    Bytes written after a `truncate`, and those of `update`, are encrypted with the same keystream
    as the bytes that they replace: the format has one password for a file, and the server does the
    same.
    """

    def __init__(self, lower: RandomOutput, keystream: Keystream) -> None:
        self._lower = lower
        self._keystream = keystream

    @property
    def size(self) -> int:
        """The plain log's bytes."""
        return max(self._lower.size - HEADER_SIZE, 0)

    def write(self, data: Data, /) -> None:
        """Append."""
        self._lower.write(self._keystream.apply(data, self.size))

    def update(self, offset: int, data: Data, /) -> None:
        """Overwrite existing bytes."""
        check_within(offset, len(data), self.size)
        self._lower.update(offset + HEADER_SIZE, self._keystream.apply(data, offset))

    def truncate(self, size: int, /) -> None:
        """Truncate the log."""
        check_cut(size, self.size)
        self._lower.truncate(size + HEADER_SIZE)

    def flush(self) -> None:
        """Flush the stream below."""
        self._lower.flush()

    def sync(self) -> None:
        """Sync the stream below."""
        self._lower.sync()

    def close(self) -> None:
        """Close the stream below."""
        self._lower.close()


def read_exactly(lower: RandomInput, offset: int, count: int) -> bytes:
    """Read ``count`` bytes from an offset on, fewer only at the end."""
    lower.seek(offset)
    pieces = []
    while count and (piece := lower.read(count)):
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def mysql_input(lower: RandomInput, keyring: Keyring | None, *, path: str) -> MysqlInput:
    """The plain bytes of a log that MySQL encrypted; ``path`` is for errors.

    Raises EncryptionError for a damaged header, KeyMissing, WrongKey.
    """
    needs(lower, RandomInput, "mysql_input")
    head = read_exactly(lower, 0, HEADER_SIZE + 4)
    header = MysqlHeader.parse(head[:HEADER_SIZE], path)
    keystream = header.open(keyring, path)
    header.check(keystream, head[HEADER_SIZE:], path)
    return MysqlInput(lower, keystream)


def mysql_output(lower: RandomOutput, keyring: Keyring, *, key_id: str) -> MysqlOutput:
    """Encrypt a new file, as a server does with the key of that id (its latest version).

    A server's own is ``MySQLReplicationKey_<server_uuid>_<n>``. The header is written at once.
    Raises KeyMissing, UsageError, StorageError.
    """
    needs(lower, RandomOutput, "mysql_output")
    if lower.size:
        raise StorageError(
            f"mysql_output starts a new file, and this one has {lower.size} bytes: use"
            " mysql_reopened to continue it"
        )
    header, keystream = MysqlHeader.new(keyring, key_id)
    lower.write(header.encode())
    return MysqlOutput(lower, keystream)


def mysql_reopened(
    lower: RandomOutput, head: bytes, keyring: Keyring | None, *, path: str
) -> MysqlOutput:
    """Continue an encrypted file; ``head`` is its first 516 bytes (or all).

    Raises as `mysql_input`.
    """
    needs(lower, RandomOutput, "mysql_reopened")
    header = MysqlHeader.parse(head[:HEADER_SIZE], path)
    keystream = header.open(keyring, path)
    header.check(keystream, head[HEADER_SIZE:], path)
    return MysqlOutput(lower, keystream)
