"""XID, XA_PREPARE, LARGE_TRANSACTION_HEADER: ends of transactions, and a hint (facts sheet 2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError
from tailrace.events.base import Event
from tailrace.events.fields import binary, made
from tailrace.events.layout import BOOLEAN, FIXED_REST, REST, U8, U64, field

if TYPE_CHECKING:
    from tailrace.events.fields import Builder, Cursor

_LONGEST_XID_PART: Final = 64
XID_SIZE: Final = 8
"""Bytes of an XID event's number, which are its last."""


@dataclass(frozen=True, slots=True)
class XaName:
    """An XA transaction's name: two parts of up to 64 bytes, and a format number."""

    format_id: int
    gtrid: bytes
    bqual: bytes

    def __str__(self) -> str:
        """As the server logs it: ``X'7831',X'62',1``."""
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"


@dataclass(frozen=True, slots=True)
class XaNameCodec:
    """An XA transaction's name: format, lengths of its parts in ``size`` bytes, the parts."""

    size: int

    def read(self, cursor: Cursor, _what: str) -> XaName:
        """The name. Raises EventDecodeError."""
        format_id = cursor.i32("the format id")
        gtrid_length = cursor.unsigned(self.size, "the XA name's length")
        bqual_length = cursor.unsigned(self.size, "the branch's length")
        if max(gtrid_length, bqual_length) > _LONGEST_XID_PART:
            raise EventDecodeError(f"XA name parts of {gtrid_length} and {bqual_length} bytes")
        gtrid = cursor.take(gtrid_length, "the XA name")
        return XaName(format_id, gtrid, cursor.take(bqual_length, "the XA name's branch"))

    def write(self, out: Builder, value: XaName, what: str) -> None:
        """Append the name. Raises EventEncodeError."""
        xid = made(value, XaName, what)
        gtrid = binary(xid.gtrid, f"{what}.gtrid", _LONGEST_XID_PART)
        bqual = binary(xid.bqual, f"{what}.bqual", _LONGEST_XID_PART)
        out.i32(xid.format_id, f"{what}.format_id")
        out.unsigned(len(gtrid), self.size, what)
        out.unsigned(len(bqual), self.size, what)
        out.data += gtrid + bqual


class _Number:
    """XID's number, which is all of its body."""

    def read(self, cursor: Cursor, what: str) -> int:
        raw = cursor.rest()
        if len(raw) != XID_SIZE:
            raise EventDecodeError(f"{len(raw)} bytes instead of {XID_SIZE} for {what}")
        return int.from_bytes(raw, "little")

    def write(self, out: Builder, value: int, what: str) -> None:
        out.u64(value, what)


class XidEvent(Event, types=(EventType.XID,)):
    """XID (16): the transaction was committed. ``xid`` is the server's internal number.

    It is stored in the writing machine's byte order, and read and written as little-endian.
    """

    fixed_rest: bytes = FIXED_REST
    xid: int = field(_Number(), "the number")


class XaPrepareEvent(Event, types=(EventType.XA_PREPARE,)):
    """XA_PREPARE (38): ends the group of a prepared XA transaction; a later group commits it.

    With ``one_phase`` it was committed at once.
    """

    FIELDS = ("xid", "one_phase")

    one_phase: bool = field(BOOLEAN, "the one phase mark", default=False)
    xid: XaName = field(XaNameCodec(4), "the XA name")


class LargeTransactionHeaderEvent(Event, types=(EventType.LARGE_TRANSACTION_HEADER,)):
    """LARGE_TRANSACTION_HEADER (43): where a large transaction ends. A hint; always ignorable.

    ``padding`` is the rest, which reserves room.
    """

    version: int = field(U8, "the version", default=1)
    terminating_offset: int = field(U64, "the terminating event's offset")
    terminating_type: int = field(U8, "the terminating event's type")
    padding: bytes = field(REST, "the padding", default=b"", shown=False)
