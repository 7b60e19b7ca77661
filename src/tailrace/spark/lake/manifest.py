"""What a lake's committed version holds, and how far each source was read: its manifest.

One JSON file in the version's folder. It is read by us alone; the data files are plain Parquet.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from tailrace.errors import PipelineError

if TYPE_CHECKING:
    from pathlib import Path

LAYOUT: Final = 1
"""Counted up when an older Tailrace could not read the lake any more."""
NAME: Final = "manifest.json"


@dataclass(frozen=True)
class SourceState:
    """How far a source's log is in the lake: up to ``offset`` of ``file``.

    ``files`` has the sizes of the files before that one, as they were read. ``head`` and ``tail``
    are digests of its first bytes and of those before ``offset``, by which it is known again.
    ``tables`` is what is known of tables where ``file`` begins (`resume.dump_catalogue`).
    """

    file: str
    offset: int
    files: dict[str, int]
    head: str
    tail: str
    tables: str


@dataclass(frozen=True)
class DataFile:
    """A data file of a table, by its name in the table's folder; ``memory``: bytes as Arrow."""

    name: str
    rows: int
    size: int
    memory: int


@dataclass(frozen=True)
class Current:
    """A table's current state: files of which the n-th holds the keys of bucket n.

    ``columns`` are those of the table and ``key`` its key's, by which the rows are bucketed. Where
    there can be no current state, ``refused`` says why and there is no file. ``unseen`` counts rows
    whose insert is not in the log; ``unlogged`` are columns that are left out, since the log does
    not tell what updates made of them.
    """

    columns: pa.Schema
    key: tuple[str, ...]
    files: tuple[DataFile | None, ...] = ()
    refused: str | None = None
    unseen: int = 0
    notes: tuple[str, ...] = ()
    unlogged: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """The rows of the table."""
        return sum(file.rows for file in self.files if file is not None)


@dataclass(frozen=True)
class TableState:
    """A table in the lake; ``dropped`` where the source has it no more (its changelog stays).

    ``columns`` are all that its changelog has, with the newest types.
    """

    database: str
    table: str
    source: str
    names: str
    columns: pa.Schema
    changelog: tuple[DataFile, ...] = ()
    current: Current | None = None
    dropped: bool = False


@dataclass(frozen=True)
class Manifest:
    """All of a committed version. ``tables`` and ``keep`` are what the lake was begun with."""

    version: int = 0
    patterns: tuple[str, ...] | None = None
    keep: tuple[str, ...] = ()
    sources: dict[str, SourceState] = field(default_factory=dict)
    tables: dict[str, TableState] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write it into a version's folder. Raises OSError."""
        content = {"layout": LAYOUT, **_plain(self)}
        (folder / NAME).write_text(json.dumps(content, indent=1), "utf-8")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a version's manifest; raises `PipelineError` where it is damaged or too new."""
        path = folder / NAME
        try:
            content = json.loads(path.read_text("utf-8"))
            if content["layout"] != LAYOUT:
                raise PipelineError(
                    f"{path}: the lake has layout {content['layout']}, and this Tailrace knows "
                    f"{LAYOUT}: use the Tailrace that wrote it, or begin a new lake"
                )
            return cls(
                content["version"],
                None if content["patterns"] is None else tuple(content["patterns"]),
                tuple(content["keep"]),
                {name: SourceState(**value) for name, value in content["sources"].items()},
                {name: _table(value) for name, value in content["tables"].items()},
            )
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            pa.ArrowException,
        ) as error:
            raise PipelineError(f"{path} cannot be read as a lake's manifest: {error}") from error


def _plain(value: Any) -> Any:
    """Dataclasses and schemas as what JSON has."""
    if isinstance(value, pa.Schema):
        return base64.b64encode(value.serialize()).decode()
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value


def _schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def _table(value: dict[str, Any]) -> TableState:
    current = value["current"]
    return TableState(
        value["database"],
        value["table"],
        value["source"],
        value["names"],
        _schema(value["columns"]),
        tuple(DataFile(**each) for each in value["changelog"]),
        None if current is None else _current(current),
        value["dropped"],
    )


def _current(value: dict[str, Any]) -> Current:
    files = tuple(None if each is None else DataFile(**each) for each in value["files"])
    return Current(
        _schema(value["columns"]),
        tuple(value["key"]),
        files,
        value["refused"],
        value["unseen"],
        tuple(value["notes"]),
        tuple(value["unlogged"]),
    )
