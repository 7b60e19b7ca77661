"""One table's rows as INSERT, UPDATE and DELETE statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

from tailrace.constants import LARGE, ColumnType
from tailrace.errors import SchemaError, UnsupportedType
from tailrace.schema.tokens import quoted_table
from tailrace.sql.text import LargeSql, joined
from tailrace.sql.values import column_sql
from tailrace.values.image import ABSENT
from tailrace.values.row import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.constants import Flavour
    from tailrace.sql.text import Sql
    from tailrace.values.image import Image
    from tailrace.values.schema import Column, TableSchema


W = TypeVar("W")
_FOREVER: Final = frozenset({"2038-01-19 03:14:07.999999", "2106-02-07 06:28:15.999999"})
_NAMES: Final = frozenset({"row_start", "row_end"})


def _is_period(column: Column) -> bool:
    return (
        column.type is ColumnType.TIMESTAMP2
        and column.metadata == 6
        and not column.nullable
        and (column.generated or column.name in _NAMES)
    )


class Period(NamedTuple):
    """The columns of the period of MariaDB's system-versioned table, by index.

    A log has the table's history as rows, too. An UPDATE is logged as an update and the insert of
    the old row, a DELETE as an update of the row's end. The table that statements are executed on
    creates its own history, with its own times: only rows that are not history are wanted.
    """

    start: int
    end: int

    @classmethod
    def of(cls, schema: TableSchema) -> Self | None:
        """A table's period; None if it has none."""
        found = [column.index for column in schema.columns if _is_period(column)]
        return cls(*found) if len(found) == 2 else None

    @property
    def columns(self) -> tuple[int, int]:
        """The indexes of both columns."""
        return self.start, self.end

    def current(self, row: Row) -> Row | None:
        """The effect of a change on current rows; None if it only writes history."""
        before = row.before if self._is_current(row.before) else None
        after = row.after if self._is_current(row.after) else None
        if before is None:
            return None if after is None else Row("insert", None, after, row.number)
        return Row("delete" if after is None else "update", before, after, row.number)

    def _is_current(self, image: Image | None) -> bool:
        return image is not None and image.at(self.end) in _FOREVER


_SEQUENCE: Final = (
    "next_not_cached_value",
    "minimum_value",
    "maximum_value",
    "start_value",
    "increment",
    "cache_size",
    "cycle_option",
    "cycle_count",
)

_MOST_KEPT: Final = 1024
"""Tables of which `once_per_table` keeps something."""
_MOST: Final = 1 << 30
"""The largest max_allowed_packet, in bytes: it fits one statement plus one."""


class RowSql(NamedTuple):
    """A statement that changes one row.

    ``lenient``: it sets an ENUM to its error value, which a strict ``sql_mode`` rejects. ``row`` is
    the row's offset in the text of an INSERT of all columns; 0 for other statements.
    """

    text: Sql
    lenient: bool = False
    row: int = 0


