"""A shard of an index: a folder of tantivy's, with a document for each row of its tables.

Its fields: ``key``, the table's number and the row's key; ``table``, the number; ``row``, the row
as a JSON object; ``copies`` of rows without a key that are equal; and the tokens of the row's text
by what its collations count as different (``ai``, ``as``, ``cs``). Two documents have other keys.
`STATE` has in ``row`` the shard's `State`, `DEFINITIONS` the tables' definitions
(`tailrace.schema.catalogue_json`). They change in the same commit as the rows, so that whoever
reads the shard sees whole transactions, and each change is indexed once.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import tantivy

from tailrace.constants import Flavour
from tailrace.errors import SchemaError, StorageError, TailraceError
from tailrace.events.status_vars import StatusVariable
from tailrace.position import Position
from tailrace.printable import short_repr
from tailrace.schema.alter import renamed_columns
from tailrace.schema.catalogue import Catalogue, Learned
from tailrace.schema.catalogue_json import from_json, to_json
from tailrace.schema.classify import leading_words
from tailrace.schema.clauses import (
    COMPUTED,
    Convert,
    DropColumn,
    PrimaryKey,
    PutColumn,
    RenameTable,
    moves_rows,
    names_after,
)
from tailrace.schema.conversions import Modes, shows_same
from tailrace.schema.ddl import (
    AlterTable,
    CreateLike,
    CreateTable,
    DropDatabase,
    DropTable,
    Truncate,
    Unclear,
)
from tailrace.schema.defaults import Session, added_value
from tailrace.schema.session import session_of_event
from tailrace.schema.tokens import tokenize
from tailrace.search.analysis import Folding
from tailrace.sql.logged import pair, renaming
from tailrace.sql.rows import Period
from tailrace.table_name import TableName
from tailrace.values.change_record import image_json
from tailrace.values.charsets import collation_name
from tailrace.values.image import ABSENT
from tailrace.values.registry import json_writer_of
from tailrace.values.schema import STRING_TYPES, Logical

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from tailrace.events import QueryEvent, RowsEvent
    from tailrace.schema.ddl import Effect
    from tailrace.schema.session import StatementSession
    from tailrace.schema.tables import TableState
    from tailrace.schema.tokens import SqlToken
    from tailrace.search.analysis import Analyser
    from tailrace.table_filter import TableFilter
    from tailrace.values.family import JsonWriter
    from tailrace.values.image import Image
    from tailrace.values.row import Row
    from tailrace.values.schema import Column, TableSchema

STATE: Final = "state"
"""The key of the document that has the shard's state."""
DEFINITIONS: Final = "definitions"
"""The key of the document that has the definitions, up to ``read`` of the state."""
JSON: Final = "json"
"""The class of JSON columns, whose strings are searched without case and accents."""
_VERSION: Final = 1
_TOKENS: Final = "tailrace"
"""The name of the index's tokenizer."""
_FOLDINGS: Final = {str(each): each for each in Folding}  # faster than to ask the class
_HASH: Final = re.compile(r"DB_ROW_HASH_[0-9]+")
_CACHED: Final = 1000
_HEAP: Final = 64 << 20
"""Bytes of memory in which tantivy gathers documents before it writes them."""


@dataclass
class IndexedTable:
    """A table in a shard: its number, the columns of its key, and the classes of its text columns.

    The class is a `Folding`, or `JSON`. A table without a key is known by its whole rows, and so is
    one whose key does not tell its rows apart. Up to ``loaded``, a position, its rows were read by
    SELECT; it was ``missing`` then.
    """

    number: int
    key: list[str] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    loaded: str | None = None
    missing: bool = False


