"""Writes logs as MariaDB encrypts them: event by event, each at its offset."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Final
from zlib import crc32

from tailrace.constants import CHECKSUM_SIZE, HEADER_SIZE, ChecksumAlgorithm, EventType
from tailrace.errors import StorageError, UsageError
from tailrace.events import FormatDescriptionEvent, StartEncryptionEvent
from tailrace.events.walk import event_length
from tailrace.storage.encryption.mariadb.event import EventCipher, Mode
from tailrace.storage.encryption.mariadb.head import (
    KEY_ID,
    SCHEME,
    MariadbHead,
    check_length,
    format_of,
)
from tailrace.storage.streams.base import RandomOutput, check_cut, check_within, needs

if TYPE_CHECKING:
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.streams.base import Data

_NONCE_SIZE: Final = 12
_LOG_POS_AT: Final = 13
_U32: Final = Struct("<I")


class MariadbOutput:
    """A log that is encrypted as it is written. Offsets are the file's own.

    An event is written to the store when it is whole; until then it is held in memory. A file can
    be truncated only at the end of an event, and updated only in its unencrypted part: the format
    description.
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
        while len(self._held) - end >= HEADER_SIZE:
            length = event_length(bytes(self._held[end : end + HEADER_SIZE]))
            check_length(length, self._path, offset + end)
            if end + length > len(self._held):
                break
            event = bytes(self._held[end : end + length])
            made.append(self._cipher.encrypt(event, offset + end))
            end += length
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
        while rest:
            length = event_length(rest)
            check_length(length, path, offset)
            if length > len(rest):
                raise UsageError(f"{path}: a file must begin with whole events")
            event = _moved(rest[:length], moved, checksums=checksums)
            out.append(cipher.encrypt(event, offset))
            offset += length
            rest = rest[length:]
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
    end = _U32.unpack_from(made, _LOG_POS_AT)[0]
    if end:
        _U32.pack_into(made, _LOG_POS_AT, end + by)
    if checksums:
        digest = crc32(memoryview(made)[:-CHECKSUM_SIZE])
        _U32.pack_into(made, len(made) - CHECKSUM_SIZE, digest)
    return bytes(made)
