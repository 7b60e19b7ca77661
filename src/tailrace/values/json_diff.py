"""Partial JSON updates: a sequence of diffs, applied to the document of the before image.

Facts sheet section 2.4: op u8, path, and, except for a removal, the new value as JSONB.
"""

from __future__ import annotations

import json
import re
from enum import IntEnum
from itertools import groupby
from typing import Any, Final, NamedTuple

from tailrace.errors import EventDecodeError, ValueRejected
from tailrace.values.jsonb import (
    MAX_DEPTH,
    TEXT,
    TREE,
    JsonText,
    Leaf,
    Members,
    Node,
    encode_jsonb,
    load_json,
    quoted,
    read_jsonb,
)

Leg = str | int
"""One step of a path: a member's name, or an index (negative from the end, -1 the last)."""

_LEG: Final = re.compile(
    r"""\s*(?:
        \.\s*(?:(?P<quoted>"(?:[^"\\]|\\.)*")|(?P<name>[^\s."\[\]*]+))
      | \[\s*(?:(?P<index>\d{1,10})|last(?:\s*-\s*(?P<back>\d{1,10}))?)\s*\]
    )\s*""",
    re.VERBOSE | re.DOTALL,
)


class Operation(IntEnum):
    """The operation of a diff."""

    REPLACE = 0
    INSERT = 1
    REMOVE = 2


class JsonDiff(NamedTuple):
    """One diff: ``value`` is JSONB, empty for a removal."""

    operation: Operation
    path: str
    value: bytes

    @property
    def function(self) -> str:
        """The equivalent SQL function: it takes the document, ``path``, and the value."""
        if self.operation is Operation.INSERT and self.path.endswith("]"):
            return "JSON_ARRAY_INSERT"
        return f"JSON_{self.operation.name}"


class JsonDiffs(tuple[JsonDiff, ...]):
    """The value of a column of which only the changes were logged, not the previous document.

    This happens with binlog_row_value_options=PARTIAL_JSON if the before image does not have the
    document (MINIMAL). With the document from elsewhere, `apply` applies them.
    """

    __slots__ = ()

    def apply(self, document: str) -> JsonText:
        """The document after the changes, from the previous document as MySQL prints it.

        Raises `EventDecodeError` for a diff that does not fit it, or for invalid JSON.
        """
        return _applied(_tree_of_text(document), self)

    def shown(self, document: str) -> str:
        """The changes as mysqlbinlog shows them; ``document`` is the document's name."""
        text = document
        for function, diffs in groupby(self, lambda diff: diff.function):
            parts = [text]
            for diff in diffs:
                parts.append(_in_quotes(diff.path))
                if diff.operation is not Operation.REMOVE:
                    parts.append(_sql_value(load_json(diff.value)))
            text = f"{function}({', '.join(parts)})"
        return text


def _sql_value(document: str) -> str:
    if document[:1] in {"[", "{"}:
        return f"CAST({_in_quotes(document)} AS JSON)"
    return _in_quotes(json.loads(document)) if document[:1] == '"' else document


def _in_quotes(text: str) -> str:
    """As mysqlbinlog prints it. (`tailrace.sql` makes literals that are valid in every
    sql_mode.)
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def parse_diffs(data: bytes) -> JsonDiffs:
    """All diffs of one column's value (an empty list is legal: nothing changed)."""
    diffs, at = [], 0
    while at < len(data):
        if data[at] > Operation.REMOVE:
            raise EventDecodeError(f"JSON diff: operation {data[at]} does not exist")
        operation = Operation(data[at])
        path, at = _lenenc_bytes(data, at + 1)
        value = b""
        if operation is not Operation.REMOVE:
            value, at = _lenenc_bytes(data, at)
        try:
            diffs.append(JsonDiff(operation, path.decode(), value))
        except UnicodeDecodeError:
            raise EventDecodeError("JSON diff: a path that is not utf8mb4") from None
    return JsonDiffs(diffs)


def apply_diffs(before: bytes, diffs: bytes) -> JsonText:
    """The document after the diffs, as text; ``before`` is JSONB.

    Raises `EventDecodeError` for a diff that does not fit the document, as a replica would reject
    it.
    """
    return _applied(read_jsonb(before, TREE), parse_diffs(diffs))


def changed_tree(before: bytes, diffs: bytes) -> Node:
    """The document after the diffs as a tree; otherwise as `apply_diffs`."""
    root = read_jsonb(before, TREE)
    for diff in parse_diffs(diffs):
        root = _apply(root, diff)
    return root


