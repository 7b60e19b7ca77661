"""Frames of the kernel that writes rows as SQL: the words after those that all text kernels share.
Words of 64 bits, by index. Texts are two words, address and size; up to 31 bytes after them are
read. This module imports nothing.
"""

from __future__ import annotations

from typing import Final

S_OP: Final = 8
"""Address of each row's operation (a byte): 0 insert, 1 update, 2 delete."""
S_UNDO: Final = 9
"""1 for statements that undo the rows."""
S_COLUMNS: Final = 10
"""Address of Q_WORDS words for each column."""
S_PRINTABLE: Final = 11
"""Address of a bit for each code point: whether it is printable; 0 until it is needed."""
S_ASKED: Final = 12
"""The kernel sets it to 1 where it stopped because it needs `S_PRINTABLE`."""
S_WRITABLE: Final = 13
"""Address of the numbers of the columns that get values, and in the next word how many there are.
"""
S_KEY: Final = 15
"""Address of two words for each condition on the key: the column's number, and whether bytes are
compared; in the next word how many there are: 0 where the table has no key."""
S_INSERT: Final = 17
"""Text: ``INSERT INTO table (``."""
S_INSERT_ALL: Final = 19
"""Text: ``INSERT INTO table (all columns) VALUES (``."""
S_DELETE: Final = 21
"""Text: ``DELETE FROM table WHERE ``."""
S_UPDATE: Final = 23
"""Text: ``UPDATE table SET ``."""
S_BEFORE: Final = 25
"""Address of the before images' frame (`text_frames`), and in the next word of J_WORDS words for
each column; 0 where no row has one."""
S_AFTER: Final = 27
"""The same for after images."""
S_WORDS: Final = 29

J_VALUES: Final = 0
"""Address of documents as text, of the end of the text, and of their 32-bit offsets."""
J_END: Final = 1
J_OFFSETS: Final = 2
J_TYPED: Final = 3
"""Address of one byte for each row: 1 where an expression makes the document."""
J_EXPRESSIONS: Final = 4
"""Address of the expressions, of the end of their text, and of their 32-bit offsets."""
J_WORDS: Final = 7

Q_NAME: Final = 0
"""Text: the name in backticks."""
Q_EQUALS: Final = 2
"""Text before a value that an index can find."""
Q_SAME_BYTES: Final = 4
"""Text before a value that is compared byte by byte."""
Q_PREFIX: Final = 6
"""Text before a string that is written in hexadecimal."""
Q_LITERAL: Final = 8
"""How a value is written: in the row, in a condition on the key, and compared byte by byte."""
Q_AS_KEY: Final = 9
Q_AS_BYTES: Final = 10
Q_ASCII: Final = 11
"""0 for text in UTF-8; else the address of 128 bytes: 1 for bytes that stand for their ASCII
characters and may be written in quotes."""
Q_WIDTH: Final = 12
"""Bytes of a BINARY column, to which zeros are added; 0 for others."""
Q_MEMBERS: Final = 13
"""Address of two words for each member's quoted name (size -1 where it must be written as a
number), and in the next word how many there are."""
Q_CLOCK: Final = 15
"""1 where the server may set the column by itself."""
Q_ENUM: Final = 16
Q_WORDS: Final = 17

PLAIN: Final = 0
"""Numbers."""
QUOTED: Final = 1
"""Dates, times, and other values written in ASCII."""
AS_TEXT: Final = 2
AS_BYTES: Final = 3
PADDED: Final = 4
ENUM: Final = 5
SET: Final = 6
DOCUMENT: Final = 7
SIGNED: Final = 8
"""An unsigned number of 64 bits as a signed one."""
ALL_DIGITS: Final = 9
"""A float with all digits of the equal double."""
BINARY_TEXT: Final = 10
BINARY_DOCUMENT: Final = 11
