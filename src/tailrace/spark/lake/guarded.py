"""The tables of a lake's format, where each error of the libraries that read them is one of ours.

delta-rs, pyiceberg and its catalogues share no base class of errors, and each has errors of its own
for each kind of damage. All that is asked of tables goes through `Guarded`, which raises
`PipelineError` and keeps the cause.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tailrace.errors import PipelineError, TailraceError
from tailrace.printable import first_line, printable
from tailrace.spark.manifest.damage import DAMAGE, damaged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tailrace.spark.lake.steps import Content, Step, Tables


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
        """The table's mark."""
        with self._table(table):
            return self._tables.mark(table)

    def content(self, table: str, mark: str | None = None) -> Content | None:
        """What the table has now, or had at a mark."""
        with self._table(table):
            return self._tables.content(table, mark)

    def check(self, table: str) -> None:
        """Whether we write such a table."""
        with self._table(table):
            self._tables.check(table)

    def commit(self, step: Step, batch: int, *, overrule: bool = False) -> str | None:
        """Make a step seen."""
        with self._table(step.table):
            if step.only_marks and self._tables.mark(step.table) is None:
                raise PipelineError(f"{self._called(step.table)} is gone: restore it")
            try:
                return self._tables.commit(step, batch, overrule=overrule)
            except (TailraceError, *DAMAGE):
                raise
            except Exception as error:  # no damage: a full disk, a catalogue that is busy
                text = printable(first_line(error))
                raise PipelineError(
                    f"{self._called(step.table)} cannot be written: {text}"
                ) from error

    @contextmanager
    def _table(self, table: str) -> Iterator[None]:
        try:
            yield
        except TailraceError:
            raise
        except Exception as error:  # delta-rs, pyiceberg, its catalogues: they share no base
            raise damaged(self._called(table), error) from error

    def _called(self, table: str) -> str:
        return f"table {table} in {self.top}"
