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

from dataclasses import replace
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

from tailrace.position import Position
from tailrace.spark.manifest import json_file as m
from tailrace.spark.manifest.lake_options import LakeOptions
from tailrace.spark.manifest.manifest import (
    DataFile,
    Manifest,
    SourceState,
    Status,
    TableRows,
    TableState,
)
from tailrace.table_filter import TableFilter
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Files = tuple[DataFile | None, ...]

_BY_NAME: Final = ("tables", "given", "unknown", "learned", "temporary", "whole")
"""The members of a schema history that are lists, each of whose members is about one table."""
_MOST_BUCKETS: Final = 1 << 20
_HISTORIES: Final = 8
"""Schema histories that are remembered."""


class Histories:
    """Schema histories as JSON. One that is as it was before is the same object as before."""

    def __init__(self) -> None:
        self._known: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def json(self, history: dict[str, Any]) -> dict[str, Any]:
        """A schema history whose lists are objects, by table."""
        for known, made in self._known:
            if known is history or known == history:
                return made
        made = _by_table(history)
        self._known = [(history, made), *self._known[:_HISTORIES]]
        return made


def _by_table(history: dict[str, Any]) -> dict[str, Any]:
    """A schema history whose lists are objects, by table."""
    return {
        name: {_about(each): each for each in value} if name in _BY_NAME else value
        for name, value in history.items()
    }


def _about(value: Any) -> str:
    """The table that a member of a schema history's list is about, and the session that has it."""
    if isinstance(value, dict) and isinstance(value["table"], dict):
        value = value["table"]
    names = (value["database"], value["table"]) if isinstance(value, dict) else value
    database, table, *more = names
    return " ".join((str(TableName(database, table)), *more))


def _history(value: dict[str, Any]) -> dict[str, Any]:
    """The schema history that `_by_table` described."""
    return {
        name: [each for _, each in sorted(found.items())] if name in _BY_NAME else found
        for name, found in value.items()
    }


def _file_name(name: object) -> str:
    return "" if name == "" else m.FILE.load(name)


def _buckets(value: dict[str, Any], count: int) -> Files:
    if m.whole(count) > _MOST_BUCKETS:
        raise ValueError(f"{count} buckets are more than a table has")
    found = {int(bucket): _IN_BUCKET.load(each) for bucket, each in value.items()}
    if strange := found.keys() - range(count):
        raise ValueError(f"there is no bucket {min(strange)}")
    return tuple(found.get(bucket) for bucket in range(count))


def _rows(files: str) -> m.Kind:
    """A table's rows, of which the member ``files`` has the files by bucket."""

    def dump(rows: TableRows) -> dict[str, Any]:
        found = {
            str(bucket): _IN_BUCKET.dump(file)
            for bucket, file in enumerate(rows.files)
            if file is not None
        }
        return m.write(_ROWS, vars(rows)) | {files: found, "buckets": len(rows.files)}

    def load(value: dict[str, Any]) -> TableRows:
        return TableRows(files=_buckets(value[files], value["buckets"]), **m.read(_ROWS, value))

    return m.Kind(dump, load, NoneType)


