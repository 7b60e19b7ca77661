"""HEARTBEAT and HEARTBEAT_V2: the source is alive (facts sheet 2.1). Only on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.constants import EventType, Flavour
from tailrace.errors import EventEncodeError
from tailrace.events.base import Event
from tailrace.events.fields import Builder, Cursor, integer, text, utf8
from tailrace.events.layout import (
    field,
    tagged_fields,
    write_tagged_field,
    write_unknown_fields,
)

if TYPE_CHECKING:
    from tailrace.events.description import FormatDescription
    from tailrace.events.header import EventHeader

_OFFSET_SIZE: Final = 8
_FILE, _POSITION = 1, 2


class HeartbeatEvent(Event, types=(EventType.HEARTBEAT, EventType.HEARTBEAT_V2)):
    """HEARTBEAT (27) and HEARTBEAT_V2 (41): the source is alive, and at this position.

    ``log_offset`` is in bytes. For type 27, it is the header's ``log_pos``, except that MariaDB
    writes it into the body past 4 GiB. ``unknown_fields`` of type 41 are those that a newer server
    added: type and bytes of each.
    """

    OWN_LOG_POS = True

    log_file: str = field()
    log_offset: int = field()
    unknown_fields: tuple[tuple[int, bytes], ...] = field(default=(), shown=False)

    def read_body(self, form: FormatDescription, /) -> None:
        """27: the file name, the offset is the header's; 41: fields, each after type and length."""
        self.unknown_fields = ()
        if self.header.type == EventType.HEARTBEAT_V2:
            self._read_fields(Cursor(self.body))
            return
        self.log_offset = self.header.log_pos
        cursor = Cursor(self.body)
        if (
            self.header.log_pos == 0
            and form.flavour is Flavour.MARIADB
            and len(self.body) > _OFFSET_SIZE
        ):
            self.log_offset = cursor.u64("the offset")  # MariaDB past 4 GiB
        self.log_file = text(cursor.rest(), "the file name")

    def _read_fields(self, cursor: Cursor) -> None:
        self.log_file, self.log_offset = "", 0
        for kind, value in tagged_fields(cursor):
            if kind == _FILE:
                self.log_file = text(value, "the file name")
            elif kind == _POSITION:
                self.log_offset = Cursor(value).lenenc("the position")
            else:
                self.unknown_fields += ((kind, value),)
        cursor.finish("HEARTBEAT_V2")

    def write_body(self, form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`; type 27 has the offset in ``log_pos``, see `finished`."""
        name = utf8(self.log_file, "log_file", 511)
        out = Builder()
        if self.header.type == EventType.HEARTBEAT_V2:
            self._write_fields(out, name)
            return out.done()
        if self.unknown_fields:
            raise EventEncodeError("unknown_fields: only HEARTBEAT_V2 has these")
        mariadb = form.flavour is Flavour.MARIADB
        offset = integer(self.log_offset, "log_offset", 0, (1 << 64 if mariadb else 1 << 32) - 1)
        if offset >> 32 or (mariadb and not offset and len(name) > _OFFSET_SIZE):
            out.u64(offset, "log_offset")
        out.raw(name, "log_file")
        return out.done()

    def _write_fields(self, out: Builder, name: bytes) -> None:
        if name:
            write_tagged_field(out, _FILE, name, "log_file")
        if integer(self.log_offset, "log_offset", 0, (1 << 64) - 1):
            value = Builder()
            value.lenenc(self.log_offset, "log_offset")
            write_tagged_field(out, _POSITION, value.done(), "log_offset")
        write_unknown_fields(out, self.unknown_fields, range(3))

    def finished(self, header: EventHeader, /) -> EventHeader:
        """The header; for type 27, with the source's position in it."""
        if header.type == EventType.HEARTBEAT_V2:
            return header
        return header.resized(header.length, 0 if self.log_offset >> 32 else self.log_offset)
