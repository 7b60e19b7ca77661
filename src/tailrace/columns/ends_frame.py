"""The words of the frame by which the kernel of ``kernels/ends.py`` is called."""

from __future__ import annotations

from typing import Final

CURSOR: Final = 0
"""Address of the next event; where the kernel stopped, the event it stopped at."""
END: Final = 1
BASE: Final = 2
"""What turns an address into an offset: offset = address + BASE."""
CHECKSUM_BYTES: Final = 3
"""0 or 4: what each event has at its end."""
STATE: Final = 4
BEGAN: Final = 5
"""Offset where the transaction under way began, or the last one."""
FIRST: Final = 6
"""Offset behind the first transaction that ended in this block; -1 where none has."""
LAST: Final = 7
"""Offset behind the last event that stood outside transactions or ended one; -1 before it."""
WORDS: Final = 8

# The states of the grammar in `tailrace.transactions`; its GTID and PREFIXED are one here.
OUTSIDE: Final = 0
BEGUN: Final = 1
OPEN: Final = 2
SINGLE: Final = 3

# Why the kernel stopped.
DONE: Final = 0
AT_EVENT: Final = 1
"""Python has to look at the event at the cursor."""
BAD_EVENT: Final = -1
"""The event at the cursor is shorter than its type, or its length is not one."""
