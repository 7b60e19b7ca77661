"""How we write Parquet: fast to write, small, and with Spark's own types in the footer.

pyarrow writes its own schema into a Parquet footer, and all that is built on Arrow takes it from
there: a TIME is a duration then, a table's name a dictionary, neither of which Delta or Iceberg
has. Without it the same bytes are 64-bit numbers and texts. So a `plain` file has that schema under
a name that no reader looks for but ours (`tailrace.spark.parquet.footer`).

Measured with batches of a 12-column table on one core (docs/design/lake.md): dictionaries on all
columns, as is pyarrow's default, cost half as much again as on few-valued columns only, and make
larger files; zstd at level 1 takes a third of snappy's size for little time; smallest and largest
values of text columns cost a tenth, so only the columns that rows are sorted by have them.
"""

from __future__ import annotations

import base64
import functools
import json
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailrace.errors import PipelineError
from tailrace.printable import one_line
from tailrace.spark.record.types import ROW_METADATA, SHARD, spark_json

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

HIDDEN: Final = b"tailrace:typ"
RENAMED: Final = b"tailrace.renamed"
NO_NAMES: Final[Mapping[str, str]] = {}
_ALWAYS_FEW: Final = frozenset({"_op", "_db", "_table", "_file", "_server_id", SHARD})
_SAMPLE: Final = 2048
_SAMPLED_ROWS: Final = 8192
"""Fewer rows are not worth a sample: what each way costs is next to nothing."""
_FEW: Final = 64
"""A column with at most so many distinct values among a sample's is written with a dictionary."""
_GTIDS_REPEAT: Final = 4
"""Rows a GTID from which on a dictionary of them is smaller than the texts one after the other."""


class ParquetFile:
    """A Parquet file in the making; settings are chosen by the first rows written.

    Each `write` makes one row group. The footer has the smallest and largest value of ``bounded``
    columns, even of texts. ``names`` are those that columns have in the file, where not their own,
    which it remembers. ``plain``: no reader finds Arrow's types there. Raises `PipelineError` where
    the file cannot be written.
    """

    def __init__(
        self,
        path: Path,
        bounded: Collection[str] = (),
        *,
        plain: bool = False,
        names: Mapping[str, str] = NO_NAMES,
    ) -> None:
        self.path = path
        self._bounded = {names.get(each, each) for each in bounded}
        self._plain = plain
        self._names = names
        self._writer: pq.ParquetWriter | None = None

    def write(self, rows: pa.Table) -> None:
        """Write the rows as a row group; all calls must bring the same schema."""
        try:
            if self._names:
                rows = _renamed(rows, self._names)
            unified = rows.cast(file_schema(rows.schema)).unify_dictionaries()
            if self._writer is None:
                self._writer = self._open(unified, repeat=_gtids_repeat(rows))
            self._writer.write_table(unified, row_group_size=max(rows.num_rows, 1))
        except (OSError, pa.ArrowException) as error:
            self._writer = None
            raise PipelineError(f"cannot write {self.path}: {one_line(str(error))}") from error

    def _open(self, rows: pa.Table, *, repeat: bool) -> pq.ParquetWriter:
        """``repeat`` says that a dictionary of the GTIDs is smaller than the texts."""
        few = set(_ALWAYS_FEW)
        ranged: list[str] = []
        for leaf in rows.schema.empty_table().flatten().schema:
            is_text = pa.types.is_string(leaf.type) or pa.types.is_binary(leaf.type)
            if pa.types.is_dictionary(leaf.type):
                few.add(leaf.name)
            elif leaf.name in self._bounded or not is_text:
                ranged.append(leaf.name)
        if rows.num_rows >= _SAMPLED_ROWS:
            few |= _few_valued(rows)
        encodings = {}
        if repeat:
            few.add("_gtid")
        elif "_gtid" in rows.schema.names and pa.types.is_string(rows.schema.field("_gtid").type):
            encodings["_gtid"] = "DELTA_BYTE_ARRAY"  # each begins as the one before
            few.discard("_gtid")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        writer = pq.ParquetWriter(
            self.path,
            rows.schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=sorted(few),
            write_statistics=ranged or False,
            column_encoding=encodings or None,
            store_schema=not self._plain,
        )
        if self._plain:
            hidden = base64.b64encode(rows.schema.serialize().to_pybytes())
            writer.add_key_value_metadata({**(rows.schema.metadata or {}), HIDDEN: hidden})
        return writer

    def close(self) -> int:
        """Finish the file and return its size in bytes."""
        try:
            if self._writer is not None:
                self._writer.close()
            return self.path.stat().st_size
        except (OSError, pa.ArrowException) as error:
            raise PipelineError(f"cannot write {self.path}: {one_line(str(error))}") from error
        finally:
            self._writer = None


@dataclass(frozen=True)
class DataFolder:
    """Where a ``batch`` puts data files of a table; ``plain`` and ``names`` as in `ParquetFile`.

    Tasks write each file under its final name, which is no other's. It has the batch that the file
    comes with and the generation of the process that makes the batch: what such a process leaves
    without a commit is known by that.
    """

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


def file_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of a file with such rows.

    GTIDs are texts, whether a file has a dictionary of them or not: readers of a folder want one
    type. Spark's own schema is in the metadata, so that Spark reads a TIME as an interval.
    """
    place = schema.get_field_index("_gtid")
    if place >= 0 and pa.types.is_dictionary(schema.field(place).type):
        schema = schema.set(place, schema.field(place).with_type(pa.string()))
    known = {key: text for key, text in (schema.metadata or {}).items() if key != HIDDEN}
    return schema.with_metadata({**known, ROW_METADATA: _spark_json(schema)})


def _renamed(rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """The rows with other names for columns; the schema's metadata has those that they had."""
    own = json.dumps({new: old for old, new in names.items()}).encode()
    found = rows.rename_columns([names.get(each, each) for each in rows.schema.names])
    return found.replace_schema_metadata({**(rows.schema.metadata or {}), RENAMED: own})


@functools.lru_cache(maxsize=1024)
def _spark_json(schema: pa.Schema) -> bytes:
    return spark_json(schema).encode()


def _gtids_repeat(rows: pa.Table) -> bool:
    """Whether transactions are long enough for a dictionary of their GTIDs."""
    if "_gtid" not in rows.schema.names or not pa.types.is_dictionary(
        rows.schema.field("_gtid").type
    ):
        return False
    chunks = rows.column("_gtid").chunks
    return bool(sum(len(each.dictionary) for each in chunks) * _GTIDS_REPEAT <= rows.num_rows)


def _few_valued(rows: pa.Table) -> set[str]:
    """The columns, and members of structs, of which a sample, spread over all rows, has few values
    that differ.
    """
    places = np.linspace(0, rows.num_rows - 1, min(rows.num_rows, _SAMPLE)).astype(np.int64)
    sample = rows.take(pa.array(places)).combine_chunks().flatten()
    return {
        name
        for name, values in zip(sample.schema.names, sample.columns, strict=True)
        if _repeats(values)
    }


def _repeats(values: pa.ChunkedArray) -> bool:
    kind = values.type
    if pa.types.is_nested(kind) or pa.types.is_null(kind) or pa.types.is_dictionary(kind):
        return False
    if pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return False
    return len(pc.unique(values)) <= _FEW
