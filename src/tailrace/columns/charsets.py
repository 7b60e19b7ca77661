"""Text in the servers' character sets as UTF-8, a whole column at once.

Only `tailrace.values.charsets` defines which character a byte sequence stands for: its decoders
fill the tables that the kernel reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tailrace.columns import native
from tailrace.columns.frames import text as f
from tailrace.columns.pages import LARGE, Pages, give_back
from tailrace.columns.text_output import LARGEST, BadRow, layout, write
from tailrace.errors import EventDecodeError
from tailrace.values.charsets import SURROGATES, UTF8, decode, decoder
from tailrace.values.surrogates import escaped, has_surrogates

_WIDE: Final = {"utf16": 2, "utf16le": 3, "utf32": 4, "ucs2": 5}
_TRIPLE: Final = frozenset({"ujis", "eucjpms"})
_PIECE: Final = 1 << 18
"""Bytes of a large value that are decoded at a time."""

Table = np.ndarray[Any, np.dtype[np.uint32]]


def to_utf8(
    array: pa.BinaryArray,
    charset: str | None,
    odd: dict[int, str] | None = None,
    *,
    spent: bool = False,
) -> pa.StringArray:
    """Decode values of a character set (the server's name; None for utf8mb4) to text.

    UTF-8, and plain ASCII in nearly all sets, is checked and used as it is, without a copy. A
    value with surrogates, which UTF-8 cannot hold, becomes NULL, and its text goes to ``odd`` by
    its row, as in ``_raw``. Raises `EventDecodeError`, which names the row, for bytes that are not
    well-formed, and for surrogates without an ``odd``; `SchemaError` for a character set that no
    server has. With ``spent`` the bytes of a single large value are not needed afterwards.
    """
    if len(array) == 0:
        return pa.array([], pa.string())
    charset = charset or "utf8mb4"
    if charset in UTF8 or charset == "binary":
        return _checked(array, charset, odd)
    form = _form(charset)
    if form.plain and _all_below(array, 128):
        return _reinterpreted(array)
    if len(array) == 1 and array.null_count == 0 and form.sizes is not None:
        data = array.buffers()[2]
        if data is not None and data.size >= LARGE:
            return _one_large(array, charset, form, form.sizes, spent=spent)
    text = _translated(array, charset, form)
    return without_surrogates(text, odd) if charset in SURROGATES else text


def _checked(array: pa.BinaryArray, charset: str, odd: dict[int, str] | None) -> pa.StringArray:
    if charset in SURROGATES:
        try:
            return without_surrogates(array, odd)
        except EventDecodeError:
            _explain(array, charset)
            raise
    text = _reinterpreted(array)
    if not _is_utf8(text):
        _explain(array, charset)
        raise EventDecodeError("text that is not UTF-8")
    return text


def without_surrogates(array: pa.Array, odd: dict[int, str] | None) -> pa.StringArray:
    """Text out of bytes that are UTF-8 except for surrogates; as `to_utf8`."""
    text = _reinterpreted(array)
    if _is_utf8(text):
        return text
    data = array.cast(pa.binary())
    found: dict[int, str] = {}
    for row, value in enumerate(data.to_pylist()):
        if value is None or value.isascii():
            continue
        try:
            plain = value.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise BadRow("text that is not UTF-8", row) from None
        if has_surrogates(plain):
            found[row] = escaped(plain)
    if odd is None:
        row = min(found)
        raise BadRow("text with surrogates, which is not UTF-8", row)
    odd |= found
    import pyarrow.compute as pc  # noqa: PLC0415 - takes 9 MB, and is needed for such text alone

    held = np.ones(len(array), np.bool_)
    held[list(found)] = False
    return _reinterpreted(pc.if_else(pa.array(held), data, pa.scalar(None, pa.binary())))


def _is_utf8(text: pa.StringArray) -> bool:
    if _all_below(text, 128):
        return True
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _reinterpreted(array: pa.BinaryArray) -> pa.StringArray:
    valid, offsets, data = array.buffers()
    return pa.StringArray.from_buffers(
        len(array), offsets, data, valid, array.null_count, array.offset
    )


def _all_below(array: pa.BinaryArray, bound: int) -> bool:
    """Whether all bytes are below a bound; bytes of nulls, if any, count too."""
    _, offsets, data = array.buffers()
    if data is None:
        return True
    ends = np.frombuffer(offsets, np.int32)
    first, last = int(ends[array.offset]), int(ends[array.offset + len(array)])
    values = np.frombuffer(data, np.uint8)[first:last]
    return values.size == 0 or int(values.max()) < bound


def _translated(array: pa.BinaryArray, charset: str, form: _Form) -> pa.StringArray:
    frame = form.frame.copy()
    frame[f.DATA], frame[f.DATA_END], frame[f.OFFSETS] = layout(array)
    expected = array.nbytes + array.nbytes // 4
    try:
        native.will_read(array.nbytes)
        return write(native.reading("charset_text"), frame, array, expected, f"{charset} texts")
    except EventDecodeError:
        _explain(array, charset)
        raise


def _one_large(
    array: pa.BinaryArray,
    charset: str,
    form: _Form,
    sizes: np.ndarray[Any, np.dtype[np.int64]],
    *,
    spent: bool,
) -> pa.StringArray:
    """A large value of a set whose characters are one byte each, a piece at a time.

    The size of its text is counted first, so that only the text needs memory. The pages of a
    ``spent`` value are returned to the system while the text grows.
    """
    data, _, first = layout(array)
    start, stop = np.frombuffer(pa.foreign_buffer(first, 8), np.int32).tolist()
    values = np.frombuffer(pa.foreign_buffer(data + start, stop - start), np.uint8)
    counts = np.zeros(256, np.int64)
    for at in range(0, len(values), _PIECE):
        counts += np.bincount(values[at : at + _PIECE], minlength=256)
    size = int(counts @ sizes)
    if counts[sizes == 0].any() or size > LARGEST:
        return _translated(array, charset, form)  # this raises what is wrong
    text = Pages(size + 2 * f.ROOM)
    frame = form.frame.copy()
    bounds = np.array([*range(start, stop, _PIECE), stop], np.int32)
    ends = np.zeros(len(bounds), np.int32)
    frame[f.DATA], frame[f.DATA_END] = data, data + stop
    frame[f.OFFSETS], frame[f.OUT_OFFSETS] = bounds.ctypes.data, ends.ctypes.data
    frame[f.OUT], frame[f.CAPACITY] = text.address, text.size
    native.will_read(len(values))
    kernel = native.reading("charset_text")
    for number in range(len(bounds) - 1):
        frame[f.ROWS] = number + 1
        kernel(frame.ctypes.data)
        if spent:
            give_back(data + int(bounds[number]), int(bounds[number + 1] - bounds[number]))
    text.resize(size)
    offsets = pa.py_buffer(np.array([0, size], np.int32))
    return pa.StringArray.from_buffers(1, offsets, text.buffer())


def _explain(array: pa.BinaryArray, charset: str) -> None:
    """Raise the decoder's error for the first row that it cannot decode, if there is one."""
    for row, value in enumerate(array):
        if value.is_valid:
            try:
                decode(charset, value.as_py())
            except EventDecodeError as error:
                raise BadRow(error.message, row) from None


@dataclass(frozen=True, slots=True)
class _Form:
    """The kernel's parameters for a character set; ``plain`` if bytes below 128 are ASCII.

    ``sizes`` are the UTF-8 bytes of each byte's character, 0 if it has none; for sets of one byte
    per character.
    """

    plain: bool
    frame: np.ndarray[Any, np.dtype[np.int64]]
    tables: tuple[Table, ...] = ()
    sizes: np.ndarray[Any, np.dtype[np.int64]] | None = None


@cache
def _form(charset: str) -> _Form:
    frame = np.zeros(f.CHARSET_WORDS, np.int64)
    if charset in _WIDE:
        frame[f.WIDE] = _WIDE[charset]
        return _Form(False, frame)
    tables = _tables(charset)
    for word, table in zip((f.SINGLE, f.DOUBLE, f.TRIPLE, f.FOUR), tables, strict=True):
        frame[word] = table.ctypes.data if table.size else 0
    plain = bool((tables[0][:128] == np.arange(128)).all())
    frame[f.ASCII] = plain
    if tables[1].any():
        return _Form(plain, frame, tables)
    single = tables[0]
    bounds = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF])
    sizes = (single[:, None] > bounds).sum(axis=1, dtype=np.int64)
    sizes[0] = 1
    return _Form(plain, frame, tables, sizes)


