"""XID, XA_PREPARE, LARGE_TRANSACTION_HEADER: ends of transactions, and a hint (facts sheet 2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Final, Self

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError
from tailrace.events.base import Event
from tailrace.events.fields import Cursor

if TYPE_CHECKING:
    from tailrace.events.context import DecodeContext

_U64: Final = Struct("<Q")
_LONGEST_XID_PART: Final = 64


@dataclass(frozen=True, slots=True)
class Xid:
    """An XA transaction's name: two parts of up to 64 bytes, and a format number."""

    format_id: int
    gtrid: bytes
    bqual: bytes

    def __str__(self) -> str:
        """As the server logs it: ``X'7831',X'62',1``."""
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"

    @classmethod
    def of(cls, format_id: int, gtrid_length: int, bqual_length: int, cursor: Cursor) -> Self:
        """The name whose parts' bytes come next. Raises EventDecodeError."""
        if max(gtrid_length, bqual_length) > _LONGEST_XID_PART:
            raise EventDecodeError(f"XA name parts of {gtrid_length} and {bqual_length} bytes")
        gtrid = cursor.take(gtrid_length, "the XA name")
        return cls(format_id, gtrid, cursor.take(bqual_length, "the XA name's branch"))


class XidEvent(Event, types=(EventType.XID,)):
    """XID (16): the transaction was committed. ``xid`` is the server's internal number."""

    __slots__ = ("xid",)

    FIELDS = ("xid",)

    xid: int

    def read_body(self, context: DecodeContext, /) -> None:
        """Layout: u64, in the writing machine's byte order."""
        at = context.extra_post_header(EventType.XID)
        if len(self.body) != at + _U64.size:
            raise EventDecodeError(f"{len(self.body)} bytes where {at + _U64.size} are the number")
        self.xid = _U64.unpack_from(self.body, at)[0]


class XaPrepareEvent(Event, types=(EventType.XA_PREPARE,)):
    """XA_PREPARE (38): ends the group of a prepared XA transaction; a later group commits it.

    With ``one_phase`` it was committed at once.
    """

    __slots__ = ("one_phase", "xid")

    FIELDS = ("xid", "one_phase")

    one_phase: bool
    xid: Xid

    def read_body(self, _context: DecodeContext, /) -> None:
        """Layout: one phase u8, format id i32, lengths of the parts u32, the parts."""
        cursor = Cursor(self.body)
        self.one_phase = bool(cursor.u8("the one phase mark"))
        format_id = cursor.i32("the format id")
        gtrid_length = cursor.u32("the XA name's length")
        bqual_length = cursor.u32("the branch's length")
        self.xid = Xid.of(format_id, gtrid_length, bqual_length, cursor)
        cursor.finish("XA_PREPARE")


class LargeTransactionHeaderEvent(Event, types=(EventType.LARGE_TRANSACTION_HEADER,)):
    """LARGE_TRANSACTION_HEADER (43): where a large transaction ends. A hint; always ignorable."""

    __slots__ = ("terminating_offset", "terminating_type", "version")

    FIELDS = ("version", "terminating_offset", "terminating_type")

    version: int
    terminating_offset: int
    terminating_type: int

    def read_body(self, _context: DecodeContext, /) -> None:
        """Layout: version u8, offset u64, type u8, padding."""
        cursor = Cursor(self.body)
        self.version = cursor.u8("the version")
        self.terminating_offset = cursor.u64("the terminating event's offset")
        self.terminating_type = cursor.u8("the terminating event's type")
