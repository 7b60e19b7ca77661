"""What foreign keys did to rows, worked out change by change in the log's order.

It is told, in order, what the log says of the rows that may be concerned, and what may have changed
others; it keeps these rows as they are at each moment, and does to them what InnoDB does. Rows are
looked up by the values of keys: where those of a value were not given, that is noted, and what was
worked out counts for nothing; it is done again with more rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tailrace.schema.foreign_keys import CASCADING
from tailrace.spark.state.failure import RejectedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tailrace.spark.state.cascade.keys import Link

    Value = tuple[Any, ...]
    Row = tuple[Any, ...]
    Places = tuple[int, ...]


class _Absent:
    """Stands where an image does not have a column."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


@dataclass
class Derived:
    """A change that a foreign key made to a row of ``table``.

    ``cause`` is the number of the logged change that it follows from, ``after`` None for a delete.
    ``link`` is the first key that made it.
    """

    table: str
    cause: int
    before: Row
    after: Row | None
    link: Link


@dataclass
class Known:
    """The rows of a table that are kept track of, by key and by the values of foreign keys.

    A row has the values of ``columns``. ``asked`` has, by columns, the values of which all rows
    were given at the beginning.
    """

    columns: tuple[str, ...]
    key: tuple[str, ...]
    asked: dict[tuple[str, ...], set[Value]] = field(default_factory=dict)
    rows: dict[Value, Row] = field(default_factory=dict)
    missing: dict[tuple[str, ...], set[Value]] = field(default_factory=dict)
    strange: bool = False
    """Whether an image that is not full is of a row that is not there."""

    def __post_init__(self) -> None:
        self._key = self.places(self.key)
        self._by: dict[int, tuple[Link, Places, dict[Value, dict[Value, None]]]] = {}

    def places(self, columns: Iterable[str]) -> Places:
        """Where rows have columns."""
        return tuple(self.columns.index(each) for each in columns)

    def follow(self, number: int, link: Link) -> None:
        """Let rows be found by a foreign key of the table; before there are any."""
        self._by[number] = link, self.places(link.columns), {}

    def key_of(self, row: Row) -> Value:
        return tuple(row[place] for place in self._key)

    def put(self, row: Row) -> None:
        key = self.key_of(row)
        self.take(key)
        self.rows[key] = row
        for link, places, found in self._by.values():
            if (value := compared(link, row, places)) is not None:
                found.setdefault(value, {})[key] = None

    def take(self, key: Value) -> Row | None:
        """Remove a row, if it is there."""
        row = self.rows.pop(key, None)
        if row is not None:
            for link, places, found in self._by.values():
                if (value := compared(link, row, places)) is not None:
                    found[value].pop(key)
        return row

    def referring(self, number: int, value: Value) -> list[Row]:
        """The rows whose foreign key has a value."""
        link, _, found = self._by[number]
        if value not in self.asked.get(link.columns, ()):
            self.missing.setdefault(link.columns, set()).add(value)
        return [self.rows[key] for key in found.get(value, ())]

    def change(self, old: Value | None, image: Row | None) -> None:
        """A logged change: the row under the key ``old`` becomes ``image`` (None: is gone)."""
        before = None if old is None else self.take(old)
        if image is None:
            return
        if ABSENT not in image:
            self.put(image)
        elif before is not None:
            self.put(completed(image, before))
        elif old is None or old in self.asked.get(self.key, ()):
            self.strange = True
        else:
            self.missing.setdefault(self.key, set()).add(old)


def completed(image: Row, before: Row) -> Row:
    """An image, with the values that the row had before where it lacks columns."""
    return tuple(was if new is ABSENT else new for new, was in zip(image, before, strict=True))


def compared(link: Link, row: Row, places: Places) -> Value | None:
    """The value of a key by which equal ones are found; None where it is of no row."""
    values = tuple(row[place] for place in places)
    if None in values:
        return None
    if ABSENT in values:
        raise RejectedError(
            f"images in the log lack columns that {link.sql} needs: binlog_row_image=FULL has them"
        )
    return tuple(how.of(each) for how, each in zip(link.comparisons, values, strict=True))


class Play:
    """Carries out ``links`` over ``tables``, of those that have any, told changes in order."""

    def __init__(self, links: Sequence[Link], tables: Mapping[str, Known]) -> None:
        self._tables = tables
        self._links: dict[str, list[tuple[int, Link]]] = {}
        for number, link in enumerate(links):
            self._links.setdefault(link.parent, []).append((number, link))
            tables[link.child].follow(number, link)
        self.derived: list[Derived] = []
        self._of_cause: dict[tuple[str, Value], Derived] = {}

    def cause(
        self, number: int, table: str, columns: Sequence[str], before: Row, after: Row | None
    ) -> None:
        """A logged change of a row to which others refer; rows have ``columns``.

        `Known.change` was called before, where rows of its table are kept track of.
        """
        self._of_cause = {}
        waiting = [(table, tuple(columns), before, after)]
        while waiting:
            waiting.extend(self._carry_out(number, *waiting.pop()))

    def _carry_out(
        self, cause: int, parent: str, columns: tuple[str, ...], before: Row, after: Row | None
    ) -> list[tuple[str, tuple[str, ...], Row, Row | None]]:
        """Do to all rows what a change does to them; the changes that this makes."""
        found: list[tuple[str, tuple[str, ...], Row, Row | None]] = []
        for number, link in self._links.get(parent, ()):
            places = tuple(columns.index(each) for each in link.referenced)
            changed = [] if after is None else [at for at in places if before[at] != after[at]]
            action = link.on_delete if after is None else link.on_update
            if action not in CASCADING or (after is not None and not changed):
                continue
            if (value := compared(link, before, places)) is None:
                continue
            child = self._tables[link.child]
            own = child.places(link.columns)
            for row in child.referring(number, value):
                new: Row | None = None
                if action == "SET NULL":
                    new = _with(row, dict.fromkeys(own))
                elif after is not None:
                    pairs = zip(own, places, strict=True)
                    new = _with(row, {mine: after[at] for mine, at in pairs if at in changed})
                self._derive(cause, link, child, row, new)
                found.append((link.child, child.columns, row, new))
        return found

    def _derive(self, cause: int, link: Link, child: Known, row: Row, new: Row | None) -> None:
        """A row becomes another. What one change does to it in several ways is one change."""
        key = child.key_of(row)
        child.take(key)
        if new is not None:
            child.put(new)
        known = self._of_cause.pop((link.child, key), None)
        if known is None:
            known = Derived(link.child, cause, row, new, link)
            self.derived.append(known)
        known.after = new
        if new is not None:
            self._of_cause[link.child, child.key_of(new)] = known


def _with(row: Row, values: Mapping[int, Any]) -> Row:
    """A row with other values in some places."""
    return tuple(values.get(place, was) for place, was in enumerate(row))
