"""The error tree. Every error says what was wrong, where, and what to do; every one pickles."""

from __future__ import annotations

import functools
from typing import Any, Self


class TailraceError(Exception):
    """The one base of all errors that Tailrace raises."""


def about_table(error: Exception, database: str, table: str) -> None:
    """Note which table's rows an error is about; only the first note counts."""
    if table_of(error) is None:
        error.tailrace_table = database, table  # type: ignore[attr-defined]


def table_of(error: BaseException) -> tuple[str, str] | None:
    """Database and table whose rows an error is about, if it is about one table's."""
    found: tuple[str, str] | None = getattr(error, "tailrace_table", None)
    return found


class _Answered(TailraceError):
    """An error that a server may have sent: see `ServerError` for its attributes."""

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        sqlstate: str | None = None,
        text: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.sqlstate = sqlstate
        self.text = text

    def __reduce__(self) -> tuple[Any, ...]:
        made = functools.partial(type(self), code=self.code, sqlstate=self.sqlstate, text=self.text)
        return made, (self.message,)


class ConnectionLost(_Answered):
    """A server was not reached, or went away: the only kind of error that is worth a retry.

    A stream that reconnects raises this only after its own retries have failed. If the server said
    why (it shuts down, the connection was killed), ``code``, ``sqlstate`` and ``text`` are as in
    `ServerError`, else None.
    """


class HeartbeatTimeout(ConnectionLost):
    """A source sent nothing for two heartbeat periods: the connection is probably dead."""


class ServerError(_Answered):
    """A server answered with an error.

    ``code`` (16 bits) and ``sqlstate`` (five characters) are the server's, and ``text`` is what it
    said, verbatim, of any length and with any characters in it; all are None if Tailrace saw the
    reason. ``message`` has the text on one line, with the server's name before it and advice after
    it.
    """

    def reworded(self, message: str, kind: type[ServerError] | None = None) -> ServerError:
        """The same answer of the server with another message, as an error of a ``kind``."""
        return (kind or type(self))(message, code=self.code, sqlstate=self.sqlstate, text=self.text)

    def __str__(self) -> str:
        if not self.code:  # some errors of a server have the number 0
            return self.message
        state = f" ({self.sqlstate})" if self.sqlstate else ""
        return f"error {self.code}{state}: {self.message}"


class AccessDenied(ServerError):
    """The user, the password or a privilege is not what the server requires."""


class TlsError(ServerError):
    """A connection with TLS as requested is not possible, or the server's certificate does not
    verify. Nothing secret was sent.
    """


class LogPurged(ServerError):
    """The data to read is no longer in the source's logs: copy the data again."""


class LogReset(ServerError):
    """The source's log is not the one that was read before: it was reset, lost its end in a crash,
    or another server answers under this name.
    """


class GtidsAhead(ServerError):
    """The source does not have the GTIDs after which to resume, or they are another server's."""


class DuplicateServerId(ServerError):
    """Another replica reads with this server id or UUID; the source serves one of the two."""


class ProtocolError(TailraceError):
    """Data exchanged with a server does not follow the protocol."""


class LocalProtocolError(ProtocolError):
    """A call that the connection does not allow in its current state. Nothing was sent."""


class MalformedPacket(ProtocolError):
    """The other side sent a packet that the protocol does not have."""


class ObserverError(TailraceError):
    """A replication observer raised an error; the message names it, and the cause is that error."""


class SemisyncError(TailraceError):
    """Semi-synchronous replication is not available, or was interrupted."""


class LogError(TailraceError):
    """A log cannot be read further. Says which file, offset (64-bit, own count) and event type.

    ``file`` is the path or URL where the file's bytes are damaged (`BadMagic`, `BadEventLength`,
    a file that is cut off), and the log's name, as in its position, where an event's content is.

    ``file`` and ``offset`` may be unknown where bytes are parsed on their own; the caller that
    knows them adds them with `at`, so the message of an error that reaches a person is always
    complete.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        offset: int | None = None,
        event_type: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.offset = offset
        self.event_type = event_type

    def at(
        self, file: str | None = None, offset: int | None = None, event_type: str | None = None
    ) -> Self:
        """Fill in what is still unknown of the position; returns self (for ``raise e.at(...)``)."""
        self.file = self.file if self.file is not None else file
        self.offset = self.offset if self.offset is not None else offset
        self.event_type = self.event_type or event_type
        return self

    def __str__(self) -> str:
        place = self.file or ""
        if self.offset is not None:
            place = f"{place} at {self.offset}".strip()
        if self.event_type:
            place = f"{place} ({self.event_type})".strip()
        return f"{place}: {self.message}" if place else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        state = {"file": self.file, "offset": self.offset, "event_type": self.event_type}
        return type(self), (self.message,), state


class BadMagic(LogError):
    """The file does not start like a binary log, or is an encrypted one."""


class EncryptionError(LogError):
    """An encrypted log's description of its encryption is damaged, or of an unknown kind."""


