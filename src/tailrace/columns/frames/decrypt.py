"""The words of the frame by which the kernels of ``kernels/decrypt.py`` are called."""

from __future__ import annotations

from typing import Final

IN: Final = 0
"""Address of the next event; the kernels leave it as it is."""
END: Final = 1
OFFSET: Final = 2
"""Where that event stands in its file."""
NONCE: Final = 3
COUNTERS: Final = 4
"""1 for CTR, 0 for CBC."""
WORK: Final = 5
"""What goes through AES, and comes out of it: CBC's blocks, or CTR's counters."""
CAPACITY: Final = 6
VECTORS: Final = 7
"""CBC's initial vectors, 16 bytes an event, and..."""
MASKS: Final = 8
"""...these encrypted: what CBC's last parts of blocks are XORed with."""
SIZES: Final = 9
"""The events' sizes, 8 bytes each."""
MOST: Final = 10
COUNT: Final = 11
USED: Final = 12
AFTER: Final = 13
"""Address behind the last event that was gathered."""
WORDS: Final = 14

DONE: Final = 0
"""What is left is no whole event."""
FULL: Final = 1
LARGE: Final = 2
"""The next event alone is more than ``WORK`` holds."""
