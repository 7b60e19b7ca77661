"""Jobs of a comparison: digests of one side's rows, or the rows whose keys have given digests.

A row has two digests of 64 bits, of its key and of all its columns. Both sides compute them from
the same Arrow types, so equal rows have equal digests, whichever order the sides keep them in and
however the server compares the texts of keys. A job sorts them by the key's digest into a file,
and returns totals for each slice of these digests. A slice is read from the file only where the
totals of both sides differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from tailrace.errors import AccessDenied, MalformedPacket, PipelineError, ServerError
from tailrace.snapshot.connection import reading
from tailrace.snapshot.rows import Values, server_rows
from tailrace.spark.parquet.footer import as_written
from tailrace.spark.state.current import raw
from tailrace.spark.state.current.rows import RAW

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tailrace.live.url import Source
    from tailrace.snapshot.key_ranges import KeyRange
    from tailrace.snapshot.rows import ServerTable
    from tailrace.spark.lake.reading import LakeFile
    from tailrace.table_name import TableName

_WORD: Final = np.dtype("<u8")
Words = np.ndarray[Any, np.dtype[np.uint64]]
Shown = dict[str, str | None]
"""A row for a person: values by column."""


@dataclass(frozen=True)
class SideJob:
    """Rows of a table on one side: of a range on the server, or of a file of the lake.

    Digests go to the file ``out``, in ``slices``; with ``keys`` the job returns instead the rows
    whose keys have one of these digests. ``shard``: of the lake's rows those of this ``_source``.
    """

    table: ServerTable
    source: Source | None = None
    part: KeyRange | None = None
    file: LakeFile | None = None
    shard: str | None = None
    out: Path | None = None
    slices: int = 1
    keys: tuple[int, ...] = ()


@dataclass(frozen=True)
class SideResult:
    """What a job found; ``gone`` if the lake's file does not exist any more.

    ``totals`` are each slice's number of rows, and the sum of their digests modulo 2**64.
    ``refused`` says why the rows are not all there; ``unread`` that it says nothing of them.
    """

    name: TableName
    number: int = 0
    totals: Words | None = None
    out: Path | None = None
    rows: tuple[tuple[int, Shown], ...] = ()
    refused: str | None = None
    unread: bool = False
    gone: bool = False

    def slice(self, at: int) -> Words:
        """A slice's digests, from the file: of each row that of its key, and that of the row."""
        if self.totals is None or self.out is None:
            return np.zeros((0, 2), np.uint64)
        before, count = int(self.totals[0, :at].sum()), int(self.totals[0, at])
        size = 2 * np.dtype(np.uint64).itemsize
        found = np.fromfile(self.out, np.uint64, 2 * count, offset=size * before)
        return found.reshape(-1, 2)


def read_side(job: SideJob) -> SideResult:
    """Do a job of either side."""
    number = job.part.number if job.part is not None else 0
    names = [column.name for column in job.table.columns]
    key = [names.index(name) for name in job.table.key]
    digests = [np.zeros((0, 2), np.uint64)]
    found: list[tuple[int, Shown]] = []
    wanted = np.array(job.keys, np.uint64)
    count = 0
    try:
        for columns in _columns(job, names):
            keys = checksums([columns[index] for index in key])
            count += len(keys)
            for row in np.flatnonzero(np.isin(keys, wanted)).tolist() if job.keys else ():
                shown = {name: each.shown(row) for name, each in zip(names, columns, strict=True)}
                found.append((int(keys[row]), shown))
            if not job.keys:
                digests.append(np.stack((keys, checksums(columns)), axis=1))
    except FileNotFoundError:
        return SideResult(job.table.name, number, gone=True)
    except (PipelineError, ServerError, MalformedPacket) as error:
        if isinstance(error, AccessDenied):
            raise
        unread = job.file is not None or not isinstance(error, PipelineError)
        return SideResult(job.table.name, number, refused=str(error), unread=unread)
    except MemoryError:
        why = "there is not enough memory for its rows"
        return SideResult(job.table.name, number, refused=why, unread=True)
    if job.out is None:
        return SideResult(job.table.name, number, rows=tuple(found))
    return SideResult(job.table.name, number, _written(np.concatenate(digests), job), job.out)


