"""The extra header of V2 rows events: partitions, and NDB Cluster's (facts sheet 2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace.errors import EventDecodeError, EventEncodeError
from tailrace.events.build import Builder, binary

if TYPE_CHECKING:
    from tailrace.events.fields import Cursor

_NDB, _PARTITION = 0, 1
_MOST_BYTES: Final = 0xFFFF - 2
_MOST_NDB: Final = 0xFF - 2


@dataclass(frozen=True, slots=True)
class RowsExtra:
    """The extra header of a V2 rows event.

    ``partition_id`` is that of the rows; ``source_partition_id`` that of an update's before images,
    if it has one. ``ndb_format`` and ``ndb_info`` are NDB Cluster's. ``unknown`` holds all chunks
    from the first unknown one on.
    """

    partition_id: int | None = None
    source_partition_id: int | None = None
    ndb_format: int | None = None
    ndb_info: bytes | None = None
    unknown: bytes = b""


NO_EXTRA: Final = RowsExtra()


def read_extra(cursor: Cursor, *, update: bool) -> RowsExtra:
    """Read the chunks to the end. Raises EventDecodeError."""
    ndb_format = ndb_info = partition = source_partition = None
    unknown = b""
    while cursor.remaining:
        at = cursor.pos
        tag = cursor.u8("a chunk's tag")
        if tag == _NDB:
            size = cursor.u8("the NDB chunk's length")
            if size < 2:
                raise EventDecodeError(f"an NDB chunk of {size} bytes")
            ndb_format = cursor.u8("the NDB chunk's format")
            ndb_info = cursor.take(size - 2, "the NDB chunk")
        elif tag == _PARTITION:
            partition = cursor.u16("the partition")
            if update:
                source_partition = cursor.u16("the source partition")
        else:  # the format allows a reader to skip the rest of the header
            unknown = cursor.buf[at : cursor.end]
            break
    return RowsExtra(partition, source_partition, ndb_format, ndb_info, unknown)


def write_extra(extra: RowsExtra, *, update: bool) -> bytes:
    """The chunks: NDB's, the partition's, the unknown ones. Raises EventEncodeError."""
    out = Builder()
    if (extra.ndb_format is None) != (extra.ndb_info is None):
        raise EventEncodeError("extra: ndb_format and ndb_info must be given together")
    if extra.ndb_format is not None and extra.ndb_info is not None:
        info = binary(extra.ndb_info, "extra.ndb_info", _MOST_NDB)
        out.u8(_NDB, "extra")
        out.u8(len(info) + 2, "extra.ndb_info")
        out.u8(extra.ndb_format, "extra.ndb_format")
        out.raw(info, "extra.ndb_info")
    update_of_partition = update and extra.partition_id is not None
    if (extra.source_partition_id is not None) != update_of_partition:
        raise EventEncodeError("extra: source_partition_id needs partition_id, and an update")
    if extra.partition_id is not None:
        out.u8(_PARTITION, "extra")
        out.u16(extra.partition_id, "extra.partition_id")
    if extra.source_partition_id is not None:
        out.u16(extra.source_partition_id, "extra.source_partition_id")
    out.raw(extra.unknown, "extra.unknown")
    if len(out) > _MOST_BYTES:
        raise EventEncodeError(f"extra: {len(out)} bytes, the format holds {_MOST_BYTES}")
    return out.done()
