"""The row kernel's frame for a column that it writes: how to write it, and where its values are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.columns.frames import encode as f
from tailrace.columns.frames import plan as k
from tailrace.columns.types import Finish, Plan, plan_of
from tailrace.columns.write.types import Rejected, settle
from tailrace.columns.write.values import as_logged
from tailrace.constants import ColumnType as T
from tailrace.errors import UnsupportedType
from tailrace.values.charsets import BINARY, UTF8, longest_character
from tailrace.values.registry import width_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tailrace.values.schema import Column

Array = np.ndarray[Any, Any]

_NETWORK: Final = frozenset({k.UUID, k.INET4, k.INET6})
_NAMED: Final = frozenset({k.ENUM_NAME, k.SET_NAMES})
_OLD: Final = frozenset({T.TIME, T.DATETIME, T.TIMESTAMP})
_NETWORK_SIZE: Final = 17
_WORD: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True, eq=False)
class ColumnWriter:
    """How a column is written: the ``words`` for the kernel, except the addresses of values.

    ``most`` is the most bytes that a value takes, apart from those of its variable length; ``kept``
    holds what ``words`` point to.
    """

    column: Column
    plan: Plan
    words: Array
    most: int
    kept: tuple[Array, ...] = ()

    @classmethod
    @lru_cache(maxsize=4096)
    def of(cls, column: Column) -> ColumnWriter:
        """Resolve a column. Raises `UnsupportedType` for one that no row image has."""
        plan = plan_of(column)
        if column.type in _OLD and column.metadata:
            raise UnsupportedType(
                f"column {column.name}: fractions of MariaDB's old {column.type.name} are not "
                "written from Arrow: give rows as Python objects"
            )
        words = np.zeros(f.COLUMN_WORDS, np.int64)
        words[f.KIND], words[f.ARGUMENT] = plan.kind, plan.argument
        words[f.TRIM] = words[f.CHARACTERS] = -1
        words[f.NULLABLE] = column.nullable
        words[f.UNSIGNED] = column.unsigned
        words[f.SIZE] = most = plan.skip_argument if plan.skip == k.SKIP_FIXED else 0
        kept: tuple[Array, ...] = ()
        if column.type is T.DOUBLE:
            words[f.KIND] = f.FLOAT64
        elif plan.kind in {k.BITS, k.BITS64}:
            words[f.ARGUMENT] = most | column.metadata << 8
        elif plan.kind in _NAMED:
            kept = _name_table(column.members or ())
            words[f.TABLE] = kept[0].ctypes.data
        elif plan.kind in _NETWORK:
            most = _NETWORK_SIZE
        elif plan.kind in {k.STRING, k.PADDED}:
            most = _string(column, plan, words)
        return cls(column, plan, words, most, kept)

    def attach(
        self, array: pa.Array, row: Array, raw: Mapping[int, bytes] | None = None
    ) -> pa.Array:
        """Write the addresses of an array's values into ``row``; gives the array that holds them.

        ``raw`` are the logged bytes of rows that have their values in ``_raw`` and NULL in
        ``array``. Raises `ValueRejected`, naming the row, for a value that the column cannot hold.
        """
        array = as_logged(
            settle(array, self.plan.type, spelled=self.plan.kind == k.DECIMAL_TEXT),
            self.column,
            self.plan,
        )
        if raw:
            array = _filled(array, raw)
        row[:] = self.words
        buffers = array.buffers()
        if array.null_count:
            row[f.VALID] = buffers[0].address
            row[f.VALID_BIT] = array.offset
        kind = array.type
        if pa.types.is_null(kind):
            row[f.VALID] = _no_rows(len(array)).ctypes.data
            row[f.NULLABLE] = 1
            return array
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            row[f.SHIFT] = 2
            values = array.values
            row[f.VALUES] = values.buffers()[1].address + 4 * values.offset if len(values) else 0
            row[f.VALUES_SIZE] = 4 * len(values)
        elif _is_long(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind):
            row[f.VALUES] = buffers[2].address if buffers[2] is not None else 0
            row[f.VALUES_SIZE] = buffers[2].size if buffers[2] is not None else 0
        else:
            width = kind.bit_width // 8
            row[f.VALUES] = buffers[1].address + array.offset * width if len(array) else 0
            return array
        size = 8 if _is_long(kind) or pa.types.is_large_list(kind) else 4
        row[f.OFFSET_BYTES] = size
        row[f.OFFSETS] = buffers[1].address + array.offset * size if len(array) else 0
        return array


def _filled(array: pa.Array, raw: Mapping[int, bytes]) -> pa.Array:
    """An array with the values of ``raw`` filled in; `Rejected` where a row already has a value."""
    rows = sorted(raw)
    there = array.is_valid()
    for row in rows:
        if there[row].as_py():
            raise Rejected("the row has a value in `_raw` and one in the column", row)
    wide = _is_long(array.type)
    data = array.cast(pa.large_binary() if wide else pa.binary())
    mask = np.zeros(len(array), np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(data, mask, pa.array([raw[row] for row in rows], data.type))


def _is_long(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))


def _no_rows(count: int) -> Array:
    return _NOTHING[: (count + 7) // 8]


_NOTHING: Final = np.zeros(1 << 16, np.uint8)


def _string(column: Column, plan: Plan, words: Array) -> int:
    """Set the words of a string, a blob or a type logged like them; gives the length's bytes."""
    prefix = plan.argument & 255
    words[f.KIND], words[f.ARGUMENT] = k.STRING, prefix
    words[f.LIMIT] = width_of(column).most
    if plan.kind == k.PADDED:
        words[f.TRIM] = 0
    elif plan.finish is Finish.CHARSET and column.type is T.STRING:
        words[f.TRIM] = 0x20 if column.charset in UTF8 else -1
    if plan.finish is Finish.CHARSET and column.charset in UTF8:
        words[f.CHARACTERS] = _most_characters(column)
    return prefix


def _most_characters(column: Column) -> int:
    """How many characters a CHAR or VARCHAR holds; -1 if unknown, and for other types."""
    if column.type not in {T.STRING, T.VARCHAR, T.VAR_STRING}:
        return -1
    if column.collation is None or column.collation == BINARY:
        return -1
    return column.metadata // longest_character(column.collation)


def _name_table(members: Sequence[str]) -> tuple[Array, ...]:
    """The hash table of `frames.encode.NAME_WORDS`, and the bytes that it points to."""
    encoded = [name.encode("utf-8", "surrogatepass") for name in members]
    data = np.frombuffer(b"".join(encoded) + bytes(k.PADDING), np.uint8)
    places = max(4, 1 << (2 * len(encoded)).bit_length())
    table = np.zeros(1 + places * f.NAME_WORDS, np.int64)
    table[0] = places - 1
    entries = table[1:].reshape(places, f.NAME_WORDS)
    entries[:, f.N_SIZE] = -1
    at = int(data.ctypes.data)
    for number, name in enumerate(encoded, 1):
        place = _hash(name) & (places - 1)
        while entries[place, f.N_SIZE] >= 0 and not _same(entries[place], encoded, name):
            place = (place + 1) & (places - 1)
        if entries[place, f.N_SIZE] < 0:  # of equal names the first is used
            entries[place] = at, len(name), number
        at += len(name)
    return table, data


def _same(entry: Array, names: Sequence[bytes], name: bytes) -> bool:
    return names[int(entry[f.N_NUMBER]) - 1] == name


def _hash(name: bytes) -> int:
    value = f.HASH_START ^ len(name)
    for byte in name:
        value = (value ^ byte) * f.HASH_FACTOR & _WORD
    return value ^ value >> 32
