"""Foreign keys, as statements declare them and as ALTER and RENAME change them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

from tailrace.constants import Flavour
from tailrace.events.description import flavour_of, version_of
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tailrace.schema.tokens import TokenCursor

CASCADING: Final = frozenset({"CASCADE", "SET NULL"})
"""Actions by which a change of the referenced table changes rows of the table that has the key."""
_GENERATED: Final = "_ibfk_"
"""InnoDB names the unnamed foreign keys of a table ``table_ibfk_1``, and so on."""
_NO_ACTION: Final = "RESTRICT"


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key. ``name`` is "" and ``database`` None until `named` completes them.

    ``referenced`` are the columns of the other table, in the order of ``columns``. It is empty if
    the statement names none, which means the primary key.
    """

    columns: tuple[str, ...]
    database: str | None
    table: str
    referenced: tuple[str, ...]
    on_delete: str = _NO_ACTION
    on_update: str = _NO_ACTION
    name: str = ""

    @property
    def cascades(self) -> bool:
        """Whether a change of the referenced table may change rows of the table that has the
        key.
        """
        return bool({self.on_delete, self.on_update} & CASCADING)

    def __str__(self) -> str:
        """As SQL, with the actions that change rows."""
        actions = (("DELETE", self.on_delete), ("UPDATE", self.on_update))
        does = "".join(f" ON {on} {action}" for on, action in actions if action in CASCADING)
        where = str(TableName(self.database, self.table)) if self.database else self.table
        to = f" ({', '.join(self.referenced)})" if self.referenced else ""
        return f"({', '.join(self.columns)}) REFERENCES {where}{to}{does}"

    def refers_to(self, database: str, table: str) -> bool:
        """Whether it references this table."""
        return (self.database, self.table) == (database, table)

    def renamed(self, columns: Mapping[str, str], referenced: Mapping[str, str]) -> Self:
        """The same key after columns were renamed; new names by case-folded old ones."""
        return replace(
            self,
            columns=tuple(columns.get(each.casefold(), each) for each in self.columns),
            referenced=tuple(referenced.get(each.casefold(), each) for each in self.referenced),
        )


def logs_cascades(server_version: str) -> bool:
    """Whether a server logs what foreign keys do: MySQL 9.6 and later.

    It does not if ``innodb_native_foreign_keys`` is on, which is not in its log.
    """
    if flavour_of(server_version) is Flavour.MARIADB:
        return False
    return (version_of(server_version) or (0, 0, 0)) >= (9, 6, 0)


def named(
    database: str, table: str, known: tuple[ForeignKey, ...], new: Iterable[ForeignKey]
) -> tuple[ForeignKey, ...]:
    """The keys of a table plus new ones, each with the name that InnoDB gives it.

    A key whose name exists already is not changed (``IF NOT EXISTS``).
    """
    found = list(known)
    generated = re.compile(re.escape(table + _GENERATED) + r"(\d+)", re.IGNORECASE)
    last = max((int(m[1]) for each in known if (m := generated.fullmatch(each.name))), default=0)
    for each in new:
        name = each.name
        if not name:
            last += 1
            name = f"{table}{_GENERATED}{last}"
        elif any(name.casefold() == other.name.casefold() for other in found):
            continue
        found.append(replace(each, name=name, database=each.database or database))
    return tuple(found)


def moved(keys: Iterable[ForeignKey], old: str, new: str) -> tuple[ForeignKey, ...]:
    """The keys of a renamed table: names that InnoDB generated change with it."""
    prefix = old + _GENERATED
    return tuple(
        replace(key, name=f"{new}{_GENERATED}{key.name.removeprefix(prefix)}")
        if key.name.startswith(prefix)
        else key
        for key in keys
    )


def parse_foreign_key(cursor: TokenCursor, constraint: str, flavour: Flavour) -> ForeignKey:
    """The part after FOREIGN KEY; ``constraint`` is the name after CONSTRAINT ("" for none).

    Without a constraint name, MariaDB uses the index name, and MySQL a name of its own.
    """
    cursor.accept("IF", "NOT", "EXISTS")
    index = "" if cursor.sees("(") else cursor.name()
    columns = _names(cursor)
    cursor.expect("REFERENCES")
    return parse_references(
        cursor, columns, constraint or (index if flavour is Flavour.MARIADB else "")
    )


def parse_references(cursor: TokenCursor, columns: tuple[str, ...], name: str = "") -> ForeignKey:
    """The part after REFERENCES: ``table (columns) MATCH … ON DELETE … ON UPDATE …``."""
    database, table = cursor.qualified()
    referenced = _names(cursor) if cursor.sees("(") else ()
    actions = {"DELETE": _NO_ACTION, "UPDATE": _NO_ACTION}
    while True:
        if cursor.accept("MATCH"):
            cursor.next()
        elif cursor.accept("ON", "DELETE"):
            actions["DELETE"] = _action(cursor)
        elif cursor.accept("ON", "UPDATE"):
            actions["UPDATE"] = _action(cursor)
        else:
            deleted, updated = actions["DELETE"], actions["UPDATE"]
            return ForeignKey(columns, database, table, referenced, deleted, updated, name)


def _action(cursor: TokenCursor) -> str:
    """The action on references; all actions that change no row are treated as one."""
    if cursor.accept("SET", "NULL"):
        return "SET NULL"
    if cursor.accept("CASCADE"):
        return "CASCADE"
    if not (
        cursor.accept("RESTRICT")
        or cursor.accept("NO", "ACTION")
        or cursor.accept("SET", "DEFAULT")
    ):
        cursor.fail("a referential action is expected")
    return _NO_ACTION


def _names(cursor: TokenCursor) -> tuple[str, ...]:
    """``(a, b)``; what may follow a name in an index is skipped."""
    cursor.expect("(")
    names = []
    while True:
        names.append(cursor.name())
        if cursor.sees("("):
            cursor.skip_parentheses()
        cursor.accept_any("ASC", "DESC")
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(names)
