"""The rows of a current state, in the shape in which they are kept in the lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.record.types import SHARD
from tailrace.spark.state.current import raw
from tailrace.spark.state.current.flat import SEQ, STAMP, UNKNOWN
from tailrace.spark.state.failure import RejectedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tailrace.spark.parquet.file import ParquetFile
    from tailrace.spark.state.current.flat import Target
    from tailrace.spark.state.current.pieces import Base, Piece

ROW_GROUP: Final = 1 << 17
"""Rows of a group: what is read of a key column to find one row (`finding`)."""
RAW: Final = "_raw"
STATE_FIELDS: Final = (
    pa.field(STAMP, pa.timestamp("us", "UTC")),
    pa.field(SEQ, pa.decimal128(38, 0)),
    pa.field(RAW, raw.MAP),
)
"""The fields of a current state after the table's own columns."""
CURRENT_FIELDS: Final[Mapping[str, str]] = {STAMP: STAMP, SEQ: SEQ}
"""Those before `RAW`, each with the column of rows that is to be in it."""


def empty_rows(target: Target) -> pa.Table:
    """No rows, in the shape that rows have while they are folded."""
    return pa.schema([*target.columns, *STATE_FIELDS[:2]]).empty_table()


def write_rows(
    rows: pa.Table,
    target: Target,
    file: ParquetFile,
    origins: Iterable[Piece | Base],
    ours: Mapping[str, str] = CURRENT_FIELDS,
) -> tuple[int, int]:
    """Write rows to a file, by key; its size and the bytes that the rows take in memory.

    ``ours`` names the fields after the table's own columns, and the columns of ``rows`` that are
    to be in them. Raises `RejectedError` where a row has a default that the log does not tell;
    ``origins`` know why.
    """
    if UNKNOWN in rows.schema.names and rows.column(UNKNOWN).null_count < rows.num_rows:
        raise RejectedError(_why_unknown(origins))
    texts = {
        name: rows.column(raw.beside(name))
        for name in target.columns.names
        if raw.beside(name) in rows.schema.names
    }
    columns = {name: rows.column(name) for name in target.columns.names}
    if target.shard is not None:
        constant = pa.repeat(pa.scalar(target.shard), rows.num_rows)
        columns[SHARD] = pa.chunked_array([constant])
    columns |= {field: rows.column(name) for field, name in ours.items()}
    columns[RAW] = pa.chunked_array([raw.as_map(rows.num_rows, texts)])
    table = pa.table(columns)
    order = pc.sort_indices(table, [(name, "ascending") for name in target.key])
    for start in range(0, max(table.num_rows, 1), ROW_GROUP):
        file.write(table.take(order.slice(start, ROW_GROUP)))
    return file.close(), table.nbytes


def _why_unknown(origins: Iterable[Piece | Base]) -> str:
    sources = [pair for origin in origins for pair in origin.sources.items()]
    for name, source in sources:
        if source.unknown is not None:
            return (
                f"its column {name} was added to rows that were there, and what they have in "
                f"it is not in the log: {source.unknown}"
            )
    steps = [step for _, source in sources for step in source.steps]
    for step in sorted(steps, key=lambda each: each.is_sure):
        return step.reason
    return "a column was added to rows that were there with values that are not in the log"
