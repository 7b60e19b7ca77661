"""The words of the frame with which the kernels of ``kernels/decrypt.py`` are called."""

from __future__ import annotations

from typing import Final

IN: Final = 0
"""Address of the next event; the kernels do not change it."""
END: Final = 1
OFFSET: Final = 2
"""The offset of that event in its file."""
NONCE: Final = 3
COUNTERS: Final = 4
"""1 for CTR, 0 for CBC."""
WORK: Final = 5
"""The input and output of AES: CBC's blocks, or CTR's counters."""
CAPACITY: Final = 6
VECTORS: Final = 7
"""CBC's initial vectors, 16 bytes for each event, and..."""
MASKS: Final = 8
"""...the same, encrypted: CBC's last partial blocks are XORed with them."""
SIZES: Final = 9
"""The events' sizes, 8 bytes each."""
MOST: Final = 10
COUNT: Final = 11
USED: Final = 12
AFTER: Final = 13
"""Address after the last event that was gathered."""
WORDS: Final = 14

DONE: Final = 0
"""The rest is not a whole event."""
FULL: Final = 1
LARGE: Final = 2
"""The next event alone is larger than ``WORK``."""
