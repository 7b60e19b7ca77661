"""JSON values out of a real server's log: the least parsing that a table (id INT, j JSON) needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def logged_json(log: Path) -> dict[int, bytes | None]:
    """The last logged JSON of each id, of inserts and full-image updates in a checksummed log."""
    data = log.read_bytes()
    found: dict[int, bytes | None] = {}
    at = 4
    while at < len(data):
        kind = data[at + 4]
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        if kind in (30, 31):  # WRITE_ROWS, UPDATE_ROWS
            body = data[at + 19 : at + size - 4]
            p = 8 + int.from_bytes(body[8:10], "little")
            assert body[p] == 2  # columns
            p += 1 + (1 if kind == 30 else 2)
            while p < len(body):
                p = _image(body, p, found)
                if kind == 31:
                    p = _image(body, p, found)
        at += size
    return found


def _image(body: bytes, p: int, found: dict[int, bytes | None]) -> int:
    nulls = body[p]
    number = int.from_bytes(body[p + 1 : p + 5], "little", signed=True)
    p += 5
    if nulls & 2:
        found[number] = None
        return p
    size = int.from_bytes(body[p : p + 4], "little")
    found[number] = body[p + 4 : p + 4 + size]
    return p + 4 + size