@dataclass
class State:
    """What a shard holds: its tables by name, and how far the log was read for it.

    ``position`` is where to resume. What was read up to ``read`` is in the shard; that is more
    while an XA transaction is prepared. ``time`` is when the last transaction was committed on the
    server, in microseconds UTC; ``next`` is the number of the next table. ``lake`` is of an index
    of a lake: the files that have the rows of its tables (`tailrace.spark.search`). By ``mark`` the
    log file of ``position`` is known again (`tailrace.log_mark`).
    """

    position: Position | None = None
    read: Position | None = None
    time: int | None = None
    next: int = 1
    tables: dict[str, IndexedTable] = field(default_factory=dict)
    lake: dict[str, dict[str, Any]] | None = None
    mark: str | None = None

    @classmethod
    def loads(cls, text: bytes) -> Self:
        """From what `dumps` gave. Raises StorageError for another version."""
        saved = json.loads(text)
        version = saved.pop("version")
        if version != _VERSION:
            raise StorageError(f"a shard has format {version}, and this Tailrace reads {_VERSION}")
        for name in ("position", "read"):
            saved[name] = saved[name] and Position.parse(saved[name])
        tables = {_named(name): IndexedTable(**each) for name, each in saved.pop("tables").items()}
        if (lake := saved.pop("lake", None)) is not None:
            lake = {_named(name): each for name, each in lake.items()}
        return cls(tables=tables, lake=lake, **saved)

    def dumps(self) -> bytes:
        """As JSON."""
        saved = {**asdict(self), "version": _VERSION}
        for name in ("position", "read"):
            saved[name] = getattr(self, name) and str(getattr(self, name))
        return json.dumps(saved).encode()


@contextmanager
def tantivy_errors(folder: Path) -> Iterator[None]:
    """Raises StorageError where tantivy cannot read its files: ValueError, or a panic of Rust."""
    try:
        yield
    except TailraceError:  # some are ValueErrors
        raise
    except BaseException as error:
        if not isinstance(error, ValueError) and type(error).__name__ != "PanicException":
            raise
        raise StorageError(f"{folder}: {error}") from error


