"""A table for a writer: its columns, and the table map that a server would log for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from tailrace.constants import ColumnType, Flavour
from tailrace.errors import SchemaError, UsageError
from tailrace.events.column_metadata import ColumnSpec
from tailrace.events.description import flavour_of, version_of
from tailrace.events.table_map import TableLayout, TableMapEvent
from tailrace.printable import short_repr
from tailrace.schema.ddl import CreateTable, Unclear, effects
from tailrace.schema.hidden import LONGEST_LIMIT, by_name, key_size
from tailrace.schema.session import StatementSession
from tailrace.schema.tokens import quoted_name, quoted_table
from tailrace.table_name import TableName
from tailrace.values.charsets import (
    BINARY,
    charset_of,
    collation_id,
    default_collation,
    encode,
    longest_character,
)
from tailrace.values.registry import declare
from tailrace.values.resolve import resolve_table
from tailrace.values.schema import STRING_TYPES, Logical, TableDefinition, TableSchema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.schema.tables import TableBody, TableState
    from tailrace.values.schema import Column, ColumnDefinition

Metadata = Literal["full", "minimal", "none"]
"""How much a table map contains: ``binlog_row_metadata`` FULL, MINIMAL, and MariaDB's NO_LOG."""

_BIT_LEN_EXACT: Final = 1
_MEMBERS: Final = frozenset({ColumnType.ENUM, ColumnType.SET})


