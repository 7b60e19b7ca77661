"""JSON merge patches (RFC 7396): what changes one JSON object into another.

A patch has the members that differ, each with its new value, and null for one that goes. So it
cannot say that a member is null, nor in which order members are: whoever needs that compares what
a patch makes with what it was to make.
"""

from __future__ import annotations

from typing import Any


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
