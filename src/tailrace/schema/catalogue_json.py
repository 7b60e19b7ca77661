"""A catalogue as JSON, its durable form.

    {"version": 2,
     "tables": [{"database": "shop", "table": "orders", "collation": 45, "primary_key": ["id"],
                 "columns": [{"name": "id", "type": "bigint unsigned", "unsigned": true,
                              "nullable": false}, ...],
                 "foreign_keys": [{"columns": ["customer"], "database": "shop",
                                   "table": "customers", "referenced": ["id"],
                                   "on_delete": "CASCADE", "name": "orders_ibfk_1"}]}],
     "given": [...], "unknown": [{"database": ..., "table": ..., "reason": ...}],
     "databases": {"shop": 45}, "temporary": [["shop", "scratch", "1:42"]],
     "whole": [["shop", ""], ["shop", "orders"]], "from_first": true,
     "learned": [{"end": "binlog.000003:1234", "table": {"database": "shop", ...}}],
     "begin": "binlog.000001:812", "lowers_names": true}

``temporary`` holds temporary tables and the sessions that have them: the server's id and the
connection's, left out if unknown. ``learned`` holds definitions queried from the server, with the
end of its log at that time. ``begin`` is where rows are read from. With ``lowers_names`` the source
has ``lower_case_table_names``.

Columns are in the order of their positions. Members with their default value (see the classes) are
left out, and so are empty lists. Every member is checked when it is read: the file may have been
changed by others.
"""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import SchemaError, UsageError
from tailrace.position import Position
from tailrace.schema.catalogue import Catalogue, Contents, Learned
from tailrace.schema.foreign_keys import ForeignKey
from tailrace.schema.tables import TableState
from tailrace.values.schema import ColumnDefinition, Logical, TableDefinition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

VERSION: Final = 2
"""Incremented when `from_json` of an earlier release can no longer read the form."""
_LARGEST: Final = 1 << 32

_Read = dict[str, "Callable[[Any, str], Any]"]


def to_json(catalogue: Catalogue) -> dict[str, Any]:
    """A catalogue's content, as a value for `json.dumps`."""
    contents = catalogue.contents()
    return {
        "version": VERSION,
        **_filled(
            tables=[_table(state) for state in contents.tables],
            given=[_table(state) for state in contents.given],
            unknown=[
                {"database": database, "table": table, "reason": reason}
                for (database, table), reason in sorted(contents.unknown.items())
            ],
            databases=dict(sorted(contents.databases.items())),
            temporary=[list(each if each[2] else each[:2]) for each in sorted(contents.temporary)],
            whole=[list(key) for key in sorted(contents.whole)],
            from_first=contents.from_first,
            learned=[
                {"end": str(each.end), "table": _table(each.state)} for each in contents.learned
            ],
            begin=None if contents.begin is None else str(contents.begin),
        ),
        **({} if contents.lowers_names is None else {"lowers_names": contents.lowers_names}),
    }


def from_json(value: Any) -> Catalogue:
    """The catalogue that `to_json` described; raises `SchemaError` for anything else."""
    found = _members(value, _CATALOGUE, "catalogue", needs=("version",))
    if found["version"] != VERSION:
        raise SchemaError(
            f"the schema history has version {found['version']}, and this Tailrace reads version"
            f" {VERSION}: recreate the lake or index, or use the Tailrace that wrote it"
        )
    return Catalogue.of(
        Contents(
            found.get("tables", ()),
            found.get("given", ()),
            {
                (each["database"], each["table"]): each["reason"]
                for each in found.get("unknown", ())
            },
            found.get("databases", {}),
            frozenset(found.get("temporary", ())),
            frozenset(found.get("whole", ())),
            found.get("from_first", False),
            found.get("learned", ()),
            found.get("begin"),
            found.get("lowers_names"),
        )
    )


def _table(state: TableState) -> dict[str, Any]:
    definition = state.definition
    return {
        "database": definition.database,
        "table": definition.table,
        "columns": [_column(column) for column in definition.columns],
        **_filled(
            primary_key=list(definition.primary_key),
            key_prefixes=list(definition.key_prefixes),
            collation=state.collation,
            row_end=state.row_end,
            hidden=state.hidden,
            foreign_keys=[_foreign_key(key) for key in state.foreign_keys],
        ),
    }


def _column(column: ColumnDefinition) -> dict[str, Any]:
    default = ColumnDefinition(column.name)
    members = {
        _CALLED.get(name, name): list(value) if isinstance(value, tuple) else value
        for name in ColumnDefinition.__slots__
        if (value := getattr(column, name)) != getattr(default, name)
    }
    return {"name": column.name, **members}


def _foreign_key(key: ForeignKey) -> dict[str, Any]:
    default = ForeignKey((), None, "", ())
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name in ForeignKey.__slots__
        if (value := getattr(key, name)) != getattr(default, name)
    }


_CALLED: Final = {"declared": "type"}


def _filled(**members: Any) -> dict[str, Any]:
    """The members that are not empty; 0 is no collation's number."""
    return {name: value for name, value in members.items() if value not in (None, 0, [], {}, False)}