@dataclass(frozen=True, slots=True, init=False)
class Table:
    """A table to write to: hashable, picklable.

    ``table`` is its name, ``database.table``, ``columns`` are those of its CREATE TABLE, keys
    included: the text between the parentheses, or a mapping of names to the rest of each
    definition. ``flavour`` is ``mysql`` or ``mariadb``, in any case; it, ``server_version`` and
    ``session`` are as for `parse`, which takes a whole CREATE TABLE, and so are the errors.

    >>> import tailrace
    >>> orders = tailrace.Table("shop.orders", "id INT PRIMARY KEY, total DECIMAL(10,2)")
    >>> orders == tailrace.Table(
    ...     "shop.orders", {"id": "INT PRIMARY KEY", "total": "DECIMAL(10,2)"}, flavour="MySQL"
    ... )
    True
    >>> orders.database, orders.name, [column.name for column in orders.schema.columns]
    ('shop', 'orders', ['id', 'total'])

    ``schema`` is the table as `resolve_table` gives it for a log with full metadata.
    ``specs`` are its columns as such a log describes them; for a table that was found in a log
    (`of_map`), unknown attributes are None, and are not written. ``key_prefixes`` are the numbers
    of characters that count of each column of the primary key (0: all). ``flags`` are the table
    map's own.
    """

    schema: TableSchema
    specs: tuple[ColumnSpec, ...]
    flavour: Flavour
    key_prefixes: tuple[int, ...] = ()
    flags: int = _BIT_LEN_EXACT

    def __init__(
        self,
        table: str,
        columns: str | Mapping[str, str],
        *,
        flavour: Flavour | str = Flavour.MYSQL,
        server_version: str = "",
        session: StatementSession | None = None,
    ) -> None:
        made = self.parse(
            f"CREATE TABLE {_quoted_name(table)} ({_listed(columns)})",
            flavour=flavour,
            server_version=server_version,
            session=session,
        )
        for each in fields(self):
            object.__setattr__(self, each.name, getattr(made, each.name))

    def __hash__(self) -> int:
        return hash((self.schema.database, self.schema.table))  # the rest takes ten times as long

    @classmethod
    def _of_parts(
        cls,
        schema: TableSchema,
        specs: tuple[ColumnSpec, ...],
        flavour: Flavour,
        key_prefixes: tuple[int, ...],
        flags: int = _BIT_LEN_EXACT,
    ) -> Self:
        made = object.__new__(cls)
        parts = (schema, specs, flavour, key_prefixes, flags)
        for each, value in zip(fields(cls), parts, strict=True):
            object.__setattr__(made, each.name, value)
        return made

    @classmethod
    def parse(
        cls,
        sql: str,
        *,
        flavour: Flavour | str = Flavour.MYSQL,
        database: str = "",
        server_version: str = "",
        session: StatementSession | None = None,
    ) -> Self:
        """The table that a CREATE TABLE defines, in ``database`` if the statement names none.

        Unspecified character sets and collations are those of the flavour's newest server with its
        default settings, or of ``server_version`` (``10.11.8-MariaDB``); ``session`` sets
        everything. For MariaDB one of the two is needed if a column has no character set, since the
        default changed with 11.6. Columns that only an index needs (MariaDB's hashes of long unique
        keys) are not included.

        Raises `SchemaError` if it is not one CREATE TABLE with a column list and a database,
        `UsageError` if the character set of a column is not known, and for a ``server_version``
        that is none or another flavour's.
        """
        flavour = _flavour(flavour)
        texts = {"statement": sql, "database": database, "server_version": server_version}
        for what, text in texts.items():
            if not isinstance(text, str):
                raise UsageError(f"{what}: a text, and not {short_repr(text)}")
        if not isinstance(session, StatementSession | None):
            raise UsageError(f"session: a StatementSession, and not {short_repr(session)}")
        if server_version:
            _check_version(server_version, flavour)
        assumed = session is None and not server_version and flavour is Flavour.MARIADB
        session = session or session_of(flavour, server_version)
        found = effects(sql, database, session)
        for effect in found:
            if isinstance(effect, Unclear):
                raise SchemaError(f"the statement is not understood: {effect.reason}")
        if len(found) != 1 or not isinstance(found[0], CreateTable):
            raise SchemaError(f"one CREATE TABLE is expected: {sql[:60]!r}")
        name = found[0].name
        if not name.database:
            raise SchemaError(
                f"table {name.table}: in which database? Write `database`.`{name.table}` or give "
                "the database"
            )
        written = found[0].table
        state = written.define(name.database, name.table, session.default_collation, session)
        for column, made in zip(written.columns, state.definition.columns, strict=False):
            if column.type.base.startswith("var") and not made.declared.startswith("var"):
                raise SchemaError(
                    f"{name.database}.{name.table}.{made.name}: {column.type.base}"
                    f"({column.type.arguments[0]}) is longer than a column holds: declare"
                    f" {made.declared}"
                )
        if assumed:
            old = session_of(flavour, _OLD_DEFAULT)
            other = written.define(name.database, name.table, old.default_collation, old)
            _check_charsets(state.definition, other.definition)
        return cls.of(_with_key(state, written, flavour), flavour)

    @classmethod
    def of(cls, definition: TableDefinition, flavour: Flavour | str = Flavour.MYSQL) -> Self:
        """The table of a definition, whose columns must have declared types.

        A text column without a character set in the definition is in the flavour's utf8mb4. Raises
        `SchemaError` for a type that the flavour does not have, and for a column that is named
        twice; `UsageError` for what is no definition.
        """
        flavour = _flavour(flavour)
        if not isinstance(definition, TableDefinition):
            raise UsageError(
                f"Table.of takes a TableDefinition, and not {short_repr(definition)}: Table.parse"
                " takes a CREATE TABLE"
            )
        where = str(definition.full_name)
        names = [column.name.casefold() for column in definition.columns]
        for column in definition.columns:
            if names.count(column.name.casefold()) > 1:
                raise SchemaError(f"{where}: there are two columns {column.name!r}")
        try:
            declared = [declare(column, flavour) for column in definition.columns]
        except SchemaError as error:
            raise type(error)(f"{where}: {error.message}") from None
        specs = tuple(spec for spec, _ in declared)
        key, prefixes = _key_of(definition, specs) or ((), ())
        known = replace(definition, columns=tuple(column for _, column in declared))
        layout = TableLayout(
            definition.database, definition.table, specs, key or None, prefixes or None, b"", ()
        )
        return cls._of_parts(resolve_table(layout, flavour, known), specs, flavour, prefixes)

    @classmethod
    def of_map(
        cls,
        table_map: TableMapEvent,
        definition: TableDefinition | None = None,
        *,
        schema: TableSchema | None = None,
    ) -> Self:
        """The table of a table map; a ``definition`` can add what the log lacks.

        ``schema`` is the schema that they resolve to, if it is already known. Raises `SchemaError`
        if the definition cannot be that of the logged table.
        """
        flavour = table_map.form.flavour
        if schema is None:
            schema = resolve_table(table_map, flavour, definition)
        named = schema.names_from != "none"
        known = {c.name.casefold(): c for c in definition.columns} if definition else {}
        specs = tuple(
            _completed(spec, column, known.get(column.name.casefold()), flavour, named=named)
            for spec, column in zip(table_map.columns, schema.columns, strict=True)
        )
        prefixes = table_map.primary_key_prefixes
        if prefixes is None and definition is not None and schema.primary_key:
            prefixes = _prefixes_of(definition, schema.primary_key, specs)
        if prefixes is None:
            prefixes = (0,) * len(schema.primary_key)
        return cls._of_parts(schema, specs, flavour, prefixes, table_map.flags)

    @property
    def database(self) -> str:
        """The database's name."""
        return self.schema.database

    @property
    def name(self) -> str:
        """The table's name."""
        return self.schema.table

    @property
    def primary_key(self) -> tuple[int, ...]:
        """Column indexes of the primary key, in key order; empty if there is none."""
        return self.schema.primary_key

    def _repr_html_(self) -> str:
        """Its columns, for a notebook."""
        return self.schema._repr_html_()

    def table_map(
        self, table_id: int, *, metadata: Metadata = "full", **header: Any
    ) -> TableMapEvent:
        """The event that assigns ``table_id`` to this table, with the details that ``metadata``
        selects.

        ``header`` is passed to `TableMapEvent.make`: ``form``, ``timestamp``, ``server_id``. Raises
        `EventEncodeError` for what the format cannot hold.
        """
        full = metadata == "full"
        key = self.primary_key if full and self.primary_key else None
        given: dict[str, Any] = {
            "flags": self.flags,
            "primary_key": key,
            "primary_key_prefixes": key and self.key_prefixes,
            **header,
        }
        return TableMapEvent.make(
            table_id=table_id,
            database=self.database,
            table=self.name,
            columns=tuple(_told(spec, metadata, self.flavour) for spec in self.specs),
            **given,
        )


