"""What a lake's committed version holds, and how far each source was read: its manifest.

One JSON file in the version's folder. It is read by us alone; the data files are plain Parquet.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from tailrace.errors import PipelineError
from tailrace.position import Position
from tailrace.printable import short_repr
from tailrace.spark.manifest import consistent, layout_3
from tailrace.spark.manifest.damage import reading_file
from tailrace.spark.manifest.json_file import read_layout
from tailrace.spark.manifest.names import check_plain
from tailrace.spark.manifest.on_disk import write_file
from tailrace.spark.manifest.status import SET_ASIDE, Status
from tailrace.table_filter import TableFilter
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.spark.manifest.status import Kind

LAYOUT: Final = 4
"""Incremented when an older Tailrace could no longer read the lake."""
NAME: Final = "manifest.json"


@dataclass(frozen=True)
class SourceState:
    """How far a source's log is in the lake: up to ``offset`` of ``file``.

    ``files`` has the sizes of the files before that one, as they were read. ``head`` and ``tail``
    are digests of its first bytes and of those before ``offset``, by which it is known again.
    ``tables`` is the schema history up to where ``file`` begins (`tailrace.schema.catalogue_json`).
    ``followed`` are tables that are not selected, and that the lake has since their CREATE TABLE
    (`tailrace.spark.helper_tables`). ``seen`` is up to where the log was known when the batch
    was planned: what is rolled back up to there was left out (None: in a lake of an earlier build).
    """

    file: str
    offset: int
    files: dict[str, int]
    head: str
    tail: str
    tables: dict[str, Any]
    followed: tuple[TableName, ...] = ()
    seen: Position | None = None

    @property
    def position(self) -> Position:
        """Where what follows begins."""
        return Position(self.file, self.offset)

    @classmethod
    def of(cls, value: dict[str, Any]) -> Self:
        """As it stands in a manifest. Raises ValueError, TypeError, SchemaError."""
        followed = tuple(TableName(*each) for each in value.get("followed", []))
        seen = Position.parse(_text(value["seen"], "a position")) if "seen" in value else None
        found = cls(**{**value, "followed": followed, "seen": seen})
        for database, table in followed:
            _text(database, "a database")
            _text(table, "a table")
        _text(found.file, "a log's name")
        for name in (found.head, found.tail):
            _text(name, "a digest")
        _whole(found.offset, "an offset")
        for name, size in found.files.items():
            _text(name, "a log's name")
            _whole(size, "a log's size")
        if not isinstance(found.tables, dict):
            raise TypeError("the schema history is not a JSON object")
        return found


@dataclass(frozen=True)
class DataFile:
    """A data file of a table, by its name in the table's folder; ``memory``: bytes as Arrow.

    ``rows`` is how many it has, of which ``deleted`` are deleted: only files of a current state in
    Delta and Iceberg have any, and the table itself says which. ``spent`` is the bytes that its
    deletion vectors have taken so far, batch by batch (`tailrace.spark.current.patching`).
    """

    name: str
    rows: int
    size: int
    memory: int
    deleted: int = 0
    spent: int = 0

    @classmethod
    def of(cls, value: dict[str, Any]) -> Self:
        """As it stands in a manifest. Raises ValueError, TypeError."""
        found = cls(**value)
        if found.name != "":
            check_plain(found.name, "a data file's name")
        for number in (found.rows, found.size, found.memory, found.deleted, found.spent):
            _whole(number, "a data file's figure")
        return found

    @property
    def live(self) -> int:
        """The rows that are not deleted."""
        return self.rows - self.deleted


@dataclass(frozen=True)
class Current:
    """A table's current state: files of which the n-th holds the keys of bucket n, and tails.

    ``tails`` are files with rows of any keys, newer than those in the buckets' files; a live row
    is in one file only. ``columns`` are those of the table and ``key`` its key's, by which
    the rows are bucketed. Of a table that never had a current state, and in lakes of earlier
    releases, ``refused`` says why there is none, and there is no file. ``unseen`` counts rows whose
    insert is not in the log; ``unlogged`` are columns that are left out, since the log does not
    tell what updates made of them. ``added`` are columns that no row has shown the type of yet:
    name, default's text, and why that is unknown.
    """

    columns: pa.Schema
    key: tuple[str, ...]
    files: tuple[DataFile | None, ...] = ()
    refused: str | None = None
    unseen: int = 0
    notes: tuple[str, ...] = ()
    unlogged: tuple[str, ...] = ()
    added: tuple[tuple[str, str | None, str | None], ...] = ()
    tails: tuple[DataFile, ...] = ()

    @property
    def places(self) -> tuple[DataFile | None, ...]:
        """The files by bucket, then the tails: in the order of their paths."""
        return (*self.files, *self.tails)

    @property
    def data(self) -> tuple[DataFile, ...]:
        """All files that there are."""
        return tuple(file for file in self.places if file is not None)

    @property
    def rows(self) -> int:
        """The rows of the table."""
        return sum(file.live for file in self.data)


@dataclass(frozen=True)
class History:
    """A table's history: files of open versions by bucket, as `Current` has them, and closed ones.

    Lakes of tables do not list the ``closed`` files, but for one entry without a name that has
    their sums. ``gaps`` are sentences that say where versions are missing: the table was
    unsupported, and recreated since.
    """

    columns: pa.Schema
    key: tuple[str, ...]
    open: tuple[DataFile | None, ...] = ()
    closed: tuple[DataFile, ...] = ()
    refused: str | None = None
    unseen: int = 0
    notes: tuple[str, ...] = ()
    unlogged: tuple[str, ...] = ()
    added: tuple[tuple[str, str | None, str | None], ...] = ()
    gaps: tuple[str, ...] = ()

    @property
    def data(self) -> tuple[DataFile, ...]:
        """All files that there are."""
        return (*(file for file in self.open if file is not None), *self.closed)

    @property
    def rows(self) -> int:
        """The versions, open and closed."""
        return sum(file.rows for file in self.data)


@dataclass(frozen=True)
class TableState:
    """A table in the lake; ``dropped`` where the source has it no more (its changelog stays).

    ``folder`` is the name of its folder, by which its parts are called too (`manifest.names`).

    ``columns`` are all that its changelog has, with the newest types. In a lake of tables ``parts``
    names the table that holds each of what is kept, and ``shapes`` the columns that those have;
    ``changelog`` has one entry without a name then, of the sums, and ``small`` names the last small
    files of a changelog, and of a history's ended versions, which may be compacted (`merging`).
    ``marks`` are those of these tables (`lake.steps.Content`) since Tailrace last wrote to them:
    others have written to one that has another.
    """

    database: str
    table: str
    source: str
    names: str
    columns: pa.Schema
    changelog: tuple[DataFile, ...] = ()
    current: Current | None = None
    dropped: bool = False
    history: History | None = None
    parts: dict[str, str] = field(default_factory=dict)
    shapes: dict[str, pa.Schema] = field(default_factory=dict)
    small: dict[str, tuple[DataFile, ...]] = field(default_factory=dict)
    folder: str = ""
    marks: dict[str, str] = field(default_factory=dict)
    states: tuple[Status, ...] = ()
    """Why it is not its source's table: one of each kind at most."""

    @property
    def full_name(self) -> TableName:
        """Database and table."""
        return TableName(self.database, self.table)

    def status(self, kind: Kind) -> Status | None:
        """The one of a kind."""
        return next((each for each in self.states if each.kind == kind), None)

    @property
    def set_aside(self) -> Status | None:
        """Why it stands still, if it does."""
        return self.status(SET_ASIDE)

    def with_status(self, kind: Kind, status: Status | None) -> TableState:
        """The same with another status of a kind, or with none."""
        rest = tuple(each for each in self.states if each.kind != kind)
        return replace(self, states=rest if status is None else (*rest, status))


