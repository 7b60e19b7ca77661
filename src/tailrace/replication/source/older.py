"""Events in a form that clients know which do not know MariaDB's GTIDs (before 10.0).

They say what they know by ``@mariadb_slave_capability``. An event that they do not know is left out
for those that tolerate holes between positions. Others get a QUERY event of the same length in its
place: a comment, or BEGIN for the GTID event that begins a transaction.

Source: MariaDB ``sql/log_event_server.cc``, ``Query_log_event::dummy_event`` and ``begin_event``.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

from tailrace.constants import (
    CHECKSUM_SIZE,
    FLAGS_AT,
    HEADER_SIZE,
    TYPE_AT,
    ChecksumAlgorithm,
    EventFlag,
    EventType,
)
from tailrace.events.mariadb import MariadbGtidFlag

ANNOTATE, TOLERATES_HOLES, CHECKPOINT, GTID = range(1, 5)
"""Values of ``@mariadb_slave_capability``: each includes those before it."""
_NEEDS: Final = {
    EventType.BINLOG_CHECKPOINT: CHECKPOINT,
    EventType.GTID_LIST: GTID,
    EventType.MARIADB_GTID: GTID,
}
_FLAGS_OF_GTID: Final = HEADER_SIZE + 12
_HEAD: Final = 13
"""Bytes before a QUERY event's status variables."""
_EMPTY_TIME_ZONE: Final = b"\x05\x00"
_UNKNOWN: Final = b"\xff"
"""A status variable that nobody knows: what follows it is not read."""
_COMMENT: Final = b"# Dummy event replacing event type %d that slave cannot handle."
_BEGIN: Final = b"BEGIN"
_VARIABLE: Final = b"!dummyvar"


def known(
    event: memoryview, capability: int, *, annotated: bool, checksum: ChecksumAlgorithm
) -> memoryview | bytes | None:
    """The event as a client of this capability gets it; None if it is left out.

    ``annotated``: the client asked for ANNOTATE_ROWS events.
    """
    kind = event[TYPE_AT]
    if kind == EventType.ANNOTATE_ROWS:
        if annotated or capability == ANNOTATE:
            return event
    elif kind not in _NEEDS or capability >= _NEEDS[EventType(kind)]:
        return event
    elif kind == EventType.MARIADB_GTID and not event[_FLAGS_OF_GTID] & MariadbGtidFlag.STANDALONE:
        return _query(event, checksum, begins=True)
    return None if capability >= TOLERATES_HOLES else _query(event, checksum, begins=False)


def _query(event: memoryview, checksum: ChecksumAlgorithm, *, begins: bool) -> bytes:
    """A QUERY event with the same length, position, time and server.

    An event that is too short for one becomes a USER_VAR event, of a variable that is NULL.
    """
    raw = bytearray(event[:HEADER_SIZE])
    flags = int.from_bytes(raw[FLAGS_AT:HEADER_SIZE], "little")
    flags = flags & ~EventFlag.THREAD_SPECIFIC | EventFlag.SUPPRESS_USE
    raw[FLAGS_AT:HEADER_SIZE] = flags.to_bytes(2, "little")
    raw[TYPE_AT] = EventType.QUERY
    room = len(event) - checksum.size - HEADER_SIZE - _HEAD - 1
    if room < 0 or (not begins and not room):
        raw[TYPE_AT] = EventType.USER_VAR
        size = room + _HEAD + 1 - 5
        raw += size.to_bytes(4, "little") + _VARIABLE[:size] + b"\1"
        return _with(raw, checksum)
    if begins:
        extra = room - len(_BEGIN)
        short = extra == len(_EMPTY_TIME_ZONE)  # MariaDB 11.8 has longer ones only
        variables = _EMPTY_TIME_ZONE if short else _UNKNOWN * extra
        text = _BEGIN
    else:
        variables = b""
        text = (_COMMENT % event[TYPE_AT])[:room].ljust(room)
    raw += bytes(_HEAD - 2) + len(variables).to_bytes(2, "little") + variables + b"\0" + text
    return _with(raw, checksum)


def _with(raw: bytearray, checksum: ChecksumAlgorithm) -> bytes:
    return bytes(raw + crc32(raw).to_bytes(CHECKSUM_SIZE, "little") if checksum else raw)
