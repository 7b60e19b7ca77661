"""Reading changes and rows back from the lake's files, in the shape that they are to have."""

from __future__ import annotations

import decimal
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.manifest.damage import reading
from tailrace.spark.parquet.deleted import deleted_rows, without
from tailrace.spark.parquet.footer import row_groups, written_schema
from tailrace.spark.state.current import raw
from tailrace.spark.state.current.conform import carried, default
from tailrace.spark.state.current.flat import SEQ, STAMP, UNKNOWN, flatten, unknown_marks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tailrace.spark.parquet.deleted import DeletedRows
    from tailrace.spark.state.current.conform import Source
    from tailrace.spark.state.current.flat import Flat, Target

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

    @property
    def reads(self) -> int:
        """The bytes of its file."""
        return bytes_in((self.path,))


@dataclass(frozen=True)
class Base:
    """Files of committed rows by bucket, and where they have the target's columns.

    ``stamp`` names the column that has the time since which each row is so. ``tails`` are files
    with rows of any bucket; ``deleted`` has the deleted rows of files that have any, by path.
    """

    paths: tuple[str | None, ...]
    sources: Mapping[str, Source]
    key: tuple[str, ...]
    stamp: str = STAMP
    tails: tuple[str, ...] = ()
    deleted: Mapping[str, DeletedRows] = field(default_factory=dict)

    @property
    def reads(self) -> int:
        """The bytes of its files."""
        return bytes_in((*self.paths, *self.tails))

    def only(self, paths: Sequence[str | None], tails: Sequence[str] = ()) -> Base:
        """Some of the files."""
        chosen = {*paths, *tails}
        some = {path: rows for path, rows in self.deleted.items() if path in chosen}
        return replace(self, paths=tuple(paths), tails=tuple(tails), deleted=some)


def bytes_in(paths: Iterable[str | None]) -> int:
    """The sizes of files; one that is gone is an error of the job that reads it."""
    places = (Path(path) for path in paths if path is not None)
    return sum(place.stat().st_size for place in places if place.is_file())


def changes(piece: Piece, target: Target, *, whole: bool) -> Iterator[Flat]:
    """The changes of a piece, a row group at a time; ``whole`` says that all images are full."""
    names = [*_CHANGE_FIELDS, "after"]
    keys = [piece.sources[name].name for name in target.key]
    names += [f"before.{name}" for name in keys if name is not None] if whole else ["before"]
    for rows in row_groups(piece.path, names):
        kept = rows
        if piece.low is not None:
            kept = kept.filter(pc.greater_equal(kept.column("_seq"), _seq(piece.low)))
        if piece.high is not None:
            kept = kept.filter(pc.less(kept.column("_seq"), _seq(piece.high)))
        if kept.num_rows:
            yield flatten(kept, target, piece.sources)


def base_rows(base: Base, target: Target, *, only_its_columns: bool = False) -> Iterator[pa.Table]:
    """Committed live rows, in the target's columns; with the last, no others are read."""
    for path in (*base.paths, *base.tails):
        if path is None:
            continue
        gone = deleted_rows(base.deleted, path)
        first = 0
        with reading(path):
            read = _needed(path, base, target) if only_its_columns else None
            for rows in row_groups(path, read):
                yield _reshaped(without(rows, first, gone), base, target)
                first += rows.num_rows


def _needed(path: str, base: Base, target: Target) -> list[str] | None:
    """The columns of a file that it takes; None (all) where some have other names in the file."""
    sources = (base.sources[name].name for name in target.columns.names)
    names = [*(name for name in sources if name is not None), "_seq", base.stamp, "_raw"]
    return names if set(names) <= set(written_schema(Path(path)).names) else None


def _reshaped(rows: pa.Table, base: Base, target: Target) -> pa.Table:
    texts = raw.texts(rows.column("_raw"))
    columns: dict[str, Any] = {}
    unknown = np.zeros(rows.num_rows, np.bool_)
    for column in target.columns:
        source = base.sources[column.name]
        if source.name is None:
            columns[column.name], text = default(source, column.type, rows.num_rows)
            unknown |= source.unknown is not None
        else:
            text = texts.get(source.name)
            text = None if text is None else pa.chunked_array([text])
            key = column.name in target.key
            found = carried(rows.column(source.name), text, source, column, key=key)
            columns[column.name], text = found.values, found.texts
            unknown |= found.unknown
        if text is not None:
            columns[raw.beside(column.name)] = text
    if unknown.any():
        columns[UNKNOWN] = unknown_marks(unknown)
    columns[SEQ], columns[STAMP] = rows.column("_seq"), rows.column(base.stamp)
    return pa.table(columns)


def _seq(value: int) -> pa.Scalar:
    return pa.scalar(decimal.Decimal(value), _SEQ_TYPE)
