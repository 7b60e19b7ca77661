"""All checks, as a function and as a test class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.testing.content import ANY_BYTES
from tailrace.testing.reading import check_growth, check_read_faults, check_reading
from tailrace.testing.writing import check_sync, check_write_faults, check_writing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.storage.streams.layer import Layer
    from tailrace.testing.content import Content

CHECKS: Final = (
    check_reading,
    check_read_faults,
    check_growth,
    check_writing,
    check_write_faults,
    check_sync,
)
"""The contract: each check takes a layer, a content and a seed."""


def check(layer: Layer, content: Content = ANY_BYTES, seeds: Iterable[int] = range(3)) -> None:
    """Run every check with every seed. Raises `BrokenContract`."""
    for seed in seeds:
        for one in CHECKS:
            one(layer, content, seed)


class StreamContract:
    """The contract as a test class: derive from it and set ``layer``."""

    layer: Layer
    content: Content = ANY_BYTES
    seeds: Iterable[int] = range(5)

    def test_reading(self) -> None:
        """See `check_reading`."""
        for seed in self.seeds:
            check_reading(self.layer, self.content, seed)

    def test_read_faults(self) -> None:
        """See `check_read_faults`."""
        for seed in self.seeds:
            check_read_faults(self.layer, self.content, seed)

    def test_growth(self) -> None:
        """See `check_growth`."""
        for seed in self.seeds:
            check_growth(self.layer, self.content, seed)

    def test_writing(self) -> None:
        """See `check_writing`."""
        for seed in self.seeds:
            check_writing(self.layer, self.content, seed)

    def test_write_faults(self) -> None:
        """See `check_write_faults`."""
        for seed in self.seeds:
            check_write_faults(self.layer, self.content, seed)

    def test_sync(self) -> None:
        """See `check_sync`."""
        for seed in self.seeds:
            check_sync(self.layer, self.content, seed)
