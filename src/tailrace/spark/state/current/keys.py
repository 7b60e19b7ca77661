"""Row keys in bulk: equal keys to equal small numbers, and to buckets that always stay the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Hashes = np.ndarray[Any, np.dtype[np.uint64]]

_SPARSE: Final = 8
"""Up to so many numbers for each key, they are renumbered through a table instead of by sorting."""
_SEED: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)


def dense(columns: Sequence[pa.ChunkedArray]) -> tuple[Numbers, int]:
    """Number the rows' keys: equal keys get equal numbers, from 0 to below the second result.

    NULL equals NULL here: where the log has a zero date, the column is NULL and its text is part of
    the key.
    """
    rows = len(columns[0])
    numbers = np.zeros(rows, np.int64)
    count = min(rows, 1)
    for column in columns:
        codes, size = _codes(column)
        if count <= 1:
            numbers, count = codes, size
            continue
        if count * size >= 1 << 62:
            numbers, count = _renumbered(numbers)
        numbers, count = _renumbered(numbers * size + codes)
    return numbers, count


def buckets(columns: Sequence[pa.ChunkedArray], count: int) -> Numbers:
    """The bucket of each row's key, from 0 to below ``count`` (a power of two)."""
    result: Numbers = (hashes(columns) & np.uint64(count - 1)).astype(np.int64)
    return result


def hashes(columns: Sequence[pa.ChunkedArray]) -> Hashes:
    """A number of 64 bits for each row's key.

    Depends on the keys' values and types only, so it is the same in all runs and on all machines.
    NULLs count for nothing, so that it does not matter whether a column of the key has a
    column of texts, which only some files need.
    """
    found: Hashes = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        values = pa.chunked_array(column).combine_chunks()
        mixed = _mixed(found + _SEED ^ _hashes(values))
        there = values.is_valid().to_numpy(zero_copy_only=False)
        found = mixed if not values.null_count else np.where(there, mixed, found)
    return found


def _codes(column: pa.ChunkedArray) -> tuple[Numbers, int]:
    if not column.null_count and (found := _whole(column)) is not None:
        return _renumbered(found)
    if column.null_count:  # pyarrow unifies no dictionaries that have a NULL
        column = pa.chunked_array([pa.concat_arrays(column.chunks)])
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    if encoded.num_chunks > 1:
        encoded = encoded.unify_dictionaries()
    codes = [_integers(chunk.indices) for chunk in encoded.chunks]
    if not codes:
        return np.zeros(0, np.int64), 0
    return np.concatenate(codes), len(encoded.chunk(0).dictionary)


def _whole(column: pa.ChunkedArray) -> Numbers | None:
    """The values as 64-bit numbers, where that is what they are; unsigned keys are decimals."""
    if pa.types.is_integer(column.type):
        numbers: Numbers = column.to_numpy().astype(np.int64, copy=False)
        return numbers
    if not pa.types.is_decimal128(column.type) or column.type.scale:
        return None
    parts = [_decimal_words(chunk) for chunk in column.chunks]
    words = np.concatenate(parts) if parts else np.zeros((0, 2), np.int64)
    low: Numbers = words[:, 0]
    return None if words[:, 1].any() or (low < 0).any() else low


def _decimal_words(array: pa.Array) -> Numbers:
    words = np.frombuffer(array.buffers()[1], np.int64)
    return words[2 * array.offset : 2 * (array.offset + len(array))].reshape(-1, 2)


def _renumbered(numbers: Numbers) -> tuple[Numbers, int]:
    if len(numbers):
        low, high = int(numbers.min()), int(numbers.max())
        if high - low < _SPARSE * len(numbers):
            there = np.zeros(high - low + 1, np.bool_)
            there[numbers - low] = True
            new = np.cumsum(there) - 1
            return new[numbers - low], int(new[-1]) + 1
    distinct, inverse = np.unique(numbers, return_inverse=True)
    return inverse.astype(np.int64), len(distinct)


def _integers(array: pa.Array) -> Numbers:
    result: Numbers = array.to_numpy(zero_copy_only=False).astype(np.int64)
    return result


def _mixed(words: Hashes) -> Hashes:
    """The finaliser of splitmix64, element by element."""
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


def _hashes(array: pa.Array) -> Hashes:
    """A hash of each value; a NULL's is that of no bytes."""
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _text_hashes(array.fill_null(""))
    if pa.types.is_decimal(kind):
        words = _decimal_words(array.fill_null(0).cast(kind)).view(np.uint64)
        return _mixed(words[:, 0]) ^ words[:, 1]
    if pa.types.is_floating(kind):
        floats = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        return _mixed((floats + 0.0).view(np.uint64))  # -0.0 becomes 0.0
    if pa.types.is_date(kind):
        array = array.cast(pa.int32())
    return _mixed(_integers(array.cast(pa.int64()).fill_null(0)).view(np.uint64))


def _text_hashes(array: pa.Array) -> Hashes:
    """Hash texts eight bytes at a time, all those that are still long enough at once."""
    rows = len(array)
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + rows + 1]
    data = np.frombuffer(array.buffers()[2] or b"", np.uint8)
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    starts, sizes = offsets[:-1].astype(np.int64), np.diff(offsets).astype(np.int64)
    hashes: Hashes = sizes.astype(np.uint64)
    places = np.arange(rows)
    step = 0
    while len(places := places[sizes[places] > step]):
        words = _words(padded, starts[places] + step)
        spare = np.maximum(8 - (sizes[places] - step), 0).astype(np.uint64) * np.uint64(8)
        words = (words << spare) >> spare
        hashes[places] = _mixed(hashes[places] + _SEED ^ words)
        step += 8
    return hashes


def _words(data: np.ndarray[Any, np.dtype[np.uint8]], starts: Numbers) -> Hashes:
    """The eight bytes from each start on, as a little-endian number."""
    windows = np.lib.stride_tricks.as_strided(data, (len(data) - 7, 8), (1, 1), writeable=False)
    result: Hashes = np.ascontiguousarray(windows[starts]).view("<u8").reshape(-1)
    return result.astype(np.uint64)
