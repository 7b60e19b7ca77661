"""Types in MySQL's binary JSON, as integers for kernels (`tailrace.constants.JsonType`), and the
column types that one of its opaque values may have.
"""

from __future__ import annotations

from typing import Final

from tailrace.constants import ColumnType, JsonType

OBJECT: Final = int(JsonType.OBJECT)
LARGE_OBJECT: Final = int(JsonType.LARGE_OBJECT)
ARRAY: Final = int(JsonType.ARRAY)
LARGE_ARRAY: Final = int(JsonType.LARGE_ARRAY)
LITERAL: Final = int(JsonType.LITERAL)
INT16: Final = int(JsonType.INT16)
UINT16: Final = int(JsonType.UINT16)
INT32: Final = int(JsonType.INT32)
UINT32: Final = int(JsonType.UINT32)
INT64: Final = int(JsonType.INT64)
UINT64: Final = int(JsonType.UINT64)
DOUBLE: Final = int(JsonType.DOUBLE)
STRING: Final = int(JsonType.STRING)
OPAQUE: Final = int(JsonType.OPAQUE)

TIMESTAMP: Final = int(ColumnType.TIMESTAMP)
DATE: Final = int(ColumnType.DATE)
TIME: Final = int(ColumnType.TIME)
DATETIME: Final = int(ColumnType.DATETIME)
NEWDECIMAL: Final = int(ColumnType.NEWDECIMAL)
VAR_STRING: Final = int(ColumnType.VAR_STRING)
