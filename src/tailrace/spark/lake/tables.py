"""The tables of a lake's format, and the steps by which they take batches: what commits ask of all
formats alike. A batch's steps are kept in the lake's journal until each table has taken its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from tailrace.errors import PipelineError, TailraceError, UnsupportedType
from tailrace.printable import first_line, printable
from tailrace.spark.manifest import json_file as m
from tailrace.spark.manifest.damage import DAMAGE, damaged
from tailrace.spark.parquet.deleted import dump, load

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path

    from tailrace.spark.manifest.manifest import TableRows, TableState
    from tailrace.spark.parquet.deleted import DeletedRows, Rows

Converted = TypeVar("Converted")

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


class Tables(ABC):
    """The tables of a lake's format, by name; ``top`` is the folder below which all theirs are.

    delta-rs, pyiceberg and its catalogues share no base class of errors, and each has errors of its
    own for each kind of damage. Whatever the methods of a format raise is made `PipelineError`
    here, with its cause.
    """

    top: Path

    def __init_subclass__(cls) -> None:
        for name in ("check_new", "mark", "content", "check", "commit", "has"):
            if name in cls.__dict__:
                setattr(cls, name, _with_our_errors(cls.__dict__[name], writes=name == "commit"))

    def open(self, generation: int, staging: Path) -> None:  # noqa: B027 - most have nothing to do
        """Let no process of a lower generation show a batch from here on."""

    def close(self) -> None:  # noqa: B027 - as above
        """Remove what `open` made."""

    @abstractmethod
    def name(self, folder: str, part: str) -> str:
        """What a part of a source's table is to be called, whose own name is ``folder``

        (`manifest.names`); ``part`` is one of those kept.
        """

    def check_new(self, table: str) -> None:  # noqa: B027 - as above
        """Raise `PipelineError` where a new table's name is that of something else."""

    @abstractmethod
    def folder(self, table: str) -> Path:
        """Where the table's data files are; it need not be there."""

    @abstractmethod
    def mark(self, table: str) -> str | None:
        """The table's mark (`Content`) now, without reading its content; None without a table."""

    @abstractmethod
    def content(self, table: str, mark: str | None = None) -> Content | None:
        """What the table has now, or had at a mark; None without a table.

        Raises `PipelineError` where what it had can no longer be read.
        """

    def check(self, table: str) -> None:  # noqa: B027 - as above
        """Raise where others have made of a table what we do not write."""

    @abstractmethod
    def commit(self, step: Step, batch: int, *, overrule: bool = False) -> str | None:
        """Make a step seen, with the batch's number, in one commit; done before, do nothing.

        A format may gather steps, which readers see after `settle`.

        The table's mark after that commit; None if it was done before and is not known any more.
        Raises LakeChanged, and does nothing, where the table's mark is not the step's ``base``. To
        ``overrule`` is to do the step nevertheless: the files that are to stay have exactly the
        deleted rows that they had at ``base``, and those that the step deletes.
        """

    def settle(self) -> bool:
        """Make the steps seen that `commit` gathered, all at once. If others wrote to one of the
        tables meanwhile, it does nothing but `forget`, and returns False.
        """
        return True

    def forget(self) -> None:  # noqa: B027 - as above
        """Forget the steps that `commit` gathered."""

    def has(self, table: str, batch: int) -> bool:  # noqa: ARG002 - others have
        """Whether a table has a batch in a commit of its own, which readers see."""
        return False

    def check_shown(self, version: int, prepared: int) -> None:  # noqa: B027 - as above
        """Raise where readers do not see this batch, nor the one that is prepared, if any."""

    def show(self, batch: int) -> None:  # noqa: B027 - as above
        """Let readers see a batch whose steps are committed, where commits do not do that."""

    def clean(self, batch: int) -> None:  # noqa: B027 - as above
        """Remove what only batches before the one before this one had."""


def _with_our_errors(method: Callable[..., Any], *, writes: bool) -> Callable[..., Any]:
    @wraps(method)
    def guarded(self: Tables, table: str | Step, *arguments: Any, **more: Any) -> Any:
        try:
            return method(self, table, *arguments, **more)
        except TailraceError:
            raise
        except Exception as error:
            called = f"table {getattr(table, 'table', table)} in {self.top}"
            if not writes or isinstance(error, DAMAGE):
                raise damaged(called, error) from error
            text = printable(first_line(error))  # a full disk, a catalogue that is busy
            raise PipelineError(f"{called} cannot be written: {text}") from error

    return guarded


def rows_of(state: TableState, part: str) -> TableRows | None:
    """A table's current state or its history."""
    return state.current if part == "current" else state.history


def paths_of(tables: Tables, state: TableState, part: str) -> tuple[str | None, ...]:
    """Where the files of a current state or a history are: by bucket, then tails."""
    rows, table = rows_of(state, part), state.parts.get(part)
    files = () if rows is None else rows.places
    folder = None if table is None else tables.folder(table)
    return tuple(str(folder / file.name) if folder and file else None for file in files)


def deleted_by_path(tables: Tables, table: str) -> dict[str, DeletedRows]:
    """The deleted rows of the files that a table has now, by path."""
    now, folder = tables.content(table), tables.folder(table)
    return {} if now is None else {str(folder / name): rows for name, rows in now.deleted.items()}


def converted(
    name: str, columns: pa.Schema, convert: Callable[[pa.Schema], Converted]
) -> Converted:
    """Columns in the types of the format ``name``, by its library's function.

    Raises `UnsupportedType` that names the first column of a type that the format lacks.
    """
    try:
        return convert(columns)
    except Exception as error:  # delta-rs and pyiceberg raise others, which name no column
        if len(columns) == 1:
            kind = columns.field(0)
            raise UnsupportedType(f"{name} has no type for {kind.type} ({kind.name})") from error
        for each in columns:
            converted(name, pa.schema([each]), convert)
        raise


def unread_deletes(table: str) -> PipelineError:
    """The error for a table with deleted rows that cannot be read."""
    return PipelineError(
        f"table {table} has rows that others deleted in a way that Tailrace does not read (equality"
        " deletes): have them rewrite its files"
    )
