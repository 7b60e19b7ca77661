"""The layout of the memory that Python and the kernels share: words of 64 bits, by index.

A kernel takes the address of a frame, an array of words. Both sides name the words with the
constants of this module. It imports nothing, so that kernels can use it.
"""

from __future__ import annotations

from typing import Final

BEGIN: Final = int.from_bytes(b"BEGI", "little")
"""The first four bytes of the statement BEGIN, and below of COMMIT."""
COMMIT: Final = int.from_bytes(b"COMM", "little")
SAVEPOINT: Final = int.from_bytes(b"SAVEPOIN", "little")
"""The first eight bytes of the statement SAVEPOINT, and below of ROLLBACK TO."""
ROLLBACK_TO: Final = int.from_bytes(b"ROLLBACK", "little")
TO: Final = int.from_bytes(b" TO ", "little")

PADDING: Final = 64
"""Bytes of slack after every buffer that a kernel reads or writes."""

# --- the plan's frame ----------------------------------------------------------------------------
CURSOR: Final = 0
"""Address of the next event; where the kernel stopped, the event it stopped at."""
END: Final = 1
"""Address after the last byte of the block."""
BASE: Final = 2
"""Converts an address into an offset: offset = address + BASE."""
FIXED_POSITION: Final = 3
"""If >= 0, the position of all rows (inside a transaction payload: the outer event's start)."""
CHECKSUM_BYTES: Final = 4
"""0 or 4: size of the checksum at the end of each event."""
VERIFY: Final = 5
ENTRIES: Final = 6
ENTRY_COUNT: Final = 7
ENTRY_CAPACITY: Final = 8
TRANSACTIONS: Final = 9
TRANSACTION_COUNT: Final = 10
TRANSACTION_CAPACITY: Final = 11
KNOWN: Final = 12
"""Hash table of resolved table maps: KNOWN_WORDS words for each entry."""
KNOWN_MASK: Final = 13
IDS: Final = 14
"""Hash table from table id to slot: ID_WORDS words for each entry."""
IDS_MASK: Final = 15
GENERATION: Final = 16
"""Incremented at each end of a statement, after which earlier table ids are not valid any more."""
SLOTS: Final = 17
CRC_TABLES: Final = 18
LIMIT: Final = 19
"""Stop before the first event that starts at or after this address."""
SAFE: Final = 20
"""Offset after the last transaction that ended; -1 before the first."""
SKIPPED_ROWS_EVENTS: Final = 21
COMPRESSED_ROWS: Final = 22
"""Address of the decompressed rows of the event at the cursor, if COMPRESSED_SIZE is >= 0."""
COMPRESSED_SIZE: Final = 23
FIRST_ENTRY: Final = 24
"""The number of entries when the transaction under way began; -1 once rows of its payload were
delivered."""
FIRST_CURSOR: Final = 25
"""Address of the event that began it, or of the first event after the last flush, if that is later.
"""
HAS_GTIDS: Final = 27
"""Not 0 once a GTID event was read in this file: then a transaction without one has no GTID."""
MUTED: Final = 26
"""If 1, rows events are skipped: they are in a part of the log that was rolled back."""
STATE: Final = 28
"""The grammar's state (`tailrace.transaction.State`); after a ROTATE, ROTATED is added."""
ROTATED: Final = 0x100
STEPS: Final = 29
"""Address of the grammar's steps: 16 bytes for each state, by token the next state, or NO_STEP."""
NO_STEP: Final = 0xFF
TYPES: Final = 30
"""Address of a byte for each type code: its token in the low four bits, and the three flags below.
"""
DOUBTED: Final = 0x10
"""The format description gives the type a fixed part of a size that the kernel does not know."""
SHORT_ID: Final = 0x20
"""Table ids have 4 bytes."""
EXTRA_HEADER: Final = 0x40
"""Rows events have an extra header."""
CHECKED: Final = 31
"""Address of the event that Python has examined and found sound; the kernel relies on it."""
SOUND_QUERY: Final = 32
"""Address of the body of a BEGIN or COMMIT in this block that was found sound, or 0."""
RANGES: Final = 34
"""Address of the ranges of offsets that are left out: start and end of each, in order, apart."""
RANGE_COUNT: Final = 35
RANGE: Final = 36
"""The first of them that does not end before the cursor."""
SAVEPOINTS: Final = 37
"""Not 0 if the kernel passes over SAVEPOINT, and over ROLLBACK TO at the end of a known range."""
PAYLOADS: Final = 38
"""Address of the payloads that are uncompressed already: PAYLOAD_WORDS words each, in order."""
PAYLOAD_COUNT: Final = 39
PAYLOAD: Final = 40
"""The next of them."""
OUTER: Final = 41
"""Where the kernel itself walks into a payload, the first of OUTER_WORDS words: those of the event
around it. OUTER_CURSOR is 0 elsewhere."""
OUTER_CURSOR: Final = OUTER
"""Address of the event after the payload."""
OUTER_END: Final = OUTER + 1
OUTER_BASE: Final = OUTER + 2
OUTER_LIMIT: Final = OUTER + 3
OUTER_CHECKSUM_BYTES: Final = OUTER + 4
OUTER_STATE: Final = OUTER + 5
OUTER_SOUND_QUERY: Final = OUTER + 6
MAPPED: Final = 48
"""The GENERATION in which a table map came last."""
VERIFIED: Final = 49
"""Addresses of the first event whose checksum was verified before, and after the last of them."""
PLAN_WORDS: Final = 51

