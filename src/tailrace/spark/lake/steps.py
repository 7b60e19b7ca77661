"""What a batch does to the tables of a lake, kept on disk until each has done it."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from tailrace.spark.manifest.damage import reading_file
from tailrace.spark.manifest.json_file import read_layout
from tailrace.spark.manifest.names import check_plain
from tailrace.spark.manifest.on_disk import write_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tailrace.spark.manifest.manifest import Manifest

NAME: Final = "steps.json"
LAYOUT: Final = 2
APPLICATION: Final = "tailrace"
"""Under this name a table has the number of the last batch that it took."""
MARK: Final = "tailrace.set_aside"
"""The property of a table that is set aside: since when, why, and what to do. Others have none."""


@dataclass(frozen=True)
class Merge:
    """Small files of a table that become one, ``target``, with the same rows."""

    target: str
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """One table's part of a batch: the names of files that come, and which of the others go.

    Those go whose names begin with ``goes``, but for those that ``stays`` names; where ``goes`` is
    None, all stay. ``base`` is the table's mark (`Content`) for which the step was planned, where
    no commit of others may come between.

    The other members are those that the batch's manifest has too, and are taken from there when the
    step is done (`completed`): ``schema``, the table's columns from now on; ``stays``; ``hidden``,
    the deleted rows of each file that has any after the step; ``properties`` of the commit, of
    which the table keeps `MARK`, which an empty text removes.
    """

    table: str
    adds: tuple[str, ...] = ()
    goes: str | None = None
    merges: tuple[Merge, ...] = ()
    base: str | None = None
    stays: tuple[str, ...] = ()
    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    properties: dict[str, str] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict)

    @property
    def only_marks(self) -> bool:
        """Whether it changes no file of the table, and need not be done for what readers see."""
        return self.goes is None and not (self.adds or self.merges)

    def merged(self, there: Collection[str], touched: Collection[str]) -> list[Merge]:
        """The merges that can be done in a table that has the files ``there`` now.

        A file that others have replaced, or taken rows of (``touched``), is left to them.
        """
        return [
            each
            for each in self.merges
            if all(name in there and name not in touched for name in each.sources)
            and each.target not in there
        ]

    def changes(self, there: Collection[str]) -> tuple[set[str], set[str]]:
        """The files that come and those that go, of a table that has the files ``there`` now.

        Files that are to stay and are gone come back.
        """
        wanted = {*self.adds, *self.stays}
        gone = set()
        if self.goes is not None:
            gone = {each for each in there if each.startswith(self.goes)} - wanted
        return wanted - set(there), gone


def steps_json(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """Steps as JSON, without what their batch's manifest has."""
    found = []
    for step in steps:
        members = {
            "table": step.table,
            "adds": list(step.adds),
            "goes": step.goes,
            "merges": [asdict(merge) for merge in step.merges],
            "base": step.base,
        }
        found.append({name: each for name, each in members.items() if each not in (None, [])})
    return found


def steps_of(values: list[Any]) -> list[Step]:
    """What `steps_json` described; raises `DAMAGE` for anything else."""
    return [_step(each) for each in values]


def write_steps(folder: Path, steps: Sequence[Step]) -> None:
    """Write steps into a folder, whole but for the deleted rows: later batches may come first.

    Raises OSError.
    """
    whole = [
        {
            **short,
            "stays": step.stays,
            "columns": base64.b64encode(step.schema.serialize()).decode(),
            "properties": step.properties,
        }
        for step, short in zip(steps, steps_json(steps), strict=True)
    ]
    write_file(folder / NAME, [json.dumps({"layout": LAYOUT, "steps": whole})])


def read_steps(folder: Path) -> list[Step]:
    """Read what `write_steps` wrote; raises `PipelineError` for anything else."""
    path = folder / NAME
    with reading_file(path, "what a batch does"):
        return steps_of(read_layout(path, LAYOUT)["steps"])


def _step(value: dict[str, Any]) -> Step:
    goes, base = value.get("goes"), value.get("base")
    return Step(
        check_plain(value["table"], "a table"),
        _names(value.get("adds", [])),
        None if goes is None else str(goes),
        tuple(
            Merge(check_plain(each["target"], "a file"), _names(each["sources"]))
            for each in value.get("merges", [])
        ),
        None if base is None else str(base),
        _names(value.get("stays", [])),
        _schema(value["columns"]) if "columns" in value else pa.schema([]),
        {str(name): str(text) for name, text in value.get("properties", {}).items()},
    )


def _schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def _names(values: list[Any]) -> tuple[str, ...]:
    return tuple(check_plain(each, "a file") for each in values)


def hidden_of(manifest: Manifest) -> Mapping[str, dict[str, str]]:
    """The deleted rows of each of a lake's tables, by file, as the manifest has them."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for state in manifest.tables.values():
        if state.current is not None and (table := state.parts.get("current")) is not None:
            found[table].update(
                {each.name: each.hidden for each in state.current.data if each.hidden}
            )
    return found


@dataclass(frozen=True)
class Content:
    """What a lake's table has at a moment.

    Each commit that changes the table's rows changes the ``mark``. ``files`` are its data files,
    relative to its folder. ``deleted`` has the deleted rows of each file that has any, whoever
    deleted them (`parquet.hidden`).
    """

    mark: str
    files: frozenset[str]
    deleted: Mapping[str, str]


class Tables(Protocol):
    """The tables of a lake's format, by name. All raise `PipelineError`."""

    @property
    def top(self) -> Path:
        """The folder below which all tables' folders are."""

    def name(self, folder: str, part: str) -> str:
        """What a part of a source's table is to be called, whose own name is ``folder``

        (`manifest.names`); ``part`` is one of those kept.
        """

    def folder(self, table: str) -> Path:
        """Where the table's data files are; it need not be there."""

    def content(self, table: str) -> Content | None:
        """What the table has now; None without a table."""

    def commit(self, step: Step, batch: int) -> None:
        """Make a step seen, with the batch's number, in one commit; done before, do nothing.

        Raises LakeChanged, and does nothing, where the table's mark is not the step's ``base``.
        After it exactly the step's ``hidden`` rows of the files are deleted.
        """

    def scan(self, table: str, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """All rows that the table has now, whoever wrote them, in the columns given."""