def _tables(charset: str) -> tuple[Table, ...]:
    """Entries by one byte, by two, by three and by four; empty if the set has no such codes."""
    read = decoder(charset)
    single = np.zeros(256, np.uint32)
    double = np.zeros(65536, np.uint32)
    triple = np.zeros(65536 if charset in _TRIPLE else 0, np.uint32)
    four = np.zeros(f.FOUR_CODES if charset == "gb18030" else 0, np.uint32)

    def enter(table: Table, index: int, code: bytes) -> bool:
        try:
            table[index] = int.from_bytes(read(code).encode(), "little")
        except EventDecodeError:
            return False
        return True

    leads = [lead for lead in range(256) if not enter(single, lead, bytes([lead]))]
    for lead in leads:
        for second in range(256):
            enter(double, lead << 8 | second, bytes([lead, second]))
    if triple.size:
        for second in range(0xA1, 0xFF):
            for third in range(0xA1, 0xFF):
                enter(triple, second << 8 | third, bytes([0x8F, second, third]))
    for number in range(four.size):
        rest, fourth = divmod(number, 10)
        rest, third = divmod(rest, 126)
        first, second = divmod(rest, 10)
        enter(four, number, bytes([0x81 + first, 0x30 + second, 0x81 + third, 0x30 + fourth]))
    return single, double if leads else np.zeros(0, np.uint32), triple, four
