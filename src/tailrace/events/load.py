"""Events of a logged LOAD DATA: the file's blocks, then the statement (facts sheet 2.1)."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Final

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError
from tailrace.events.base import Event
from tailrace.events.fields import Cursor
from tailrace.events.query import QueryEvent

if TYPE_CHECKING:
    from tailrace.events.context import DecodeContext

_QUERY_FIXED: Final = 13
_LOAD_FIXED: Final = Struct("<IIIB")  # file id, name's start and end in the SQL, duplicates


class DuplicateHandling(IntEnum):
    """What LOAD DATA does with a row whose key exists."""

    ERROR = 0
    IGNORE = 1
    REPLACE = 2


class LoadBlockEvent(Event, types=(EventType.APPEND_BLOCK, EventType.BEGIN_LOAD_QUERY)):
    """BEGIN_LOAD_QUERY (17) and APPEND_BLOCK (9): a block of the loaded file."""

    __slots__ = ("file_id",)

    FIELDS = ("file_id", "data")

    file_id: int

    def read_body(self, context: DecodeContext, /) -> None:
        """Layout: file id u32, data to the end."""
        cursor = Cursor(self.body)
        self.file_id = cursor.u32("the file id")
        cursor.skip(context.extra_post_header(self.header.type), "the post-header")

    @property
    def data(self) -> bytes:
        """The block."""
        return self.body[4:]


class DeleteFileEvent(Event, types=(EventType.DELETE_FILE,)):
    """DELETE_FILE (11): the load failed; its blocks are void."""

    __slots__ = ("file_id",)

    FIELDS = ("file_id",)

    file_id: int

    def read_body(self, context: DecodeContext, /) -> None:
        """Layout: file id u32."""
        cursor = Cursor(self.body)
        self.file_id = cursor.u32("the file id")
        cursor.skip(context.extra_post_header(EventType.DELETE_FILE), "the post-header")
        cursor.finish("DELETE_FILE")


class ExecuteLoadQueryEvent(QueryEvent, types=(EventType.EXECUTE_LOAD_QUERY,)):
    """EXECUTE_LOAD_QUERY (18): the LOAD DATA statement over the blocks of ``file_id``.

    ``name_start`` and ``name_end`` bound ``'file' [REPLACE|IGNORE] INTO`` in the statement's bytes.
    """

    __slots__ = ("duplicates", "file_id", "name_end", "name_start")

    FIELDS = (*QueryEvent.FIELDS, "file_id", "name_start", "name_end", "duplicates")

    file_id: int
    name_start: int
    name_end: int
    duplicates: DuplicateHandling

    def read_body(self, context: DecodeContext, /) -> None:
        """Layout: QUERY's fixed part, then file id, name's bounds, duplicates; then as QUERY."""
        status_at = _QUERY_FIXED + _LOAD_FIXED.size
        self._read_from(status_at + context.extra_post_header(EventType.EXECUTE_LOAD_QUERY))
        self.file_id, self.name_start, self.name_end, duplicates = _LOAD_FIXED.unpack_from(
            self.body, _QUERY_FIXED
        )
        if duplicates > DuplicateHandling.REPLACE:
            raise EventDecodeError(f"duplicate handling {duplicates} is not known")
        self.duplicates = DuplicateHandling(duplicates)
        if not self.name_start <= self.name_end <= len(self.sql_bytes):
            raise EventDecodeError("the file name's bounds lie outside the statement")
