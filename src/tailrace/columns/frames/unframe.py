"""The words and reasons of `tailrace.wire.unframe`, as constants that a kernel may use.

A kernel's machine code depends only on the modules of this package that it imports. So the numbers
are repeated here; a test checks that they are equal.
"""

from __future__ import annotations

from typing import Final

READ: Final = 0
END: Final = 1
BEGIN: Final = 2
WRITE: Final = 3
OFFSET: Final = 4
COUNT: Final = 5
NEED: Final = 6

PLAIN: Final = -1
MORE: Final = 0
FULL: Final = 1
ANSWER: Final = 2
CONTINUED: Final = 3
CONTROL: Final = 4
HOLE: Final = 5
BAD_LENGTH: Final = 6

ROTATE: Final = 4
FORMAT_DESCRIPTION: Final = 15
HEARTBEAT: Final = 27
HEARTBEAT_V2: Final = 41
START_ENCRYPTION: Final = 164
ARTIFICIAL: Final = 0x20