def changed_json(before: bytes, diffs: bytes) -> bytes:
    """The document after a partial update, from JSONB to JSONB.

    Opaque values are kept; the gaps that MySQL leaves in updated documents are removed. Raises
    `EventDecodeError` for diffs that do not fit.
    """
    try:
        return encode_jsonb(changed_tree(before, diffs))
    except ValueRejected as error:  # a document that no server would have made
        raise EventDecodeError(error.message) from None


def _applied(root: Node, diffs: JsonDiffs) -> JsonText:
    for diff in diffs:
        root = _apply(root, diff)
    return JsonText(_render(root, 1))


def _tree_of_text(document: str) -> Node:
    try:
        parsed = json.loads(document, parse_int=Leaf, parse_float=Leaf)
    except (ValueError, RecursionError):
        raise EventDecodeError("JSON diff: the document before is no JSON") from None
    return _tree_of(parsed)


def _tree_of(value: Any) -> Node:
    """A tree from the result of Python's json, with numbers kept as text."""
    if isinstance(value, Leaf):
        return value
    if isinstance(value, dict):
        return Members([(key, _tree_of(member)) for key, member in value.items()])
    if isinstance(value, list):
        return [_tree_of(element) for element in value]
    return Leaf(quoted(value) if isinstance(value, str) else json.dumps(value))


def parse_path(path: str) -> tuple[Leg, ...]:
    """The legs of ``$.a[0]."b c"[last-1]``; `EventDecodeError` for an invalid path."""
    legs: list[Leg] = []
    at = 1
    if not path.startswith("$"):
        raise EventDecodeError(f"JSON diff: {path!r} is no path")
    while at < len(path):
        found = _LEG.match(path, at)
        if found is None:
            raise EventDecodeError(f"JSON diff: {path!r} is no path")
        at = found.end()
        if found["quoted"] is not None:
            try:
                legs.append(str(json.loads(found["quoted"], strict=False)))
            except ValueError:
                raise EventDecodeError(f"JSON diff: {path!r} is no path") from None
        elif found["name"] is not None:
            legs.append(found["name"])
        elif found["index"] is not None:
            legs.append(int(found["index"]))
        else:
            legs.append(-1 - int(found["back"] or 0))
    return tuple(legs)


def _apply(root: Node, diff: JsonDiff) -> Node:
    legs = parse_path(diff.path)
    value = read_jsonb(diff.value, TREE) if diff.operation is not Operation.REMOVE else root
    if not legs:
        if diff.operation is not Operation.REPLACE:
            raise EventDecodeError(f"JSON diff: {diff.operation.name} of the whole document")
        return value
    *way, last = legs
    holder = root
    for leg in way:
        holder = _child(holder, leg, diff)
    if isinstance(holder, Members) and isinstance(last, str):
        if (last in holder) is (diff.operation is Operation.INSERT):
            raise _misfit(diff)
        if diff.operation is Operation.REMOVE:
            del holder[last]
        else:
            holder[last] = value
    elif isinstance(holder, list) and isinstance(last, int):
        index = last if last >= 0 else len(holder) + last
        if diff.operation is Operation.INSERT:
            holder.insert(max(index, 0), value)
        elif not 0 <= index < len(holder):
            raise _misfit(diff)
        elif diff.operation is Operation.REMOVE:
            del holder[index]
        else:
            holder[index] = value
    else:
        raise _misfit(diff)
    return root


def _child(node: Node, leg: Leg, diff: JsonDiff) -> Node:
    if isinstance(node, Members) and isinstance(leg, str) and leg in node:
        return node[leg]
    if isinstance(node, list) and isinstance(leg, int) and -len(node) <= leg < len(node):
        return node[leg]
    raise _misfit(diff)


def _misfit(diff: JsonDiff) -> EventDecodeError:
    return EventDecodeError(
        f"JSON diff: {diff.operation.name} at {diff.path} does not fit the document before"
    )


def _render(node: Node, depth: int) -> str:
    """The tree as text."""
    if isinstance(node, Leaf):
        return node.text
    if depth > MAX_DEPTH:
        raise EventDecodeError(f"JSON diff: the document is nested deeper than {MAX_DEPTH}")
    if isinstance(node, list):
        return TEXT.array([_render(value, depth + 1) for value in node])
    return TEXT.object([(key, _render(value, depth + 1)) for key, value in node.members])


def _lenenc_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """The bytes after a length-encoded length, and where they end."""
    first = data[at] if at < len(data) else 0xFF
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first, 0)
    start = at + 1 + size
    if first in {0xFB, 0xFF} or start > len(data):
        raise EventDecodeError("JSON diff: ends inside a length")
    length = int.from_bytes(data[at + 1 : start], "little") if size else first
    if length > len(data) - start:
        raise EventDecodeError(f"JSON diff: {length} bytes announced, {len(data) - start} there")
    return data[start : start + length], start + length
