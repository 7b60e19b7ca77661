"""Tables that are not selected, and whose rows become those of a selected table by RENAME TABLE.

gh-ost and pt-online-schema-change create a table under a name of their own, copy a table's rows to
it, and rename it to the table's name last. At its CREATE TABLE only its name tells that. So a table
with such a name is followed from its CREATE TABLE on. A table with any other name is followed if it
is created and renamed in the same batch, as the statements of a batch are known before its rows are
read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace.spark.state.current.timeline import is_named
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tailrace.columns import TableChange
    from tailrace.table_filter import TableFilter

_COPIES: Final = ("_gho", "_new")
"""The ends of the names of tables that are renamed to the table's own name."""
_OTHERS: Final = ("_ghc", "_del", "_old")
"""The ends of the other tables' names: gh-ost's log of changes, and the table as it was before."""
_MOST_UNDERSCORES: Final = 10
_TIMESTAMP: Final = re.compile(r"_\d{14}$", re.ASCII)
"""What gh-ost puts before ``_del`` with --timestamp-old-table."""


def is_helper(name: TableName, selected: Callable[[str, str], bool]) -> bool:
    """Whether a name is that of a table to which gh-ost (``_orders_gho``) or
    pt-online-schema-change (``_orders_new``, ``__orders_new``) copies a selected table.
    """
    return any(selected(name.database, table) for table in _copied(name.table, _COPIES))


def _copied(table: str, suffixes: Iterable[str]) -> Iterator[str]:
    """The tables for which a table of this name may have been created."""
    for suffix in suffixes:
        if table.endswith(suffix):
            most = _MOST_UNDERSCORES if suffix == "_new" else 1
            rest = _TIMESTAMP.sub("", table.removesuffix(suffix))
            count = min(len(rest) - len(rest.lstrip("_")), most, len(rest) - 1)
            yield from (rest[each:] for each in range(1, count + 1))


def left_over(
    changes: Iterable[TableChange], there: Callable[[str, str], bool]
) -> frozenset[TableName]:
    """The tables that such a tool created for a table that is ``there``, and that are gone after
    the changes: dropped or renamed.
    """
    gone: dict[TableName, bool] = {}
    for change in changes:
        if change.kind in {"create", "drop", "rename"}:
            gone[TableName.parse(change.table)] = change.kind != "create"
        if change.renamed is not None:
            gone[TableName.parse(change.renamed)] = False
    return frozenset(
        name
        for name, is_gone in gone.items()
        if is_gone
        and any(there(name.database, each) for each in _copied(name.table, _COPIES + _OTHERS))
    )


@dataclass(frozen=True)
class Followed:
    """The tables that a batch reads although they are not selected, and those to follow next."""

    read: frozenset[TableName] = frozenset()
    still: frozenset[TableName] = frozenset()


def follow(
    changes: Iterable[TableChange], known: Iterable[TableName], selected: TableFilter
) -> Followed:
    """The tables to follow in a batch.

    ``changes`` are what its statements did, in order; ``known`` are the tables that were followed
    before it. A name is left out if a selected table also gets rows of another table of that name,
    of which not all rows are known.
    """
    names = {each: {each} for each in known}
    """By a table's present name, the names that its rows had."""
    read = set(names)
    unknown: set[TableName] = set()
    for change in changes:
        name = TableName.parse(change.table)
        match change.kind:
            case "create":
                names[name] = {name}
            case "drop":
                for gone in [each for each in names if is_named(change.table, str(each))]:
                    del names[gone]
            case "rename" if change.renamed is not None:
                moved = names.pop(name, {name} if selected(*name) else None)
                new = TableName.parse(change.renamed)
                names.pop(new, None)
                if moved is not None:
                    names[new] = {*moved, new}
                if selected(*new):
                    read |= moved or set()
                    unknown |= set() if moved is not None else {name}
            case _:
                pass
    helpers = [each for each in names if not selected(*each) and is_helper(each, selected)]
    read = {
        each
        for each in read.union(*(names[each] for each in helpers)) - unknown
        if not selected(*each) and not selected.excludes(*each)
    }
    still = (each for each in helpers if all(one in read or selected(*one) for one in names[each]))
    return Followed(frozenset(read), frozenset(still))
