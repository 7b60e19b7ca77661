"""Reads catalogues in the pickled form of releases before 1.0. They are never written.

Unpickling runs what the bytes name, so no unpickler is used. The few opcodes of those pickles are
executed here, on plain values; the classes that may occur are the keys of a table. The result is
what `catalogue_json` reads and checks.
"""

from __future__ import annotations

import base64
import pickletools
import sys
import zlib
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import SchemaError
from tailrace.schema.catalogue_json import FIRST_VERSION, from_json
from tailrace.values.schema import Logical

if TYPE_CHECKING:
    from tailrace.schema.catalogue import Catalogue

_LARGEST: Final = 64 << 20
"""Bytes of a pickle: a column takes about 40."""
_MOST: Final = 20_000_000
"""Characters and members, counted at each occurrence: a pickle may name an object many times."""
_MEMORY: Final = 256 << 20
"""Approximate bytes that the loaded values may take: a column takes about 700."""
_STEP: Final = 16
"""Minimum bytes counted for an opcode: an entry on the stack and one in the memo."""
_ENTRY: Final = 96
"""Bytes counted for a member of a dict or a set; they grow in steps."""
_NAME: Final = 1024
"""Characters of a name: MySQL names have up to 64."""

_CATALOGUE: Final = ("tailrace.schema.catalogue", "Catalogue")
_LOGICAL: Final = ("tailrace.rows.schema", "Logical")
_STATE: Final = ("tailrace.schema.tables", "TableState")
_TABLE: Final = ("tailrace.rows.schema", "TableDefinition")
_COLUMN: Final = ("tailrace.rows.schema", "ColumnDefinition")
_MEMBER: Final = ("builtins", "getattr")
"""How Python 3.11.0 to 3.11.3 pickles a member of an enumeration: the class, and its name there."""
_CLASSES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    _CATALOGUE: (),
    _LOGICAL: (),
    _MEMBER: (),
    _STATE: ("definition", "collation", "row_end", "hidden"),
    _TABLE: ("database", "table", "columns", "primary_key", "key_prefixes"),
    _COLUMN: (
        *("name", "declared", "unsigned", "collation", "members", "logical"),
        *("nullable", "visible", "generated", "compressed"),
    ),
}
"""The classes that occur, by the module of that time, and their members then; the values are in a
list.
"""


class _Class:
    """A class's name on the stack."""

    __slots__ = ("key",)

    def __init__(self, module: Any, name: Any) -> None:
        self.key = (_name(module), _name(name))
        if self.key not in _CLASSES:
            raise ValueError(f"{module}.{name} is not part of a catalogue")


class _Object:
    """The content of an instance; ``state`` is None until it is set."""

    __slots__ = ("key", "state")

    def __init__(self, key: tuple[str, str]) -> None:
        self.key = key
        self.state: Any = None


