"""A manifest as JSON, its durable form, of which small changes are small merge patches.

The lake's part and each table's are values of their own. Data files are members of an object, by
name or by bucket, in their order; so are the tables of a schema history, by name. Empty members are
left out.

    {"keep": ["changelog"], "format": "delta", "update_mode": "merge-on-read", "cascades": "name",
     "sources": {"mysql": {"file": "binlog.000002", "offset": 500, ..., "tables": {"version": 2,
                           "tables": {"shop.orders": {"database": "shop", ...}}}}},
     "points": {"mysql": {"binlog.000001:4": {...}}}, "states": {"shop.orders": [{...}]}}

    {"database": "shop", "table": "orders", "folder": "shop.orders", "columns": "/////...",
     "changelog": {"part-000001-000000.parquet": {"rows": 5, "size": 600, "memory": 700}},
     "current": {"columns": ..., "key": ["id"], "buckets": 2,
                 "files": {"1": {"name": "part-000001-000001.parquet", "rows": 5, ...}}}, ...}
"""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tailrace.position import Position
from tailrace.spark.manifest.lake_options import LakeOptions
from tailrace.spark.manifest.manifest import (
    DataFile,
    Manifest,
    SourceState,
    TableRows,
    TableState,
)
from tailrace.spark.manifest.names import check_plain
from tailrace.spark.manifest.status import Status
from tailrace.table_filter import TableFilter
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_BY_NAME: Final = ("tables", "given", "unknown", "learned", "temporary", "whole")
"""The members of a schema history that are lists, each of whose members is about one table."""
_MOST_BUCKETS: Final = 1 << 20
_HISTORIES: Final = 8
"""Schema histories that are remembered."""


# --- writing -------------------------------------------------------------------------------------


class Histories:
    """Schema histories as JSON. One that is as it was before is the same object as before."""

    def __init__(self) -> None:
        self._known: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def json(self, history: dict[str, Any]) -> dict[str, Any]:
        """A schema history whose lists are objects, by table."""
        for known, made in self._known:
            if known is history or known == history:
                return made
        made = by_table(history)
        self._known = [(history, made), *self._known[:_HISTORIES]]
        return made


def lake_json(manifest: Manifest, histories: Histories) -> dict[str, Any]:
    """All of a manifest but its number, and its tables, of which it has the statuses."""
    options = manifest.options
    tables = options.tables
    found = _filled(
        keep=list(options.keep),
        sources={name: _source(each, histories) for name, each in manifest.sources.items()},
        format=options.format,
        shards=options.shards,
        keys=[[name, list(key)] for name, key in options.keys],
        update_mode=options.update_mode,
        exclude=list(tables.exclude),
        points={
            source: {at: _source(each, histories) for at, each in known.items()}
            for source, known in manifest.points.items()
        },
        cascades=options.cascades,
        states={
            key: [_status(each) for each in state.states]
            for key, state in with_status(manifest.tables)
        },
    )
    return found | ({} if tables.only is None else {"patterns": list(tables.only)})


def with_status(tables: Mapping[str, TableState]) -> Iterator[tuple[str, TableState]]:
    """The tables that have a status; of `LazyTables` only these are parsed."""
    for key in getattr(tables, "with_status", tables):
        if (state := tables[key]).states:
            yield key, state


def table_json(state: TableState) -> dict[str, Any]:
    """A table, without its statuses."""
    return _filled(
        database=state.database,
        table=state.table,
        source=state.source,
        names=state.names,
        folder=state.folder,
        columns=schema_text(state.columns),
        dropped=state.dropped,
        parts=state.parts,
        shapes={part: schema_text(shape) for part, shape in state.shapes.items()},
        changelog=_by_name(state.changelog),
        small={part: _by_name(files) for part, files in state.small.items()},
        marks=state.marks,
        rest=list(state.rest),
        current=state.current and _rows(state.current, "files"),
        history=state.history and _rows(state.history, "open"),
    )


