"""The words of the frame with which the kernel of ``kernels/filter_frames.py`` is called.

The layout is that of `tailrace.generators.materialise.layout`. A kernel's machine code depends only
on the modules of this package that it imports. So ``HEAD`` is repeated here; a test checks it.
"""

from __future__ import annotations

from typing import Final

HEAD: Final = 20
"""Bytes of a frame's head: length u32, kind u16, flags u16, table u32, transaction u64."""

CURSOR: Final = 0
"""Address of the next frame; where the kernel stopped, the frame it stopped at."""
END: Final = 1
"""Address after the last byte of the block."""
BEGIN: Final = 2
"""Address of the block's first frame."""
RUN: Final = 3
"""Address of the first frame that passes and was not copied. It is BEGIN at the end of a block that
passes as a whole: then nothing was copied.
"""
OUT: Final = 4
"""Address where the next copy goes; 31 bytes after the block's size may be written."""
KINDS: Final = 5
"""Address of an action for each of the 65,536 kinds."""
TABLES: Final = 6
"""Address of an action for each number of a table: of frames whose kind passes."""
TABLE_COUNT: Final = 7
PASSED: Final = 8
"""Frames that passed, counted on."""
DROPPED: Final = 9
WORDS: Final = 10

# Actions, and why the kernel stopped.
PASS: Final = 0
DROP: Final = 1
DECODE: Final = 2
"""Python decodes the frame at the cursor; what passed before it was copied."""
DEFINITION: Final = 3
"""The frame at the cursor is a definition, which Python takes in, and which passes."""
UNKNOWN: Final = 4
"""The frame at the cursor has a kind or a table that was not defined."""
DONE: Final = 5
BAD_LENGTH: Final = 6
