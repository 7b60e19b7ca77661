"""Finds observers by name: those of installed packages, by entry point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.errors import UsageError
from tailrace.observers.relay_io import RelayIoObserver

if TYPE_CHECKING:
    from collections.abc import Iterable

GROUP: Final = "tailrace.observers"
"""Entry points of this group: the name is the observer's, the object is a factory without
arguments."""


def find(names: Iterable[str]) -> list[RelayIoObserver]:
    """Make the relay I/O observers with these names, in this order.

    Raises UsageError for a name that no installed package offers, and for an object that is not a
    relay I/O observer.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and seldom needed

    points = {point.name: point for point in entry_points(group=GROUP)}
    found = []
    for name in names:
        if name not in points:
            raise UsageError(
                f"no observer is called {name!r}; known are {', '.join(sorted(points)) or 'none'}."
                f" A package adds one by an entry point of the group {GROUP!r}"
            )
        observer = points[name].load()()
        if not isinstance(observer, RelayIoObserver):
            raise UsageError(f"{name} is a {type(observer).__name__}, not a relay I/O observer")
        found.append(observer)
    return found
