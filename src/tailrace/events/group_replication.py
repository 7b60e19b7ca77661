"""Group replication's own events: TRANSACTION_CONTEXT, VIEW_CHANGE (facts sheet 2.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError, GtidError
from tailrace.events.base import Event, lazy
from tailrace.events.fields import Cursor, text
from tailrace.gtid import GtidSet

if TYPE_CHECKING:
    from tailrace.events.context import DecodeContext


class TransactionContextEvent(Event, types=(EventType.TRANSACTION_CONTEXT,)):
    """TRANSACTION_CONTEXT (36): what certification compares; sent within the group only.

    ``snapshot`` is the encoded GTID set that the transaction saw; ``write_set`` and ``read_set``
    hold hashes of rows.
    """

    __slots__ = ("gtid_specified", "read_set", "server_uuid", "snapshot", "thread_id", "write_set")

    FIELDS = ("server_uuid", "thread_id", "gtid_specified", "write_set", "read_set")

    server_uuid: str
    thread_id: int
    gtid_specified: bool
    snapshot: bytes
    write_set: tuple[bytes, ...]
    read_set: tuple[bytes, ...]

    def read_body(self, _context: DecodeContext, /) -> None:
        """Layout: fixed part of 18 bytes, UUID's text, GTID set, the two sets of hashes."""
        cursor = Cursor(self.body)
        uuid_length = cursor.u8("the UUID's length")
        self.thread_id = cursor.u32("the thread id")
        self.gtid_specified = bool(cursor.u8("the GTID mark"))
        snapshot_length = cursor.u32("the snapshot's length")
        writes = cursor.u32("the number of written hashes")
        reads = cursor.u32("the number of read hashes")
        self.server_uuid = text(cursor.take(uuid_length, "the UUID"), "the UUID")
        self.snapshot = cursor.take(snapshot_length, "the snapshot")
        self.write_set = _hashes(cursor, writes)
        self.read_set = _hashes(cursor, reads)
        cursor.finish("TRANSACTION_CONTEXT")

    @lazy
    def snapshot_gtids(self) -> GtidSet:
        """The GTID set that the transaction saw."""
        try:
            return GtidSet.decode(self.snapshot)
        except GtidError as error:
            raise EventDecodeError(str(error)) from None


def _hashes(cursor: Cursor, count: int) -> tuple[bytes, ...]:
    if count * 2 > cursor.remaining:
        raise EventDecodeError(f"{count} hashes in {cursor.remaining} bytes")
    return tuple(cursor.take(cursor.u16("a hash's length"), "a hash") for _ in range(count))


class ViewChangeEvent(Event, types=(EventType.VIEW_CHANGE,)):
    """VIEW_CHANGE (37): the group's members changed. ``certification`` is its database, raw."""

    __slots__ = ("sequence_number", "view_id")

    FIELDS = ("view_id", "sequence_number")

    view_id: str
    sequence_number: int

    def read_body(self, _context: DecodeContext, /) -> None:
        """Layout: view id 40 bytes, sequence number u64, count u32, keys and values."""
        cursor = Cursor(self.body)
        raw = cursor.take(40, "the view id")
        self.view_id = text(raw.split(b"\0", 1)[0], "the view id")
        self.sequence_number = cursor.u64("the sequence number")
        cursor.u32("the number of certified entries")

    @lazy
    def certification(self) -> dict[bytes, bytes]:
        """The certification database: hash of a row to encoded GTID set."""
        cursor = Cursor(self.body, 48)
        entries: dict[bytes, bytes] = {}
        for _ in range(cursor.u32("the number of certified entries")):
            key = cursor.take(cursor.u16("a key's length"), "a key")
            entries[key] = cursor.take(cursor.u32("a value's length"), "a value")
        cursor.finish("VIEW_CHANGE")
        return entries