def open_shard(folder: Path, analyser: Analyser, *, make: bool = False) -> tantivy.Index:
    """A shard's index, which is made if it is missing and ``make`` is True. Raises StorageError."""
    with tantivy_errors(folder):
        if make:
            folder.mkdir(parents=True, exist_ok=True)
            index = tantivy.Index(_schema(), str(folder))
        else:
            index = tantivy.Index.open(str(folder))
    index.register_tokenizer(_TOKENS, analyser.analyzer)
    index.config_reader("manual")
    return index


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("key", tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field("table", indexed=True, fast=True, stored=True)
    builder.add_bytes_field("row", stored=True)
    builder.add_unsigned_field("copies", stored=True)
    for folding in Folding:
        builder.add_text_field(folding, tokenizer_name=_TOKENS)
    return builder.build()


def state_in(index: tantivy.Index, searcher: tantivy.Searcher) -> State:
    """The state of a shard, as of the moment that the searcher shows."""
    found = _document(index, searcher, STATE)
    return State() if found is None else State.loads(bytes(found["row"][0]))


def _document(
    index: tantivy.Index, searcher: tantivy.Searcher, key: str
) -> tantivy.Document | None:
    hits = searcher.search(tantivy.Query.term_query(index.schema, "key", key), 1, count=False).hits
    return searcher.doc(hits[0][1]) if hits else None


def text_class(column: Column) -> str | None:
    """The class of a column's text, by its type and collation; None if it has none."""
    if column.logical is Logical.JSON:
        return JSON
    if column.logical is not Logical.TEXT or column.type not in STRING_TYPES:
        return None
    collation = column.collation
    for flavour in Flavour if collation is not None else ():
        try:
            return Folding.of(collation_name(collation or 0, flavour))
        except SchemaError:
            continue
    return Folding.ACCENTS


def strings_of(value: Any) -> Iterator[str]:
    """The strings in a JSON document, without the names of members."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting.extend(reversed(each.values()))
        elif isinstance(each, list):
            waiting.extend(reversed(each))


class _Plan(NamedTuple):
    """How to index the rows of a table, as its log describes it."""

    schema: TableSchema
    number: int
    key: tuple[tuple[int, JsonWriter], ...]
    texts: tuple[tuple[int, str], ...]
    period: Period | None
    replaces: bool
    """A row may be there already: SELECT gives what was inserted after the snapshot into tables
    without transactions.
    """
    hashes: frozenset[str]
    """Hidden columns, which MariaDB has for unique keys of long texts: some images have them."""


class ShardWriter:
    """Takes rows and statements into a shard; `commit` lets readers see them, with the position.

    Nothing of what was taken in after the last `commit` is there after a crash, so that one
    continues from ``state.position``. With ``takes`` the shard has the rows only whose key it
    accepts. Raises StorageError if another writer has the shard.
    """

    def __init__(
        self, folder: Path, analyser: Analyser, *, takes: Callable[[str], bool] | None = None
    ) -> None:
        self._folder = folder
        self._index = open_shard(folder, analyser, make=True)
        try:
            self._writer = self._index.writer(_HEAP, 1)
            self._writer.garbage_collect_files()  # of a writer that was killed in its commit
        except ValueError as error:
            raise StorageError(
                f"{folder}: another process writes to this index ({error})"
            ) from error
        self._analyser = analyser
        self._takes = takes
        with tantivy_errors(folder):
            searcher = self._index.searcher()
            self.state = state_in(self._index, searcher)
            saved = _document(self._index, searcher, DEFINITIONS)
        self._definitions = Catalogue()
        if saved is not None and self.state.read is not None:
            known = from_json(json.loads(bytes(saved["row"][0])))
            self._definitions = known.as_of(self.state.read)
        self._is_redefined = saved is None
        self._schemas: dict[bytes, TableSchema] = {}
        self._plans: dict[int, _Plan] = {}
        self._copies: dict[str, int] = {}
        self.pending = 0
        """Rows and statements since the last commit."""

    # --- definitions ---------------------------------------------------------------------------

    def share_definitions(self, reading: Catalogue) -> None:
        """Let the reader know the tables, and take over what it knows where it begins."""
        reading.take_over(self._definitions)
        self._definitions = reading.copy()
        if self.state.read is not None:  # the reader may begin earlier
            self._definitions.settle(self.state.read)

    def defines(self, table: TableName) -> bool:
        """Whether a table's definition is known."""
        return any(each is not None for each in self._definitions.definitions_of(*table))

    def learn(self, state: TableState, position: Position) -> None:
        """A table is defined like this at a position, by its server."""
        self._definitions.learn(Learned(state, position))
        self._redefined()

    def _redefined(self) -> None:
        self._is_redefined = True
        self._schemas.clear()

    def schema_of(self, event: RowsEvent) -> TableSchema:
        """The schema of logged rows, by the definitions at their place. The reader is ahead, and
        does not know what SELECT or the server said meanwhile.
        """
        table = event.table_map
        if (found := self._schemas.get(table.body)) is None:
            if len(self._schemas) >= _CACHED:
                self._schemas.clear()
            found = self._definitions.resolve(table, event.form.flavour)
            self._schemas[table.body] = found
        return found

    # --- rows ----------------------------------------------------------------------------------

    def change(self, table: TableSchema, rows: Iterable[Row]) -> None:
        """Take in changed rows of a table, or those of a result (`ResultSet`).

        Raises SchemaError for rows of which not all columns are in the log.
        """
        plan = self._plan(table)
        for each in rows:
            row = each if plan.period is None else plan.period.current(each)
            self.pending += 1
            if row is None:  # history of a table with system versioning
                continue
            if row.before is not None:
                self._remove(plan, row.before)
            if row.after is not None:
                self._put(plan, row.after)

    def takes_changes(self, table: TableName, read: Position) -> bool:
        """Whether the log is needed for changes of a table up to a position: False if its rows
        were read by SELECT later.
        """
        return not self._is_ahead(str(table), read)

    def _is_ahead(self, name: str, read: Position) -> bool:
        """Whether the rows of a table are those of a later position."""
        known = self.state.tables.get(name)
        return (
            known is not None and known.loaded is not None and read <= Position.parse(known.loaded)
        )

    def loaded(self, table: TableSchema, state: TableState, position: Position) -> None:
        """All rows of a table as of a position were taken in."""
        self.learn(state, position)
        self._plan(table)
        self.state.tables[str(table.full_name)].loaded = str(position)
        self._plans.clear()

    def missing(self, name: str, position: Position) -> None:
        """There is no such table at a position, though its rows were to be read."""
        self.drop(name)
        self.state.tables[name] = IndexedTable(self.state.next, loaded=str(position), missing=True)
        self.state.next += 1

    def _plan(self, table: TableSchema) -> _Plan:
        plan = self._plans.get(id(table))
        if plan is not None and plan.schema is table:
            return plan
        name = str(table.full_name)
        if table.names_from == "none":
            raise SchemaError(
                f"{name}: the log does not have the names of its columns: set"
                " binlog_row_metadata=FULL on the server, or give its CREATE TABLE (--schema FILE)"
            )
        classes = {each.index: text_class(each) for each in table.columns}
        texts = tuple((index, kind) for index, kind in classes.items() if kind is not None)
        period = Period.of(table)
        hidden = () if period is None else period.columns
        key = tuple(each for each in table.primary_key if each not in hidden)
        if not table.key_is_whole or any(table.columns[each].has_equal_texts for each in key):
            key = ()
        columns = {table.columns[index].name: kind for index, kind in texts}
        names = [table.columns[index].name for index in key]
        known = self.state.tables.get(name)
        if known is not None:  # MariaDB's logs do not say which text is JSON
            columns |= {each: JSON for each in columns if known.columns.get(each) == JSON}
            texts = tuple((index, columns[table.columns[index].name]) for index, _ in texts)
        if known is None:
            known = self.state.tables[name] = IndexedTable(self.state.next, names, columns)
            self.state.next += 1
        elif (known.key, known.columns) != (names, columns):
            there = {each.name for each in table.columns}
            if known.key != names and known.columns and self._takes is not None:
                raise SchemaError(f"{name}: it has another key now: build the index again")
            known.key, known.columns = names, columns
            self._again(known, lambda row: {name: row[name] for name in row if name in there})
        if len(self._plans) >= _CACHED:
            self._plans.clear()
        writers = tuple((index, json_writer_of(table.columns[index])) for index in key)
        plan = self._plans[id(table)] = _Plan(
            table,
            known.number,
            writers,
            texts,
            period,
            known.loaded is not None,
            frozenset(each.name for each in table.columns if _HASH.fullmatch(each.name)),
        )
        return plan

    def _key(self, plan: _Plan, image: Image) -> str:
        if not plan.key:
            self._check_whole(plan, image.as_tuple())
            row = _row(plan, image)
            for index, kind in plan.texts:
                if kind == JSON:
                    name = plan.schema.columns[index].name
                    row[name] = _parsed(row[name])
            return _row_key(plan.number, row)
        values = []
        for index, write in plan.key:
            value = image.at(index)
            if value is ABSENT:
                raise _not_whole(plan)
            if type(value) is not int and type(value) is not str:
                value = json.loads(write(value))
            values.append(value)
        return _key(plan.number, values)

    def _remove(self, plan: _Plan, image: Image) -> None:
        key = self._key(plan, image)
        if self._takes is not None and not self._takes(key):
            return
        self._writer.delete_documents_by_term("key", key)
        if not plan.key:
            left = self._copies[key] = max(self._copies_of(key) - 1, 0)
            if left:
                self._add(plan, image, key, left)

    def _put(self, plan: _Plan, image: Image) -> None:
        key = self._key(plan, image)
        if self._takes is not None and not self._takes(key):
            return
        copies = 1
        if not plan.key:
            copies = self._copies[key] = self._copies_of(key) + 1
        if copies > 1 or plan.replaces:
            self._writer.delete_documents_by_term("key", key)
        self._add(plan, image, key, copies)

    def _copies_of(self, key: str) -> int:
        """How many rows without a key are equal to one, with those since the last commit."""
        found = self._copies.get(key)
        if found is None:
            document = _document(self._index, self._index.searcher(), key)
            found = 0 if document is None else document.get_first("copies") or 1
        return found

    def _add(self, plan: _Plan, image: Image, key: str, copies: int) -> None:
        values = image.as_tuple()
        texts = [
            (kind, value) for index, kind in plan.texts if (value := values[index]) is not None
        ]
        self._check_whole(plan, values)
        row = _json(_row(plan, image)) if plan.hashes else _encoded(image_json(image))
        self._write(key, plan.number, row, texts, copies)

    @staticmethod
    def _check_whole(plan: _Plan, values: Sequence[Any]) -> None:
        if ABSENT in values and any(
            value is ABSENT and plan.schema.columns[index].name not in plan.hashes
            for index, value in enumerate(values)
        ):
            raise _not_whole(plan)

    def _write(
        self, key: str, number: int, row: bytes, texts: Iterable[tuple[str, Any]], copies: int
    ) -> None:
        document = tantivy.Document()
        document.add_text("key", key)
        document.add_unsigned("table", number)
        document.add_bytes("row", row)
        if copies > 1:
            document.add_unsigned("copies", copies)
        index_text = self._analyser.index_text
        for kind, value in texts:
            if kind != JSON:
                text = value if isinstance(value, str) else _json(value).decode("utf-8", "replace")
                document.add_text(kind, index_text(text, _FOLDINGS[kind]))
                continue
            for each in strings_of(_parsed(value)):
                document.add_text(Folding.ACCENTS, index_text(each, Folding.ACCENTS))
        try:
            self._writer.add_document(document)
        except ValueError as error:  # a full disk; `tantivy_errors` would cost more for each row
            raise StorageError(f"{self._folder}: {error}") from error

    # --- statements ----------------------------------------------------------------------------

    def statement(self, event: QueryEvent, wants: TableFilter, read: Position) -> set[TableName]:
        """Let a logged statement take effect, if it concerns tables of the index (``wants``).

        ``read`` is where it is in the log: tables whose rows are of a later position have its
        effect already. The caller commits before it and after it. The result are tables that have
        other rows now, which are not in the log: they are empty in the index, to be read again.
        Raises SchemaError if what the statement does to tables of the index is not understood.
        """
        unknown: set[TableName] = set()
        known = self._definitions
        known.settle(Position(event.file or "", event.offset or 0))
        effects = known.effects_of(event, event.form.flavour)
        alters = any(isinstance(each, AlterTable) for each in effects)
        defined = known.copy() if alters else known
        if known.apply_event(event, event.form.flavour, effects):
            self._redefined()
        for effect in effects:
            tables = {
                name: each
                for name, each in self.state.tables.items()
                if each.missing or not self._is_ahead(name, read)
            }
            ahead = self.state.tables.keys() - tables
            emptied = self._effect(effect, event, tables, defined)
            self._drop_each(tables, map(_name, emptied))
            unknown |= emptied
            if (renamed := renaming(effect)) is not None:
                old, new = renamed
                if old in unknown:
                    unknown = unknown - {old} | {new}
                if self._rename(tables, ahead, old, new, wants):
                    unknown.add(new)
        return {each for each in unknown if wants(*each)}

    def _effect(
        self,
        effect: Effect,
        event: QueryEvent,
        tables: dict[str, IndexedTable],
        defined: Catalogue,
    ) -> set[TableName]:
        """The tables that a statement's effect gives other rows, of ``tables``: those whose rows
        are not of a later position.
        """
        match effect:
            case DropTable() | CreateTable(unless_exists=False) | CreateLike(unless_exists=False):
                self._drop_each(tables, [_name(pair(effect.name))])
            case Truncate() if _name(pair(effect.name)) in tables:
                self.clear(_name(pair(effect.name)))
            case DropDatabase():
                self._drop_each(tables, _in_database(tables, effect.database))
            case Unclear(unless_exists=False):
                if effect.name is None:
                    names = _in_database(tables, event.database)
                else:
                    names = [each for each in (_name(pair(effect.name)),) if each in tables]
                if names and leading_words(event.sql, 1) != ["CREATE"]:
                    raise event.error(
                        f"{names[0]}: a statement is not understood: {effect.reason}:"
                        f" «{event.sql:.200}»: index the server after it",
                        SchemaError,
                    )
                self._drop_each(tables, names)
            case AlterTable():
                session, sql = session_of_event(event, event.form.flavour)
                tokens = [] if session is None else tokenize(sql, session.flavour, session.sql_mode)
                emptied = {each for each in effect.exchanged if _name(each) in tables}
                known = tables.get(_name(pair(effect.name)))
                if known is None or session is None:
                    return emptied
                moved = moves_rows(effect.clauses)
                if moved == "ENGINE = BLACKHOLE":
                    raise event.error(
                        f"{_name(pair(effect.name))}: the log has rows from now on that the table"
                        f" does not keep: «{event.sql:.200}»: leave it out (--exclude)",
                        SchemaError,
                    )
                changed = self._changed(known, effect, event, defined)
                if moved or changed or _fills_rows(effect, tokens, session, event):
                    return emptied | {pair(effect.name)}
                if self._needs_rows(known, effect):
                    return emptied | {pair(effect.name)}
                self._alter(known, effect)
                return emptied
        return set()

    def _drop_each(self, tables: dict[str, IndexedTable], names: Iterable[str]) -> None:
        """Remove those of some tables that are among ``tables``, and from these."""
        for name in [each for each in names if each in tables]:
            del tables[name]
            self.drop(name)

    def _rename(
        self,
        tables: dict[str, IndexedTable],
        ahead: Collection[str],
        old: TableName,
        new: TableName,
        wants: TableFilter,
    ) -> bool:
        """Rename a table of ``tables``; ``ahead`` are those that have the rows of a later position.

        Whether the new one's rows are unknown.
        """
        if _name(new) in ahead:
            self._drop_each(tables, [_name(old)])
            return False
        self._drop_each(tables, [_name(new)])
        known = tables.get(_name(old))
        if known is not None and not known.missing and wants(*new):
            self.state.tables[_name(new)] = self.state.tables.pop(_name(old))
            self._plans.clear()
            self.pending += 1
            return False
        self._drop_each(tables, [_name(old)])
        was_missing = known is not None and known.missing
        return was_missing or _name(old) in ahead or not wants(*old)

    def _changed(
        self, known: IndexedTable, effect: AlterTable, event: QueryEvent, defined: Catalogue
    ) -> set[str]:
        """The columns whose values an ALTER TABLE converts, by their old names in lower case.

        Those whose definition is not known may be converted; so may all texts by CONVERT TO.
        """
        names = renamed_columns(effect.clauses)
        renamed = next((each for each in effect.clauses if isinstance(each, RenameTable)), None)
        key = effect.name.key
        before = defined.logged(key)
        now = key if renamed is None else (renamed.database or key[0], renamed.table)
        after = self._definitions.logged(now)
        if before is None or after is None:
            put = {each.old or "" for each in effect.clauses if isinstance(each, PutColumn)} - {""}
            if any(isinstance(each, Convert) for each in effect.clauses):
                put |= known.columns.keys()
            return set(map(str.casefold, put))
        flavour = event.form.flavour
        modes = Modes.of(event.status_value(StatusVariable.SQL_MODE) or 0, flavour)
        found = {column.name.casefold(): column for column in after.definition.columns}
        changed = set()
        for old in before.definition.columns:
            name = old.name.casefold()
            new = found.get(names.get(name, name).casefold())
            if new is not None and not shows_same(old, new, flavour, modes):
                changed.add(name)
        return changed

    def _needs_rows(self, known: IndexedTable, effect: AlterTable) -> bool:
        """Whether rows belong to other shards after an ALTER TABLE."""
        keys = {each.casefold() for each in known.key}
        dropped, rekeyed = set[str](), False
        for each in effect.clauses:
            if isinstance(each, PutColumn):
                rekeyed = rekeyed or each.column.primary
            elif isinstance(each, DropColumn):
                dropped.add(each.name.casefold())
            rekeyed = rekeyed or isinstance(each, PrimaryKey)
        if self._takes is None:
            return False
        if not keys:
            return names_after(effect.clauses) is not None or rekeyed
        return rekeyed or bool(dropped & keys)

    def drop(self, name: str) -> None:
        """Remove a table."""
        self.clear(name)
        self.state.tables.pop(name, None)
        self._plans.clear()

    def clear(self, name: str) -> None:
        """Remove a table's rows."""
        known = self.state.tables.get(name)
        if known is not None:
            self.pending += 1
            self._writer.delete_documents_by_query(self._rows_of(known))
            self._copies = {
                key: 0 if key.startswith(f"{known.number} ") else copies
                for key, copies in self._copies.items()
            }

    def _rows_of(self, known: IndexedTable) -> tantivy.Query:
        return tantivy.Query.term_query(self._index.schema, "table", known.number)

    def _alter(self, known: IndexedTable, effect: AlterTable) -> None:
        """Columns of other names, and fewer ones. Other classes show in the next rows."""
        now = names_after(effect.clauses)
        if now is None:
            return
        self.pending += 1
        known.key = [new for each in known.key if (new := now(each)) is not None]
        known.columns = {
            new: kind for each, kind in known.columns.items() if (new := now(each)) is not None
        }
        self._plans.clear()
        self._again(
            known,
            lambda row: {new: row[each] for each in row if (new := now(each)) is not None},
        )

    def _again(
        self, known: IndexedTable, change: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> None:
        """Index the rows of a table again, from what is stored of them."""
        self._index.reload()
        searcher = self._index.searcher()
        query = self._rows_of(known)
        hits = searcher.search(query, max(searcher.num_docs, 1), count=False).hits
        self._writer.delete_documents_by_query(query)
        copies: dict[str, int] = {}
        for rewrite in (False, True):  # rows without a key may have become equal
            for _, address in hits if rewrite or not known.key else ():
                document = searcher.doc(address)
                row = change(json.loads(bytes(document["row"][0])))
                key = key_of(known, row)
                if not rewrite:
                    copies[key] = copies.get(key, 0) + (document.get_first("copies") or 1)
                elif number := copies.pop(key, 1 if known.key else 0):
                    texts = [
                        (kind, row[name])
                        for name, kind in known.columns.items()
                        if row.get(name) is not None
                    ]
                    self._write(key, known.number, _json(row), texts, number)

    # --- commits -------------------------------------------------------------------------------

    def commit(
        self, position: Position | None, *, read: Position | None = None, time: int | None = None
    ) -> None:
        """Let readers see what was taken in, at the end of a transaction.

        ``position`` is where to resume after it; the rest is as in `State`.
        """
        self.state.position = position
        self.state.read = read or position
        self.state.time = time or self.state.time
        saved = {STATE: self.state.dumps()}
        if self._is_redefined:
            saved[DEFINITIONS] = json.dumps(to_json(self._definitions)).encode()
        with tantivy_errors(self._folder):
            for key, content in saved.items():
                document = tantivy.Document()
                document.add_text("key", key)
                document.add_bytes("row", content)
                self._writer.delete_documents_by_term("key", key)
                self._writer.add_document(document)
            self._writer.commit()
            self._index.reload()
        self._is_redefined = False
        self._copies.clear()
        self.pending = 0

    def close(self) -> None:
        """End without another commit; wait for segments that are being merged."""
        with tantivy_errors(self._folder):
            self._writer.rollback()
            self._writer.wait_merging_threads()


def _fills_rows(
    effect: AlterTable, tokens: Sequence[SqlToken], session: StatementSession, event: QueryEvent
) -> bool:
    """Whether a statement adds a column that is not NULL in the rows that are there."""
    started = Session(event.timestamp_us, None, event.explicit_timestamps)
    for clause in effect.clauses:
        if not isinstance(clause, PutColumn) or clause.old is not None:
            continue
        own = tokens[slice(*clause.tokens)]
        if clause.column.primary or not COMPUTED.isdisjoint(token.key for token in own):
            return True
        try:
            if added_value(clause.column.define(None, session), own, started) is not None:
                return True
        except SchemaError:
            return True
    return False


def _not_whole(plan: _Plan) -> SchemaError:
    return SchemaError(
        f"{plan.schema.full_name}: the log does not have whole rows: set"
        " binlog_row_image=FULL on the server, and build the index again; a table of MariaDB with"
        " generated columns cannot be followed: leave it out (--exclude)"
    )


def _named(saved: str) -> str:
    """A table's name in a saved state: earlier releases joined any two names by a dot.

    Raises StorageError where that can be two tables.
    """
    if "`" not in saved and saved.count(".") > 1:
        raise StorageError(
            f"an earlier Tailrace made this index, and {short_repr(saved)} may be two tables in it:"
            " build the index again"
        )
    return str(TableName.parse(saved))


def _name(table: tuple[str, str]) -> str:
    return str(TableName(*table))


def _in_database(tables: Iterable[str], database: str) -> list[str]:
    return [each for each in tables if TableName.parse(each).database == database]


def _parsed(value: Any) -> Any:
    """A JSON column's value; MariaDB's may be text that is no JSON."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _json(value: Any) -> bytes:
    return _encoded(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _row(plan: _Plan, image: Image) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(image_json(image))
    return {name: row[name] for name in row if name not in plan.hashes}


def key_of(known: IndexedTable, row: dict[str, Any]) -> str:
    """The key of a row, as it is stored, in the index."""
    if known.key:
        return _key(known.number, [row.get(name) for name in known.key])
    return _row_key(known.number, row)


def _key(number: int, values: Sequence[Any]) -> str:
    if len(values) == 1 and type(values[0]) is int:  # faster
        return f"{number} [{values[0]}]"
    return f"{number} {json.dumps(values)}"


def _row_key(number: int, row: dict[str, Any]) -> str:
    """The key of a whole row; columns that are NULL may be added and moved."""
    known = {name: row[name] for name in sorted(row) if row[name] is not None}
    return f"{number} #{blake2b(_json(known), digest_size=16).hexdigest()}"
