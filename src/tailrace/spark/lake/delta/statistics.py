"""Figures of a Parquet file's columns, as Delta's log has them: so that readers skip files.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#per-file-statistics
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.errors import PipelineError

if TYPE_CHECKING:
    from pathlib import Path

_MARK: Final = "\0number:"
_MARKED: Final = re.compile(r'"\\u0000number:([^"]*)"')


def statistics(path: Path, *, tight: bool) -> str:
    """``numRecords``, and as far as the file has them ``minValues``, ``maxValues``, ``nullCount``.

    Where rows of the file are deleted, the bounds are not ``tight``. Raises `PipelineError` where
    the file cannot be read.
    """
    try:
        metadata = pq.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(f"cannot read {path}, a file of the lake: {error}") from error
    top = metadata.schema.to_arrow_schema()
    structs = {field.name: pa.types.is_struct(field.type) for field in top}
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for index in range(metadata.num_columns):
        leaf = metadata.schema.column(index)
        names = _names(leaf.path, structs)
        if leaf.max_repetition_level or names is None:
            continue
        groups = [metadata.row_group(n).column(index) for n in range(metadata.num_row_groups)]
        found = [group.statistics for group in groups if group.is_stats_set]
        if not found or len(found) < len(groups):
            continue
        if all(each.has_null_count for each in found):
            _put(nulls, names, sum(each.null_count for each in found))
        ranged = [each for each in found if each.has_min_max]
        if not ranged or any(not each.has_min_max and each.num_values for each in found):
            continue
        low = _value(min(each.min for each in ranged))
        high = _value(max(each.max for each in ranged))
        if low is not None and high is not None:
            _put(least, names, low)
            _put(most, names, high)
    content = {
        "numRecords": metadata.num_rows,
        "minValues": least,
        "maxValues": most,
        "nullCount": nulls,
        **({} if tight else {"tightBounds": False}),
    }
    return _MARKED.sub(r"\1", json.dumps(content))


def _names(path: str, structs: dict[str, bool]) -> list[str] | None:
    """A leaf's name, or its struct's and its own; None where dots in names leave that open."""
    if path in structs:
        return [path]
    outer, _, inner = path.partition(".")
    return [outer, inner] if structs.get(outer) and "." not in inner else None


def _put(tree: dict[str, Any], names: list[str], value: Any) -> None:
    for name in names[:-1]:
        tree = tree.setdefault(name, {})
    tree[names[-1]] = value


def _value(value: Any) -> Any:
    """A bound as JSON has it; None for a type that has none."""
    if isinstance(value, bool | bytes | str):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, decimal.Decimal):
        return f"{_MARK}{value:f}"
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"{text}Z" if value.tzinfo is not None else text
    if isinstance(value, dt.date):
        return value.isoformat()
    return None
