"""The law of the row codecs: what a server wrote, loaded and dumped again, is the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.constants import ColumnType
from tailrace.values.jsonb import TEXT, read_jsonb
from tailrace.values.registry import dumper_of, loader_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.values.family import Dumper, Loader
    from tailrace.values.image import Image
    from tailrace.values.schema import Column, TableSchema


class _HasOpaque:
    """Finds out whether a document has a value that its text does not tell."""

    def leaf(self, text: str) -> bool:
        return False

    def opaque(self, field: int, data: bytes) -> bool:
        return True

    def array(self, values: list[bool]) -> bool:
        return any(values)

    def object(self, members: list[tuple[str, bool]]) -> bool:
        return any(value for _, value in members)


def excepted(column: Column, raw: bytes, value: Any, dumped: bytes) -> bool:
    """Is it one of the values that the object does not tell whole (`tailrace.values.registry`)?"""
    if column.type is ColumnType.ENUM:  # the error value, of an ENUM that has an empty name
        return value == "" and not any(raw) and "" in column.members
    if column.type is ColumnType.SET:  # an empty name that comes first is not seen in the text
        return "" in column.members and loader_of(column)(dumped) == value
    if column.type is ColumnType.JSON:
        if read_jsonb(raw, _HasOpaque()):
            return True
        # Holes of an update in place, integers out of SQL: the document is the same.
        return read_jsonb(dumped, TEXT) == read_jsonb(raw, TEXT)
    # Codes that stand for nothing, or for the same character as another code: the same text.
    return column.charset not in {"utf8mb4", "latin1"} and loader_of(column)(dumped) == value


def stored(image: Image | None) -> Iterator[tuple[Column, bytes]]:
    for column, raw in zip(image.schema.columns, image.stored(), strict=True) if image else ():
        if isinstance(raw, bytes):
            yield column, raw


_codecs: dict[Column, tuple[Loader, Dumper]] = {}


def check(schema: TableSchema, column: Column, raw: bytes) -> bool:
    """The law; says whether it was an exception."""
    if column not in _codecs:
        _codecs[column] = loader_of(column), dumper_of(column)
    load, dump = _codecs[column]
    value = load(raw)
    dumped = dump(value)
    if dumped == raw:
        return False
    assert excepted(column, raw, value, dumped), (
        f"{schema.table}.{column.name}: {value!r}, logged as {raw.hex()}, dumped as {dumped.hex()}"
    )
    return True
