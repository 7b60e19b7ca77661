"""The meaning of a server's error for a reader of its log: its exception type, and what to do.

A start that the source does not have is a `LogReset` only if the log was read up to there before.

Source: facts sheet 4.8; the tests produce each text with MySQL 9.7, MariaDB 10.11 and 11.8.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tailrace.constants import HEADER_SIZE, MAGIC
from tailrace.errors import (
    AccessDenied,
    ConnectionLost,
    DuplicateServerId,
    GtidsAhead,
    LogPurged,
    LogReset,
    ServerError,
    TlsError,
)
from tailrace.printable import one_line

if TYPE_CHECKING:
    from tailrace.errors import TailraceError
    from tailrace.wire.packets import ErrorPacket

FATAL: Final = 1236
"""ER_MASTER_FATAL_ERROR_READING_BINLOG: the text has the cause."""
UNKNOWN_VARIABLE: Final = 1193
"""ER_UNKNOWN_SYSTEM_VARIABLE."""

_GONE: Final = frozenset({
    1040,  # too many connections
    1053,  # shutdown in progress
    1077, 1079, 1080,  # shut down
    1152, 1158, 1159, 1160, 1161, 1184, 1189, 1190, 1218,  # the network
    1203, 1226,  # too many connections of this user
    1317,  # killed: the statement
    1927, 3169,  # killed: the connection (MariaDB, MySQL)
    2002, 2003, 2005, 2006, 2013, 2055,  # the client's own
    3032, 4031,  # offline mode; idle for too long
})  # fmt: skip
_DENIED: Final = frozenset({
    1044, 1045, 1129, 1130, 1142, 1227, 1251, 1524, 1698, 1820, 1862, 1873,
    2049, 2059, 2061, 3118, 3955, 4151,
})  # fmt: skip
_CLIENTS: Final = range(2000, 3000)
"""Codes of a client's own errors: the text is not a server's."""
_TLS: Final = frozenset({2026, 3159})
_DUPLICATE: Final = 4052
"""MariaDB's ER_SLAVE_SAME_ID; for MySQL the text has it."""

_NO_SUCH_WAY: Final = (
    "the account's authentication method is not supported: give the user another"
    " (caching_sha2_password, mysql_native_password)"
)
_ADVICE: Final = {
    1129: "the server blocks this machine after too many errors: FLUSH HOSTS there",
    1130: "the server has no account for this machine's address",
    1227: "GRANT it to the user",
    1820: "log in with a client and give the account a new password",
    1862: "log in with a client and give the account a new password",
    3118: "the account is locked: ALTER USER … ACCOUNT UNLOCK",
    4151: "the account is locked: ALTER USER … ACCOUNT UNLOCK",
    3159: "the server accepts no connection without TLS: use ssl-mode=REQUIRED or stricter",
    1251: _NO_SUCH_WAY,
    2059: _NO_SUCH_WAY,
    2061: _NO_SUCH_WAY,
    2026: "ssl-mode sets what is required of TLS",
}
_LOGIN: Final = (
    "check the user, the password (TAILRACE_PASSWORD, ~/.my.cnf, MYSQL_PWD), whether the account"
    " may log in from here, and whether it requires TLS"
)

