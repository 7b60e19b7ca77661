"""Frames of the kernels that write rows: words of 64 bits, by index. This module imports nothing.

The kinds of `tailrace.columns.frames.plan`, which say how a column is decoded, also say how it is
written.
"""

from __future__ import annotations

from typing import Final

# --- the frame of `encode_rows` ------------------------------------------------------------------
ROWS: Final = 0
"""How many rows there are."""
ROW: Final = 1
"""The row to start with; where the kernel stopped, the row it stopped at."""
OUT: Final = 2
"""Address of the room for events."""
CAPACITY: Final = 3
"""Bytes that the events may take; PADDING more may be written to."""
USED: Final = 4
"""Bytes written so far."""
EVENT: Final = 5
"""Offset of the event that rows are added to; -1 if there is none."""
PREFIX: Final = 6
"""Address of the bytes that start every event."""
PREFIX_SIZE: Final = 7
MOST: Final = 8
"""The maximum bytes of an event of more than one row."""
STARTS: Final = 9
"""Address of the events' offsets."""
STARTS_ROOM: Final = 10
STARTS_COUNT: Final = 11
BEFORE: Final = 12
"""Address of the before image's columns, COLUMN_WORDS words each."""
BEFORE_COUNT: Final = 13
"""How many; -1 where rows have no before image."""
AFTER: Final = 14
AFTER_COUNT: Final = 15
FIXED: Final = 16
"""The most bytes that a row takes, apart from its values of variable length."""
ODD: Final = 17
"""Values that no Arrow type holds, ODD_WORDS words each, in the order of rows, images, columns."""
ODD_COUNT: Final = 18
ODD_AT: Final = 19
"""How many of them are written."""
BAD_IMAGE: Final = 20
"""Where the kernel failed: 0 in the before image, 1 in the after image."""
BAD_COLUMN: Final = 21
"""And the column's index in the image."""
POWERS: Final = 22
"""Address of 10 ** 0 to 10 ** 18."""
SCRATCH: Final = 23
"""Address of SCRATCH_SIZE bytes."""
FILLER: Final = 24
"""255 if the unused bits after the last column's in the map of NULLs are set, else 0."""
ENCODE_WORDS: Final = 25

SCRATCH_SIZE: Final = 128
LARGEST: Final = 0x40000000
"""Bytes of the largest event that a server accepts."""

# --- a column of that frame ----------------------------------------------------------------------
KIND: Final = 0
ARGUMENT: Final = 1
VALUES: Final = 2
"""Address of the values: of the first row's, if they are of fixed width."""
VALUES_SIZE: Final = 3
"""Bytes of the values that may be read."""
OFFSETS: Final = 4
"""Address of the first row's offset."""
OFFSET_BYTES: Final = 5
"""4 or 8."""
SHIFT: Final = 6
"""Offsets count items of 1 << SHIFT bytes."""
VALID: Final = 7
"""Address of the validity bitmap; 0 where all are valid."""
VALID_BIT: Final = 8
"""The first row's bit in it."""
TABLE: Final = 9
"""Address of ENUM's and SET's names: see `NAME_WORDS`."""
LIMIT: Final = 10
"""The maximum bytes of a value."""
CHARACTERS: Final = 11
"""The maximum characters of a value in UTF-8; -1 where only bytes count."""
TRIM: Final = 12
"""The byte that is stripped from the value's end; -1 for none."""
NULLABLE: Final = 13
SIZE: Final = 14
"""Bytes of an odd value."""
UNSIGNED: Final = 15
"""1 where a DECIMAL, FLOAT or DOUBLE must not be below zero."""
COLUMN_WORDS: Final = 16

FLOAT64: Final = 64
"""The kind of DOUBLE, which decodes as `layout.INT64`."""

# An odd value: one that is kept apart from the column, as the column's Arrow type cannot hold it.
O_ROW: Final = 0
O_PLACE: Final = 1
"""image << 32 | the column's index in the image"""
O_BYTES: Final = 2
"""Its bytes in the row, the first one lowest."""
ODD_WORDS: Final = 3

# The names of an ENUM or SET: one word, a mask, then a hash table of NAME_WORDS words an entry.
N_NAME: Final = 0
"""Address of the name."""
N_SIZE: Final = 1
"""-1 in a free entry."""
N_NUMBER: Final = 2
"""Counted from 1."""
NAME_WORDS: Final = 3
HASH_START: Final = 0x3F6A0B5D2C91E847
HASH_FACTOR: Final = 0x100000001B3

# --- why a kernel stopped ------------------------------------------------------------------------
DONE: Final = 1
MORE: Final = -1
"""No room for the row."""
STARTS_FULL: Final = -2
OUT_OF_RANGE: Final = -3
TOO_LONG: Final = -4
TOO_PRECISE: Final = -5
NO_SUCH_NAME: Final = -6
MALFORMED: Final = -7
NOT_NULL: Final = -8
OUTSIDE: Final = -9
"""Offsets point outside of the values."""
EVENT_TOO_LARGE: Final = -10

# --- the frame of `stamp_events` -----------------------------------------------------------------
S_IN: Final = 0
S_END: Final = 1
S_OUT: Final = 2
S_POSITION: Final = 3
"""Where the first event begins in its file."""
S_CHECKSUM: Final = 4
"""4 or 0: bytes of checksum that each event gets."""
S_TABLES: Final = 5
"""Address of the tables of CRC-32."""
S_SIZE: Final = 6
"""Out: bytes that were, or are to be, written."""
S_COUNT_ONLY: Final = 7
"""If not 0, only compute the size."""
S_LAST: Final = 8
"""Out: offset of the event that the kernel stopped at."""
STAMP_WORDS: Final = 9

# --- the frame of `json_binary`, after the words that `text_frames` has for all -------------------
NODES: Final = 11
"""Address of room for the values of open containers: NODE_WORDS words each."""
HEAP: Final = 12
"""Address of room for the values of closed containers."""
TEXTS: Final = 13
"""Address of room for strings with their escapes resolved."""
TEXTS_END: Final = 14
LEVELS: Final = 15
"""Address of one word for each open container."""
LONGEST: Final = 16
"""Bytes of the longest text that fits into the room."""
JSON_WORDS: Final = 17

# A value of a document.
V_TYPE: Final = 0
"""Its type in the binary format."""
V_DATA: Final = 1
"""A number's bits; address of a string's bytes; address of a container's first value."""
V_COUNT: Final = 2
"""Bytes of a string, or values of a container."""
V_SIZE: Final = 3
"""Bytes that it takes if it is not stored in its entry."""
V_KEY: Final = 4
V_KEY_SIZE: Final = 5
V_PLACE: Final = 6
"""Its index among its object's values, in the order of the text."""
NODE_WORDS: Final = 8

# --- the frame of `charset_bytes` ----------------------------------------------------------------
WIDE: Final = 11
"""As in `text_frames`: the kinds of UTF-16 and UTF-32; 0 for a set with a table."""
CODES: Final = 12
"""Address of 65,536 words of 32 bits: a character's code, its first byte lowest; 0 for none."""
PLANES: Final = 13
"""Not 0 if characters past U+FFFF have gb18030's codes of four bytes."""
CODES_WORDS: Final = 14
