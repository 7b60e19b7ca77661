"""All checks, as a function and as a test class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.testing.content import ANY_BYTES
from tailrace.testing.reading import check_growth, check_read_faults, check_reading
from tailrace.testing.writing import check_sync, check_write_faults, check_writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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


def _test(one: Callable[[Layer, Content, int], None]) -> Callable[[StreamContract], None]:
    def test(self: StreamContract) -> None:
        for seed in self.seeds:
            one(self.layer, self.content, seed)

    test.__doc__ = one.__doc__
    return test


class StreamContract:
    """The contract as a test class: derive from it and set ``layer``."""

    layer: Layer
    content: Content = ANY_BYTES
    seeds: Iterable[int] = range(5)

    test_reading = _test(check_reading)
    test_read_faults = _test(check_read_faults)
    test_growth = _test(check_growth)
    test_writing = _test(check_writing)
    test_write_faults = _test(check_write_faults)
    test_sync = _test(check_sync)
