"""Where a lake's own state is read that others may have altered: damage in it is an error of ours.

A lake's manifest is checked whole where it is read (`lake.consistent`). Its data files, and what
Delta and Iceberg keep beside them, are read by other libraries, each of which has errors of its own
for each kind of damage. Two places turn these into `PipelineError`, and keep the cause: all that is
asked of tables goes through `Guarded`, and a batch works on committed states in `reading`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tailrace.errors import PipelineError, TailraceError
from tailrace.printable import first_line, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tailrace.spark.lake.steps import Step, Tables

_DAMAGE: Final = (
    *(ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError),
    pa.ArrowException,
)
"""What our own code and pyarrow raise for values that are not what they were written as."""


@contextmanager
def reading(what: object) -> Iterator[None]:
    """Raises `PipelineError` that names ``what`` where its content is not as we wrote it."""
    try:
        yield
    except TailraceError:
        raise
    except _DAMAGE as error:
        raise _damaged(what, error) from error


@contextmanager
def reading_file(path: Path, what: str) -> Iterator[None]:
    """Raises `PipelineError` that names one of a lake's files, where it is not ``what`` it has."""
    try:
        yield
    except PipelineError:
        raise
    except (*_DAMAGE, OSError, TailraceError) as error:
        raise PipelineError(f"{path} cannot be read as {what}: {first_line(error)}") from error


class Guarded:
    """The tables of a lake's format; whatever reading them raises, here it is `PipelineError`."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    @property
    def top(self) -> Path:
        """The folder below which all tables' folders are."""
        return self._tables.top

    def name(self, folder: str, part: str) -> str:
        """What a part of a table is to be called."""
        with self._table(f"{folder} ({part})"):
            return self._tables.name(folder, part)

    def folder(self, table: str) -> Path:
        """Where the table's data files are."""
        return self._tables.folder(table)

    def mark(self, table: str) -> str | None:
        """What each commit that changes the table's rows changes too."""
        with self._table(table):
            return self._tables.mark(table)

    def files(self, table: str) -> frozenset[str]:
        """The data files that the table has now."""
        with self._table(table):
            return self._tables.files(table)

    def deleted(self, table: str) -> Mapping[str, str]:
        """The rows deleted beside each of the table's files now."""
        with self._table(table):
            return self._tables.deleted(table)

    def commit(self, step: Step, batch: int) -> None:
        """Make a step seen."""
        with self._table(step.table):
            try:
                self._tables.commit(step, batch)
            except (TailraceError, *_DAMAGE):
                raise
            except Exception as error:  # no damage: a full disk, a catalogue that is busy
                text = printable(first_line(error))
                raise PipelineError(
                    f"{self._called(step.table)} cannot be written: {text}"
                ) from error

    def scan(self, table: str, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """All rows that the table has now."""
        with self._table(table):
            yield from self._tables.scan(table, columns)

    @contextmanager
    def _table(self, table: str) -> Iterator[None]:
        try:
            yield
        except TailraceError:
            raise
        except Exception as error:  # delta-rs, pyiceberg, its catalogues: they share no base
            raise _damaged(self._called(table), error) from error

    def _called(self, table: str) -> str:
        return f"table {table} in {self.top}"


def _damaged(what: object, error: Exception) -> PipelineError:
    kind = "" if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: "
    return PipelineError(
        f"{what} cannot be read: {kind}{printable(first_line(error))}; somebody may have altered "
        "it: bring it back, or create a new lake"
    )