# --- reading: every kind of value has a function that checks it ----------------------------------


def _members(value: Any, known: _Read, where: str, needs: Iterable[str]) -> dict[str, Any]:
    """An object's members, each checked; an unknown or a missing member is an error."""
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    if missing := [name for name in needs if name not in value]:
        raise SchemaError(f"the schema history is damaged: {where} has no {missing[0]}")
    if strange := [name for name in value if name not in known]:
        raise SchemaError(f"the schema history is damaged: {where}: unknown member {strange[0]!r}")
    return {name: known[name](each, f"{where}.{name}") for name, each in value.items()}


def _wrong(where: str, wanted: str, value: Any) -> SchemaError:
    return SchemaError(
        f"the schema history is damaged: {where} is {reprlib.repr(value)} and not {wanted}"
    )


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong(where, "text", value)
    return value


def _number(value: Any, where: str) -> int:
    if type(value) is not int or not 0 <= value < _LARGEST:
        raise _wrong(where, "a number", value)
    return value


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(where, "true or false", value)
    return value


def _perhaps(read: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    return lambda value, where: None if value is None else read(value, where)


def _list(read: Callable[[Any, str], Any]) -> Callable[[Any, str], tuple[Any, ...]]:
    def checked(value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _wrong(where, "a list", value)
        return tuple(read(each, f"{where}[{at}]") for at, each in enumerate(value))

    return checked


def _logical(value: Any, where: str) -> Logical:
    try:
        return Logical(_text(value, where))
    except ValueError:
        raise _wrong(where, "a logical type", value) from None


def _key(value: Any, where: str) -> tuple[str, str]:
    found = _list(_text)(value, where)
    if len(found) != 2:
        raise _wrong(where, "a database and a table", value)
    return found[0], found[1]


def _temporary(value: Any, where: str) -> tuple[str, str, str]:
    database, table, client = (*_list(_text)(value, where), "", "", "")[:3]
    if not table:
        raise _wrong(where, "a database, a table and a session", value)
    return database, table, client


def _collations(value: Any, where: str) -> dict[str, int | None]:
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    return {name: _perhaps(_number)(each, f"{where}.{name}") for name, each in value.items()}


def _column_of(value: Any, where: str) -> ColumnDefinition:
    found = _members(value, _COLUMN, where, needs=("name",))
    return ColumnDefinition(declared=found.pop("type", ""), **found)


def _table_of(value: Any, where: str) -> TableState:
    found = _members(value, _TABLE, where, needs=("database", "table", "columns"))
    definition = TableDefinition(
        found["database"],
        found["table"],
        found["columns"],
        found.get("primary_key", ()),
        found.get("key_prefixes", ()),
    )
    return TableState(
        definition,
        found.get("collation"),
        found.get("row_end"),
        found.get("hidden", 0),
        found.get("foreign_keys", ()),
    )


def _foreign_key_of(value: Any, where: str) -> ForeignKey:
    found = _members(value, _FOREIGN_KEY, where, needs=("columns", "table"))
    return ForeignKey(**{"database": None, "referenced": (), **found})


def _unknown_of(value: Any, where: str) -> dict[str, Any]:
    names = ("database", "table", "reason")
    return _members(value, dict.fromkeys(names, _text), where, needs=names)


def _learned_of(value: Any, where: str) -> Learned:
    members: _Read = {"end": _position, "table": _table_of}
    found = _members(value, members, where, needs=members)
    return Learned(found["table"], found["end"])


def _position(value: Any, where: str) -> Position:
    try:
        return Position.parse(_text(value, where))
    except UsageError:
        raise _wrong(where, "a position", value) from None


_COLUMN: Final[_Read] = {
    "name": _text,
    "type": _text,
    "unsigned": _flag,
    "collation": _perhaps(_number),
    "members": _perhaps(_list(_text)),
    "logical": _logical,
    "nullable": _flag,
    "visible": _flag,
    "generated": _perhaps(_flag),
    "compressed": _flag,
}
_FOREIGN_KEY: Final[_Read] = {
    "columns": _list(_text),
    "database": _perhaps(_text),
    "table": _text,
    "referenced": _list(_text),
    "on_delete": _text,
    "on_update": _text,
    "name": _text,
}
_TABLE: Final[_Read] = {
    "database": _text,
    "table": _text,
    "columns": _list(_column_of),
    "primary_key": _list(_text),
    "key_prefixes": _list(_number),
    "collation": _perhaps(_number),
    "row_end": _perhaps(_text),
    "hidden": _number,
    "foreign_keys": _list(_foreign_key_of),
}
_CATALOGUE: Final[_Read] = {
    "version": _number,
    "tables": _list(_table_of),
    "given": _list(_table_of),
    "unknown": _list(_unknown_of),
    "databases": _collations,
    "temporary": _list(_temporary),
    "whole": _list(_key),
    "from_first": _flag,
    "lowers_names": _flag,
    "learned": _list(_learned_of),
    "begin": _position,
}
