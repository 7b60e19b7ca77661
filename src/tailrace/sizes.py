"""Sizes as users write them: ``20GB``, ``500kB``, ``64MiB``; a bare number is bytes."""

from __future__ import annotations

import math
import re
from typing import Final

from tailrace.errors import UsageError

UNITS: Final = {
    **{unit: 1000**n for n, unit in enumerate(("b", "kb", "mb", "gb", "tb"))},
    **{unit: 1024**n for n, unit in enumerate(("kib", "mib", "gib", "tib"), 1)},
}
"""Bytes in each unit, in lower case."""
_FORM: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", re.ASCII)


def bytes_of(given: object, name: str) -> int:
    """A size in bytes, from 1 on: a number, or text with a unit.

    Raises UsageError, in which ``name`` is the option's name.
    """
    found = _FORM.fullmatch(str(given).strip())
    unit = UNITS.get(found[2].lower() or "b") if found is not None else None
    count = float(found[1]) * unit if found is not None and unit is not None else 0
    if not 1 <= count < math.inf:
        raise UsageError(f"{name} is a size such as 500MB, 20GB or 64MiB, not {str(given)[:40]!r}")
    return int(count)
