"""Changes and rows in the lake's files, and reading them in the shape that they are to have."""

from __future__ import annotations

import decimal
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.manifest.damage import reading
from tailrace.spark.parquet.deleted import NO_ROWS, deleted_rows, joined, without
from tailrace.spark.parquet.footer import row_groups, written_schema
from tailrace.spark.state.current import raw
from tailrace.spark.state.current.flat import SEQ, STAMP, flatten, shaped
from tailrace.spark.state.current.fold import as_changes, as_entries, entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tailrace.spark.parquet.deleted import DeletedRows, Rows
    from tailrace.spark.state.current.flat import Flat, Taken, Target
    from tailrace.spark.state.current.lineage import Source

ROW_GROUP: Final = 1 << 17
"""Rows of a group: what is read of a key column to find one row (`finding`)."""
RAW: Final = "_raw"
_SEQ_TYPE: Final = pa.decimal128(38, 0)
STATE_FIELDS: Final = (
    pa.field(STAMP, pa.timestamp("us", "UTC")),
    pa.field(SEQ, _SEQ_TYPE),
    pa.field(RAW, raw.MAP),
)
"""The fields of a current state after the table's own columns."""
_NONE: Final[Mapping[str, Rows]] = {}
_CHANGE_FIELDS: Final = ("_op", "_seq", "_ts", "_present", "_raw")


def empty_rows(target: Target) -> pa.Table:
    """No rows, in the shape that rows have while they are folded."""
    return pa.schema([*target.columns, *STATE_FIELDS[:2]]).empty_table()


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

    def flats(self, target: Target, *, whole: bool) -> Iterator[Flat]:
        """The changes, a row group at a time; ``whole`` says that all images are full."""
        names = [*_CHANGE_FIELDS, "after"]
        keys = [self.sources[name].name for name in target.key]
        names += [f"before.{name}" for name in keys if name is not None] if whole else ["before"]
        for rows in row_groups(self.path, names):
            kept = rows
            if self.low is not None:
                kept = kept.filter(pc.greater_equal(kept.column(SEQ), _seq(self.low)))
            if self.high is not None:
                kept = kept.filter(pc.less(kept.column(SEQ), _seq(self.high)))
            if kept.num_rows:
                yield flatten(kept, target, self.sources)

    def entries(self, target: Target) -> Iterator[pa.Table]:
        """The entries of the changes, if all images are full. Raises `RejectedError`."""
        for flat in self.flats(target, whole=True):
            yield entries(flat, target)


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

    def gone(self, path: str, more: Mapping[str, Rows]) -> Rows:
        """The deleted rows of a file, with those in ``more``."""
        return joined(deleted_rows(self.deleted, path), more.get(path, NO_ROWS))

    def rows(
        self, target: Target, more: Mapping[str, Rows] = _NONE, *, only_its_columns: bool = False
    ) -> Iterator[pa.Table]:
        """The rows that are neither deleted nor in ``more``, in the target's columns; with the
        last, no others are read.
        """
        for path in (*self.paths, *self.tails):
            if path is None:
                continue
            gone = self.gone(path, more)
            first = 0
            with reading(path):
                read = _needed(path, self, target) if only_its_columns else None
                for rows in row_groups(path, read):
                    yield _reshaped(without(rows, first, gone), self, target)
                    first += rows.num_rows

    def flats(self, target: Target, *, whole: bool) -> Iterator[Flat]:  # noqa: ARG002 - as a piece's
        """The rows as if they had been inserted."""
        return (as_changes(rows, target) for rows in self.rows(target))

    def entries(self, target: Target) -> Iterator[pa.Table]:
        """The rows as entries."""
        return map(as_entries, self.rows(target))


def bytes_in(paths: Iterable[str | None]) -> int:
    """The sizes of files; one that is gone is an error of the job that reads it."""
    places = (Path(path) for path in paths if path is not None)
    return sum(place.stat().st_size for place in places if place.is_file())


def _needed(path: str, base: Base, target: Target) -> list[str] | None:
    """The columns of a file that it takes; None (all) where some have other names in the file."""
    sources = (base.sources[name].name for name in target.columns.names)
    names = [*(name for name in sources if name is not None), "_seq", base.stamp, "_raw"]
    return names if set(names) <= set(written_schema(Path(path)).names) else None


def _reshaped(rows: pa.Table, base: Base, target: Target) -> pa.Table:
    texts = raw.texts(rows.column(RAW))

    def take(name: str) -> Taken:
        text = texts.get(name)
        return rows.column(name), None if text is None else pa.chunked_array([text]), None

    columns = shaped(target, base.sources, rows.num_rows, take)
    columns |= {SEQ: rows.column(SEQ), STAMP: rows.column(base.stamp)}
    return pa.table(columns)


def _seq(value: int) -> pa.Scalar:
    return pa.scalar(decimal.Decimal(value), _SEQ_TYPE)
