"""The words of the frame with which the kernel of ``kernels/scan.py`` is called."""

from __future__ import annotations

from typing import Final

CURSOR: Final = 0
"""Address of the next event; where the kernel stopped, the event it stopped at."""
END: Final = 1
"""Address after the last byte of the block."""
BASE: Final = 2
"""Converts an address into an offset: offset = address + BASE."""
CHECKSUM_BYTES: Final = 3
"""0 or 4: size of the checksum at the end of each event."""
SAFE: Final = 4
"""Offset after the last transaction that ended."""
STATE: Final = 5
"""The grammar's state, as in the plan's frame (`tailrace.columns.frames.plan`)."""
BEGAN: Final = 6
"""Offset where the transaction under way, or the last one, began."""
STATEMENT_ENDED: Final = 7
"""1 after a rows event that ends its statement: the next table map begins another."""
LAST: Final = 8
"""Offset of the last bound that was noted."""

BOUNDS: Final = 9
"""Address of offsets where transactions begin, one word each."""
BOUND_COUNT: Final = 10
BOUND_CAPACITY: Final = 11
BOUND_TARGET: Final = 12
"""Minimum bytes between two of them."""
INNER: Final = 13
"""Address of bounds of statements inside transactions, INNER_WORDS each: the offset, and where the
transaction began."""
INNER_COUNT: Final = 14
INNER_CAPACITY: Final = 15
INNER_TARGET: Final = 16
"""Minimum bytes between such a bound and the previous one, or the transaction's start."""
INNER_WORDS: Final = 2
PAYLOADS: Final = 17
"""Address of payload events, PAYLOAD_WORDS (as in the plan) each: offset, size, where the
transaction began, and the offset of the zstd frames in the event; 0 if Python has to find that
out."""
PAYLOAD_COUNT: Final = 18
PAYLOAD_CAPACITY: Final = 19
"""0 where payloads are not asked for."""
STEPS: Final = 20
"""Address of the grammar's steps (`tailrace.columns.read.grammar`), STEPS or STEPS_ANYWAY."""
TYPES: Final = 21
"""As in the plan's frame."""
FIRST_END: Final = 22
"""Where the first transaction ended, as an offset; the kernel sets it where it is negative."""
SAVEPOINTS: Final = 23
"""Address of statements about savepoints, SAVEPOINT_WORDS each: the event's offset, where the
transaction began, and the statement's address and size in bytes."""
SAVEPOINT_COUNT: Final = 24
SAVEPOINT_CAPACITY: Final = 25
"""0 where Python handles them like other statements."""
SAVEPOINT_WORDS: Final = 4
WORDS: Final = 26

# Why the kernel stopped.
DONE: Final = 0
"""Every whole event of the block was scanned; the rest is part of the next event."""
AT_EVENT: Final = 1
"""Python has to handle the event at the cursor, also if STEPS has no step for it."""
FULL: Final = 2
"""No room for more bounds, payloads or savepoints."""
BAD_LENGTH: Final = -1