def _columns(job: SideJob, names: list[str]) -> Iterator[list[Values]]:
    if job.file is not None:
        types = pa.schema(list(zip(names, job.table.types, strict=True)))
        for table in job.file.rows([*names, RAW], job.shard):
            yield from_lake(as_written(table, types), names)
    if job.source is None or job.part is None:
        return
    with reading(job.source) as connection:
        yield from server_rows(connection, job.table, job.part)


def _written(digests: Words, job: SideJob) -> Words:
    """Write digests to a file, slice after slice, and return each slice's totals."""
    digests = digests[np.argsort(digests[:, 0])]
    edges = np.array([(1 << 64) * at // job.slices for at in range(job.slices)], np.uint64)
    offsets = np.append(np.searchsorted(digests[:, 0], edges), len(digests))
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(digests[:, 1], dtype=np.uint64)))
    digests.tofile(str(job.out))
    return np.stack((np.diff(offsets).astype(np.uint64), np.diff(sums[offsets])))


def from_lake(rows: pa.Table, columns: Sequence[str]) -> list[Values]:
    """Columns of rows that were read from the lake."""
    texts: dict[str, pa.Array] = {}
    if RAW in rows.schema.names:
        texts = raw.texts(rows.column(RAW))
    found = []
    for name in columns:
        column = rows.column(name)
        typed = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        if pa.types.is_dictionary(typed.type):
            typed = typed.dictionary_decode()
        if pa.types.is_list(typed.type):
            typed = _vectors(typed)
        found.append(Values(typed, texts.get(name)))
    return found


def _vectors(lists: pa.ListArray) -> pa.BinaryArray:
    """Lists of 32-bit floats as the bytes that servers send of a VECTOR."""
    values = [
        None if value is None else np.array(value, "<f4").tobytes() for value in lists.to_pylist()
    ]
    return pa.array(values, pa.binary())


def checksums(columns: Sequence[Values]) -> Words:
    """A 64-bit checksum of each row's values; NULL, no bytes and 0 are told apart.

    The same values give the same on every machine. -0.0 is 0.0.
    """
    words: list[Words] = []
    for values in columns:
        texts = pa.nulls(len(values.typed), pa.string()) if values.texts is None else values.texts
        for array in (values.typed, texts):
            words += [array.is_valid().to_numpy(zero_copy_only=False).astype(_WORD), *_words(array)]
    rows = memoryview(np.stack(words, axis=1).tobytes())
    return _digests(rows, np.arange(len(rows) + 1, step=_WORD.itemsize * len(words)))


def _words(array: pa.Array) -> list[Words]:
    """Numbers of 64 bits that stand for each value; those of a NULL are 0."""
    kind = array.type
    if pa.types.is_null(kind):
        return []
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        if array.null_count == len(array):
            return [np.zeros(len(array), _WORD)]
        offsets = np.frombuffer(array.buffers()[1] or b"", np.int32)[array.offset :]
        digests = _digests(memoryview(array.buffers()[2] or b""), offsets[: len(array) + 1])
        return [np.where(array.is_valid().to_numpy(zero_copy_only=False), digests, _WORD.type(0))]
    if pa.types.is_decimal(kind):
        filled, size = array.fill_null(0), kind.bit_width // 64
        words = np.frombuffer(filled.buffers()[1], _WORD)[size * filled.offset :]
        return [*words[: size * len(filled)].reshape(-1, size).T]
    if pa.types.is_floating(kind):
        floats = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        return [(floats + 0.0).view(_WORD)]
    if pa.types.is_date(kind):
        array = array.cast(pa.int32())
    whole = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return [whole.astype(np.int64).view(_WORD)]


def _digests(data: memoryview, offsets: np.ndarray[Any, Any]) -> Words:
    """A digest of the bytes between each two offsets."""
    ends = offsets.tolist()
    found = [
        blake2b(data[start:end], digest_size=_WORD.itemsize).digest()
        for start, end in pairwise(ends)
    ]
    return np.frombuffer(b"".join(found), _WORD)