_COPY_AGAIN: Final = "the source purged what follows: copy the data again and begin after the copy"
_NOT_THAT_LOG: Final = (
    "the source's log is not the one that was read before: it was reset, restored or lost its end,"
    " or another server answers; find out which, then begin again from oldest"
)
TORN_FILE: Final = (
    "the source's file ends inside an event, which it was writing when it crashed or its disk was"
    " full; to leave that out and continue in the source's next file: --skip-torn-tail, or"
    " ?skip_torn_tail=1 in the URL"
)
_ONE_EACH: Final = (
    "another replica has it and took over: give each a server_id of its own, or leave it out for"
    " one that is free"
)
_TEXTS: Final[tuple[tuple[re.Pattern[str], type[ServerError], str], ...]] = tuple(
    (re.compile(pattern), kind, advice)
    for pattern, kind, advice in (
        (r"purged (required binary|binary logs containing GTIDs)", LogPurged, _COPY_AGAIN),
        (r"Could not find GTID state requested by \w+ in any binlog files", LogPurged, _COPY_AGAIN),
        (
            r"(has|have) more GTIDs than the (source|master) has",
            GtidsAhead,
            ("the source lost transactions that were read before, or another server answers: find"
            " out which, then copy the data again"),
        ),
        (
            r"requested to start from GTID .* which is not in the (master|source)'s binlog",
            GtidsAhead,
            ("the source never had it, or lost it: make sure that it is the right server, then copy"
            " the data again or begin after GTIDs that it has"),
        ),
        (
            r"binlog on the (master|source) is missing the GTID",
            GtidsAhead,
            "the source's log has a hole there: begin after a GTID that it has",
        ),
        (
            r"with the same server_(uuid/server_)?id",
            DuplicateServerId,
            _ONE_EACH,
        ),
        (
            r"AUTO_POSITION mode: this server has GTID_MODE",
            ServerError,
            "the source has no start by GTID: set gtid_mode=ON there, or begin by position",
        ),
        (
            r"can not handle replication events with the checksum",
            ServerError,
            (
                "the session has to announce before its dump that it supports checksums:"
                " SET @source_binlog_checksum = 'CRC32', @master_binlog_checksum = 'CRC32'"
            ),
        ),
        (
            r"Cannot replicate GTID-transaction when",
            ServerError,
            (
                "the source's log holds GTIDs, and its gtid_mode is OFF: set gtid_mode there to"
                " OFF_PERMISSIVE or higher"
            ),
        ),
        (
            r"Cannot replicate anonymous transaction when",
            ServerError,
            "the source's log holds transactions without GTIDs: begin by position",
        ),
        (
            r"Binary log is not open",
            ServerError,
            "the server writes no binary log: start it with log_bin",
        ),
    )
)  # fmt: skip
_NO_SUCH_START: Final = "begin where an event begins, or from oldest"
_STARTS: Final[tuple[tuple[re.Pattern[str], str, str], ...]] = tuple(
    (re.compile(pattern), first, resumed)
    for pattern, first, resumed in (
        (
            r"Could not find first log file name",
            ("the source has no log of that name (SHOW BINARY LOGS lists those that it has): the"
            " name is wrong, or the log was purged; begin with one that is there, or from oldest"),
            ("the source has no log of that name: it was purged, or the logs were reset, or another"
            " server answers; copy the data again, or begin from oldest"),
        ),
        (
            r"start replication from (position > file size|impossible position)",
            f"that log has no such position: {_NO_SUCH_START}",
            _NOT_THAT_LOG,
        ),
        (
            r"start replication from position < 4",
            "a log's events begin at 4",
            "a log's events begin at 4",
        ),
    )
)  # fmt: skip
"""What a source says of a start that it does not have, and the advice: where it is the first start
that is tried, and where the log was read up to there before.
"""
_LONGEST: Final = 1000
"""Characters of a server's text: real ones have 512 bytes, and `_TEXTS` takes quadratic time."""
_READ: Final = re.compile(
    r"the first event '(?P<file>[^']*)' at (?P<start>\d+),"
    r" the last event read from '(?P<last_file>[^']*)' at (?P<last>\d+),"
    r" the last byte read from '[^']*' at (?P<byte>\d+)"
)
_SHORTEST_FIRST: Final = 100
"""A log's first event ends after this offset."""
_VANISHED: Final = re.compile(r"could not find next log|I/O error reading log event")
_TORN: Final = re.compile(r"truncated in the middle of event")
_GARBAGE: Final = re.compile(
    rf"bogus data in log event|{_TORN.pattern}|exceeded max_allowed_packet"
)