def _quoted_name(table: object) -> str:
    """A qualified name as SQL. Raises UsageError for another one."""
    try:
        name = TableName.parse(table)  # type: ignore[arg-type]  # it checks this, too
    except UsageError:
        name = TableName("", "")
    if not (name.database.strip() and name.table.strip()):
        raise UsageError(f"table: a name such as 'shop.orders', and not {short_repr(table)}")
    return quoted_table(*map(str.strip, name))


def _quoted(name: str) -> str:
    """A name in backticks; one that has them already may be given, too."""
    text = name.strip()
    is_quoted = len(text) > 2 and text[0] == text[-1] == "`"
    return quoted_name(text[1:-1].replace("``", "`") if is_quoted else text)


def _listed(columns: object) -> str:
    """The columns of a CREATE TABLE. Raises UsageError for what is none."""
    if isinstance(columns, Mapping):
        return ", ".join(f"{_quoted(str(name))} {rest}" for name, rest in columns.items())
    if not isinstance(columns, str):
        raise UsageError(
            "columns: the text of a CREATE TABLE's columns, or a mapping of names to their types,"
            f" and not {short_repr(columns)}"
        )
    return columns


def _with_key(state: TableState, written: TableBody, flavour: Flavour) -> TableDefinition:
    """The definition; without a primary key, with the unique key that servers use instead.

    This is the first key whose columns are not nullable, are stored and count in full, and which is
    not implemented by a hash. In a versioned table it also has the column where a row ends.
    """
    definition = state.definition
    if definition.primary_key:
        return definition
    fit = {column.name.casefold() for column in definition.columns if not column.nullable}
    fit -= {c.name.casefold() for c in written.columns if c.generated and not c.stored}
    hashed, columns = flavour is Flavour.MARIADB, by_name(definition.columns)
    for key in written.uniques:
        names = [part.column for part in key.parts]
        if (
            names
            and not any(part.prefix for part in key.parts)
            and all(name.casefold() in fit for name in names)
            and not (hashed and key_size(key, columns) > LONGEST_LIMIT)
        ):
            ended = () if state.row_end is None else (state.row_end,)
            return replace(definition, primary_key=(*names, *ended))
    return definition


def _told(spec: ColumnSpec, metadata: Metadata, flavour: Flavour) -> ColumnSpec:
    """What a server logs of a column with this ``binlog_row_metadata``."""
    if metadata == "full":
        return spec if flavour is Flavour.MYSQL else replace(spec, visible=None)
    less = replace(spec, name=None, members=None, visible=None)
    if metadata == "none":
        return replace(less, unsigned=None, collation=None, geometry_type=None, dimensions=None)
    return replace(less, collation=None) if spec.type in _MEMBERS else less


def _completed(
    spec: ColumnSpec,
    column: Column,
    known: ColumnDefinition | None,
    flavour: Flavour,
    *,
    named: bool,
) -> ColumnSpec:
    """What the log has of a column, completed from its schema or its definition."""
    members = None
    if column.members is not None:
        members = tuple(encode(column.charset, name) for name in column.members)
    told = ColumnSpec(
        spec.type,
        spec.metadata,
        spec.nullable,
        unsigned=column.unsigned or column.type is ColumnType.YEAR if named else None,
        collation=_collation(column, flavour) if named else column.collation,
        name=column.name if named else None,
        members=members,
    )
    if known is not None and known.declared:
        told, _ = declare(known, flavour)
    missing = {name: getattr(told, name) for name in _TOLD if getattr(spec, name) is None}
    return replace(spec, **missing)


