"""JSON in a lake's folder, to which others may be able to write: of a bounded size when parsed.

Members of its objects are each declared once for writing and reading; what is read is checked. A
member that is empty is left out, and empty where it is missing. What is not as it was written
raises `manifest.damage.DAMAGE`.
"""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tailrace.printable import short_repr
from tailrace.spark.manifest.names import check_plain
from tailrace.spark.manifest.on_disk import read_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

LARGEST: Final = 256 << 20
"""Bytes of a file: nearly all of a large manifest is text, which takes no more when parsed."""
_MOST: Final = 6_000_000
"""Lists, objects, members: `[],` is 3 bytes and takes 72. 5,000 tables of 100 columns have half."""
_TEXT: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_MARKS: Final = (b"[", b"{", b",")


def read_json(path: Path) -> Any:
    """What a file has; raises OSError, ValueError, RecursionError, and `PipelineError` if large."""
    return parse(read_plain(path, LARGEST))


def parse(content: bytes) -> Any:
    """As `json.loads`; raises ValueError, RecursionError, also for numbers that are not finite.

    ValueError, too, for more than 6 million lists, objects and members: each takes some 100 bytes.
    """
    check_size(content)
    return json.loads(content, parse_constant=_finite, parse_float=_finite)


def check_size(content: bytes) -> None:
    """Raises ValueError where the content would have more values than any file of ours."""
    if len(content) > LARGEST:
        raise ValueError(f"it has {len(content) >> 20} MiB")
    if sum(content.count(mark) for mark in _MARKS) <= _MOST:
        return
    bare = _TEXT.sub(b"", content)
    if sum(bare.count(mark) for mark in _MARKS) > _MOST:
        raise ValueError("it has more values than any file of Tailrace's")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is not a number of JSON")
    return number


@dataclass(frozen=True)
class Kind:
    """How a member is written and read; ``empty`` makes its empty value, None: it is required."""

    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]
    empty: Callable[[], Any] | None = None


def write(members: Mapping[str, Kind], values: Mapping[str, Any]) -> dict[str, Any]:
    """Values, by name, as a JSON object, in the order of the declared members."""
    return {
        name: kind.dump(values[name])
        for name, kind in members.items()
        if kind.empty is None or values[name] != kind.empty()
    }


def read(members: Mapping[str, Kind], value: Mapping[str, Any]) -> dict[str, Any]:
    """The values that `write` wrote."""
    return {
        name: kind.load(value[name]) if kind.empty is None or name in value else kind.empty()
        for name, kind in members.items()
    }


def required(kind: Kind) -> Kind:
    """A member that is always there."""
    return replace(kind, empty=None)


def several(kind: Kind) -> Kind:
    """A tuple of values, as a list."""

    def load(values: object) -> tuple[Any, ...]:
        if not isinstance(values, list):
            raise TypeError(f"{short_repr(values)} is no list")
        return tuple(map(kind.load, values))

    return Kind(lambda values: list(map(kind.dump, values)), load, tuple)


def row(*kinds: Kind) -> Kind:
    """A tuple of one value of each kind, as a list."""
    return Kind(
        lambda values: [kind.dump(each) for kind, each in zip(kinds, values, strict=True)],
        lambda values: tuple(kind.load(each) for kind, each in zip(kinds, values, strict=True)),
    )


def by_name(kind: Kind, load: Callable[[Any], str] = str) -> Kind:
    """Values by name, as an object; ``load`` checks the names."""
    return Kind(
        lambda values: {name: kind.dump(each) for name, each in values.items()},
        lambda values: {load(name): kind.load(each) for name, each in values.items()},
        dict,
    )


def instance(of: type, members: Mapping[str, Kind]) -> Kind:
    """A dataclass, whose fields are the members; or None."""
    return Kind(
        lambda value: write(members, vars(value)),
        lambda value: of(**read(members, value)),
        NoneType,
    )


def _same(value: Any) -> Any:
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{short_repr(value)} is no text")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{short_repr(value)} is neither true nor false")
    return value


def whole(value: object) -> int:
    """The value, checked to be a number. Raises ValueError."""
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{short_repr(value)} is no number")
    return value


def _schema_text(columns: pa.Schema) -> str:
    return base64.b64encode(columns.serialize()).decode()


@lru_cache(4096)
def _schema(value: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(value)))


ANY: Final = Kind(_same, _same)
TEXT: Final = Kind(_same, _text, str)
OPTIONAL: Final = Kind(_same, lambda value: None if value is None else _text(value), NoneType)
WHOLE: Final = Kind(_same, whole, int)
FLAG: Final = Kind(_same, _flag, bool)
TEXTS: Final = several(TEXT)
FILE: Final = Kind(_same, partial(check_plain, what="the name of a file or table"))
SCHEMA: Final = Kind(_schema_text, _schema)
