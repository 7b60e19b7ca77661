"""One stored value of a row: type, metadata, bytes.

WL#3283, "Row set and value interface". A `Value` interprets nothing; a `Converter` does.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import ColumnType
from tailrace.errors import ConversionError
from tailrace.values.compressed import longest_uncompressed, uncompress
from tailrace.values.registry import dumper_of, loader_of, width_of
from tailrace.values.schema import STRING_TYPES, Column, logical_of

if TYPE_CHECKING:
    from collections.abc import Callable

_T = ColumnType
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_UNCOMPRESSED: Final = {_T.VARCHAR_COMPRESSED: _T.VARCHAR, _T.BLOB_COMPRESSED: _T.BLOB}


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a column: ``type`` and ``metadata`` are the column's, as in `ColumnSpec`.

    ``storage`` holds its bytes as in a row image, without the length prefix; None for NULL. A value
    of a MariaDB compressed column is the uncompressed VARCHAR or BLOB. ``column`` is the column
    that it came from, if known: a `Converter` takes sign, character set and names from it.

    Values compare, hash and pickle by type, metadata and storage, as WL#3283 specifies: a signed -1
    and an unsigned 255 of a TINYINT are the same value.
    """

    type: ColumnType
    metadata: int
    storage: bytes | None
    column: Column | None = field(default=None, compare=False)

    @property
    def is_null(self) -> bool:
        """Whether it is NULL."""
        return self.storage is None

    @property
    def length(self) -> int:
        """Its bytes in a row image, including the length prefix; 0 for NULL."""
        if self.storage is None:
            return 0
        return width_of(self.described()).prefix + len(self.storage)

    def described(self) -> Column:
        """The value's column; created from type and metadata if it is unknown."""
        known = self.column
        if known is not None and (known.type, known.metadata) == (self.type, self.metadata):
            return known
        if known is not None:  # a compressed column
            return replace(known, type=self.type, metadata=self.metadata)
        logical = logical_of(self.type)
        return Column(0, "", self.type, self.metadata, True, False, None, None, logical)

    def as_int8(self) -> int:
        """The storage, of one byte, as a signed integer."""
        return self._integer(1, signed=True)

    def as_int16(self) -> int:
        """The storage, of at most two bytes, as a signed little-endian integer."""
        return self._integer(2, signed=True)

    def as_int32(self) -> int:
        """The storage, of at most four bytes, as a signed little-endian integer."""
        return self._integer(4, signed=True)

    def as_int64(self) -> int:
        """The storage, of at most eight bytes, as a signed little-endian integer."""
        return self._integer(8, signed=True)

    def as_uint8(self) -> int:
        """The storage, of one byte, as an unsigned integer."""
        return self._integer(1, signed=False)

    def as_uint16(self) -> int:
        """The storage, of at most two bytes, as an unsigned little-endian integer."""
        return self._integer(2, signed=False)

    def as_uint32(self) -> int:
        """The storage, of at most four bytes, as an unsigned little-endian integer."""
        return self._integer(4, signed=False)

    def as_uint64(self) -> int:
        """The storage, of at most eight bytes, as an unsigned little-endian integer."""
        return self._integer(8, signed=False)

    def as_float(self) -> float:
        """The storage, of four bytes, as a 32-bit float."""
        return float(_FLOAT.unpack(self._bytes(4, 4, "a float"))[0])

    def as_double(self) -> float:
        """The storage, of eight bytes, as a 64-bit float."""
        return float(_DOUBLE.unpack(self._bytes(8, 8, "a double"))[0])

    def as_c_str(self) -> bytes:
        """The storage of a string (CHAR, BINARY, TEXT, BLOB and kin): `ConversionError` for others.

        Text is in the column's character set.
        """
        if self.type not in STRING_TYPES:
            raise self._rejected("no string")
        return self.as_blob()

    def as_blob(self) -> bytes:
        """The storage, unchanged."""
        if self.storage is None:
            raise self._rejected("NULL, which has no storage")
        return self.storage

    def _integer(self, size: int, *, signed: bool) -> int:
        data = self._bytes(1, size, f"an integer of {8 * size} bits")
        return int.from_bytes(data, "little", signed=signed)

    def _bytes(self, least: int, most: int, what: str) -> bytes:
        data = self.as_blob()
        if not least <= len(data) <= most:
            raise self._rejected(f"{len(data)} bytes, which are not {what}")
        return data

    def _rejected(self, reason: str) -> ConversionError:
        name = f"{self.column.name} " if self.column is not None else ""
        return ConversionError(f"{name}({self.type.name}) is {reason}")


def stored(column: Column, raw: bytes | None) -> Value:
    """The value whose bytes in a row image are ``raw`` (None: NULL).

    Raises `EventDecodeError` if a compressed value cannot be uncompressed.
    """
    type_, metadata = column.type, column.metadata
    if type_ in _UNCOMPRESSED:
        raw = None if raw is None else uncompress(raw, longest_uncompressed(column))
        type_ = _UNCOMPRESSED[type_]
        metadata -= type_ is _T.VARCHAR
    return Value(type_, metadata, raw, column)


def made(column: Column, value: Any) -> Value:
    """The value that a column stores for a Python object; `ValueRejected` if it cannot."""
    return stored(column, None if value is None else dumper_of(column)(value))


def interpreted(value: Value) -> Any:
    """The Python object that an `Image` gives for it; None for NULL. Raises `EventDecodeError`."""
    if value.storage is None:
        return None
    load: Callable[[bytes], Any] = loader_of(value.described())
    return load(value.storage)
