"""Spill files: rows that one task leaves for others, in a lake's staging folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tailrace.errors import PipelineError
from tailrace.printable import one_line

if TYPE_CHECKING:
    from pathlib import Path


def write_spill(path: Path, table: pa.Table) -> None:
    """Write rows for `read_spill`, and make the folder they are in. Raises `PipelineError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    except OSError as error:
        raise PipelineError(f"cannot write {path}: {one_line(str(error))}") from error


def read_spill(path: str) -> pa.Table:
    """A spill file's rows; raises `PipelineError`."""
    try:
        with pa.memory_map(path) as file:
            return pa.ipc.open_file(file).read_all()
    except OSError as error:
        raise PipelineError(f"cannot read {path}: {one_line(str(error))}") from error
