"""The rows of a table that differ, found by their digests, one slice of the keys at a time.

Memory holds one slice of both sides, however many rows there are and however many differ. What
earlier readings found is computed from their files again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.spark.verify.digests import SideResult, Words

SLICE_ROWS: Final = 1 << 16
_SLICES: Final = 1024
NOWHERE: Final = 1 << 32
"""The number of no range: of keys that the server's first reading did not have."""


@dataclass(frozen=True)
class Reading:
    """What jobs found once on both sides: all of the lake's files, and ranges of the server."""

    server: list[SideResult] = field(default_factory=list)
    lake: list[SideResult] = field(default_factory=list)

    def unlike(self, slices: int) -> list[int]:
        """The slices whose totals differ."""
        differ = totals(self.server, slices) != totals(self.lake, slices)
        found: list[int] = np.flatnonzero(differ.any(axis=0)).tolist()
        return found


@dataclass
class Differences:
    """The keys that differ: ``missing`` in the lake, ``extra`` or ``changed`` there.

    ``doubled`` keys are more than once in the lake. ``unsteady`` ones were not in the same way
    unlike in the reading before. ``ranges`` counts the keys of each range, ``slices`` are those
    that hold them, ``first`` the first keys that are unlike, each after its range's number.
    """

    missing: int = 0
    extra: int = 0
    changed: int = 0
    doubled: int = 0
    unsteady: int = 0
    ranges: Counter[int] = field(default_factory=Counter)
    slices: list[int] = field(default_factory=list)
    first: list[tuple[int, int]] = field(default_factory=list)

    @property
    def unlike(self) -> int:
        """How many rows are not the same on both sides."""
        return self.missing + self.extra + self.changed


def slices_for(rows: int) -> int:
    """In how many slices a table is compared."""
    return min(rows // SLICE_ROWS + 1, _SLICES)


def totals(results: Iterable[SideResult], slices: int) -> Words:
    """The totals of some jobs together."""
    whole = np.zeros((2, slices), np.uint64)
    for each in results:
        if each.totals is not None:
            whole += each.totals
    return whole


def differences(readings: list[Reading], slices: Iterable[int], first: int) -> Differences:
    """The keys of some slices that differ in all readings; ``first`` of them are listed."""
    whole = Differences()
    for at in slices:
        looks: list[Words] = []
        for reading in readings:
            lake = _digests(reading.lake, at)
            looks.append(_unlike(_digests(reading.server, at), lake, *looks[-1:]))
        found = looks[-1]
        keys, counts = np.unique(lake[:, 0], return_counts=True)
        doubled = keys[counts > 1]
        odd = np.union1d(found[:, 0], doubled)
        if not len(odd):
            continue
        numbers = np.full(len(odd), NOWHERE)
        for result in readings[0].server:
            numbers[np.isin(odd, result.slice(at)[:, 0])] = result.number
        whole.slices.append(at)
        whole.ranges.update(numbers.tolist())
        whole.doubled += len(doubled)
        whole.missing += int((found[:, 2] == 0).sum())
        whole.extra += int((found[:, 1] == 0).sum())
        whole.changed += int((found[:, 1:] != 0).all(axis=1).sum())
        whole.unsteady += len(found)
        for before in looks[-2:-1]:
            same = before[np.searchsorted(before[:, 0], found[:, 0])] == found
            whole.unsteady -= int(same.all(axis=1).sum())
        numbers = numbers[np.isin(odd, found[:, 0])]
        order = np.argsort(numbers, kind="stable")[:first]
        listed = zip(numbers[order].tolist(), found[order, 0].tolist(), strict=True)
        whole.first = sorted([*whole.first, *listed])[:first]
    return whole


def _digests(results: list[SideResult], at: int) -> Words:
    return np.concatenate([np.zeros((0, 2), np.uint64), *(each.slice(at) for each in results)])


def _unlike(server: Words, lake: Words, among: Words | None = None) -> Words:
    """Keys whose rows are not the same on both sides, sorted: each with the digest of the server's
    row and of the lake's, 0 if there is none. With ``among``, only keys that are there.
    """
    sides = (
        server[~np.isin(server[:, 1], lake[:, 1])],
        lake[~np.isin(lake[:, 1], server[:, 1])],
    )
    keys = np.union1d(sides[0][:, 0], sides[1][:, 0])
    if among is not None:
        keys = np.intersect1d(keys, among[:, 0])
    found = np.zeros((len(keys), 3), np.uint64)
    found[:, 0] = keys
    for column, side in enumerate(sides, 1):
        mine = side[np.isin(side[:, 0], keys)]
        found[np.searchsorted(keys, mine[:, 0]), column] = mine[:, 1]
    return found
