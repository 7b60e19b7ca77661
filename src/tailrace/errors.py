"""The error tree. Every error says what was wrong, where, and what to do; every one pickles."""

from __future__ import annotations

import functools
from typing import Any, Self


class TailraceError(Exception):
    """The one base of all errors that Tailrace raises."""


def about_table(error: Exception, database: str, table: str) -> None:
    """Note which table's rows an error is about; the first that notes it is right."""
    if table_of(error) is None:
        error.tailrace_table = database, table  # type: ignore[attr-defined]


def table_of(error: BaseException) -> tuple[str, str] | None:
    """Database and table whose rows an error is about, where it is about those of one."""
    found: tuple[str, str] | None = getattr(error, "tailrace_table", None)
    return found


class ConnectionLost(TailraceError):
    """A server was not reached, or went away: the one branch of errors that is worth a retry.

    A stream that reconnects has done so, in vain, before it raises this.
    """


class HeartbeatTimeout(ConnectionLost):
    """A source said nothing for two heartbeat periods: the connection is half dead."""


class ServerError(TailraceError):
    """A server refused. ``code`` and ``sqlstate`` are its own, None where it is we who saw it."""

    def __init__(
        self, message: str, *, code: int | None = None, sqlstate: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.sqlstate = sqlstate

    def __str__(self) -> str:
        if self.code is None:
            return self.message
        state = f" ({self.sqlstate})" if self.sqlstate else ""
        return f"error {self.code}{state}: {self.message}"

    def __reduce__(self) -> tuple[Any, ...]:
        made = functools.partial(type(self), code=self.code, sqlstate=self.sqlstate)
        return made, (self.message,)


class AccessDenied(ServerError):
    """The user, the password or a privilege is not what the server wants."""


class TlsError(ServerError):
    """A connection cannot be had with TLS as it was asked for, or the server's certificate does not
    verify. Nothing secret was sent.
    """


class LogPurged(ServerError):
    """What is to be read is no longer in the source's logs: copy the data anew."""


class LogReset(ServerError):
    """The source's log is not the one that was read before: it was reset, lost its end in a crash,
    or another server answers under this name.
    """


class GtidsAhead(ServerError):
    """The GTIDs that reading is to go on behind are not the source's, or it does not have them."""


class DuplicateServerId(ServerError):
    """Another replica reads with this server id or UUID; the source serves one of the two."""


class ProtocolError(TailraceError):
    """What passes between us and a server is not the protocol."""


class LocalProtocolError(ProtocolError):
    """A connection was asked for what it cannot do in its state. Nothing was sent."""


class MalformedPacket(ProtocolError):
    """The other side sent what no packet of the protocol is."""


class ObserverError(TailraceError):
    """A replication observer raised; it is named, and what it raised is the cause."""


class SemisyncError(TailraceError):
    """Semi-synchronous replication cannot be had, or was broken off."""


class LogError(TailraceError):
    """A log cannot be read on. Says which file, offset (64-bit, own count) and event type.

    ``file`` and ``offset`` may be unknown where bytes are parsed on their own; whoever knows them
    adds them with `at`, so the message of an error that reaches a person is always complete.
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
        """Fill in what is still unknown of the place, and return self (for ``raise e.at(...)``)."""
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
    """The file does not begin as a binary log does, or is an encrypted one."""


class EncryptionError(LogError):
    """What an encrypted log says of its encryption is damaged, or of a kind that is not known."""


class WrongKey(EncryptionError):
    """The keyring has a key of that name, and it does not open the log."""


class TruncatedEvent(LogError):
    """The log ends inside an event."""


class ChecksumMismatch(LogError):
    """An event's CRC32 is not that of its bytes."""


class UnknownEvent(LogError):
    """An event type that is neither known nor marked ignorable."""


class EventDecodeError(LogError):
    """An event's bytes do not follow its format."""


class BadEventLength(EventDecodeError):
    """An event's header gives it a length that no event has."""


class EventTooLarge(BadEventLength):
    """An event's header gives it more bytes than an event may have (1 GiB)."""


class OutOfMemory(LogError):
    """There is no memory to hold an event whole."""


class EventEncodeError(LogError):
    """An event cannot be written: a field is missing, unknown, or more than the format holds."""


class BoundaryError(LogError):
    """Events stand in an order that no transaction has."""


class SchemaError(LogError):
    """What an event says and what is known of its table do not fit."""


class MissingTableMap(SchemaError):
    """A rows event refers to a table id that no table map before it introduced."""


class UnknownColumn(SchemaError):
    """A column that the table does not have was asked for."""


class UnsupportedType(SchemaError):
    """A column type or a value that cannot be decoded with what the log and the schema say."""


class ValueRefused(SchemaError):
    """A value that its column cannot hold as it is, or a row that is not the table's."""


class ConversionError(SchemaError):
    """A value that cannot be had as the type that was asked for."""


class ConversionLoss(ConversionError):
    """A value that could be had as the type asked for, but not all of it."""


class StatementChange(SchemaError):
    """Rows were changed by a logged statement: the log holds no row images of the change."""


class UndoError(LogError):
    """What the log holds cannot be taken back by statements."""


class GtidError(TailraceError):
    """A GTID or GTID set that does not parse, or an operation on sets that do not match."""


class StorageError(TailraceError):
    """A log cannot be opened or read where it is stored."""


class BadLogName(ProtocolError, StorageError):
    """A server, an index or a user named a log file by what is no plain ``base.digits``: a path, or
    a name with control characters. Nothing was written or deleted under that name.
    """


class CannotOpen(LogError, StorageError):
    """A log is not there, or may not be opened. Its ``offset`` is None: nothing was read."""


class ReadFailed(LogError, StorageError):
    """What a log is stored on refused to give the bytes at ``offset``."""


class KeyMissing(StorageError):
    """A log is encrypted, and the key that opens it is not in the keyring, or there is no keyring.

    ``key_id`` names it, ``version`` too where keys have versions (MariaDB). ``file`` and ``offset``
    are where the log names it; None where a keyring was asked alone.
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
    """The pipeline cannot go on: a lake that does not fit, a key that is missing, ..."""


class LakeChanged(PipelineError):
    """Others wrote to a lake's table while a batch was made for it: nothing of it was committed."""


class SchemaChanged(PipelineError):
    """A table's columns changed behind the schema that a streaming query began with: start it again
    for the new ones.
    """


class UsageError(TailraceError):
    """A command or function was called with arguments that do not go together."""


class MissingExtra(UsageError, ImportError):
    """A package that is needed is not installed: the message has the extra that has it.

    ``name`` is the package.
    """

    def __init__(self, message: str, *, name: str | None) -> None:
        super().__init__(message)
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(type(self), name=self.name), (str(self),)


class NoSuchColumn(UserWarning):
    """A column that was asked for is in none of the tables of a log that is followed, so far."""


class NoSuchTable(UserWarning):
    """A pattern for tables fits none of those in a log that was read to its end."""