def _rows(value: TableRows, files: str) -> dict[str, Any]:
    """A table's rows, of which the member ``files`` has the files by bucket."""
    found = _filled(
        columns=schema_text(value.columns),
        key=list(value.key),
        refused=value.refused,
        unseen=value.unseen,
        notes=list(value.notes),
        unlogged=list(value.unlogged),
        added=[list(each) for each in value.added],
        tails=_by_name(value.tails),
        closed=_by_name(value.closed),
        gaps=list(value.gaps),
    )
    return found | {files: _by_bucket(value.files), "buckets": len(value.files)}


def _filled(**members: Any) -> dict[str, Any]:
    """The members that are not empty."""
    return {name: value for name, value in members.items() if value not in (None, "", 0, [], {})}


def _source(state: SourceState, histories: Histories) -> dict[str, Any]:
    return _filled(
        file=state.file,
        offset=state.offset,
        files=state.files,
        head=state.head,
        tail=state.tail,
        tables=histories.json(state.tables),
        followed=[list(each) for each in state.followed],
        seen=state.seen and str(state.seen),
    )


def by_table(history: dict[str, Any]) -> dict[str, Any]:
    """A schema history whose lists are objects, by table."""
    return {
        name: {_about(each): each for each in value} if name in _BY_NAME else value
        for name, value in history.items()
    }


def _about(value: Any) -> str:
    """The table that a member of a schema history's list is about."""
    if isinstance(value, dict) and isinstance(value["table"], dict):
        value = value["table"]
    names = (value["database"], value["table"]) if isinstance(value, dict) else value
    return str(TableName(*names))


def _status(status: Status) -> dict[str, Any]:
    return _filled(**vars(status) | {"origins": list(status.origins)})


def _by_name(files: tuple[DataFile, ...]) -> dict[str, Any]:
    return {file.name: _file(file) for file in files}


def _by_bucket(files: tuple[DataFile | None, ...]) -> dict[str, Any]:
    return {
        str(bucket): {"name": file.name, **_file(file)}
        for bucket, file in enumerate(files)
        if file is not None
    }


def _file(file: DataFile) -> dict[str, Any]:
    return _filled(**{name: each for name, each in vars(file).items() if name != "name"})


def schema_text(columns: pa.Schema) -> str:
    """A schema as text."""
    return base64.b64encode(columns.serialize()).decode()


# --- reading: each value is checked --------------------------------------------------------------


def states_of(value: dict[str, Any]) -> dict[str, tuple[Status, ...]]:
    """The statuses of tables, by key, that `lake_json` described. Raises `DAMAGE`."""
    return {
        key: tuple(status_of(each) for each in states)
        for key, states in value.get("states", {}).items()
    }


def lake_of(
    value: dict[str, Any], version: int, tables: Mapping[str, TableState], withdrawn: int = 0
) -> Manifest:
    """The manifest that `lake_json` described. Raises `DAMAGE`."""
    patterns = value.get("patterns")
    return Manifest(
        whole(version, "version"),
        LakeOptions(
            TableFilter(
                None if patterns is None else _texts(patterns), _texts(value.get("exclude", []))
            ),
            _texts(value["keep"]),
            text(value["format"], "format"),
            tuple((text(name, "a key"), _texts(key)) for name, key in value.get("keys", [])),
            _flag(value.get("shards", False), "shards"),
            text(value["update_mode"], "update_mode"),
            text(value["cascades"], "cascades"),
        ),
        {name: _source_of(each) for name, each in value.get("sources", {}).items()},
        tables,
        {
            source: {at: _source_of(each) for at, each in known.items()}
            for source, known in value.get("points", {}).items()
        },
        withdrawn,
    )


def table_of(value: dict[str, Any], states: tuple[Status, ...] = ()) -> TableState:
    """The table that `table_json` described. Raises `DAMAGE`."""
    current, history = value.get("current"), value.get("history")
    return TableState(
        text(value.get("database", ""), "a database"),
        text(value.get("table", ""), "a table"),
        text(value["source"], "a source"),
        text(value["names"], "where names are from"),
        schema_of(value["columns"]),
        _files_of(value.get("changelog", {})),
        None if current is None else _rows_of(current, "files"),
        _flag(value.get("dropped", False), "dropped"),
        None if history is None else _rows_of(history, "open"),
        {part: check_plain(name, "a table") for part, name in value.get("parts", {}).items()},
        {part: schema_of(each) for part, each in value.get("shapes", {}).items()},
        {part: _files_of(files) for part, files in value.get("small", {}).items()},
        check_plain(value["folder"], "a table's folder"),
        {part: text(mark, "a mark") for part, mark in value.get("marks", {}).items()},
        states,
        tuple(value.get("rest", [])),
    )


