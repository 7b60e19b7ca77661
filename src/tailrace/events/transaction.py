"""XID, XA_PREPARE, LARGE_TRANSACTION_HEADER: ends of transactions, and a hint (facts sheet 2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError
from tailrace.events.base import REQUIRED, Event
from tailrace.events.build import Builder, binary, made
from tailrace.events.fields import Cursor
from tailrace.events.fixed_part import FixedPartEvent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.events.description import FormatDescription

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

    def write(self, out: Builder, size: int, what: str) -> None:
        """Write the name, the lengths of its parts in ``size`` bytes. Raises EventEncodeError."""
        gtrid = binary(self.gtrid, f"{what}.gtrid", _LONGEST_XID_PART)
        bqual = binary(self.bqual, f"{what}.bqual", _LONGEST_XID_PART)
        out.i32(self.format_id, f"{what}.format_id")
        out.unsigned(len(gtrid), size, what)
        out.unsigned(len(bqual), size, what)
        out.raw(gtrid + bqual, what)


class XidEvent(FixedPartEvent, types=(EventType.XID,)):
    """XID (16): the transaction was committed. ``xid`` is the server's internal number."""

    __slots__ = ("xid",)

    FIELDS = ("xid",)
    MADE_OF: ClassVar[Mapping[str, Any]] = {**FixedPartEvent.MADE_OF, "xid": REQUIRED}

    xid: int

    def read_body(self, form: FormatDescription, /) -> None:
        """Layout: u64, in the writing machine's byte order."""
        body = self.body
        self.fixed_rest = b""
        if form.differs:
            cursor = Cursor(body)
            self._read_rest(cursor, form)
            body = cursor.rest()
        if len(body) != 8:
            raise EventDecodeError(f"{len(body)} bytes instead of 8 for the number")
        self.xid = int.from_bytes(body, "little")

    def write_body(self, form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`; the number is written little-endian."""
        out = Builder()
        self._write_rest(out, form)
        out.u64(self.xid, "xid")
        return out.done()


class XaPrepareEvent(Event, types=(EventType.XA_PREPARE,)):
    """XA_PREPARE (38): ends the group of a prepared XA transaction; a later group commits it.

    With ``one_phase`` it was committed at once.
    """

    __slots__ = ("one_phase", "xid")

    FIELDS = ("xid", "one_phase")
    MADE_OF: ClassVar[Mapping[str, Any]] = {"xid": REQUIRED, "one_phase": False}

    one_phase: bool
    xid: Xid

    def read_body(self, _form: FormatDescription, /) -> None:
        """Layout: one phase u8, format id i32, lengths of the parts u32, the parts."""
        cursor = Cursor(self.body)
        self.one_phase = bool(cursor.u8("the one phase mark"))
        format_id = cursor.i32("the format id")
        gtrid_length = cursor.u32("the XA name's length")
        bqual_length = cursor.u32("the branch's length")
        self.xid = Xid.of(format_id, gtrid_length, bqual_length, cursor)
        cursor.finish("XA_PREPARE")

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        out = Builder()
        out.u8(made(self.one_phase, bool, "one_phase"), "one_phase")
        made(self.xid, Xid, "xid").write(out, 4, "xid")
        return out.done()


class LargeTransactionHeaderEvent(Event, types=(EventType.LARGE_TRANSACTION_HEADER,)):
    """LARGE_TRANSACTION_HEADER (43): where a large transaction ends. A hint; always ignorable.

    ``padding`` is the rest, which reserves room.
    """

    __slots__ = ("padding", "terminating_offset", "terminating_type", "version")

    FIELDS = ("version", "terminating_offset", "terminating_type")
    MADE_OF: ClassVar[Mapping[str, Any]] = {
        "terminating_offset": REQUIRED,
        "terminating_type": REQUIRED,
        "version": 1,
        "padding": b"",
    }

    version: int
    terminating_offset: int
    terminating_type: int
    padding: bytes

    def read_body(self, _form: FormatDescription, /) -> None:
        """Layout: version u8, offset u64, type u8, padding."""
        cursor = Cursor(self.body)
        self.version = cursor.u8("the version")
        self.terminating_offset = cursor.u64("the terminating event's offset")
        self.terminating_type = cursor.u8("the terminating event's type")
        self.padding = cursor.rest()

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        out = Builder()
        out.u8(self.version, "version")
        out.u64(self.terminating_offset, "terminating_offset")
        out.u8(self.terminating_type, "terminating_type")
        out.raw(self.padding, "padding")
        return out.done()
