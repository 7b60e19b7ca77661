"""Text as bytes of the servers' character sets, a whole column at once: the inverse of `charsets`.

Only `tailrace.values.charsets` defines which bytes stand for a character: its encoders fill the
table that the kernel reads.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.columns import native
from tailrace.columns.frames import encode as f
from tailrace.columns.frames import text as t
from tailrace.columns.text_output import TooLarge, layout, write
from tailrace.columns.write.types import Rejected
from tailrace.constants import ColumnType as T
from tailrace.errors import ValueRejected
from tailrace.values.charsets import BINARY, UTF8, encoder, longest_character, single_byte_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.values.schema import Column

_TOO_LARGE: Final = "the column takes more than 2 GiB: write it in smaller tables"
_WIDE: Final = {"utf16": 2, "ucs2": 2, "utf16le": 3, "utf32": 4}
_BASIC_PLANE: Final = frozenset({"utf8mb3", "ucs2"})
_BASIC: Final = [*map(chr, range(0xD800)), *map(chr, range(0xE000, 0x10000))]
_VARIABLE: Final = frozenset({T.STRING, T.VARCHAR, T.VAR_STRING})

Codes = np.ndarray[Any, np.dtype[np.uint32]]


def from_utf8(array: pa.Array, column: Column) -> pa.Array:
    """Encode text in the column's character set.

    UTF-8, and plain ASCII in nearly all sets, is checked and used as it is, without a copy. Raises
    `Rejected`, with the row, for a character that the set does not have, and for more characters
    than the column holds, if the kernel does not check that.
    """
    charset = column.charset
    highest = check_utf8(array)
    if highest > 0xEF and charset in _BASIC_PLANE:
        _reject_planes(array, charset)
    if charset in UTF8 or charset == "binary":
        return array
    array = _fitting(array, column)
    if highest < 0x80 and _is_plain(charset):
        return array
    return _translated(short_offsets(array), charset)


def to_bytes(
    kernel: str,
    frame: np.ndarray[Any, np.dtype[np.int64]],
    array: pa.StringArray,
    expected: int,
    by_hand: Callable[[int], bytes],
) -> pa.BinaryArray:
    """Let a kernel write bytes for each text that is not null, ``expected`` ones or more.

    ``by_hand`` encodes a row that the kernel cannot, or raises.
    """
    frame[t.DATA], frame[t.DATA_END], frame[t.OFFSETS] = layout(array)
    try:
        return write(native.kernel(kernel), frame, array, expected, "texts", by_hand, pa.binary())
    except TooLarge as error:
        raise Rejected(_TOO_LARGE, error.row) from None


def short_offsets(array: pa.Array) -> pa.StringArray:
    """The texts with 32-bit offsets, which kernels need."""
    if pa.types.is_string(array.type):
        return array
    try:
        return array.cast(pa.string())
    except pa.ArrowException:
        raise Rejected(_TOO_LARGE) from None


def check_utf8(array: pa.Array) -> int:
    """The highest byte of the texts, including nulls; `Rejected` if they are not UTF-8."""
    wide = pa.types.is_large_string(array.type)
    _, offsets, data = array.buffers()
    if data is None or len(array) == 0:
        return 0
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32)
    first, last = int(ends[array.offset]), int(ends[array.offset + len(array)])
    highest = int(np.frombuffer(data, np.uint8)[first:last].max(initial=0))
    if highest > 0x7F:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise Rejected(f"text that is not UTF-8: {error}") from None
    return highest


def _fitting(array: pa.Array, column: Column) -> pa.Array:
    """CHAR's text without trailing spaces; `Rejected` for more characters than the column holds."""
    if column.type is T.STRING:
        array = pc.utf8_rtrim(array, " ")
    if column.type in _VARIABLE and column.collation not in {None, BINARY}:
        most = column.metadata // longest_character(column.collation or BINARY)
        over = pc.fill_null(pc.greater(pc.utf8_length(array), most), False)
        if (row := over.index(True).as_py()) >= 0:
            raise Rejected(f"{len(array[row].as_py())} characters, the column holds {most}", row)
    return array


def _reject_planes(array: pa.Array, charset: str) -> None:
    for row, text in enumerate(array.to_pylist()):
        if text is not None:
            _by_encoder(text, charset, row)


def _by_encoder(text: str, charset: str, row: int) -> bytes:
    try:
        return encoder(charset)(text)
    except ValueRejected as error:
        raise Rejected(str(error), row) from None


def _translated(array: pa.StringArray, charset: str) -> pa.BinaryArray:
    if len(array) == 0:
        return pa.array([], pa.binary())
    frame = np.zeros(f.CODES_WORDS, np.int64)
    frame[f.WIDE] = _WIDE.get(charset, 0)
    frame[f.PLANES] = charset == "gb18030"
    if charset not in _WIDE:
        frame[f.CODES] = _codes(charset).ctypes.data

    def by_hand(row: int) -> bytes:
        return _by_encoder(array[row].as_py(), charset, row)

    return to_bytes("charset_bytes", frame, array, 2 * array.nbytes, by_hand)


@cache
def _is_plain(charset: str) -> bool:
    """Whether the character set encodes ASCII as ASCII."""
    if charset in _WIDE:
        return False
    ascii_text = bytes(range(128)).decode("ascii")
    try:
        return encoder(charset)(ascii_text) == ascii_text.encode()
    except ValueRejected:
        return False


@cache
def _codes(charset: str) -> Codes:
    """The codes of U+0000 to U+FFFF, each with its first byte lowest; 0 if there is none."""
    codes = np.zeros(1 << 16, np.uint32)
    encode = encoder(charset)
    for character in single_byte_table(charset) or _BASIC:
        try:
            code = encode(character)
        except ValueRejected:
            continue
        codes[ord(character)] = int.from_bytes(code, "little")
    return codes