_FIGURES: Final = dict.fromkeys(("rows", "size", "memory", "deleted", "spent"), m.WHOLE)
_IN_BUCKET: Final = m.instance(DataFile, {"name": m.Kind(str, _file_name), **_FIGURES})
_FILES: Final = m.Kind(
    lambda files: {file.name: m.write(_FIGURES, vars(file)) for file in files},
    lambda value: tuple(
        DataFile(_file_name(name), **m.read(_FIGURES, each)) for name, each in value.items()
    ),
    tuple,
)
_ROWS: Final = {
    "columns": m.SCHEMA,
    "key": m.TEXTS,
    "refused": m.OPTIONAL,
    "unseen": m.WHOLE,
    "notes": m.TEXTS,
    "unlogged": m.TEXTS,
    "added": m.several(m.row(m.TEXT, m.OPTIONAL, m.OPTIONAL)),
    "tails": _FILES,
    "closed": _FILES,
    "gaps": m.TEXTS,
}
_TABLE: Final = {
    "database": m.TEXT,
    "table": m.TEXT,
    "source": m.required(m.TEXT),
    "names": m.required(m.TEXT),
    "folder": m.FILE,
    "columns": m.SCHEMA,
    "dropped": m.FLAG,
    "parts": m.by_name(m.FILE),
    "shapes": m.by_name(m.SCHEMA),
    "changelog": _FILES,
    "small": m.by_name(_FILES),
    "marks": m.by_name(m.TEXT),
    "rest": m.several(m.ANY),
    "current": _rows("files"),
    "history": _rows("open"),
}
_STATUS: Final = m.instance(
    Status,
    {
        "kind": m.required(m.TEXT),
        "reason": m.TEXT,
        "since": m.TEXT,
        "needs": m.TEXT,
        "parts": m.by_name(m.TEXT),
        "origins": m.TEXTS,
        "batch": m.WHOLE,
        "unnamed": m.FLAG,
        "ended": m.FLAG,
    },
)


def _lake(histories: Histories) -> dict[str, m.Kind]:
    """The members of a lake."""
    source = m.instance(
        SourceState,
        {
            "file": m.required(m.TEXT),
            "offset": m.WHOLE,
            "files": m.by_name(m.WHOLE),
            "head": m.TEXT,
            "tail": m.TEXT,
            "tables": m.Kind(histories.json, _history, dict),
            "followed": m.several(m.Kind(list, lambda value: TableName(*m.TEXTS.load(value)))),
            "seen": m.Kind(str, lambda value: Position.parse(m.TEXT.load(value)), NoneType),
        },
    )
    return {
        "keep": m.required(m.TEXTS),
        "sources": m.by_name(source),
        "format": m.required(m.TEXT),
        "shards": m.FLAG,
        "keys": m.several(m.row(m.TEXT, m.TEXTS)),
        "update_mode": m.required(m.TEXT),
        "exclude": m.TEXTS,
        "points": m.by_name(m.by_name(source)),
        "cascades": m.required(m.TEXT),
        "states": m.by_name(m.several(_STATUS)),
        "patterns": replace(m.TEXTS, empty=NoneType),
    }


def lake_json(manifest: Manifest, histories: Histories) -> dict[str, Any]:
    """All of a manifest but its number, and its tables, of which it has the statuses."""
    tables = manifest.options.tables
    states = {key: state.states for key, state in with_status(manifest.tables)}
    more = {"exclude": tables.exclude, "patterns": tables.only, "states": states}
    return m.write(_lake(histories), vars(manifest) | vars(manifest.options) | more)


def lake_of(
    value: dict[str, Any], version: int
) -> tuple[Manifest, Mapping[str, tuple[Status, ...]]]:
    """The manifest that `lake_json` described, without tables; and their statuses, by key.

    Raises `DAMAGE`.
    """
    found = m.read(_lake(Histories()), value)
    sources, points, states = (found.pop(name) for name in ("sources", "points", "states"))
    options = LakeOptions(TableFilter(found.pop("patterns"), found.pop("exclude")), **found)
    return Manifest(m.whole(version), options, sources, points=points), states


def with_status(tables: Mapping[str, TableState]) -> Iterator[tuple[str, TableState]]:
    """The tables that have a status; of `LazyTables` only these are parsed."""
    for key in getattr(tables, "with_status", tables):
        if (state := tables[key]).states:
            yield key, state


def table_json(state: TableState) -> dict[str, Any]:
    """A table, without its statuses."""
    return m.write(_TABLE, vars(state))


def table_of(value: dict[str, Any], states: tuple[Status, ...] = ()) -> TableState:
    """The table that `table_json` described. Raises `DAMAGE`."""
    return TableState(states=states, **m.read(_TABLE, value))
