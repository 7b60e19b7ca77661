"""Small files of changelogs, and of ended versions, are compacted as batches go by.

A batch a second makes a file a second. The last sixteen of a table become one where all are small
and of about one size, so a change is written again once for each factor of sixteen, and a table has
some tens of small files at most. Lakes of all formats go by this.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tailrace.spark.manifest.manifest import DataFile
from tailrace.spark.parquet.footer import row_groups, written_schema
from tailrace.spark.state.current.rows import ROW_GROUP

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tailrace.spark.parquet.file import DataFolder

_TOGETHER: Final = 16
_SMALL: Final = 4 << 20
"""Bytes from which on a file is left alone. To compact sixteen smaller ones takes at most a second,
in which no batch is made."""
_LEAST: Final = 64 << 10
"""Files of fewer bytes are all of one size."""
_LISTED: Final = 64
_GROUP_BYTES: Final = 32 << 20


def due(files: Sequence[DataFile]) -> Sequence[DataFile]:
    """The last files, where it is time to compact them; else none."""
    last = files[-_TOGETHER:]
    same = len(last) == _TOGETHER and len({_tier(file) for file in last}) == 1
    return last if same and all(file.size < _SMALL for file in last) else ()


def still_small(files: Sequence[DataFile]) -> tuple[DataFile, ...]:
    """Of a table's files, in order, those that may still be compacted."""
    return tuple(file for file in files if file.size < _SMALL)[-_LISTED:]


def put_together(
    files: Sequence[DataFile], paths: Sequence[Path], to: DataFolder, kind: str
) -> DataFile | None:
    """One new file with the rows of files; None where their columns differ.

    Raises `PipelineError`.
    """
    schemas = [written_schema(path).remove_metadata() for path in paths]
    if any(not each.equals(schemas[0]) for each in schemas):
        return None
    made = to.file(kind)
    waiting: list[pa.Table] = []
    for path in paths:
        for rows in row_groups(str(path), back=False):
            waiting.append(rows.replace_schema_metadata())
            if _full(waiting):
                made.write(pa.concat_tables(waiting))
                waiting = []
    if waiting:
        made.write(pa.concat_tables(waiting))
    rows_there = sum(each.rows for each in files)
    return DataFile(made.path.name, rows_there, made.close(), sum(each.memory for each in files))


def _full(waiting: Sequence[pa.Table]) -> bool:
    rows = sum(each.num_rows for each in waiting)
    return bool(rows >= ROW_GROUP or sum(each.nbytes for each in waiting) >= _GROUP_BYTES)


def _tier(file: DataFile) -> int:
    return int(math.log(max(file.size, _LEAST) / _LEAST, _TOGETHER))