def _collation(column: Column, flavour: Flavour) -> int | None:
    """The collation that a server logs for a column whose definition lacks it; None: none."""
    type_, logical = column.type, column.logical
    if type_ not in STRING_TYPES | _MEMBERS | {ColumnType.VECTOR, ColumnType.GEOMETRY}:
        return None
    if type_ is ColumnType.GEOMETRY:
        return BINARY if flavour is Flavour.MARIADB else None
    if column.collation is not None:
        return column.collation
    if type_ in _MEMBERS or logical is Logical.TEXT:
        return default_collation("utf8mb4", flavour)
    return collation_id("utf8mb4_bin", flavour) if logical is Logical.JSON else BINARY


_TOLD: Final = (
    "unsigned",
    "collation",
    "name",
    "members",
    "geometry_type",
    "visible",
    "dimensions",
)


_OLD_DEFAULT: Final = "11.5.0-MariaDB"
"""A version before the default character set changed."""


def _check_charsets(new: TableDefinition, old: TableDefinition) -> None:
    """Raise UsageError if the server's version decides a column's character set."""
    for one, other in zip(new.columns, old.columns, strict=True):
        charsets = [
            None if each.collation is None else charset_of(each.collation) for each in (one, other)
        ]
        if charsets[0] != charsets[1]:
            raise UsageError(
                f"{new.full_name}.{one.name} has no character set, and MariaDB's default"
                f" is {charsets[1]} before 11.6 and {charsets[0]} from then on: give"
                " server_version, such as 11.8.3-MariaDB, or the character set in the statement"
            )


def _flavour(flavour: Flavour | str) -> Flavour:
    try:
        return Flavour(flavour)
    except ValueError:
        known = " or ".join(Flavour)
        raise UsageError(f"flavour: {known}, and not {short_repr(flavour)}") from None


def _check_version(server_version: str, flavour: Flavour) -> None:
    """Raise UsageError for what is no version, and for MariaDB's given for MySQL."""
    if version_of(server_version) is None:
        raise UsageError(
            f"server_version: as SELECT version() gives it, and not {short_repr(server_version)}"
        )
    if flavour is Flavour.MYSQL and flavour_of(server_version) is Flavour.MARIADB:
        raise UsageError(f"server_version: {server_version} is MariaDB's, the flavour is mysql")


def session_of(flavour: Flavour, server_version: str = "") -> StatementSession:
    """The session of a server of that version with default settings; the newest if none is given.

    MariaDB before 11.6 creates latin1 tables. Before 11.5, the only default collation of a
    character set is the compiled-in one.
    """
    version = version_of(server_version) or (99, 0, 0)
    if flavour is Flavour.MYSQL:
        charset = "latin1" if version < (8, 0, 0) else "utf8mb4"
        return StatementSession(flavour, default_collation(charset, flavour))
    charset = "latin1" if version < (11, 6, 0) else "utf8mb4"
    collations: list[tuple[str, int]] = []
    if version >= (11, 5, 0):
        for name in ("utf8mb3", "ucs2", "utf8mb4", "utf16", "utf32"):
            collation = default_collation(name, flavour)
            if collation is not None:
                collations.append((name, collation))
    return StatementSession(
        flavour, default_collation(charset, flavour), charset_collations=tuple(collations)
    )


def _key_of(
    definition: TableDefinition, specs: tuple[ColumnSpec, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The primary key as logged: indexes, and how many characters of each column count (0: all).

    None if there is none. Raises `SchemaError` if it names a column that does not exist.
    """
    if not definition.primary_key:
        return None
    known = [column.name.casefold() for column in definition.columns]
    indexes = []
    for name in definition.primary_key:
        if name.casefold() not in known:
            raise SchemaError(
                f"table {definition.table}: the primary key names a column {name!r} that is not "
                "there"
            )
        indexes.append(known.index(name.casefold()))
    return tuple(indexes), _prefixes_of(definition, indexes, specs)


def _prefixes_of(
    definition: TableDefinition, indexes: Sequence[int], specs: tuple[ColumnSpec, ...]
) -> tuple[int, ...]:
    """How many characters of each key column count; 0 for all, also if the prefix covers all.

    Raises `SchemaError` if their number differs from that of the columns.
    """
    given = definition.key_prefixes or (0,) * len(indexes)
    if len(given) != len(indexes):
        raise SchemaError(
            f"table {definition.table}: {len(given)} prefixes for the {len(indexes)} columns of "
            "its primary key"
        )
    return tuple(
        0 if _counts_whole(specs[index], prefix) else prefix
        for index, prefix in zip(indexes, given, strict=True)
    )


def _counts_whole(spec: ColumnSpec, prefix: int) -> bool:
    """Whether a prefix of this length covers all of a CHAR, VARCHAR, BINARY or VARBINARY."""
    if spec.type not in {ColumnType.STRING, ColumnType.VARCHAR}:
        return not prefix
    return prefix * longest_character(spec.collation or BINARY) >= spec.metadata or not prefix
