"""Values from bytes, for the native format, and what the stream defined before them.

Every length is compared with the end before it is used: damaged bytes raise EventDecodeError.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import EventDecodeError
from tailrace.generators.materialise import layout as t
from tailrace.generators.materialise.records import made
from tailrace.values.jsonb import JsonText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_F64: Final = Struct("<d")
_TIMEDELTA: Final = Struct("<iii")
_DEEPEST: Final = 100
_MOST_KIND: Final = 0xFFFF
_FIXED: Final = {t.NONE: 0, t.FALSE: 0, t.TRUE: 0, t.FLOAT: 8, t.TIMEDELTA: 12}


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A number, and where it ends."""
    number = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise EventDecodeError("a number in a materialised event does not end")


def span(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """A value's tag, and where the bytes after its tag and length start and stop."""
    if at >= end:
        raise EventDecodeError("a materialised event ends inside its values")
    tag = data[at]
    at += 1
    if tag >= t.SMALL:
        return tag, at, at
    if tag >= t.LONG:
        size = data[at] if at < end else 0x80
        if size < 0x80:
            at += 1
        else:
            size, at = varint(data, at, end)
        stop = at + size
    elif tag == t.SHARED:
        _, stop = varint(data, at, end)
    elif tag in _FIXED:
        stop = at + _FIXED[tag]
    else:
        raise EventDecodeError(f"a value with the unknown tag {tag}")
    if stop > end:
        raise EventDecodeError(f"a value of {stop - at} bytes, of which {end - at} are there")
    return tag, at, stop


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of events that a stream has: its name, and those of its accessors in order."""

    name: str
    accessors: tuple[str, ...]
    index: dict[str, int] = field(compare=False)

    @property
    def bitmap(self) -> int:
        """Bytes of the bitmap that says which accessors have a value."""
        return (len(self.accessors) + 7) // 8


class Dictionary:
    """What a stream has defined: kinds of events, shared values, records."""

    def __init__(self) -> None:
        self.kinds: dict[int, Kind] = {}
        self.shared: dict[int, Any] = {}
        self._records: dict[int, tuple[str, tuple[str, ...]]] = {}

    def define(self, data: bytes, at: int, end: int) -> tuple[str, int]:
        """Take in a definition; its sort and number. One of an unknown sort changes nothing."""
        sort, at = self.value(data, at, end)
        number, at = self.value(data, at, end)
        if not isinstance(sort, str) or not isinstance(number, int):
            raise EventDecodeError("a definition without sort and number")
        known: dict[str, dict[int, Any]] = {
            "event": self.kinds,
            "value": self.shared,
            "record": self._records,
        }
        if sort in known and not 1 <= number >> t.DEPTH_BITS <= len(known[sort]) + 1:
            raise EventDecodeError(f"the definition of {sort} {number}, before lower numbers")
        if sort == "event":
            name, accessors = self._named(data, at, end)
            index = {each: place for place, each in enumerate(accessors)}
            if number > _MOST_KIND:
                raise EventDecodeError(f"the definition of kind {number}")
            self.kinds[number] = Kind(name, accessors, index)
        elif sort == "record":
            self._records[number] = self._named(data, at, end)
        elif sort == "value":
            held, _ = self.value(data, at, end)
            if not isinstance(held, bytes):
                raise EventDecodeError("the definition of a value without its bytes")
            self.shared[number], _ = self.value(held, 0, len(held))
        return sort, number

    def _named(self, data: bytes, at: int, end: int) -> tuple[str, tuple[str, ...]]:
        name, at = self.value(data, at, end)
        names, at = self.value(data, at, end)
        if not (
            isinstance(name, str)
            and isinstance(names, tuple)
            and all(isinstance(each, str) for each in names)
            and len(set(names)) == len(names)
        ):
            raise EventDecodeError("a definition whose names are no text")
        return name, names

    def kind(self, number: int) -> Kind:
        """A kind of events by its number. Raises EventDecodeError if it is not defined."""
        found = self.kinds.get(number)
        if found is None:
            raise EventDecodeError(f"an event of kind {number}, which is not defined")
        return found

    def value(self, data: bytes, at: int, end: int, depth: int = 0) -> tuple[Any, int]:
        """A value, and where it ends."""
        tag, start, stop = span(data, at, end)
        if tag >= t.SMALL:
            return tag - t.SMALL, stop
        if depth > _DEEPEST:
            raise EventDecodeError(f"values within each other, more than {_DEEPEST}")
        read = _READ.get(tag)
        if read is not None:
            try:
                return read(data[start:stop]), stop
            except (ValueError, InvalidOperation) as error:
                raise EventDecodeError(f"a value that its type cannot have: {error}") from None
        nested = _NESTED.get(tag)
        if nested is None:
            raise EventDecodeError(f"a value with the unknown tag {tag}")
        return nested(self, data, start, stop, depth + 1), stop

    def items(self, data: bytes, at: int, end: int) -> Iterator[Any]:
        """The values of a list or tuple, each decoded when it is asked for."""
        tag, start, stop = span(data, at, end)
        if tag not in {t.LIST, t.TUPLE}:
            raise EventDecodeError("a value that is no list")
        count, start = varint(data, start, stop)
        for _ in range(count):
            value, start = self.value(data, start, stop)
            yield value

    def _shared_at(self, data: bytes, start: int, stop: int) -> tuple[Any, int]:
        number, start = varint(data, start, stop)
        try:
            return self.shared[number], start
        except KeyError:
            raise EventDecodeError(f"the shared value {number} is not defined") from None

    def _all(self, data: bytes, start: int, stop: int, depth: int) -> Iterator[Any]:
        while start < stop:
            value, start = self.value(data, start, stop, depth)
            yield value

    def _shared(self, data: bytes, start: int, stop: int, _depth: int) -> Any:
        return self._shared_at(data, start, stop)[0]

    def _tuple(self, data: bytes, start: int, stop: int, depth: int) -> tuple[Any, ...]:
        return tuple(self._list(data, start, stop, depth))

    def _list(self, data: bytes, start: int, stop: int, depth: int) -> list[Any]:
        count, start = varint(data, start, stop)
        found = list(self._all(data, start, stop, depth))
        if len(found) != count:
            raise EventDecodeError(f"{len(found)} values where {count} are")
        return found

    def _dict(self, data: bytes, start: int, stop: int, depth: int) -> dict[Any, Any]:
        count, start = varint(data, start, stop)
        found = list(self._all(data, start, stop, depth))
        if len(found) != 2 * count:
            raise EventDecodeError(f"{len(found)} keys and values where {count} pairs are")
        try:
            return dict(zip(found[::2], found[1::2], strict=True))
        except TypeError:
            raise EventDecodeError("a mapping with a key that can be none") from None

    def _row(self, data: bytes, start: int, stop: int, depth: int) -> dict[str, Any]:
        names, start = self._shared_at(data, start, stop)
        found = list(self._all(data, start, stop, depth))
        if not isinstance(names, tuple) or len(names) != len(found):
            raise EventDecodeError(f"a row of {len(found)} values that do not fit its names")
        return dict(zip(names, found, strict=True))

    def _record(self, data: bytes, start: int, stop: int, depth: int) -> Any:
        number, start = varint(data, start, stop)
        if number not in self._records:
            raise EventDecodeError(f"a record of class {number}, which is not defined")
        name, fields = self._records[number]
        values = tuple(self._all(data, start, stop, depth))
        if len(values) != len(fields):
            raise EventDecodeError(f"a record {name} with {len(values)} of {len(fields)} fields")
        return made(name, fields, values)


def _timedelta(data: bytes) -> timedelta:
    days, seconds, microseconds = _TIMEDELTA.unpack(data)
    try:
        return timedelta(days, seconds, microseconds)
    except OverflowError as error:
        raise ValueError(str(error)) from None


def _time(data: bytes) -> time:
    return time.fromisoformat(data[1:].decode()).replace(fold=data[0] if data else 0)


def _datetime(data: bytes) -> datetime:
    return datetime.fromisoformat(data[1:].decode()).replace(fold=data[0] if data else 0)


_READ: Final[dict[int, Callable[[bytes], Any]]] = {
    t.NONE: lambda _: None,
    t.FALSE: lambda _: False,
    t.TRUE: lambda _: True,
    t.FLOAT: lambda data: _F64.unpack(data)[0],
    t.TIMEDELTA: _timedelta,
    t.INTEGER: lambda data: int.from_bytes(data, "little", signed=True),
    t.TEXT: lambda data: data.decode("utf-8", "surrogatepass"),
    t.BYTES: bytes,
    t.DECIMAL: lambda data: Decimal(data.decode("ascii")),
    t.JSON: lambda data: JsonText(data.decode("utf-8", "surrogatepass")),
    t.DATE: lambda data: date.fromisoformat(data.decode()),
    t.TIME: _time,
    t.DATETIME: _datetime,
}
_NESTED: Final[dict[int, Callable[[Dictionary, bytes, int, int, int], Any]]] = {
    t.SHARED: Dictionary._shared,  # noqa: SLF001 - of this module
    t.TUPLE: Dictionary._tuple,  # noqa: SLF001
    t.LIST: Dictionary._list,  # noqa: SLF001
    t.DICT: Dictionary._dict,  # noqa: SLF001
    t.ROW: Dictionary._row,  # noqa: SLF001
    t.RECORD: Dictionary._record,  # noqa: SLF001
}