_MARK: Final = object()
_CONSTANTS: Final = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_VALUES: Final = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BININT", "BININT1", "BININT2"})
_SHORT: Final = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_MAKERS: Final = frozenset(
    {
        *("STACK_GLOBAL", "NEWOBJ", "REDUCE", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_SET", "TUPLE"),
        *_SHORT,
        *_VALUES,
    }
)
"""The opcodes that push a new object on the stack; all others reuse existing ones."""


def from_pickle(text: str) -> Catalogue:
    """The catalogue that an earlier release saved as this text.

    Raises `SchemaError` for anything else; nothing that the text names is imported or called.
    """
    try:
        return from_json(_Plain().catalogue(_loaded(_unpacked(text))))
    except (
        ValueError,
        zlib.error,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        raise SchemaError(f"the schema history is damaged: {error}") from error


def _unpacked(text: str) -> bytes:
    unpacking = zlib.decompressobj()
    data = unpacking.decompress(base64.b64decode(text, validate=True), _LARGEST)
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise ValueError("it is cut off, or larger than any catalogue")
    return data


def _loaded(data: bytes) -> Any:
    """The pickle's value, with `_Object` for each instance; ValueError beyond `_MEMORY`."""
    stack: list[Any] = []
    known: list[Any] = []
    left = _MEMORY
    for opcode, argument, _ in pickletools.genops(data):
        if left < 0:
            raise ValueError("it is larger than any catalogue")
        name = opcode.name
        left -= _STEP
        match name:
            case "PROTO" | "FRAME":
                pass
            case "MARK":
                stack.append(_MARK)
            case "MEMOIZE":
                known.append(stack[-1])
            case "BINGET" | "LONG_BINGET":
                stack.append(known[int(str(argument))])
            case "STACK_GLOBAL":
                attribute, module = stack.pop(), stack.pop()
                stack.append(_Class(module, attribute))
            case "NEWOBJ" | "REDUCE":
                arguments, kind = stack.pop(), stack.pop()
                stack.append(_made(kind, arguments))
            case "BUILD":
                state = stack.pop()
                stack[-1].state = state
            case "EMPTY_DICT":
                stack.append({})
            case "EMPTY_LIST":
                stack.append([])
            case "EMPTY_SET":
                stack.append(set())
            case "SETITEM":
                value, key = stack.pop(), stack.pop()
                stack[-1][_key(key)] = value
                left -= _ENTRY
            case "SETITEMS":
                items = _marked(stack)
                keys = map(_key, items[::2])
                stack[-1].update(zip(keys, items[1::2], strict=True))
                left -= _ENTRY * (len(items) // 2)
            case "ADDITEMS":
                items = _marked(stack)
                stack[-1].update(map(_key, items))
                left -= _ENTRY * len(items)
            case "APPEND":
                value = stack.pop()
                stack[-1].append(value)
            case "APPENDS":
                items = _marked(stack)
                stack[-1].extend(items)
            case "TUPLE":
                stack.append(tuple(_marked(stack)))
            case "STOP":
                (value,) = stack
                return value
            case _ if name in _SHORT:
                count = _SHORT[name]
                if count > len(stack):
                    raise ValueError("it is damaged")
                items = stack[len(stack) - count :]
                del stack[len(stack) - count :]
                stack.append(tuple(items))
            case _ if name in _CONSTANTS:
                stack.append(_CONSTANTS[name])
            case _ if name in _VALUES:
                stack.append(argument)
            case _:
                raise ValueError(f"the opcode {name} is not allowed")
        if name in _MAKERS:
            left -= sys.getsizeof(stack[-1])
    raise ValueError("it has no end")


def _key(value: Any) -> str | tuple[str, str]:
    """A name, or a table's two names: anything else might take very long to hash or to compare."""
    if isinstance(value, tuple):
        database, table = value
        return _name(database), _name(table)
    return _name(value)


def _name(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _NAME:
        raise TypeError("a name has the wrong type")
    return value


def _marked(stack: list[Any]) -> list[Any]:
    """The values after the last mark."""
    items: list[Any] = []
    while (item := stack.pop()) is not _MARK:
        items.append(item)
    items.reverse()
    return items


def _made(kind: Any, arguments: Any) -> Any:
    """A new instance; for `Logical` its text."""
    if not isinstance(kind, _Class):
        raise TypeError("a value that is not a class is instantiated")
    if kind.key == _LOGICAL:
        (value,) = arguments
        return value
    if kind.key == _MEMBER:
        logical, name = arguments
        if not isinstance(logical, _Class) or logical.key != _LOGICAL:
            raise TypeError("a member of an unexpected object is read")
        return Logical[_name(name)].value
    if arguments:
        raise TypeError("an instance is created with arguments")
    return _Object(kind.key)


class _Plain:
    """Converts loaded values to what `from_json` reads, up to a limited amount."""

    def __init__(self) -> None:
        self._left = _MOST

    def catalogue(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, _Object) or value.key != _CATALOGUE:
            raise TypeError("it is not a catalogue")
        known = value.state
        return {
            "version": FIRST_VERSION,
            "tables": [self._table(each) for each in known["_tables"].values()],
            "given": [self._table(each) for each in known["_given"].values()],
            "unknown": [
                {"database": database, "table": table, "reason": reason}
                for (database, table), reason in known["_unknown"].items()
                if self._list((database, table, reason))
            ],
            "databases": known["_databases"],
            "temporary": [self._list(key) for key in known["_temporary"]],
        }

    def _members(self, value: Any, kind: tuple[str, str]) -> dict[str, Any]:
        if not isinstance(value, _Object) or value.key != kind:
            raise TypeError(f"a {kind[1]} has the wrong type")
        members = dict(zip(_CLASSES[kind], value.state, strict=True))
        self._list(members.values())
        return members

    def _spend(self, amount: int) -> None:
        self._left -= amount
        if self._left < 0:
            raise ValueError("it is larger than any catalogue")

    def _list(self, values: Any) -> list[Any]:
        self._spend(1 + len(values))
        self._spend(sum(len(each) for each in values if isinstance(each, str)))
        return list(values)

    def _table(self, value: Any) -> dict[str, Any]:
        state = self._members(value, _STATE)
        definition = self._members(state.pop("definition"), _TABLE)
        columns = [self._column(each) for each in self._list(definition["columns"])]
        lists = {name: self._list(definition[name]) for name in ("primary_key", "key_prefixes")}
        return {**definition, **lists, **state, "columns": columns}

    def _column(self, value: Any) -> dict[str, Any]:
        column = self._members(value, _COLUMN)
        column["type"] = column.pop("declared")
        if column["members"] is not None:
            column["members"] = self._list(column["members"])
        return column