class TableSql:
    """Writes the statements of one table. Generated columns are never set.

    A row is found by its primary key if the table has one, and also by the bytes of its key columns
    if only a prefix of one counts. Otherwise it is found by all columns of the image, compared byte
    by byte, and the statement is limited to one row: of identical rows, any may be used.

    ``server`` is the flavour of the server that executes the statements (None: the log's).

    Raises SchemaError for a table whose column names are unknown; its methods raise UnsupportedType
    for a row whose statement would be too long for any server.
    """

    def __init__(self, schema: TableSchema, *, server: Flavour | None = None) -> None:
        self.schema = schema
        self.name = str(schema.full_name)
        self.target = quoted_table(schema.database, schema.table)
        if schema.names_from == "none" and schema.columns:
            raise SchemaError(
                f"{self.name}: the names of its columns are unknown; give its CREATE TABLE "
                "(--schema FILE, schema=), or leave it out (--exclude, exclude=)"
            )
        columns = schema.columns
        self.period = Period.of(schema)
        hidden = {column.index for column in columns if column.generated}
        hidden |= set(() if self.period is None else self.period.columns)
        self._columns = [column_sql(column, server=server) for column in columns]
        self.writable = [column.index for column in columns if column.index not in hidden]
        self.key = list(schema.primary_key)
        if self.period is not None:
            if self.period.start in self.key:  # current rows may differ in no other key column
                self.key = []
            self.key = [index for index in self.key if index != self.period.end]
        self.whole_key = schema.key_is_whole
        self._enums = [index for index in self.writable if columns[index].type is ColumnType.ENUM]
        self.is_sequence = tuple(column.name for column in columns) == _SEQUENCE

    def insert(self, image: Image, *, whole: bool = False) -> RowSql:
        """Insert the row of an image; with ``whole`` it must have all columns (SchemaError)."""
        given = [index for index in self.writable if image.peek(index, LARGE) is not ABSENT]
        if whole and len(given) < len(self.writable):
            self._lacks(set(self.writable) - set(given), "the row as it was")
        names = ", ".join(self._columns[index].name for index in given)
        literals = joined(", ", [self._columns[index].literal(image) for index in given])
        if self.is_sequence and len(given) < len(self.writable):
            return self._sequence(image)
        lenient = any(_is_error(image, index) for index in self._enums)
        head = f"INSERT INTO {self.target} ({names}) VALUES "  # noqa: S608 - quoted
        whole_row = all(image.peek(each.index, LARGE) is not ABSENT for each in self.schema.columns)
        text = f"{head}(" + literals + ")"
        return RowSql(self._checked(text, image), lenient, len(head) if whole_row else 0)

    def _sequence(self, image: Image) -> RowSql:
        """Insert a sequence's row: values that the image lacks are kept, as no column has a
        default.
        """
        columns = [self._columns[index] for index in self.writable]
        names = ", ".join(column.name for column in columns)
        values = joined(
            ", ",
            [
                column.name if image.at(index) is ABSENT else column.literal(image)
                for index, column in zip(self.writable, columns, strict=True)
            ],
        )
        target = self.target
        text = f"INSERT INTO {target} ({names}) SELECT " + values + f" FROM {target}"  # noqa: S608 - quoted
        return RowSql(text)

    def delete(self, image: Image, *, whole: bool = False) -> RowSql:
        """Delete the row of an image; with ``whole`` the image must identify the row."""
        text = f"DELETE FROM {self.target} WHERE " + self._where((image,), whole=whole)  # noqa: S608 - quoted
        return RowSql(self._checked(text, image))

    def update(self, before: Image, after: Image) -> RowSql | None:
        """From before to after; None if only generated columns change."""
        changed = [index for index in self.writable if _differs(before, after, index)]
        if not changed:
            return None
        sql = self._update(self._where((before,)), after, changed)
        return RowSql(self._checked(sql.text, before, after), sql.lenient)

    def revert(self, before: Image, after: Image) -> RowSql | None:
        """From after back to before.

        Raises SchemaError if the before image lacks a column that was changed.
        """
        changed = [index for index in self.writable if _differs(before, after, index)]
        missing = {index for index in changed if before.peek(index, LARGE) is ABSENT}
        if missing:
            self._lacks(missing, "the values as they were")
        if not changed:
            return None
        sql = self._update(self._where((after, before), whole=True), before, changed)
        return RowSql(self._checked(sql.text, before, after), sql.lenient)

    def _update(self, where: Sql, values: Image, changed: list[int]) -> RowSql:
        columns = self._columns
        parts = [f"{columns[index].name} = " + columns[index].literal(values) for index in changed]
        parts += [  # else ON UPDATE CURRENT_TIMESTAMP would set them
            f"{columns[index].name} = {columns[index].name}"
            for index in self.writable
            if columns[index].set_by_clock and index not in changed
        ]
        lenient = any(index in changed and _is_error(values, index) for index in self._enums)
        text = f"UPDATE {self.target} SET " + joined(", ", parts)  # noqa: S608 - quoted
        return RowSql(text + " WHERE " + where, lenient)

    def _checked(self, text: Sql, *images: Image) -> Sql:
        """A statement that a server may accept; checked before its text is made."""
        if not isinstance(text, LargeSql) or (size := text.size) < _MOST:
            return text
        _, column = max(
            (len(image.view(column.index) or b""), column.name)
            for image in images
            for column in self.schema.columns
        )
        raise UnsupportedType(
            f"{self.name}.{column}: its row makes a statement of {size:,} bytes; servers take "
            "less than 1 GiB (max_allowed_packet); leave the table out (--exclude, exclude=), "
            "or write the log with --as raw"
        )

    def _where(self, images: Sequence[Image], *, whole: bool = False) -> Sql:
        """The condition that finds a row; a column's value is from the first image that has it.

        Without a primary key, a before image has the columns that the server itself needed to find
        the row. An after image may have fewer: with ``whole`` all columns must be there.
        """
        if self.key:
            found = [(index, _first(images, index)) for index in self.key]
            missing = {index for index, image in found if image is None}
            if missing:
                self._lacks(missing, "the primary key")
            parts = [self._columns[index].key(image) for index, image in found if image is not None]
            if not self.whole_key:  # columns may compare as equal though their bytes differ
                parts += [
                    self._columns[index].exact(image) for index, image in found if image is not None
                ]
            return joined(" AND ", dict.fromkeys(parts))
        known = [
            (index, image)
            for index in self.writable
            if (image := _first(images, index)) is not None
        ]
        if not known or (whole and len(known) < len(self.writable)):
            missing = set(self.writable) - {index for index, _ in known}
            self._lacks(missing, "the columns that identify the row")
        parts = [self._columns[index].exact(image) for index, image in known]
        return joined(" AND ", parts) + " LIMIT 1"

    def _lacks(self, missing: set[int], what: str) -> None:
        names = ", ".join(self.schema.columns[index].name for index in sorted(missing))
        raise SchemaError(
            f"{self.name}: the log's row image lacks {what} (columns {names}), as "
            "binlog_row_image is not FULL; leave the table out (--exclude, exclude=)"
        )


def _first(images: Sequence[Image], index: int) -> Image | None:
    """The first image that has a column."""
    return next((image for image in images if image.peek(index, LARGE) is not ABSENT), None)


def _differs(before: Image, after: Image, index: int) -> bool:
    """Whether an update changes a column; a column missing in the after image is unchanged."""
    new, old = after.peek(index, LARGE), before.peek(index, LARGE)
    if new is ABSENT:
        return False
    if old is ABSENT or new is None or old is None:
        return new is not old
    if isinstance(new, memoryview) and isinstance(old, memoryview):
        return new != old
    diffs = after.diffs(index)
    if diffs is not None:
        return bool(diffs)
    raw: tuple[Any, Any] = before.raw(index), after.raw(index)
    return bool(new != old) if None in raw else raw[0] != raw[1]


def _is_error(image: Image, index: int) -> bool:
    """Whether an ENUM has its error value, number 0."""
    raw = image.raw(index)
    return raw is not None and not any(raw)


def once_per_table(make: Callable[[TableSchema], W]) -> Callable[[TableSchema], W]:
    """What ``make`` gives for a table, made once for each schema (by its identity)."""
    known: dict[int, tuple[TableSchema, W]] = {}

    def of(schema: TableSchema) -> W:
        found = known.get(id(schema))
        if found is None:
            if len(known) >= _MOST_KEPT:
                known.clear()
            found = known[id(schema)] = schema, make(schema)
        return found[1]

    return of
