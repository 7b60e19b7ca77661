"""The part of a text to show around what a query found in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_BEFORE: Final = 60
"""Characters before what was found first."""
_FROM_THERE: Final = 180
"""Characters from there on."""


def excerpt(pieces: Sequence[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """A text in pieces, of which True are found: the pieces from the first that was found on.

    There is some text around them, and an ellipsis where it is cut. Empty if nothing was found.
    """
    first = next((at for at, (_, found) in enumerate(pieces) if found), None)
    if first is None:
        return []
    shown: list[tuple[str, bool]] = []
    if first:
        before = pieces[first - 1][0]
        shown.append((f"…{before[-_BEFORE:]}" if len(before) > _BEFORE else before, False))
    room = _FROM_THERE
    for text, found in pieces[first:]:
        shown.append((text if len(text) <= room else f"{text[:room]}…", found))
        room -= len(text)
        if room <= 0:
            break
    return shown
