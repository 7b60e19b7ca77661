"""What a batch does to the tables of a lake, kept in its journal until each has done it."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tailrace.errors import PipelineError
from tailrace.spark.manifest import json_file as m
from tailrace.spark.parquet.deleted import dump, load

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from tailrace.spark.parquet.deleted import DeletedRows, Rows

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
    None, all stay. ``deletes`` has rows to delete, by file, in addition to those that were deleted
    at ``base``: this is the table's mark (`Content`) for which the step was planned, where no
    commit of others may come between. ``differ`` says that files may lack columns of the table.

    The other members are those that the batch's manifest has too, and are taken from there when the
    step is done (`completed`): ``schema``, the table's columns from now on; ``stays``; ``deleted``,
    the files that have deleted rows from now on; ``properties`` of the commit, of which the table
    keeps `MARK`, which an empty text removes.
    """

    table: str
    adds: tuple[str, ...] = ()
    goes: str | None = None
    merges: tuple[Merge, ...] = ()
    base: str | None = None
    deletes: Mapping[str, Rows] = field(default_factory=dict)
    differ: bool = False
    stays: tuple[str, ...] = ()
    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    properties: dict[str, str] = field(default_factory=dict)
    deleted: frozenset[str] = frozenset()

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


def _text_of(rows: Rows) -> str:
    return b64encode(dump(rows)).decode()


_NAMES: Final = m.several(m.FILE)
_MERGE: Final = m.instance(Merge, {"target": m.FILE, "sources": m.required(_NAMES)})
_ROWS: Final = m.Kind(_text_of, lambda value: load(b64decode(value, validate=True)))
"""Numbers of rows are as in Delta's vectors."""
_STEP: Final = {
    "table": m.FILE,
    "adds": _NAMES,
    "goes": m.OPTIONAL,
    "merges": m.several(_MERGE),
    "base": m.OPTIONAL,
    "deletes": m.by_name(_ROWS, m.FILE.load),
    "differ": m.FLAG,
}
_WHOLE: Final = {
    **_STEP,
    "stays": m.required(_NAMES),
    "columns": m.SCHEMA,
    "properties": m.required(m.by_name(m.TEXT)),
    "deleted": m.Kind(sorted, lambda value: frozenset(_NAMES.load(value))),
}


def steps_json(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """Steps as JSON, without what their batch's manifest has."""
    return [m.write(_STEP, vars(step)) for step in steps]


def whole_json(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """Steps as JSON with all their members: when they are done, the manifest is a later one."""
    return [m.write(_WHOLE, vars(step) | {"columns": step.schema}) for step in steps]


def steps_of(values: list[Any]) -> list[Step]:
    """What `steps_json` or `whole_json` described; raises `DAMAGE` for anything else."""
    found = [m.read(_WHOLE if "columns" in each else _STEP, each) for each in values]
    return [Step(schema=each.pop("columns", pa.schema([])), **each) for each in found]


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


def unread_deletes(table: str) -> PipelineError:
    """The error for a table with deleted rows that cannot be read."""
    return PipelineError(
        f"table {table} has rows that others deleted in a way that Tailrace does not read (equality"
        " deletes): have them rewrite its files"
    )
