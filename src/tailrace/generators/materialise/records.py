"""Records: values with named fields, which a stream holds by their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import EventDecodeError, UsageError
from tailrace.events.transaction import XaName
from tailrace.generators.row import ModifiedTable, TableColumn
from tailrace.generators.statement import UserVariable
from tailrace.generators.transaction import GlobalTransactionId
from tailrace.position import Position
from tailrace.values.json_diff import JsonDiff, JsonDiffs, Operation

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class RecordType:
    """How a class is written: its name in streams, its fields, and the ways there and back."""

    name: str
    fields: tuple[str, ...]
    take: Callable[[Any], tuple[Any, ...]]
    make: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Record:
    """A record whose class is not known here: its name, and its fields as attributes."""

    name: str
    fields: tuple[str, ...]
    values: tuple[Any, ...]

    def __getattr__(self, field: str) -> Any:
        try:
            return self.values[self.fields.index(field)]
        except ValueError:
            raise AttributeError(f"{self.name} has no field {field}") from None


_BY_CLASS: Final[dict[type, RecordType]] = {}
_BY_NAME: Final[dict[str, RecordType]] = {}


def register_record(kind: type, name: str = "", fields: tuple[str, ...] = ()) -> None:
    """Let streams give objects of a class back as such: a NamedTuple, or one with these ``fields``
    as attributes and arguments.

    ``name`` is that in streams (by default the class's, with its module). Without this, a
    NamedTuple is written all the same, and read as a `Record`. Raises UsageError for a name that
    another class has.
    """
    of_class = record_type(kind, fields)
    if of_class is None:
        raise UsageError(f"{kind.__qualname__} is no NamedTuple: say which fields it has")
    found = RecordType(name or of_class.name, of_class.fields, of_class.take, of_class.make)
    _register(kind, found)


def _register(kind: type, found: RecordType) -> None:
    if found.name in _BY_NAME and _BY_CLASS.get(kind) != found:
        raise UsageError(f"another class of records is called {found.name}")
    _BY_CLASS[kind] = _BY_NAME[found.name] = found


def record_type(kind: type, fields: tuple[str, ...] = ()) -> RecordType | None:
    """How a class's objects are written; None if they are no records."""
    found = _BY_CLASS.get(kind)
    if found is not None:
        return found
    named: tuple[str, ...] | None = getattr(kind, "_fields", None)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if issubclass(kind, tuple) and named is not None:
        return RecordType(name, named, tuple, kind)
    if fields:
        return RecordType(
            name, fields, lambda value: tuple(getattr(value, each) for each in fields), kind
        )
    return None


def made(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """The object of a record that was read: of its class, if that is known and takes the fields."""
    found = _BY_NAME.get(name)
    if found is None:
        return Record(name, fields, values)
    try:
        if found.fields == fields:
            return found.make(*values)
        given = dict(zip(fields, values, strict=True))
        return found.make(**{each: given[each] for each in found.fields if each in given})
    except (TypeError, ValueError) as error:
        raise EventDecodeError(f"a record {name} with fields it cannot have: {error}") from None


def _json_diff(operation: int, path: str, value: bytes) -> JsonDiff:
    return JsonDiff(Operation(operation), path, value)


for _kind, _fields in (
    (Position, ("file", "offset")),
    (XaName, ("format_id", "gtrid", "bqual")),
    (GlobalTransactionId, ()),
    (UserVariable, ()),
    (ModifiedTable, ()),
    (TableColumn, ()),
):
    register_record(_kind, f"tailrace.{_kind.__name__}", _fields)
_register(
    JsonDiff, RecordType("tailrace.JsonDiff", ("operation", "path", "value"), tuple, _json_diff)
)
_register(
    JsonDiffs,
    RecordType("tailrace.JsonDiffs", ("diffs",), lambda value: (tuple(value),), JsonDiffs),
)
