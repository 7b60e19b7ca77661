"""Events of a logged LOAD DATA: the file's blocks, then the statement (facts sheet 2.1)."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Final

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError
from tailrace.events.base import Event
from tailrace.events.fields import integer, member, statement
from tailrace.events.layout import FIXED_REST, U32, field, tail
from tailrace.events.query import QueryEvent

if TYPE_CHECKING:
    from tailrace.events.description import FormatDescription

_QUERY_FIXED: Final = 13
_LOAD_FIXED: Final = Struct("<IIIB")  # file id, name's start and end in the SQL, duplicates


class DuplicateHandling(IntEnum):
    """What LOAD DATA does with a row whose key exists."""

    ERROR = 0
    IGNORE = 1
    REPLACE = 2


class LoadBlockEvent(Event, types=(EventType.APPEND_BLOCK, EventType.BEGIN_LOAD_QUERY)):
    """BEGIN_LOAD_QUERY (17) and APPEND_BLOCK (9): a block of the loaded file."""

    file_id: int = field(U32, "the file id")
    fixed_rest: bytes = FIXED_REST
    data: bytes = tail()


class DeleteFileEvent(Event, types=(EventType.DELETE_FILE,)):
    """DELETE_FILE (11): the load failed; its blocks are void."""

    file_id: int = field(U32, "the file id")
    fixed_rest: bytes = FIXED_REST


class ExecuteLoadQueryEvent(QueryEvent, types=(EventType.EXECUTE_LOAD_QUERY,)):
    """EXECUTE_LOAD_QUERY (18): the LOAD DATA statement over the blocks of ``file_id``.

    ``name_start`` and ``name_end`` delimit ``'file' [REPLACE|IGNORE] INTO`` in the
    statement's bytes.
    """

    file_id: int = field()
    name_start: int = field()
    name_end: int = field()
    duplicates: DuplicateHandling = field(default=DuplicateHandling.ERROR)

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

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        size = len(statement(self.sql_bytes, "sql"))
        end = integer(self.name_end, "name_end", 0, size)
        start = integer(self.name_start, "name_start", 0, end)
        file_id = integer(self.file_id, "file_id", 0, 0xFFFFFFFF)
        duplicates = member(DuplicateHandling, self.duplicates, "duplicates")
        return self._written(_LOAD_FIXED.pack(file_id, start, end, duplicates))
