"""Which foreign keys a mirror can carry out, and why it cannot carry out the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tailrace.schema.foreign_keys import CASCADING
from tailrace.spark.state.cascade.values import EXACT, Comparison, comparison_by
from tailrace.table_name import TableName
from tailrace.values.charsets import BINARY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tailrace.schema.foreign_keys import ForeignKey
    from tailrace.schema.tables import TableState
    from tailrace.values.schema import ColumnDefinition, TableDefinition

_NUMBERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_AS_DECLARED: Final = frozenset({"decimal", "binary", "varbinary", "uuid", "inet4", "inet6"})
"""Types that the server compares byte by byte where both columns are declared alike."""
_TEXT: Final = frozenset({"char", "varchar"})


@dataclass(frozen=True)
class Link:
    """A foreign key that is carried out: rows of ``child`` follow those of ``parent``.

    Tables are ``database.table``. ``comparisons`` say how the columns' values are compared, ``sql``
    is the key as SQL.
    """

    child: str
    columns: tuple[str, ...]
    parent: str
    referenced: tuple[str, ...]
    on_delete: str
    on_update: str
    comparisons: tuple[Comparison, ...]
    sql: str


@dataclass(frozen=True)
class Links:
    """The keys of a source: those that are carried out, and by table those that are not, and why.

    A key is among both where it is carried out, but the table that it refers to has one that is
    not: some of what it should do may not be known.
    """

    carried: tuple[Link, ...] = ()
    left: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def links_of(
    states: Iterable[TableState],
    wanted: Callable[[str], bool],
    given: Iterable[str],
) -> Links:
    """The keys of tables that are mirrored, by their definitions.

    ``states`` are the tables that have such keys, and those that they refer to, as far as the log
    tells; ``wanted`` says which tables are mirrored, ``given`` are those whose key a user gave.
    """
    tables = {str(each.definition.full_name): each for each in states}
    carried: list[Link] = []
    left: dict[str, list[str]] = {}
    for name, state in tables.items():
        for key in state.foreign_keys if wanted(name) else ():
            if not key.cascades:
                continue
            found = _link(name, state, key, tables, wanted, keyed=name in set(given))
            if isinstance(found, Link):
                carried.append(found)
            else:
                left.setdefault(name, []).append(f"{key}: {found}")
    _spread(carried, left)
    return Links(tuple(carried), {name: tuple(found) for name, found in left.items()})


def _spread(carried: Iterable[Link], left: dict[str, list[str]]) -> None:
    """Name the keys as well that refer to tables whose own keys are not all carried out."""
    waiting = list(left)
    while waiting:
        name = waiting.pop()
        for link in carried:
            if link.parent != name or link.child == name:
                continue
            text = f"{link.sql}: not all changes of {name} are known"
            if text not in left.setdefault(link.child, []):
                left[link.child].append(text)
                waiting.append(link.child)


def _link(
    child: str,
    state: TableState,
    key: ForeignKey,
    tables: Mapping[str, TableState],
    wanted: Callable[[str], bool],
    *,
    keyed: bool,
) -> Link | str:
    """The link of a key, or why it cannot be carried out."""
    parent = str(TableName(key.database or "", key.table))
    if not wanted(parent):
        return f"{parent} is not mirrored"
    if parent not in tables:
        return f"the log does not tell the columns of {parent}"
    own, other = state.definition, tables[parent].definition
    if not own.primary_key and not keyed:
        return f"{child} has no primary key"
    if state.row_end is not None:
        return f"{child} is versioned, and keeps the rows that it had"
    if tables[parent].row_end is not None:
        return f"{parent} is versioned, and the log has a delete there as an update"
    updates = key.on_delete == "SET NULL" or key.on_update in CASCADING
    if updates and any(column.generated for column in own.columns):
        return f"{child} has generated columns, which the server computes anew"
    referenced = key.referenced or other.primary_key
    columns = _columns(own, key.columns)
    others = _columns(other, referenced)
    if columns is None or others is None or len(columns) != len(others):
        return "its columns are not known"
    comparisons = []
    for one, two in zip(columns, others, strict=True):
        found = _comparison(one, two)
        if found is None:
            return f"how the values of {one.name} ({one.declared}) are compared is not known"
        comparisons.append(found)
    return Link(
        child,
        tuple(each.name for each in columns),
        parent,
        tuple(each.name for each in others),
        key.on_delete,
        key.on_update,
        tuple(comparisons),
        str(key),
    )


def _columns(table: TableDefinition, names: Iterable[str]) -> list[ColumnDefinition] | None:
    """The columns of these names, whatever their case; None where there is none of a name."""
    by_fold = {each.name.casefold(): each for each in table.columns}
    found = [by_fold.get(name.casefold()) for name in names]
    return None if None in found else [each for each in found if each is not None]


def _comparison(one: ColumnDefinition, two: ColumnDefinition) -> Comparison | None:
    base = _base(one)
    if base != _base(two) or one.compressed or two.compressed:
        return None
    if base in _NUMBERS:
        return EXACT if one.unsigned == two.unsigned else None
    if base in _AS_DECLARED:
        return EXACT if one.declared == two.declared else None
    if base not in _TEXT or one.collation is None or one.collation != two.collation:
        return None
    return None if one.collation == BINARY else comparison_by(one.collation)


def _base(column: ColumnDefinition) -> str:
    return column.declared.partition("(")[0].partition(" ")[0].lower()
