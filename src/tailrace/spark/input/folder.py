"""Logs in folders that are written meanwhile, as they are once no file but the last still grows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.storage import LogSeries


def settled(find: Callable[[], Sequence[LogSeries]]) -> list[LogSeries]:
    """The series that ``find`` finds, each file but the last with all that it will ever have.

    A folder is listed while its files grow, and a file may be listed before it has all its bytes,
    and its successor after that. So the names are those of one look and the sizes those of a later
    one: a file that had a successor at the first look is whole at the second. Files that came in
    between are left to the next call.
    """
    before = find()
    while not any(each.files[0].joined for each in before):
        names = {each.name: {log.name for log in each.files} for each in before}
        before = find()
        known = [(each, names.get(each.name, ())) for each in before]
        found = [
            replace(each, files=tuple(log for log in each.files if log.name in then))
            for each, then in known
        ]
        if all(each.files for each in found) and names.keys() == {each.name for each in found}:
            return found
    return list(before)
