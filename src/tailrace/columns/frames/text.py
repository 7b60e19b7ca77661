"""Frames of the kernels that write text: words of 64 bits, by index. This module imports nothing.

The kernels share the first `WORDS_SHARED` words: rows in, offsets and text out. A kernel that
runs out of room returns `MORE` with the row that it could not finish in `ROW`. Called again with a
larger buffer that holds the text so far, it continues from there.
"""

from __future__ import annotations

from typing import Final

ROW: Final = 0
"""The row to start with; where the kernel stopped, the row it stopped at."""
ROWS: Final = 1
"""How many rows there are."""
OUT: Final = 2
"""Address of the text."""
CAPACITY: Final = 3
"""Bytes that the text may take. A kernel never writes at or after OUT + CAPACITY."""
ROOM: Final = 256
"""Bytes that must be free after the text before a number, a date or a step of a string."""
USED: Final = 4
"""Bytes of text written by the rows before `ROW`."""
OUT_OFFSETS: Final = 5
"""Address of the text's 32-bit offsets, one more than rows."""
VALID: Final = 6
"""Address of a bitmap; a row whose bit is 0 gets no text. 0 where all rows count."""
VALID_BIT: Final = 7
"""Index of row 0's bit in that bitmap."""
WORDS_SHARED: Final = 8

DATA: Final = 8
"""Address of the input bytes."""
DATA_END: Final = 9
"""Address after the last byte that may be read."""
OFFSETS: Final = 10
"""Address of the 32-bit offsets of the rows' bytes, one more than rows."""

STACK: Final = 11
"""JSONB: address of FRAME_WORDS words for each level of nesting."""
TYPED: Final = 12
"""JSONB: address of one byte for each row, set to 1 where the document holds a value of an SQL type
that JSON text does not have; 0 where this is not asked. The kernel keeps the row in the next
word."""
JSON_WORDS: Final = 14

WIDE: Final = 11
"""Character sets: 2 for UTF-16, 3 for UTF-16 little-endian, 4 for UTF-32, 0 for one with tables."""
SINGLE: Final = 12
"""Address of 256 entries: the one-byte characters."""
DOUBLE: Final = 13
"""Address of 65,536 entries by first and second byte; 0 where the set has none."""
TRIPLE: Final = 14
"""Address of 65,536 entries by the two bytes after 8F; 0 where the set has none."""
FOUR: Final = 15
"""Address of FOUR_CODES entries, gb18030's codes of four bytes; 0 for other sets."""
ASCII: Final = 16
"""1 where the bytes below 128 are ASCII."""
CHARSET_WORDS: Final = 17

FOUR_CODES: Final = 39420
"""gb18030's codes of four bytes for U+0080 to U+FFFF: the number of codes below 0x8431A530."""
FOUR_PLANES: Final = 189000
"""The number of gb18030's code of U+10000, 0x90308130."""

LIMIT: Final = 11
"""Compressed columns: the most bytes of a value."""
WORK: Final = 12
"""Address of room for the codes; 0 to count the values' bytes without writing them."""
WORK_BYTES: Final = 11 << 10
INFLATE_WORDS: Final = 13

DEPTH: Final = 100
"""The deepest nesting of containers, as in the server."""
FRAME_WORDS: Final = 6

DONE: Final = 1
MORE: Final = 0
"""There is no more room."""
NOT_UTF8: Final = -1
CUT_SHORT: Final = -2
"""A length or an offset points outside of the value."""
BAD_TYPE: Final = -3
TOO_DEEP: Final = -4
OVERLAP: Final = -5
"""Values that overlap: the text would be larger than the bytes account for."""
BAD_NUMBER: Final = -6
BAD_TIME: Final = -7
BAD_CODE: Final = -8
"""Bytes that are not of the character set."""
BY_HAND: Final = -9
"""A value that is left to Python: it is rare, or not sound."""

# --- documents of rows: the frame after the shared words ------------------------------------------
COLUMNS: Final = 8
"""Address of the columns, COLUMN_WORDS words each."""
COLUMN_COUNT: Final = 9
PRESENT: Final = 10
"""Address of two words for each row: address and size of its bitmap of columns present; the size is
-1 where all are present. 0 where all columns of all rows are present."""
ODD: Final = 11
"""Address of two words for each row: the range of its odd values (text for values that are NULL in
their column). 0 where there are none."""
ODD_KEYS: Final = 12
ODD_KEY_OFFSETS: Final = 13
ODD_TEXTS: Final = 14
ODD_TEXT_OFFSETS: Final = 15
ODD_END: Final = 16
"""Address after the odd values' texts."""
LEVELS: Final = 17
"""Address of DEPTH bytes that the check of JSON uses."""
BAD_COLUMN: Final = 18
"""Where the kernel failed: the column's index."""
DOCUMENT_WORDS: Final = 19

