"""Contracts of streams and stores, as checks that those of another package work as ours do.

`check` runs all of them on a `tailrace.storage.streams.layer.Layer`; as a test class, with any
runner::

    class TestMine(StreamContract):
        layer = MY_LAYER

`check_store` and `check_writable_store` do the same for stores (`tailrace.storage.store`).

A check that fails raises `BrokenContract`, an AssertionError that says what was requested of the
stream and what it did. Every choice in a check follows from its seed.
"""

from tailrace.testing.content import ANY_BYTES, Content
from tailrace.testing.contract import CHECKS, StreamContract, check
from tailrace.testing.expect import BrokenContract
from tailrace.testing.faults import FAULTS, Faults, FaultyInput, FaultyOutput
from tailrace.testing.reading import check_growth, check_read_faults, check_reading
from tailrace.testing.stores import check_store, check_writable_store
from tailrace.testing.writing import check_sync, check_write_faults, check_writing

__all__ = [
    "ANY_BYTES",
    "CHECKS",
    "FAULTS",
    "BrokenContract",
    "Content",
    "Faults",
    "FaultyInput",
    "FaultyOutput",
    "StreamContract",
    "check",
    "check_growth",
    "check_read_faults",
    "check_reading",
    "check_store",
    "check_sync",
    "check_writable_store",
    "check_write_faults",
    "check_writing",
]
