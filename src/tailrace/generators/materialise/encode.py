"""Values as bytes, for the native format: a tag, and for most the number of bytes that follow."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from struct import Struct
from struct import error as struct_error
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import UsageError
from tailrace.generators.materialise import layout as t
from tailrace.generators.materialise.records import Record, record_type
from tailrace.generators.row import ModifiedTable
from tailrace.printable import short_repr
from tailrace.values.jsonb import JsonText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tailrace.generators.materialise.records import RecordType

_F64: Final = Struct("<d")
_TIMEDELTA: Final = Struct("<iii")
_MOST_NAMES: Final = 1 << 16
"""Tuples of names that are shared; more are written where they stand."""


def varint(out: bytearray, number: int) -> None:
    """Append a number from 0 on, seven bits in a byte, the lowest first."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def integer_bytes(value: int) -> bytes:
    """Two's complement, little-endian, in as few bytes as hold it."""
    size = ((value if value >= 0 else ~value).bit_length() + 8) // 8
    return value.to_bytes(size, "little", signed=True)


class Encoder:
    """Appends values. What it defines on the way goes to ``definitions``, frames that must come
    before the frame of the values.
    """

    def __init__(self, depth: int = 0) -> None:
        self._depth = depth
        self._shared: dict[Any, int] = {}
        self._names = 0
        self._records: dict[RecordType | tuple[str, tuple[str, ...]], int] = {}
        self.definitions = bytearray()
        self.defined = 0
        """Frames in ``definitions``."""
        self._put: dict[type, Callable[[bytearray, Any], None]] = {
            type(None): lambda out, _: out.append(t.NONE),
            bool: lambda out, value: out.append(t.TRUE if value else t.FALSE),
            int: _integer,
            float: _float,
            str: _text,
            JsonText: _json,
            bytes: _bytes,
            bytearray: _bytes,
            memoryview: _bytes,
            Decimal: _decimal,
            date: _date,
            time: _time,
            datetime: _datetime,
            timedelta: _timedelta,
            tuple: self._tuple,
            list: self._list,
            dict: self._mapping,
            ModifiedTable: self._table,
            Record: self._unknown_record,
        }

    def number(self, index: int) -> int:
        """The number of the ``index``-th definition of a sort, from 1 on."""
        return index << t.DEPTH_BITS | self._depth

    def put(self, out: bytearray, value: Any) -> None:
        """Append a value. Raises UsageError for one of a class that streams do not hold."""
        put = self._put.get(type(value))
        if put is None:
            put = self._put[type(value)] = self._for(type(value))
        put(out, value)

    def _for(self, kind: type) -> Callable[[bytearray, Any], None]:
        """The function for a class that derives from a known one, or whose objects are records."""
        record = record_type(kind)
        if record is not None:
            return lambda out, value: self._record(out, record, record.take(value))
        if issubclass(kind, Mapping):
            return self._mapping
        for base in kind.__mro__:
            if base in self._put:
                return self._put[base]
        raise UsageError(f"a value of class {kind.__qualname__} cannot be materialised")

    def define(self, sort: str, number: int, *what: Any) -> None:
        """Add a definition: its sort, its number, and what it says."""
        body = bytearray()
        self.values(body, (sort, number, *what))
        self.definitions += t.FRAME.pack(t.HEAD + len(body), t.DEFINITION, 0, 0, 0)
        self.definitions += body
        self.defined += 1

    def values(self, out: bytearray, values: Iterable[Any]) -> None:
        """Append values one after the other; tuples of text as they stand."""
        for value in values:
            if type(value) is tuple:
                self._items(out, t.TUPLE, value)
            else:
                self.put(out, value)

    def table(self, table: ModifiedTable) -> int:
        """The number of a table, which is defined if it is new."""
        number = self._shared.get(table)
        if number is None:
            number = self._share(table, record_type(ModifiedTable))
        return number

    def _share(self, value: Any, record: RecordType | None = None) -> int:
        body = bytearray()
        if record is None:
            self._items(body, t.TUPLE, value)
        else:
            self._record(body, record, tuple(value))
        number = self.number(len(self._shared) + 1)  # the body may have defined others
        self.define("value", number, bytes(body))
        self._shared[value] = number
        return number

    def _table(self, out: bytearray, value: ModifiedTable) -> None:
        number = self.table(value)
        out.append(t.SHARED)
        varint(out, number)

    def _shared_names(self, names: tuple[Any, ...]) -> int | None:
        """The number of a tuple of texts; None if it is not shared."""
        if not all(type(name) is str for name in names):
            return None
        number = self._shared.get(names)
        if number is None and self._names < _MOST_NAMES:
            self._names += 1
            number = self._share(names)
        return number

    def _tuple(self, out: bytearray, value: tuple[Any, ...]) -> None:
        number = self._shared_names(value) if value else None
        if number is None:
            self._items(out, t.TUPLE, value)
            return
        out.append(t.SHARED)
        varint(out, number)

    def _list(self, out: bytearray, value: list[Any]) -> None:
        self._items(out, t.LIST, value)

    def _items(self, out: bytearray, tag: int, value: tuple[Any, ...] | list[Any]) -> None:
        body = bytearray()
        varint(body, len(value))
        for each in value:
            self.put(body, each)
        _sized(out, tag, body)

    def _mapping(self, out: bytearray, value: Mapping[Any, Any]) -> None:
        keys = tuple(value)
        number = self._shared_names(keys) if keys else None
        body = bytearray()
        put = self._put
        if number is None:
            varint(body, len(value))
            for key, each in value.items():
                self.put(body, key)
                self.put(body, each)
            _sized(out, t.DICT, body)
            return
        varint(body, number)
        for each in value.values():
            known = put.get(type(each))
            if known is None:
                self.put(body, each)
            else:
                known(body, each)
        _sized(out, t.ROW, body)

    def _record(self, out: bytearray, record: RecordType, values: tuple[Any, ...]) -> None:
        self._record_body(out, record, record.name, record.fields, values)

    def _unknown_record(self, out: bytearray, value: Record) -> None:
        self._record_body(out, (value.name, value.fields), value.name, value.fields, value.values)

    def _record_body(
        self,
        out: bytearray,
        key: Any,
        name: str,
        fields: tuple[str, ...],
        values: tuple[Any, ...],
    ) -> None:
        number = self._records.get(key)
        if number is None:
            number = self._records[key] = self.number(len(self._records) + 1)
            self.define("record", number, name, fields)
        body = bytearray()
        varint(body, number)
        for each in values:
            self.put(body, each)
        _sized(out, t.RECORD, body)