P_EVENT: Final = 0
"""Address of the payload event."""
P_DATA: Final = 1
"""Address of its zstd frames; once they are uncompressed, of the events inside."""
P_STORED: Final = 2
"""Size of the frames."""
P_SIZE: Final = 3
"""Size of the events inside."""
PAYLOAD_WORDS: Final = 4
PAYLOAD_CAPACITY: Final = 1 << 13
SMALL_PAYLOAD: Final = 1 << 18
"""The most bytes of a payload that is uncompressed together with others."""
PAYLOAD_BYTES: Final = 1 << 22
"""The most bytes of payloads that are uncompressed together."""

# The grammar's tokens and states, as numbered in `tailrace.transaction`.
IN_PAYLOAD: Final = 0
"""A state of the kernel only: the grammar sees only the payload event itself."""
OUTSIDE: Final = 1
AFTER_GTID: Final = 2
OPEN: Final = 4
T_GTID: Final = 2
T_GROUP: Final = 3
T_SINGLE: Final = 4
T_BEGIN: Final = 5
T_COMMIT: Final = 6
T_STATEMENT: Final = 10
T_ROWS: Final = 11
T_ROWS_END: Final = 12
T_PAYLOAD: Final = 13

# Why the plan stopped (its return value).
DONE: Final = 0
"""Every whole event of the block is planned; the rest is part of the next event."""
AT_EVENT: Final = 1
"""Python has to handle the event at the cursor."""
AT_TABLE_MAP: Final = 2
"""A table map that is not resolved yet."""
AT_COMPRESSED: Final = 3
"""A rows event whose rows are to be decompressed."""
FULL: Final = 4
"""No room for more entries or transactions: decode the plan, then continue."""
DOUBT: Final = 5
"""The event at the cursor may be malformed or misplaced: Python examines it."""
AT_PAYLOAD: Final = 7
"""Inside the kernel only: a payload that is uncompressed already."""
AT_BOUND: Final = 8
"""Inside the kernel only: the bound of a range that is left out."""
BAD_LENGTH: Final = -1
BAD_CHECKSUM: Final = -2

# --- an entry: one rows event --------------------------------------------------------------------
E_ROWS: Final = 0
E_END: Final = 1
E_BEFORE: Final = 2
"""Address of the bitmap of columns present in before images; 0 where all are (or no image)."""
E_AFTER: Final = 3
E_OP: Final = 4
"""0 insert, 1 update, 2 delete. BARE is added if the event is one row of no bytes. NO_CASCADES is
added if foreign keys change no other row or the log has those changes too: a flag of the event.
DIFFS is added if JSON columns of after images may be logged as diffs (PARTIAL_UPDATE_ROWS)."""
BARE: Final = 16
NO_CASCADES: Final = 32
DIFFS: Final = 64
E_POSITION: Final = 5
E_ROW: Final = 6
"""Number of the event's first row, as used in ``_seq``."""
E_TRANSACTION: Final = 7
E_STAMP: Final = 8
"""server id << 32 | timestamp in seconds"""
E_NEXT: Final = 9
"""Index of the same slot's next entry; -1 after the last."""
ENTRY_WORDS: Final = 10

# --- a transaction -------------------------------------------------------------------------------
T_STAMP: Final = 0
"""Commit time in microseconds; -1 where only the events' seconds are known."""
T_KIND: Final = 1
NO_GTID: Final = 0
MYSQL_GTID: Final = 1
MARIADB_GTID: Final = 2
T_UUID: Final = 2
"""Two words: 16 bytes as logged."""
T_NUMBER: Final = 4
"""Unsigned: MariaDB's sequence numbers go up to 2**64 - 1."""
T_DOMAIN: Final = 5
T_SERVER: Final = 6
T_TAG_SIZE: Final = 7
T_TAG: Final = 8
"""Four words: up to 32 bytes."""
T_START: Final = 12
"""Offset of the event that began it."""
T_SECONDS: Final = 13
"""The timestamp of that event, in seconds."""
TRANSACTION_WORDS: Final = 14