class WrongKey(EncryptionError):
    """The keyring has a key of that name, but it does not decrypt the log."""


class TruncatedEvent(LogError):
    """The log ends inside an event."""


class ChecksumMismatch(LogError):
    """An event's CRC32 does not match its bytes."""


class UnknownEvent(LogError):
    """An event type that is neither known nor marked ignorable."""


class EventDecodeError(LogError):
    """An event's bytes do not follow its format."""


class BadEventLength(EventDecodeError):
    """An event's header states a length that no event can have."""


class EventTooLarge(BadEventLength):
    """An event's header states more bytes than an event may have (1 GiB)."""


class OutOfMemory(LogError):
    """There is not enough memory to hold a whole event."""


class EventEncodeError(LogError):
    """An event cannot be written: a field is missing, unknown, or more than the format holds."""


class BoundaryError(LogError):
    """Events are in an order that no transaction has."""


class SchemaError(LogError):
    """An event does not match what is known about its table."""


class MissingTableMap(SchemaError):
    """A rows event refers to a table id that no table map before it introduced."""


class UnknownColumn(SchemaError):
    """A column that the table does not have was asked for."""


class UnsupportedType(SchemaError):
    """A column type or a value that cannot be decoded with the log and the schema."""


class ConversionError(SchemaError):
    """A value that cannot be converted to the requested type."""


class ConversionLoss(ConversionError):
    """A value that the requested type can hold only in part."""


class StatementChange(SchemaError):
    """Rows were changed by a logged statement: the log holds no row images of the change."""


class UndoError(LogError):
    """A logged change that statements cannot undo."""


class ValueRejected(TailraceError, ValueError):
    """A value that its column cannot hold unchanged, or a row that does not fit the table."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class GtidError(TailraceError):
    """A GTID or GTID set that does not parse, or an operation on sets that do not match."""


class StorageError(TailraceError):
    """A log cannot be opened or read where it is stored."""


class BadLogName(ProtocolError, StorageError):
    """A server, an index or a user gave a log file a name that is not a plain ``base.digits``: a
    path, or a name with control characters. Nothing was written or deleted under that name.
    """


class CannotOpen(LogError, StorageError):
    """A log does not exist, or may not be opened. Its ``offset`` is None: nothing was read."""


class ReadFailed(LogError, StorageError):
    """The storage of a log failed to read the bytes at ``offset``."""


class KeyMissing(StorageError):
    """A log is encrypted, and the key for it is not in the keyring, or there is no keyring.

    ``key_id`` names it, and so does ``version`` where keys have versions (MariaDB). ``file`` and
    ``offset`` are where the log names it; None if only a keyring was asked.
    """

    def __init__(
        self,
        message: str,
        *,
        key_id: str,
        version: int | None = None,
        file: str | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.key_id = key_id
        self.version = version
        self.file = file
        self.offset = offset

    def __reduce__(self) -> tuple[Any, ...]:
        made = functools.partial(
            type(self),
            key_id=self.key_id,
            version=self.version,
            file=self.file,
            offset=self.offset,
        )
        return made, (self.message,)


class PipelineError(TailraceError):
    """The pipeline cannot continue: a lake that does not fit, a key that is missing, ..."""


class LakeChanged(PipelineError):
    """Others wrote to a lake's table while a batch for it was made: nothing of it was committed."""


class LakeTakenOver(PipelineError):
    """Another process writes to the lake now: what this one had not committed is discarded."""


class SchemaChanged(PipelineError):
    """A table's columns have changed since a streaming query started: start it again to use the new
    columns.
    """


class UsageError(TailraceError, ValueError):
    """A command or function was called with arguments that do not go together."""


class MissingExtra(UsageError, ImportError):
    """A required package is not installed: the message names the extra that includes it.

    ``name`` is the package.
    """

    def __init__(self, message: str, *, name: str | None) -> None:
        super().__init__(message)
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(type(self), name=self.name), (str(self),)


class NoSuchColumn(UserWarning):
    """A requested column that no table of a followed log has had so far."""


class NoSuchTable(UserWarning):
    """A pattern that matches no table in a log that was read to its end."""
