"""Data files that are written once more: small ones are compacted, and files are copied.

A batch a second makes a file a second. The last sixteen of a changelog, or of a history's ended
versions, become one where all are small and of about one size: so a change is written again once
for each factor of sixteen, and a table has some tens of small files at most, in all formats.

Files of which it was not known before where they go are copied into their table's folder: those of
a table that RENAME TABLE gave another name, and changelog files whose columns have other names in
the table.
"""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.manifest.manifest import DataFile
from tailrace.spark.parquet.file import NO_NAMES, ParquetFile
from tailrace.spark.parquet.footer import opened, row_groups, written_schema
from tailrace.spark.state.current.rows import ROW_GROUP, bytes_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True)
class Copy:
    """A file that comes into a table's folder; ``names`` are new ones for some of its columns.

    With ``images`` they are those of columns in the images.
    """

    source: Path
    target: Path
    plain: bool
    names: Mapping[str, str] = field(default_factory=dict)
    images: bool = False

    @property
    def reads(self) -> int:
        """The bytes that it reads."""
        return bytes_in((str(self.source),))


def copy(job: Copy) -> None:
    """Do a `Copy`. Raises OSError, `PipelineError`."""
    job.target.parent.mkdir(parents=True, exist_ok=True)
    with opened(job.source) as source:
        now = {own: name for name, own in source.own.items()}, source.plain
    if now == (job.names, job.plain):
        shutil.copyfile(job.source, job.target)
        return
    file = ParquetFile(job.target, plain=job.plain, names=NO_NAMES if job.images else job.names)
    for rows in row_groups(str(job.source)):
        plain = rows.replace_schema_metadata()  # it may have the names of before
        file.write(_rename_members(plain, job.names) if job.images else plain)
    file.close()


def _rename_members(rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
    for image in ("before", "after"):
        index = rows.schema.get_field_index(image)
        kind = rows.schema.field(index).type
        wanted = pa.struct([each.with_name(names.get(each.name, each.name)) for each in kind])
        chunks = [
            pa.StructArray.from_arrays(
                [pc.struct_field(chunk, [place]) for place in range(kind.num_fields)],
                fields=list(wanted),
                mask=chunk.is_null(),
            )
            for chunk in rows.column(index).chunks
        ]
        rows = rows.set_column(index, image, pa.chunked_array(chunks, wanted))
    return rows