# --- known table maps, table ids, and slots ------------------------------------------------------
K_HASH: Final = 0
K_BODY: Final = 1
K_SIZE: Final = 2
"""0 in a free entry."""
K_SLOT: Final = 3
KNOWN_WORDS: Final = 4

I_ID: Final = 0
I_GENERATION: Final = 1
"""The statement (GENERATION) in which the id means this slot."""
I_SLOT: Final = 2
I_KNOWN: Final = 3
"""Address of the entry of KNOWN that the id's table map had last, or 0."""
ID_WORDS: Final = 4

S_HEAD: Final = 0
"""Index of the slot's first entry; -1 if it has none."""
S_TAIL: Final = 1
S_BYTES: Final = 2
S_COLUMNS: Final = 3
S_SEEN: Final = 4
"""Bit set: 1 inserts, 2 updates, 4 deletes, 8 images that are not full, 16 updates with DIFFS."""
S_UNKNOWN: Final = 5
"""Not 0 if the table's columns could not be resolved: its rows are an error."""
SLOT_WORDS: Final = 8
IGNORED: Final = -1
"""The slot of tables that are not wanted, or less: IGNORED - (number << WIDTH_BITS | columns)."""
WIDTH_BITS: Final = 13
NO_SLOT: Final = -(1 << 60)
"""Used instead of a slot if no table map gave a table id one."""

# --- the row decoder's frame ---------------------------------------------------------------------
D_ENTRIES: Final = 0
D_ENTRY: Final = 1
"""Index of the entry being decoded; -1 when all are done."""
D_ROW: Final = 2
"""Address of the next row inside it; 0 at its start."""
D_NUMBER: Final = 3
"""Number of that row inside its event."""
D_COLUMNS: Final = 4
D_BEFORE: Final = 5
"""Address of the before image's columns (COLUMN_WORDS words each); 0 where no row has one."""
D_AFTER: Final = 6
D_ROWS: Final = 7
"""Rows decoded into this batch."""
D_CAPACITY: Final = 8
D_TRANSACTIONS: Final = 9
D_OP: Final = 10
D_STAMP: Final = 11
D_GTID: Final = 12
D_POSITION: Final = 13
D_SEQUENCE: Final = 14
D_SERVER: Final = 15
D_BEFORE_VALID: Final = 16
D_AFTER_VALID: Final = 17
D_FILE_NUMBER: Final = 18
D_GTIDS: Final = 19
"""GTID texts of this batch."""
D_GTID_OFFSETS: Final = 20
D_GTID_COUNT: Final = 21
D_GTID_LAST: Final = 22
"""Index of the transaction whose GTID was written last; -1 before the first."""
D_GTID_CAPACITY: Final = 23
"""How many GTID texts there is room for; each takes at most GTID_TEXT bytes."""
D_ODD: Final = 24
"""Odd values: ODD_WORDS words each."""
D_ODD_COUNT: Final = 25
D_ODD_CAPACITY: Final = 26
D_BEFORE_PRESENT: Final = 27
"""Address of bitmaps of the columns present, one for each row; 0 where all images are full."""
D_AFTER_PRESENT: Final = 28
D_PARTIAL_VALID: Final = 29
"""Address of a bitmap of the rows whose image is not full."""
D_GTID_NULL: Final = 30
"""Address of the validity bitmap of GTIDs."""
D_BAD_COLUMN: Final = 31
"""Where decoding failed: the column's index."""
D_SCRATCH: Final = 33
"""Address of room for one bit for each column."""
D_NEEDED: Final = 34
"""If a batch is full because a column of variable length (D_BAD_COLUMN) has no room: the bytes that
its value needs; else 0."""
D_CLAIMED: Final = 35
"""The uncompressed size of this batch's compressed values, as they state it."""
D_MOST_CLAIMED: Final = 36
"""A row that takes D_CLAIMED past this is left to the next batch, unless it is the batch's first.
"""
D_LEFT: Final = 37
"""If a batch is full: the bytes of rows that are left for the next batches."""
D_JSON: Final = 38
"""Address of the indexes of the table's JSON columns, a word each."""
D_JSON_COUNT: Final = 39
D_PATH: Final = 40
"""Address of room for the containers on the path of a JSON diff: PATH_WORDS words."""
DECODE_WORDS: Final = 41
PATH_DEPTH: Final = 100
"""The server's documents are nested no deeper."""
DIFF_WORK: Final = 2 * PATH_DEPTH
"""After the path: the work that may still be done for the row."""
UNCHECKED: Final = DIFF_WORK + 1
"""Where values begin that earlier diffs of the row put into the document, without a check."""
UNCHECKED_END: Final = DIFF_WORK + 2
"""Where they end; 0 if there is none."""
PATH_WORDS: Final = DIFF_WORK + 3

