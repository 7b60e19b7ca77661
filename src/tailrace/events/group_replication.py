"""Group replication's own events: TRANSACTION_CONTEXT, VIEW_CHANGE (facts sheet 2.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError, EventEncodeError, GtidError
from tailrace.events.base import Event, lazy
from tailrace.events.fields import Builder, Cursor, binary, made, name, parts, text, utf8
from tailrace.events.layout import U16, U32, Prefixed, Repeated, TupleOf, field
from tailrace.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.events.description import FormatDescription

_VIEW_ID_SIZE: Final = 40
_HASH: Final = Prefixed(U16, "a hash's length")
_ENTRIES: Final = Repeated(
    U32,
    "the number of certified entries",
    TupleOf(
        (
            (Prefixed(U16, "a key's length"), "a key"),
            (Prefixed(U32, "a value's length"), "a value"),
        )
    ),
)


class TransactionContextEvent(Event, types=(EventType.TRANSACTION_CONTEXT,)):
    """TRANSACTION_CONTEXT (36): the data that certification compares; sent only within the group.

    ``snapshot`` is the encoded GTID set that the transaction saw; ``write_set`` and ``read_set``
    hold hashes of rows.
    """

    FIELDS = ("server_uuid", "thread_id", "gtid_specified", "write_set", "read_set")

    server_uuid: str = field()
    thread_id: int = field(default=0)
    gtid_specified: bool = field(default=False)
    snapshot: bytes = field()
    write_set: tuple[bytes, ...] = field(default=())
    read_set: tuple[bytes, ...] = field(default=())

    def read_body(self, _form: FormatDescription, /) -> None:
        """Layout: fixed part of 18 bytes, text of the UUID, GTID set, the two sets of hashes."""
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

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        uuid = utf8(self.server_uuid, "server_uuid", 0xFF)
        snapshot = binary(self.snapshot, "snapshot")
        try:
            GtidSet.decode(snapshot)
        except GtidError as error:
            raise EventEncodeError(f"snapshot: {error}") from None
        out = Builder()
        out.u8(len(uuid), "server_uuid")
        out.u32(self.thread_id, "thread_id")
        out.u8(made(self.gtid_specified, bool, "gtid_specified"), "gtid_specified")
        out.u32(len(snapshot), "snapshot")
        for hashes in ("write_set", "read_set"):
            out.u32(len(parts(getattr(self, hashes), None, hashes)), hashes)
        out.raw(uuid + snapshot, "snapshot")
        for hashes in ("write_set", "read_set"):
            for each in getattr(self, hashes):
                _HASH.write(out, each, hashes)
        return out.done()

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
    return tuple(_HASH.read(cursor, "a hash") for _ in range(count))


class ViewChangeEvent(Event, types=(EventType.VIEW_CHANGE,)):
    """VIEW_CHANGE (37): the group's members changed; ``certification`` is its raw database."""

    MADE_OF: ClassVar[Mapping[str, Any]] = {"certification": {}}

    view_id: str = field()
    sequence_number: int = field()

    def read_body(self, _form: FormatDescription, /) -> None:
        """Layout: view id 40 bytes, sequence number u64, count u32, keys and values."""
        cursor = Cursor(self.body)
        raw = cursor.take(_VIEW_ID_SIZE, "the view id")
        self.view_id = text(raw.split(b"\0", 1)[0], "the view id")
        self.sequence_number = cursor.u64("the sequence number")
        cursor.u32("the number of certified entries")

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        out = Builder()
        out.raw(name(self.view_id, "view_id", _VIEW_ID_SIZE).ljust(_VIEW_ID_SIZE, b"\0"), "view_id")
        out.u64(self.sequence_number, "sequence_number")
        entries = made(self.certification, dict, "certification")
        _ENTRIES.write(out, tuple(entries.items()), "certification")
        return out.done()

    @lazy
    def certification(self) -> dict[bytes, bytes]:
        """The certification database: from a row's hash to an encoded GTID set."""
        cursor = Cursor(self.body, 48)
        entries = _ENTRIES.read(cursor, "a certified entry")
        cursor.finish("VIEW_CHANGE")
        return dict(entries)