def _rows_of(value: dict[str, Any], files: str) -> TableRows:
    return TableRows(
        schema_of(value["columns"]),
        _texts(value.get("key", [])),
        _buckets_of(value[files], value["buckets"]),
        _perhaps(value.get("refused")),
        whole(value.get("unseen", 0), "unseen"),
        _texts(value.get("notes", [])),
        _texts(value.get("unlogged", [])),
        tuple(_added(*each) for each in value.get("added", [])),
        _files_of(value.get("tails", {})),
        _files_of(value.get("closed", {})),
        _texts(value.get("gaps", [])),
    )


def _source_of(value: dict[str, Any]) -> SourceState:
    return SourceState(
        text(value["file"], "a log's name"),
        whole(value.get("offset", 0), "an offset"),
        {
            text(name, "a log's name"): whole(size, "a log's size")
            for name, size in value.get("files", {}).items()
        },
        text(value.get("head", ""), "a digest"),
        text(value.get("tail", ""), "a digest"),
        {
            name: [each for _, each in sorted(found.items())] if name in _BY_NAME else found
            for name, found in value.get("tables", {}).items()
        },
        tuple(TableName(*_texts(each)) for each in value.get("followed", [])),
        Position.parse(text(value["seen"], "a position")) if "seen" in value else None,
    )


def status_of(value: dict[str, Any]) -> Status:
    """A table's status as `lake_json` described it. Raises `DAMAGE`."""
    return Status(
        text(value["kind"], "a table's status"),
        text(value.get("reason", ""), "a reason"),
        text(value.get("since", ""), "a position"),
        text(value.get("needs", ""), "a reason"),
        {part: text(since, "a position") for part, since in value.get("parts", {}).items()},
        _texts(value.get("origins", [])),
        whole(value.get("batch", 0), "a batch"),
        _flag(value.get("unnamed", False), "unnamed"),
        _flag(value.get("ended", False), "ended"),
    )


def _files_of(value: dict[str, Any]) -> tuple[DataFile, ...]:
    return tuple(_file_of({"name": name, **each}) for name, each in value.items())


def _buckets_of(value: dict[str, Any], count: int) -> tuple[DataFile | None, ...]:
    if whole(count, "a number of buckets") > _MOST_BUCKETS:
        raise ValueError(f"{count} buckets are more than a table has")
    found = {int(bucket): _file_of(each) for bucket, each in value.items()}
    if strange := found.keys() - range(count):
        raise ValueError(f"there is no bucket {min(strange)}")
    return tuple(found.get(bucket) for bucket in range(count))


def _file_of(value: dict[str, Any]) -> DataFile:
    found = DataFile(**{"rows": 0, "size": 0, "memory": 0, **value})
    if found.name != "":
        check_plain(found.name, "a data file's name")
    for number in (found.rows, found.size, found.memory, found.deleted, found.spent):
        whole(number, "a data file's figure")
    return found


@lru_cache(4096)
def schema_of(value: str) -> pa.Schema:
    """The schema that `schema_text` described. Raises `DAMAGE`."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(value)))


def text(value: object, what: str) -> str:
    """The value, checked to be text. Raises TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is no text")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError("a list is something else")
    return tuple(text(each, "a member of a list") for each in value)


def whole(value: object, what: str) -> int:
    """The value, checked to be a number. Raises ValueError."""
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{what} is no number")
    return value


def _flag(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{what} is neither true nor false")
    return value


def _perhaps(value: object) -> str | None:
    return None if value is None else text(value, "a reason")


def _added(name: object, default: object, why: object) -> tuple[str, str | None, str | None]:
    return text(name, "a column"), _perhaps(default), _perhaps(why)
