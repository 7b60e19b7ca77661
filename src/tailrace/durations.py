"""Durations as users write them: ``10s``, ``500ms``, ``2m``, ``1h``, ``7d``; a bare number is
seconds.
"""

from __future__ import annotations

import re
from typing import Final

from tailrace.errors import UsageError

UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
"""Seconds in each unit."""
_FORM: Final = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*([a-z]*)", re.ASCII)


def seconds_of(
    given: object, name: str, *, least: float = 0.0, most: float = 86400.0 * 365
) -> float:
    """A duration in seconds: a number, or text with a unit.

    Raises UsageError, in which ``name`` is the option's name, also for one below ``least`` or above
    ``most`` (a year).
    """
    found = _FORM.fullmatch(str(given).strip())
    unit = UNITS.get(found[2] or "s") if found is not None else None
    if found is None or unit is None:
        raise UsageError(
            f"{name} is a duration such as 500ms, 10s, 2m or 1h, not {str(given)[:40]!r}"
        )
    seconds = float(found[1]) * unit
    if not least <= seconds <= most:
        raise UsageError(f"{name} is a duration from {_text(least)} to {_text(most)}, not {given}")
    return seconds


def _text(seconds: float) -> str:
    """In the largest unit that needs no fraction."""
    for unit, length in reversed(UNITS.items()):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:g}{unit}"
    return f"{seconds * 1000:g}ms" if seconds else "0s"