@dataclass(frozen=True)
class Manifest:
    """All of a committed version. ``tables`` and ``keep`` are what the lake was created with.

    ``cascades`` says whether the mirror carries out what foreign keys do (``apply``).
    ``points`` are the positions, by source and text, since which tables are set aside: what it
    takes to read the source's log again from there.
    """

    version: int = 0
    patterns: tuple[str, ...] | None = None
    keep: tuple[str, ...] = ()
    sources: dict[str, SourceState] = field(default_factory=dict)
    tables: dict[str, TableState] = field(default_factory=dict)
    format: str = "parquet"
    shards: bool = False
    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    update_mode: str = "copy-on-write"
    exclude: tuple[str, ...] = ()
    points: dict[str, dict[str, SourceState]] = field(default_factory=dict)
    cascades: str = "name"

    @property
    def mirrored(self) -> TableFilter:
        """The tables that the lake was created with."""
        return TableFilter(self.patterns, self.exclude)

    def write(self, folder: Path) -> None:
        """Write it into a version's folder, in one step. Raises OSError.

        Raises `PipelineError` for one that nobody could read: the lake stays as it was.
        """
        try:
            consistent.check(self)
        except ValueError as error:
            raise PipelineError(
                f"{folder / NAME}: what was to be committed could not be read again, so it is not: "
                f"{error}; this is a mistake of Tailrace's, please report it"
            ) from error
        content = {"layout": LAYOUT, **_plain(self)}
        write_file(folder / NAME, [json.dumps(content)])

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a version's manifest; raises `PipelineError` for damage and for another layout."""
        path = folder / NAME
        with reading_file(path, "a lake's manifest"):
            content = read_layout(path, LAYOUT, layout_3.upgraded)
            found = cls(
                _whole(content["version"], "version"),
                None if content["patterns"] is None else _texts(content["patterns"]),
                _texts(content["keep"]),
                {name: SourceState.of(value) for name, value in content["sources"].items()},
                _tables(content["tables"], shards=bool(content["shards"])),
                _text(content["format"], "format"),
                _flag(content["shards"], "shards"),
                tuple((_key(name), _texts(key)) for name, key in content["keys"]),
                _text(content["update_mode"], "update_mode"),
                _texts(content["exclude"]),
                {
                    source: {at: SourceState.of(value) for at, value in each.items()}
                    for source, each in content["points"].items()
                },
                _text(content["cascades"], "cascades"),
            )
            consistent.check(found)
        return found


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is no text")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError("a list is something else")
    return tuple(_text(each, "a member of a list") for each in value)


