"""Files that a task copies into a table's folder: it was not known before where they go.

These are the files of a table that RENAME TABLE gave another name, and changelog files whose
columns have other names in the table.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.parquet.file import NO_NAMES, ParquetFile
from tailrace.spark.parquet.footer import opened, row_groups
from tailrace.spark.state.current.rows import bytes_in

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


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
