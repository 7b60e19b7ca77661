"""Events of a logged LOAD DATA: the file's blocks, then the statement (facts sheet 2.1)."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError
from tailrace.events.base import REQUIRED
from tailrace.events.build import Builder, integer, member, statement
from tailrace.events.fields import Cursor
from tailrace.events.fixed_part import FixedPartEvent
from tailrace.events.query import QueryEvent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.events.description import FormatDescription

_QUERY_FIXED: Final = 13
_LOAD_FIXED: Final = Struct("<IIIB")  # file id, name's start and end in the SQL, duplicates


class DuplicateHandling(IntEnum):
    """What LOAD DATA does with a row whose key exists."""

    ERROR = 0
    IGNORE = 1
    REPLACE = 2


class LoadBlockEvent(FixedPartEvent, types=(EventType.APPEND_BLOCK, EventType.BEGIN_LOAD_QUERY)):
    """BEGIN_LOAD_QUERY (17) and APPEND_BLOCK (9): a block of the loaded file."""

    __slots__ = ("file_id",)

    FIELDS = ("file_id", "data")
    MADE_OF: ClassVar[Mapping[str, Any]] = {
        **FixedPartEvent.MADE_OF,
        "file_id": REQUIRED,
        "data": REQUIRED,
    }

    file_id: int

    def read_body(self, form: FormatDescription, /) -> None:
        """Layout: file id u32, data to the end."""
        cursor = Cursor(self.body)
        self.file_id = cursor.u32("the file id")
        self._read_rest(cursor, form)

    def write_body(self, form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        out = Builder()
        out.u32(self.file_id, "file_id")
        self._write_rest(out, form)
        out.raw(self.data, "data")
        return out.done()

    @property
    def data(self) -> bytes:
        """The block."""
        return self.body[4 + len(self.fixed_rest) :]


class DeleteFileEvent(FixedPartEvent, types=(EventType.DELETE_FILE,)):
    """DELETE_FILE (11): the load failed; its blocks are void."""

    __slots__ = ("file_id",)

    FIELDS = ("file_id",)
    MADE_OF: ClassVar[Mapping[str, Any]] = {**FixedPartEvent.MADE_OF, "file_id": REQUIRED}

    file_id: int

    def read_body(self, form: FormatDescription, /) -> None:
        """Layout: file id u32."""
        cursor = Cursor(self.body)
        self.file_id = cursor.u32("the file id")
        self._read_rest(cursor, form)
        cursor.finish("DELETE_FILE")

    def write_body(self, form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        out = Builder()
        out.u32(self.file_id, "file_id")
        self._write_rest(out, form)
        return out.done()


class ExecuteLoadQueryEvent(QueryEvent, types=(EventType.EXECUTE_LOAD_QUERY,)):
    """EXECUTE_LOAD_QUERY (18): the LOAD DATA statement over the blocks of ``file_id``.

    ``name_start`` and ``name_end`` delimit ``'file' [REPLACE|IGNORE] INTO`` in the statement's
    bytes.
    """

    __slots__ = ("duplicates", "file_id", "name_end", "name_start")

    FIELDS = (*QueryEvent.FIELDS, "file_id", "name_start", "name_end", "duplicates")
    MADE_OF: ClassVar[Mapping[str, Any]] = {
        **QueryEvent.MADE_OF,
        "file_id": REQUIRED,
        "name_start": REQUIRED,
        "name_end": REQUIRED,
        "duplicates": DuplicateHandling.ERROR,
    }

    file_id: int
    name_start: int
    name_end: int
    duplicates: DuplicateHandling

    def read_body(self, form: FormatDescription, /) -> None:
        """Layout: QUERY's fixed part, then file id, name's bounds, duplicates; then as QUERY."""
        self._read_from(_QUERY_FIXED + _LOAD_FIXED.size, form)
        self.file_id, self.name_start, self.name_end, duplicates = _LOAD_FIXED.unpack_from(
            self.body, _QUERY_FIXED
        )
        if duplicates > DuplicateHandling.REPLACE:
            raise EventDecodeError(f"duplicate handling {duplicates} is not known")
        self.duplicates = DuplicateHandling(duplicates)
        if not self.name_start <= self.name_end <= len(self.sql_bytes):
            raise EventDecodeError("the file name's bounds are outside the statement")

    def write_body(self, form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        size = len(statement(self.sql_bytes, "sql"))
        end = integer(self.name_end, "name_end", 0, size)
        start = integer(self.name_start, "name_start", 0, end)
        file_id = integer(self.file_id, "file_id", 0, 0xFFFFFFFF)
        duplicates = member(DuplicateHandling, self.duplicates, "duplicates")
        out = Builder()
        self._write_into(out, form, _LOAD_FIXED.pack(file_id, start, end, duplicates))
        return out.done()
