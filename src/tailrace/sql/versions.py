"""MariaDB's system-versioned tables: selects the logged rows that are not history.

A log has the history as rows, too. An UPDATE is logged as an update and the insert of the old row,
a DELETE as an update of the row's end. The table that statements are executed on creates its own
history, with its own times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Self

from tailrace.constants import ColumnType
from tailrace.values.row import Row

if TYPE_CHECKING:
    from tailrace.values.image import Image
    from tailrace.values.schema import Column, TableSchema

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
    """The columns of a versioned table's period, by index."""

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