def server_error(
    code: int,
    sqlstate: str | None,
    message: str,
    source_name: str,
    *,
    needs: str = "",
    asked: str = "",
    proved: bool = False,
    resumed: bool = False,
) -> TailraceError:
    """The Tailrace error for a server's error, to be raised.

    ``source_name`` is the source's name in errors. ``needs`` names the privileges that the request
    needs, for denials that do not name them. ``asked`` is the request, if the text has to name it.
    ``proved``: an event is known to begin at the requested position, so that bytes which are no
    event are damage. ``resumed``: the log was read up to the requested position before. Only
    ConnectionLost is worth a retry. The message has the first 1,000 characters of the server's
    text, the error's ``text`` all of it; None for a client's own errors.
    """
    code &= 0xFFFF  # PyMySQL reads it as signed
    said = None if code in _CLIENTS else message
    message = one_line(message, _LONGEST)
    text = f"{source_name}: {message}"
    if asked:
        text += f" (asked for {asked})"
    if code in _GONE:
        return ConnectionLost(f"{text} (error {code})", code=code, sqlstate=sqlstate, text=said)
    kind, advice = _meaning(code, message, needs, proved=proved, resumed=resumed)
    return kind(f"{text}: {advice}" if advice else text, code=code, sqlstate=sqlstate, text=said)


def _meaning(
    code: int, message: str, needs: str, *, proved: bool, resumed: bool
) -> tuple[type[ServerError], str]:
    if code in _DENIED:
        return AccessDenied, needs or _ADVICE.get(code, _LOGIN)
    if code in _TLS:
        return TlsError, _ADVICE[code]
    if code == _DUPLICATE:
        return DuplicateServerId, _ONE_EACH
    if code == FATAL:
        for pattern, first, again in _STARTS:
            if pattern.search(message):
                return (LogReset, again) if resumed else (ServerError, first)
        for pattern, kind, advice in _TEXTS:
            if pattern.search(message):
                return kind, advice
        if is_garbage(message):
            return _damage(message, proved=proved, resumed=resumed)
    return ServerError, _ADVICE.get(code, "")


def no_event_error(
    source_name: str,
    place: object,
    *,
    resumed: bool,
    why: str = "",
    answer: ErrorPacket | None = None,
) -> ServerError:
    """The error for a start at which no event begins; ``answer`` is what the source said, if it saw
    that. ``source_name`` and ``resumed`` are as for `server_error`.
    """
    kind, text = _no_event(f"{place}: {why}" if why else place, resumed=resumed)
    message = f"{source_name}: {text}"
    if answer is None:
        return kind(message)
    return kind(message, code=answer.code, sqlstate=answer.sqlstate, text=answer.message)


def _no_event(place: object, *, resumed: bool) -> tuple[type[ServerError], str]:
    kind, advice = (LogReset, _NOT_THAT_LOG) if resumed else (ServerError, _NO_SUCH_START)
    return kind, f"no event begins at {place}; {advice}"


def is_of_start(error: ServerError) -> bool:
    """Whether a source rejected the file or the position that was requested."""
    said = (error.text or "")[:_LONGEST]
    return error.code == FATAL and any(pattern.search(said) for pattern, _, _ in _STARTS)


def is_vanished(error: ServerError) -> bool:
    """Whether a source no longer finds the file that it was sending, or the one after it. In most
    cases it was reset, which another connection shows.
    """
    return error.code == FATAL and _VANISHED.search((error.text or "")[:_LONGEST]) is not None


def is_torn(message: str) -> bool:
    """Whether a source says that its file ends inside an event: it crashed while writing it."""
    return _TORN.search(message[:_LONGEST]) is not None


def is_garbage(message: str) -> bool:
    """Whether a source says that it found no event where it read."""
    return _GARBAGE.search(message[:_LONGEST]) is not None


def _damage(message: str, *, proved: bool, resumed: bool) -> tuple[type[ServerError], str]:
    """The error for bytes that are no event: if none was read before, and the start is not
    ``proved``, no event begins at the start.
    """
    read = None if proved else _READ.search(message)
    if read and read["file"] == read["last_file"].rpartition("/")[2]:
        start, last, byte = (int(read[name]) for name in ("start", "last", "byte"))
        none_read = start < _SHORTEST_FIRST or last <= start or byte <= start + HEADER_SIZE
        if none_read and start > len(MAGIC):
            place = f"{read['file']}:{start}"
            return _no_event(place, resumed=resumed)
    if is_torn(message):
        return ServerError, TORN_FILE
    return ServerError, (
        "the source's log is damaged there, or an event is past its max_allowed_packet"
    )