def _sized(out: bytearray, tag: int, body: bytes | bytearray | memoryview) -> None:
    out.append(tag)
    size = len(body)
    if size < 0x80:
        out.append(size)
    else:
        varint(out, size)
    out += body


def _integer(out: bytearray, value: int) -> None:
    if 0 <= value < 0x80:
        out.append(t.SMALL | value)
    else:
        _sized(out, t.INTEGER, integer_bytes(int(value)))


def _float(out: bytearray, value: float) -> None:
    out.append(t.FLOAT)
    out += _F64.pack(value)


def _text(out: bytearray, value: str) -> None:
    _sized(out, t.TEXT, value.encode("utf-8", "surrogatepass"))


def _json(out: bytearray, value: str) -> None:
    _sized(out, t.JSON, value.encode("utf-8", "surrogatepass"))


def _bytes(out: bytearray, value: bytes | bytearray | memoryview) -> None:
    _sized(out, t.BYTES, bytes(value) if isinstance(value, memoryview) else value)


def _decimal(out: bytearray, value: Decimal) -> None:
    _sized(out, t.DECIMAL, str(value).encode())


def _date(out: bytearray, value: date) -> None:
    _sized(out, t.DATE, value.isoformat().encode())


def _time(out: bytearray, value: time) -> None:
    _sized(out, t.TIME, bytes([value.fold]) + value.isoformat().encode())


def _datetime(out: bytearray, value: datetime) -> None:
    _sized(out, t.DATETIME, bytes([value.fold]) + value.isoformat().encode())


def _timedelta(out: bytearray, value: timedelta) -> None:
    try:
        packed = _TIMEDELTA.pack(value.days, value.seconds, value.microseconds)
    except struct_error:  # pragma: no cover - Python's own range is smaller
        raise UsageError(f"{short_repr(value)} cannot be materialised") from None
    out.append(t.TIMEDELTA)
    out += packed
