"""Layout 3 of a lake's manifest, which had the deleted rows of each file as text.

The text is the gaps between row numbers, each in as many bytes as it needs (seven bits in each, the
last one without the high bit), as base64.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_MORE: Final = 0x80
_BITS: Final = 7


def upgraded(content: dict[str, Any]) -> dict[str, Any]:
    """A manifest as layout 4 has it: files say how many of their rows are deleted, not which.

    Its tables have no marks, so that the next batch compares all of them with the lake's.
    """
    for table in content["tables"].values():
        table["marks"] = {}
        for file in _files(table):
            if text := file.pop("hidden", ""):
                file["deleted"] = sum(1 for _ in _rows(text))
    return content


def deleted(content: dict[str, Any]) -> dict[str, dict[str, list[int]]]:
    """The deleted rows of each of a lake's tables, by file."""
    return {
        table["parts"]["current"]: {
            file["name"]: list(_rows(file["hidden"]))
            for file in _files(table)
            if file.get("hidden")
        }
        for table in content["tables"].values()
        if "current" in table["parts"]
    }


def _files(table: dict[str, Any]) -> Iterator[dict[str, Any]]:
    current = table["current"]
    if current is not None:
        yield from (file for file in (*current["files"], *current["tails"]) if file is not None)


def _rows(text: str) -> Iterator[int]:
    row = -1
    gap = shift = 0
    for byte in base64.b64decode(text):
        gap |= (byte & ~_MORE) << shift
        shift += _BITS
        if byte < _MORE:
            row += gap + 1
            yield row
            gap = shift = 0
