"""The tables of a lake's format: what the lake's commits ask of all formats alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from tailrace.errors import PipelineError, TailraceError, UnsupportedType
from tailrace.printable import first_line, printable
from tailrace.spark.manifest.damage import DAMAGE, damaged

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tailrace.spark.lake.steps import Content, Step
    from tailrace.spark.manifest.manifest import TableRows, TableState
    from tailrace.spark.parquet.deleted import DeletedRows

Converted = TypeVar("Converted")


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
