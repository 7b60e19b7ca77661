"""Lines that kernels wrote, one for each row: made printable, and put into the log's order."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tailrace.columns.frames import text as f
from tailrace.columns.native import kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

Array = np.ndarray[Any, Any]

_CODE_POINTS: Final = 0x110000
_PAGE: Final = 256
_FEW: Final = 16
"""A run with this many times fewer lines than another is inserted into it line by line."""
_WORTH_A_WRITE: Final = 1 << 15
"""From this average size of pieces on, writing each costs less than copying all."""
_LONG_ESCAPES: Final = 0x10000
"""From here on `repr` gives `_ESCAPE` characters for each character that is not printable."""
_ESCAPE: Final = len(r"\U0010ffff")


@dataclass(slots=True)
class Lines:
    """Lines with their line ends, and the position of each in the log.

    ``text`` are the bytes, ``offsets`` (int32) where each line begins in them and where the last
    ends. ``keys`` (int64) order the lines of a file: 32 bits of the event's offset, counted from a
    start offset, and 32 of the row's number in the event.
    """

    text: Array
    offsets: Array
    keys: Array

    @classmethod
    def of_rows(cls, texts: pa.StringArray, batch: pa.RecordBatch, start: int) -> Lines:
        """A batch's rows as a kernel wrote them, in texts without nulls.

        ``start`` is the offset from which the offsets in the keys are counted.
        """
        column = batch.column("_seq")
        places = np.frombuffer(column.buffers()[1], np.int64, 2 * len(batch), 16 * column.offset)
        low = places[::2]
        offsets = (places[1::2] & 0xFFFFFFF) << 16 | (low >> 48 & 0xFFFF)
        return cls.of(texts, (offsets - start) << 32 | (low & 0xFFFFFFFF))

    @classmethod
    def of(cls, texts: pa.StringArray, keys: Array, shown: Array | None = None) -> Lines:
        """Texts as a kernel wrote them: all, or those ``shown`` (bool), to which ``keys`` belong.

        Texts that are not shown are empty.
        """
        _, offsets, data = texts.buffers()
        bounds = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset)
        if shown is not None:
            bounds = np.append(bounds[:-1][shown], bounds[-1])
        return cls(np.frombuffer(data, np.uint8), bounds, keys)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def printable(self, escape: Callable[[str], str], keep: str = "") -> Lines:
        """The lines; those that hold characters that must not be printed are passed to ``escape``.

        It gets them without their line ends. ``keep`` is a character that may be printed.
        """
        count = len(self.offsets) - 1
        found = np.empty(max(count, 1), np.int64)
        frame = np.zeros(f.LINES_WORDS, np.int64)
        frame[f.L_TEXT] = start = self.text.ctypes.data
        frame[f.L_END] = start + int(self.offsets[-1])
        frame[f.L_OFFSETS], frame[f.L_ROWS] = self.offsets.ctypes.data, count
        frame[f.L_KEEP] = ord(keep) if keep else -1
        frame[f.L_FOUND] = found.ctypes.data
        count = kernel("odd_lines")(frame.ctypes.data)
        if count < 0:  # there are characters other than ASCII
            frame[f.L_PRINTABLE] = printable_characters().ctypes.data
            count = kernel("odd_lines")(frame.ctypes.data)
        odd = found[:count]
        return self if len(odd) == 0 else self._escaped(odd, escape)

    def _escaped(self, odd: Array, escape: Callable[[str], str]) -> Lines:
        view = memoryview(self.text)  # type: ignore[arg-type]  # arrays are buffers
        sizes = np.diff(self.offsets)
        pieces: list[bytes | memoryview] = []
        at = 0
        for row in odd.tolist():
            start, end = self.offsets[row : row + 2].tolist()
            line = escape(str(view[start : end - 1], "utf-8")).encode() + b"\n"
            pieces += (view[at:start], line)
            sizes[row] = len(line)
            at = end
        pieces.append(view[at : int(self.offsets[-1])])
        offsets = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        text = np.frombuffer(b"".join(pieces), np.uint8)
        return Lines(text, offsets.astype(np.int32), self.keys)


def in_order(runs: Sequence[Lines]) -> list[memoryview]:
    """The lines of several tables in the log's order, in pieces; each run is already in order."""
    runs = [run for run in runs if len(run.offsets) > 1]
    if len(runs) == 1:
        return [_view(runs[0])]
    if not runs:
        return []
    if len(runs) == 2 and min(map(len, runs)) * _FEW < max(map(len, runs)):
        pieces = _mixed(*sorted(runs, key=len))
        size = sum(map(len, pieces))
        return pieces if size > _WORTH_A_WRITE * len(pieces) else [memoryview(b"".join(pieces))]
    starts = np.concatenate(
        [run.offsets[:-1].astype(np.int64) + run.text.ctypes.data for run in runs]
    )
    sizes = np.concatenate([np.diff(run.offsets) for run in runs]).astype(np.int64)
    order = np.argsort(np.concatenate([run.keys for run in runs]), kind="stable")
    out = np.empty(int(sizes.sum()), np.uint8)
    frame = np.zeros(f.LINES_WORDS, np.int64)
    frame[f.L_ROWS] = len(order)
    frame[f.L_ORDER] = order.ctypes.data
    frame[f.L_STARTS], frame[f.L_SIZES] = starts.ctypes.data, sizes.ctypes.data
    frame[f.L_OUT] = out.ctypes.data
    kernel("gather_lines")(frame.ctypes.data)
    return [memoryview(out)]  # type: ignore[arg-type]  # arrays are buffers


def _view(run: Lines) -> memoryview:
    return memoryview(run.text)[: int(run.offsets[-1])]  # type: ignore[arg-type]  # as above


def _mixed(few: Lines, many: Lines) -> list[memoryview]:
    """Two runs merged, one with so few lines that the other's mostly stay together."""
    places = many.offsets[np.searchsorted(many.keys, few.keys)].tolist()
    view, other = _view(many), _view(few)
    begins = few.offsets.tolist()
    pieces: list[memoryview] = []
    at = 0
    for place, begin, end in zip(places, begins, begins[1:], strict=False):
        pieces += (view[at:place], other[begin:end])
        at = place
    pieces.append(view[at:])
    return pieces


@functools.cache
def printable_characters() -> Array:
    """A bit for each code point that Python calls printable, the lowest first."""
    table = np.ones(_CODE_POINTS, np.uint8)
    for begin in range(0, _CODE_POINTS, _PAGE):
        page = "".join(map(chr, range(begin, begin + _PAGE)))
        if page.isprintable():
            continue
        none = begin >= _LONG_ESCAPES and len(repr(page)) == _ESCAPE * _PAGE + 2
        table[begin : begin + _PAGE] = 0 if none else [each.isprintable() for each in page]
    return np.packbits(table, bitorder="little")
