"""What a batch does to the tables of a lake, kept on disk until each has done it."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa

from tailrace.spark.lake import vectors
from tailrace.spark.manifest import layout_3
from tailrace.spark.manifest.damage import reading_file
from tailrace.spark.manifest.json_file import read_json, read_layout
from tailrace.spark.manifest.manifest import NAME as MANIFEST
from tailrace.spark.manifest.names import check_plain
from tailrace.spark.manifest.on_disk import write_file

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from tailrace.spark.parquet.deleted import DeletedRows, Rows

NAME: Final = "steps.json"
LAYOUT: Final = 3
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
    """One table's part of a batch: its columns from now on, and the names of files that come.

    Of the other files those whose names begin with ``goes`` go, but for those that ``stays`` names;
    where ``goes`` is None, all stay. ``columns`` is a schema, serialised. ``deletes`` has rows to
    delete, by file, in addition to those that were deleted at ``base``: this is the table's mark
    (`Content`) for which the step was planned, where no commit of others may come between.
    ``properties`` are those of the commit; of these the table keeps `MARK`, which an empty text
    removes.
    """

    table: str
    columns: str
    adds: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
    goes: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    deletes: Mapping[str, Rows] = field(default_factory=dict)
    merges: tuple[Merge, ...] = ()
    base: str | None = None

    @property
    def only_marks(self) -> bool:
        """Whether it changes no file of the table, and need not be done for what readers see."""
        return self.goes is None and not (self.adds or self.stays or self.merges)

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

    @property
    def schema(self) -> pa.Schema:
        """The table's columns."""
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.columns)))


def serialised(schema: pa.Schema) -> str:
    """A schema as text."""
    return base64.b64encode(schema.serialize()).decode()


def write_steps(folder: Path, steps: Sequence[Step]) -> None:
    """Write a batch's steps into its folder. Raises OSError."""
    content = {"layout": LAYOUT, "steps": [_plain(step) for step in steps]}
    write_file(folder / NAME, [json.dumps(content)])


def _plain(step: Step) -> dict[str, Any]:
    """A step as JSON has it: deleted rows as the Roaring bitmaps that Delta writes, in base64."""
    deletes = {
        name: base64.b64encode(vectors.dump(rows)).decode() for name, rows in step.deletes.items()
    }
    return {**asdict(replace(step, deletes={})), "deletes": deletes}


def read_steps(folder: Path) -> list[Step]:
    """Read what `write_steps` wrote; raises `PipelineError` for anything else."""
    path = folder / NAME
    with reading_file(path, "what a batch does"):
        content = read_layout(path, LAYOUT, partial(_with_deletes, folder))
        return [_step(each) for each in content["steps"]]


def _with_deletes(folder: Path, content: dict[str, Any]) -> dict[str, Any]:
    """Steps of layout 2: all deleted rows of their tables are in their batch's manifest."""
    deleted = layout_3.deleted(read_json(folder / MANIFEST))
    for step in content["steps"]:
        step["deletes"] = {
            name: base64.b64encode(vectors.dump(np.array(rows, np.int64))).decode()
            for name, rows in deleted.get(step["table"], {}).items()
            if name in {*step["adds"], *step["stays"]}
        }
    return content


def _step(value: dict[str, Any]) -> Step:
    goes, base = value["goes"], value["base"]
    step = Step(
        check_plain(value["table"], "a table"),
        value["columns"],
        _names(value["adds"]),
        _names(value["stays"]),
        None if goes is None else str(goes),
        {str(name): str(text) for name, text in value["properties"].items()},
        {
            check_plain(name, "a file"): vectors.load(base64.b64decode(text, validate=True))
            for name, text in value["deletes"].items()
        },
        merges=tuple(
            Merge(check_plain(each["target"], "a file"), _names(each["sources"]))
            for each in value["merges"]
        ),
        base=None if base is None else str(base),
    )
    if not isinstance(step.schema, pa.Schema):
        raise TypeError("the columns are not an Arrow schema")
    return step


def _names(values: list[Any]) -> tuple[str, ...]:
    return tuple(check_plain(each, "a file") for each in values)


@dataclass(frozen=True)
class Content:
    """What a lake's table has at a moment.

    Each commit that changes the table's rows changes the ``mark``. ``files`` are its data files,
    relative to its folder. ``deleted`` has the deleted rows of each file that has any, whoever
    deleted them; one of an empty name stands for those that cannot be read. ``columns`` are what
    the table calls its columns, by our names.
    """

    mark: str
    files: frozenset[str]
    deleted: Mapping[str, DeletedRows]
    columns: Mapping[str, str] = field(default_factory=dict)


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

    def mark(self, table: str) -> str | None:
        """The table's mark (`Content`) now, without reading its content; None without a table."""

    def content(self, table: str, mark: str | None = None) -> Content | None:
        """What the table has now, or had at a mark; None without a table.

        Raises `PipelineError` where what it had can no longer be read.
        """

    def commit(self, step: Step, batch: int, *, overrule: bool = False) -> str | None:
        """Make a step seen, with the batch's number, in one commit; done before, do nothing.

        The table's mark after that commit; None if it was done before and is not known any more.
        Raises LakeChanged, and does nothing, where the table's mark is not the step's ``base``. To
        ``overrule`` is to do the step nevertheless: the files that are to stay have exactly the
        deleted rows that they had at ``base``, and those that the step deletes.
        """
