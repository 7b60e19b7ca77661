"""Objects that installed packages offer by entry points, found by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable


def plugin(group: str, name: str, what: str, shipped: Iterable[str] = ()) -> Any:
    """The object of an entry point of a group. ``what`` says in errors what it is: ``observer``;
    ``shipped`` are the names of those that need no entry point.

    Raises UsageError for a name that no installed package offers.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and seldom needed

    points = {point.name: point for point in entry_points(group=group)}
    if name not in points:
        known = ", ".join(sorted({*shipped, *points})) or "none"
        raise UsageError(
            f"no {what} is called {name!r}; known are {known}. A package adds one by an entry point"
            f" of the group {group!r}"
        )
    return points[name].load()
