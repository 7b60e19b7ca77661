"""The folder of a table's data files: tasks write each under its final name, which is no other's.

A name has the batch that the file comes with and the generation of the process that makes the
batch: what such a process leaves without a commit is known by that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING

from tailrace.spark.parquet.file import ParquetFile

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path


@dataclass(frozen=True)
class DataFolder:
    """Where a ``batch`` puts data files of a table; ``plain`` and ``names`` as in `ParquetFile`."""

    path: Path
    batch: int = 0
    generation: int = 0
    plain: bool = False
    names: Mapping[str, str] = field(default_factory=dict)

    def new(self, kind: str) -> Path:
        """A new file's path. A task that runs twice gets two."""
        return self.path / f"{kind}-{self.batch:06}-{self.generation:06}-{token_hex(6)}.parquet"

    def file(self, kind: str, bounded: Collection[str] = ()) -> ParquetFile:
        """A new file, to be written."""
        return ParquetFile(self.new(kind), bounded, plain=self.plain, names=self.names)
