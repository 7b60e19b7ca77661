"""The arguments of ``tailrace mirror`` that other commands do not have."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from tailrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "": 1.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.ASCII)


def seconds(text: str) -> float:
    """``10s``, ``500ms``, ``2m``, ``1h``, ``10``. Raises UsageError."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNITS:
        raise UsageError(f"--trigger {text}: give a time, as 10s, 500ms or 2m")
    return float(found[1]) * _UNITS[found[2]]


def keys(given: Sequence[str]) -> dict[str, list[str]]:
    """Each is ``shop.t=a,b``. Raises UsageError."""
    found: dict[str, list[str]] = {}
    for each in given:
        name, equals, columns = each.partition("=")
        parts = [column.strip() for column in columns.split(",")]
        if not equals or "." not in name or not all(parts):
            raise UsageError(f"--key {each}: give a table and its columns, as shop.orders=id,line")
        if name.strip() in found:
            raise UsageError(f"--key {each}: the key of {name} is given twice")
        found[name.strip()] = parts
    return found


def check_cores(cores: int | None) -> None:
    """Raises UsageError for an invalid number of cores."""
    if cores is not None and not 1 <= cores <= (os.cpu_count() or 1) * 16:
        raise UsageError(f"--cores {cores}: give a number of cores from 1 on")
