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
from tailrace.selection import TableFilter
from tailrace.spark.lake import hidden

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
    """A data file of a table, by its name in the table's folder; ``memory``: bytes as Arrow.

    ``rows`` is how many it has; those that ``hidden`` names (`tailrace.spark.lake.hidden`) do not
    count: only files of a current state have any.
    """

    name: str
    rows: int
    size: int
    memory: int
    hidden: str = hidden.NONE

    @property
    def live(self) -> int:
        """The rows that count."""
        return self.rows - hidden.count(self.hidden)


@dataclass(frozen=True)
class Current:
    """A table's current state: files of which the n-th holds the keys of bucket n, and tails.

    ``tails`` are files with rows of any keys, newer than those in the buckets' files; a row that
    counts is in one file only. ``columns`` are those of the table and ``key`` its key's, by which
    the rows are bucketed. Where there can be no current state, ``refused`` says why and there is no
    file. ``unseen`` counts rows whose insert is not in the log; ``unlogged`` are columns that are
    left out, since the log does not tell what updates made of them. ``added`` are columns that no
    row has shown the type of yet: name, default's text, and why that is unknown.
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
        """The files by bucket, and the tails behind them: in the order of their paths."""
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
    their sums. ``gaps`` are sentences that say where versions are missing: the table was refused,
    and made anew since.
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

    ``columns`` are all that its changelog has, with the newest types. In a lake of tables ``parts``
    names the table that holds each of what is kept, and ``shapes`` the columns that those have;
    ``changelog`` has one entry without a name then, of the sums, and ``small`` names the last small
    files of a changelog, and of a history's ended versions, which may be put together (`merging`).
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


@dataclass(frozen=True)
class Manifest:
    """All of a committed version. ``tables`` and ``keep`` are what the lake was begun with."""

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

    @property
    def mirrored(self) -> TableFilter:
        """The tables that the lake was begun with."""
        return TableFilter(self.patterns, self.exclude)

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
                content.get("format", "parquet"),
                content.get("shards", False),
                tuple((name, tuple(key)) for name, key in content.get("keys", ())),
                content.get("update_mode", "copy-on-write"),
                tuple(content.get("exclude", ())),
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
    if isinstance(value, DataFile) and not value.hidden:
        return {name: each for name, each in vars(value).items() if name != "hidden"}
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value


def _schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def _table(value: dict[str, Any]) -> TableState:
    current, history = value["current"], value.get("history")
    return TableState(
        value["database"],
        value["table"],
        value["source"],
        value["names"],
        _schema(value["columns"]),
        tuple(DataFile(**each) for each in value["changelog"]),
        None if current is None else _current(current),
        value["dropped"],
        None if history is None else _history(history),
        dict(value.get("parts", {})),
        {part: _schema(text) for part, text in value.get("shapes", {}).items()},
        {
            part: tuple(DataFile(**each) for each in files)
            for part, files in value.get("small", {}).items()
        },
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
        tuple(tuple(each) for each in value.get("added", ())),
        tuple(DataFile(**each) for each in value.get("tails", ())),
    )


def _history(value: dict[str, Any]) -> History:
    return History(
        _schema(value["columns"]),
        tuple(value["key"]),
        tuple(None if each is None else DataFile(**each) for each in value["open"]),
        tuple(DataFile(**each) for each in value["closed"]),
        value["refused"],
        value["unseen"],
        tuple(value["notes"]),
        tuple(value["unlogged"]),
        tuple(tuple(each) for each in value.get("added", ())),
        tuple(value.get("gaps", ())),
    )