# --- records of rows: the frame after the shared words --------------------------------------------
R_OP: Final = 8
"""Address of one byte for each row: 0 insert, 1 update, 2 delete."""
R_HEADS: Final = 9
"""Address of two words for each of these three: address and size of the text that starts a record.
"""
R_STAMP: Final = 10
"""Address of microseconds since 1970, 64 bits for each row; so are `R_POSITION` and `R_SERVER`."""
R_POSITION: Final = 11
R_SERVER: Final = 12
R_SEQUENCE: Final = 13
"""Address of 128 bits for each row."""
R_GTID: Final = 14
"""Address of the index of each row's GTID, 32 bits."""
R_GTID_VALID: Final = 15
"""Address of a bitmap of the rows that have one; 0 where all have."""
R_GTIDS: Final = 16
"""Address of the GTIDs' texts, and in the next word of their offsets."""
R_FILE: Final = 18
"""Address and, in the next word, size of the text between the GTID and the position."""
R_BESIDE: Final = 20
"""Address of texts that come before the images, and in the next word of their offsets; 0 where no
row has one."""
R_IMAGES: Final = 22
"""Three words each for the images before and after: address of the image's frame, 0 where no row
has one; address of a bitmap of the rows that have it, 0 where all have; the first row's bit."""
R_LAST: Final = 28
"""What the kernel notes about the previous record: its row, its offset in the text, the size of its
start up to the images, and the number of these bytes up to the end of its ``_seq``."""
RECORD_WORDS: Final = 32

R_TIES: Final = 10
"""In lines for people, instead of the stamp: address of `TIES` bytes, by tenths: whether a number
exactly between two tenths is printed as the upper one."""
TIES: Final = 10_000
R_KEY: Final = 11
"""Likewise in lines for people: address of the numbers of the primary key's columns, 64 bits each,
and in the next word how many there are; 0 where the table has none."""

# --- lines of transactions: the frame after the shared words --------------------------------------
H_ENTRIES: Final = 8
"""Address of transactions as the plan kernel writes them."""
H_FILE: Final = 9
"""Address and, in the next word, size of the file's name."""
H_BEFORE: Final = 11
"""Address and size of the text before each line, then of the text after it; sizes may be 0."""
H_BEHIND: Final = 13
H_WORDS: Final = 15

# --- events: the frame ----------------------------------------------------------------------------
E_BEGIN: Final = 0
"""Address of the first event, and in the next word the address after the last."""
E_END: Final = 1
E_OUT: Final = 2
"""Address of room for EVENT_WORDS words for each event: address, type, size, seconds."""
E_ROOM: Final = 3
"""How many events it has room for."""
EVENTS_WORDS: Final = 4
EVENT_WORDS: Final = 4

# --- lines of text --------------------------------------------------------------------------------
L_TEXT: Final = 0
"""Address of the lines, and in the next word the address after them."""
L_END: Final = 1
L_OFFSETS: Final = 2
"""Address of the 32-bit offsets of the lines, one more than there are."""
L_ROWS: Final = 3
"""How many lines there are."""
L_PRINTABLE: Final = 4
"""Address of a bit for each code point: whether it may be printed as it is."""
L_KEEP: Final = 5
"""One more code point that may be printed as it is, or -1."""
L_FOUND: Final = 6
"""Address of room for the numbers of lines (64 bits each), one for each line."""
L_ORDER: Final = 7
"""Address of the lines' numbers in the wanted order, 64 bits each."""
L_STARTS: Final = 8
"""Address of the lines' addresses, 64 bits each."""
L_SIZES: Final = 9
L_OUT: Final = 10
LINES_WORDS: Final = 11

KIND: Final = 0
KEY: Final = 1
"""Address and, in the next word, size of ``,"name":``."""
NAME: Final = 3
"""Address and size of ``after.name``, the column's name in odd values."""
INDEX: Final = 5
"""The column's index in the table."""
VALUES: Final = 6
VALUES_END: Final = 7
"""Address after the last byte of the values that may be read."""
VALUE_OFFSETS: Final = 8
NOT_NULL: Final = 9
"""Address of the validity bitmap and, in the next word, the first row's bit. 0 without nulls."""
ARGUMENT: Final = 11
"""DECIMAL's scale, or the number of digits of a fraction."""
UNIT: Final = 12
"""10 to the scale, where that is below 2**63."""
BARE: Final = 13
"""1 for text that is written without quotes: a number of more than 38 digits."""
COLUMN_WORDS: Final = 14

NULL: Final = 0
INT8: Final = 1
INT16: Final = 2
INT32: Final = 3
INT64: Final = 4
UINT64: Final = 5
"""16 bytes of which the upper 8 are 0."""
FLOAT: Final = 6
DOUBLE_FLOAT: Final = 7
DECIMAL: Final = 8
DATE: Final = 9
MOMENT: Final = 10
"""Microseconds since 1970 as date and time."""
SPAN: Final = 11
"""Microseconds as hours, minutes and seconds."""
TEXT: Final = 12
JSON: Final = 13
DECLARED_JSON: Final = 14
"""Text that is JSON; text that is not becomes a string."""
BINARY: Final = 15
VECTOR: Final = 16
"""Lists of 32-bit floats."""