def _whole(value: object, what: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{what} is no number")
    return value


def _flag(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{what} is neither true nor false")
    return value


def check_format(label: str, manifest: Manifest, name: str) -> None:
    """Raises `PipelineError` for a lake that is of another format than ``name``."""
    if manifest.version and manifest.format != name:
        raise PipelineError(
            f"{label} is a lake of {manifest.format}: give --format {manifest.format}, or a new "
            "folder"
        )


def _plain(value: Any) -> Any:
    """Dataclasses and schemas as what JSON has."""
    if isinstance(value, pa.Schema):
        return base64.b64encode(value.serialize()).decode()
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, DataFile):
        rest = {} if value.deleted else {"deleted", "spent"}
        return {name: each for name, each in vars(value).items() if name not in rest}
    if isinstance(value, SourceState):
        return {name: _plain(each) for name, each in vars(value).items() if each not in ((), None)}
    if isinstance(value, Position):
        return str(value)
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value


def _schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def _files(values: list[Any]) -> tuple[DataFile, ...]:
    return tuple(DataFile.of(each) for each in values)


def _places(values: list[Any]) -> tuple[DataFile | None, ...]:
    return tuple(None if each is None else DataFile.of(each) for each in values)


def _key(name: object) -> str:
    """The table that a key was given for. Earlier releases joined any two names by a dot."""
    return str(TableName.parse(_text(name, "a key")))


def _tables(values: dict[str, Any], *, shards: bool) -> dict[str, TableState]:
    """The tables by key. Keys of earlier releases were joined by a dot, whatever the names.

    Raises `PipelineError` for one that can be two tables', which were one table in the lake then.
    """
    states = {key: _table(value) for key, value in values.items()}
    keys: dict[str, str] = {}
    for key, state in states.items():
        inner = f"{state.source}/" if shards else ""
        joined = ".".join(state.full_name)
        if key == f"{inner}{joined}" and joined != str(state.full_name):
            if joined.count(".") > 1:
                raise PipelineError(
                    f"an earlier Tailrace made this lake, and {short_repr(joined)} may be two"
                    " tables in it: create a new lake"
                )
            keys[key] = f"{inner}{state.full_name}"
    return {
        keys.get(key, key): replace(
            state,
            states=tuple(
                replace(each, origins=tuple(keys.get(one, one) for one in each.origins))
                for each in state.states
            ),
        )
        for key, state in states.items()
    }


def _table(value: dict[str, Any]) -> TableState:
    current, history = value["current"], value["history"]
    database, table = _text(value["database"], "a database"), _text(value["table"], "a table")
    return TableState(
        database,
        table,
        _text(value["source"], "a source"),
        _text(value["names"], "where names are from"),
        _schema(value["columns"]),
        _files(value["changelog"]),
        None if current is None else _current(current),
        _flag(value["dropped"], "dropped"),
        None if history is None else _history(history),
        {part: check_plain(name, "a table") for part, name in value["parts"].items()},
        {part: _schema(text) for part, text in value["shapes"].items()},
        {part: _files(files) for part, files in value["small"].items()},
        check_plain(value["folder"], "a table's folder"),
        {part: _text(mark, "a mark") for part, mark in value["marks"].items()},
        tuple(_status(each) for each in value["states"]),
    )


def _status(value: dict[str, Any]) -> Status:
    return Status(
        _text(value["kind"], "a table's status"),
        _text(value["reason"], "a reason"),
        _text(value["since"], "a position"),
        _text(value["needs"], "a reason"),
        {part: _text(since, "a position") for part, since in value["parts"].items()},
        _texts(value["origins"]),
        _whole(value["batch"], "a batch"),
        _flag(value["unnamed"], "unnamed"),
        _flag(value.get("ended", False), "ended"),
    )


def _current(value: dict[str, Any]) -> Current:
    return Current(**_members(value), files=_places(value["files"]), tails=_files(value["tails"]))


def _history(value: dict[str, Any]) -> History:
    return History(
        **_members(value),
        open=_places(value["open"]),
        closed=_files(value["closed"]),
        gaps=_texts(value["gaps"]),
    )


def _members(value: dict[str, Any]) -> dict[str, Any]:
    """What a current state and a history have both."""
    return {
        "columns": _schema(value["columns"]),
        "key": _texts(value["key"]),
        "refused": _reason(value["refused"]),
        "unseen": _whole(value["unseen"], "unseen"),
        "notes": _texts(value["notes"]),
        "unlogged": _texts(value["unlogged"]),
        "added": tuple(_added(*each) for each in value["added"]),
    }


def _reason(value: object) -> str | None:
    return None if value is None else _text(value, "a reason")


def _added(name: object, default: object, why: object) -> tuple[str, str | None, str | None]:
    return _text(name, "a column"), _reason(default), _reason(why)
