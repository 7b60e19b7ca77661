"""Reading changes and rows back from the lake's files, in the shape that they are to have."""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailrace.errors import PipelineError
from tailrace.spark.current import raw
from tailrace.spark.current.conform import conform, default
from tailrace.spark.current.flat import SEQ, STAMP, UNKNOWN, flatten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tailrace.spark.current.conform import Source
    from tailrace.spark.current.flat import Flat, Target

_CHANGE_FIELDS: Final = ("_op", "_seq", "_ts", "_present", "_raw")
_SEQ_TYPE: Final = pa.decimal128(38, 0)


@dataclass(frozen=True)
class Piece:
    """Changes to fold: those of a file with ``_seq`` from ``low`` to before ``high`` (None: all).

    ``sources`` says where its rows have the target's columns, ``key`` is their key, by the names of
    the target's columns.
    """

    path: str
    sources: Mapping[str, Source]
    key: tuple[str, ...]
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True)
class Base:
    """Files of the committed current state by bucket, and where they have the target's columns."""

    paths: tuple[str | None, ...]
    sources: Mapping[str, Source]
    key: tuple[str, ...]


def changes(piece: Piece, target: Target, *, whole: bool) -> Iterator[Flat]:
    """The changes of a piece, a row group at a time; ``whole`` says that all images are full."""
    names = [*_CHANGE_FIELDS, "after"]
    keys = [piece.sources[name].name for name in target.key]
    names += [f"before.{name}" for name in keys if name is not None] if whole else ["before"]
    for rows in _row_groups(piece.path, names):
        kept = rows
        if piece.low is not None:
            kept = kept.filter(pc.greater_equal(kept.column("_seq"), _seq(piece.low)))
        if piece.high is not None:
            kept = kept.filter(pc.less(kept.column("_seq"), _seq(piece.high)))
        if kept.num_rows:
            yield flatten(kept, target, piece.sources)


def base_rows(base: Base, target: Target) -> Iterator[pa.Table]:
    """The rows of a committed current state, in the target's columns."""
    for path in base.paths:
        if path is None:
            continue
        for rows in _row_groups(path, None):
            yield _reshaped(rows, base, target)


def _reshaped(rows: pa.Table, base: Base, target: Target) -> pa.Table:
    texts = raw.texts(rows.column("_raw"))
    columns: dict[str, Any] = {}
    for field in target.columns:
        source = base.sources[field.name]
        if source.name is None:
            columns[field.name], text = default(source, field.type, rows.num_rows)
            if source.unknown is not None:
                columns[UNKNOWN] = pa.repeat(pa.scalar(True), rows.num_rows)
        else:
            columns[field.name] = conform(rows.column(source.name), field.type, field.name)
            text = texts.get(source.name)
        if text is not None:
            columns[raw.beside(field.name)] = text
    columns[SEQ], columns[STAMP] = rows.column("_seq"), rows.column("_ts")
    return pa.table(columns)


def _row_groups(path: str, names: list[str] | None) -> Iterator[pa.Table]:
    try:
        with pq.ParquetFile(path) as file:
            for number in range(file.num_row_groups):
                yield file.read_row_group(number, columns=names, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(f"cannot read {path}, a file of the lake: {error}") from error


def _seq(value: int) -> pa.Scalar:
    return pa.scalar(decimal.Decimal(value), _SEQ_TYPE)