GTID_TEXT: Final = 96
MOST_TEXT: Final = (1 << 31) - (1 << 16)
"""The most bytes of one column's values in a batch: Arrow's offsets have 32 bits."""

# Why decoding stopped.
ALL_DECODED: Final = 0
BATCH_FULL: Final = -9
ROW_TOO_LONG: Final = -10
"""A row runs past its event's end."""
BAD_VALUE: Final = -11
BAD_OPTIONS: Final = -12
"""A row's options (of PARTIAL_UPDATE_ROWS) are missing or unknown."""
NO_DOCUMENT: Final = -13
"""A JSON column has diffs, but the before image does not have it."""

# --- a column of the row decoder -----------------------------------------------------------------
C_KIND: Final = 0
C_ARGUMENT: Final = 1
C_VALUES: Final = 2
C_OFFSETS: Final = 3
"""Address of 32-bit offsets of variable-length columns."""
C_WIDTH: Final = 4
"""Bytes of a value in the output; 0 where nothing is written, -1 for variable length."""
C_ROOM: Final = 5
C_VALID: Final = 6
"""Address of the validity bitmap, all ones at first."""
C_NULLS: Final = 7
"""Not 0 where a value may have been NULL."""
C_TABLE: Final = 8
"""Address of ENUM's and SET's names (two words each, address and size), of the calendar for dates,
or of the powers of ten for decimals."""
COLUMN_WORDS: Final = 9

NO_DATE: Final = -(1 << 40)
"""Used instead of the days of a date that is not in the calendar."""

# An odd value: one that its column's Arrow type cannot hold.
O_ROW: Final = 0
O_PLACE: Final = 1
"""image << 32 | column; image 0 before, 1 after."""
O_DATE: Final = 2
"""(year * 13 + month) << 5 | day"""
O_TIME: Final = 3
"""microseconds of the day; -1 for a value without a time of day; BY_HAND for JSON diffs that are
left to Python: then O_DATE is their address, with their size in the four bytes before it"""
BY_HAND: Final = -2
ODD_WORDS: Final = 4

# --- how a column is decoded: its kind -----------------------------------------------------------
SKIP_FIXED: Final = 0
SKIP_VARIABLE: Final = 1
INT8: Final = 2
UINT8: Final = 3
INT16: Final = 4
UINT16: Final = 5
INT24: Final = 6
UINT24: Final = 7
INT32: Final = 8
UINT32: Final = 9
INT64: Final = 10
UINT64: Final = 11
FLOAT32: Final = 12
YEAR: Final = 13
DATE: Final = 14
DATETIME: Final = 15
TIMESTAMP: Final = 16
TIME: Final = 17
DECIMAL: Final = 18
"""Argument: digits before the point, digits after it << 8, bytes in the row << 16, digits of the
first, incomplete group << 24."""
DECIMAL_TEXT: Final = 19
BITS: Final = 20
BITS64: Final = 21
STRING: Final = 22
PADDED: Final = 23
ENUM_NAME: Final = 24
SET_NAMES: Final = 25
LE_BYTES: Final = 26
"""ENUM's index as int32."""
LE_BYTES64: Final = 27
"""SET's bits as int64; SETs of eight bytes become decimals by UINT64."""
UUID: Final = 28
INET4: Final = 29
INET6: Final = 30
OLD_DATETIME: Final = 31
OLD_TIMESTAMP: Final = 32
OLD_TIME: Final = 33
NOTHING: Final = 34
"""A column of type NULL: no bytes, always NULL."""
COMPRESSED: Final = 35
"""As STRING; its values are MariaDB's compressed ones, which are uncompressed after the kernel."""
IN_PLACE: Final = 36
"""STRING whose bytes are not copied: their address becomes C_VALUES. For a batch of one row."""
JSON_DIFFS: Final = 37
"""A JSON column of one row: diffs, which are applied to the before image's document."""
ORPHAN_DIFFS: Final = 38
"""The same if the before image does not have the column."""
