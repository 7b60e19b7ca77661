"""A document of a lake's journal: lines of JSON, the first for the lake, one for each table in it.

    {"layout": 5, "batch": 5, "lake": CHANGE, "tables": {"shop.orders": 812, "shop.old": null}, ...}
    CHANGE

The first line has the bytes of each other line, in their order, and null for a table that goes. A
CHANGE is a merge patch (RFC 7396), or a list of one value, which replaces what was before. A patch
has the members that differ, each with its new value, and null for one that goes. So it cannot say
that a member is null, nor in which order members are: `change` compares what a patch makes with
what it was to make.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import PipelineError
from tailrace.printable import short_repr
from tailrace.spark.manifest.damage import reading_file
from tailrace.spark.manifest.json_file import LARGEST, check_size, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

LAYOUT: Final = 5
"""Incremented when an older Tailrace could no longer read the lake."""
_READ: Final = (4, LAYOUT)
"""In layout 4 a lake of Parquet had other folders (`lake.folder.check_layout`), the others none."""
LARGEST_WHOLE: Final = 4 << 30
"""Bytes of a document. Each line has `json_file.LARGEST` at most."""
WHAT: Final = "a document of a lake's journal"

Change = dict[str, Any] | list[Any]


@dataclass(frozen=True)
class Line:
    """A table's line of a document at ``path``."""

    path: str
    content: memoryview

    @property
    def replaces(self) -> bool:
        """Whether it replaces what was before."""
        return bytes(self.content[:1]) == b"["


@dataclass(frozen=True)
class Document:
    """The first line, and those of tables; None for a table that goes."""

    path: str
    head: dict[str, Any]
    lines: dict[str, Line | None]


def dump(path: str, head: Mapping[str, Any], tables: Mapping[str, Change | None]) -> bytes:
    """A document's bytes. Raises `PipelineError` for one that could not be read again."""
    lines = {key: None if each is None else _line(each) for key, each in tables.items()}
    index = {key: None if line is None else len(line) for key, line in lines.items()}
    every = [_line({"layout": LAYOUT, **head, "tables": index}), *filter(None, lines.values())]
    size = sum(map(len, every))
    try:
        for line in every:
            check_size(line)
        if size > LARGEST_WHOLE:
            raise ValueError(f"it has {size >> 20} MiB")  # noqa: TRY301 - as `check_size`
    except ValueError as error:
        raise PipelineError(
            f"{path} could not be read again, so it is not written: {error}; make several lakes of "
            "the tables (--tables)"
        ) from error
    return b"".join(every)


def _line(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def load(path: str, content: bytes) -> Document:
    """What `dump` wrote; raises `PipelineError` for anything else. No table's line is parsed."""
    with reading_file(path, WHAT):
        end = content.find(b"\n", 0, LARGEST) + 1
        head = parse(content[:end])
        if head["layout"] not in _READ:
            raise other_layout(path, short_repr(head["layout"]))
        view = memoryview(content)
        lines: dict[str, Line | None] = {}
        for key, size in head.pop("tables").items():
            if size is None:
                lines[key] = None
                continue
            if type(size) is not int or not 0 < size <= min(len(content) - end, LARGEST):
                raise ValueError(f"the line of table {key[:200]!r} is missing")
            lines[key] = Line(path, view[end : end + size])
            end += size
        if end != len(content):
            raise ValueError("it has more lines than tables")
        return Document(path, head, lines)


def other_layout(path: object, found: str) -> PipelineError:
    """The error for a lake of another layout."""
    return PipelineError(
        f"{path} has layout {found}, and this Tailrace reads layout {LAYOUT}: recreate the lake "
        "(mirror the logs into a new folder), or use the Tailrace that wrote it"
    )


def change(
    old: dict[str, Any] | None, new: dict[str, Any], is_same: Callable[[Any], bool]
) -> Change:
    """What makes a value of another, if any: a patch, if ``is_same`` for what the patch makes."""
    if old and is_same(patched(old, patch := difference(old, new))):
        return patch
    return [new]


def changed(old: Any, by: Any) -> Any:
    """What a change makes of a value. Raises ValueError."""
    if not isinstance(by, list):
        return patched(old, by)
    (made,) = by
    return made


def folded(lines: Iterable[Line]) -> Any:
    """The value that changes make, one after the other. Raises `PipelineError`."""
    made: Any = {}
    for line in lines:
        with reading_file(line.path, WHAT):
            made = changed(made, parse(bytes(line.content)))
    return made


def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The patch from one object to another; parts that are one object in both are not compared."""
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if before is value and name in old:
            continue
        if isinstance(before, dict) and isinstance(value, dict):
            if inner := difference(before, value):
                patch[name] = inner
        elif name not in old or before != value:
            patch[name] = value
    return patch


def patched(old: Any, patch: Any) -> Any:
    """What a patch makes of a value, which is not changed itself."""
    if not isinstance(patch, dict):
        return patch
    made = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = patched(made.get(name), value)
    return made
