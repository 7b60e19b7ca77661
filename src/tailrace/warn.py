"""Warnings that point at the caller's line."""

from __future__ import annotations

import sys
import warnings


def warn(text: str, kind: type[Warning]) -> None:
    """Warn, as from the nearest caller outside of this package."""
    package = __name__.partition(".")[0]
    level, frame = 1, sys._getframe()  # noqa: SLF001 - as `warnings` does it; 3.12 has a parameter
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == package:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=level)
