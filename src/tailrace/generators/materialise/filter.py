"""Filters between two materialised streams (MWL#120, "Default materialisation format").

What passes is copied as bytes: a kernel walks the heads of frames and decides by their kind and
table. Only what the filter asks for is decoded.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tailrace.errors import EventDecodeError, LogError, UsageError
from tailrace.extras import importing
from tailrace.generators.event import ReplicationEvent, kept, place_of
from tailrace.generators.formats import output_to
from tailrace.generators.materialise import layout as t
from tailrace.generators.materialise.blocks import BlockReader
from tailrace.generators.materialise.decode import Dictionary
from tailrace.generators.materialise.frames import frame_at
from tailrace.generators.materialise.writer import NativeWriter
from tailrace.generators.row import ModifiedTable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.generators.formats import Output, Source
    from tailrace.generators.materialise.blocks import Block

E = TypeVar("E", bound=ReplicationEvent)

_KINDS: Final = 1 << 16
_SLACK: Final = 32
"""Bytes that the kernel may write after what it copies."""


class Action(IntEnum):
    """What a filter does with the events of a kind, or of a table."""

    PASS = 0
    """They pass as bytes."""
    DROP = 1
    DECODE = 2
    """`Filter.event` gets each, and says what is written in its place."""


class Filter:
    """Reads a stream of materialised events and writes another; subclasses say what changes.

    `of_event` and `of_table` are asked once for each kind of events and each table (in each
    definition of it); by default all pass. What passes is neither decoded nor copied event by
    event. Needs the extra ``columns``.

    >>> import tailrace.generators as generators
    >>> class WithoutReviews(generators.Filter):
    ...     def of_table(self, table):
    ...         reviews = table.name == "reviews"
    ...         return generators.Action.DROP if reviews else generators.Action.PASS
    >>> whole, part = bytearray(), bytearray()
    >>> with generators.EventStream("examples/shop/mysql") as log:
    ...     with generators.Materialiser(whole) as materialiser:
    ...         registration = materialiser.register(log.row)
    ...         log.run()
    >>> WithoutReviews().run(whole, part)
    >>> len(part) < len(whole)
    True
    """

    def of_event(self, name: str) -> Action:
        """What to do with events of a name; for PASS, those of rows are decided by `of_table`."""
        del name
        return Action.PASS

    def of_table(self, table: ModifiedTable) -> Action:
        """What to do with the events of a table whose kind passes."""
        del table
        return Action.PASS

    def event(self, event: ReplicationEvent) -> Iterable[ReplicationEvent]:
        """What to write in place of an event: itself, others, or nothing.

        The event lasts. `ReplicationEvent.replace` makes a changed copy, and `injected` an event
        of another kind in the same transaction.
        """
        return (event,)

    def end(self) -> Iterable[ReplicationEvent]:
        """What to write at the end of all."""
        return ()

    def run(self, source: Source, target: object) -> None:
        """Filter a whole source; both are given as for `MaterialisedStream` and `Materialiser`.

        Each block that was read is written before the next is read. Raises LogError, with the
        offset, where the stream is damaged, also in what passes; UsageError if the stream has
        passed through 15 filters already (materialise it again).
        """
        output = output_to(target)
        blocks = BlockReader(source)
        walk: _Walk | None = None
        for block in blocks:
            if block.begins:
                if walk is not None:
                    walk.writer.close()
                if block.depth >= t.MOST_DEPTH:
                    raise UsageError(
                        f"the stream has passed through {block.depth} filters, the most that there"
                        " may be: read it with MaterialisedStream and materialise it again"
                    )
                walk = _Walk(self, output, block.depth + 1, blocks.file)
            if walk is not None:
                walk.block(block)
        writer = NativeWriter(output) if walk is None else walk.writer
        for event in self.end():
            writer.event(event)
        writer.close()


def injected(kind: type[E], into: ReplicationEvent, **values: Any) -> E:
    """A new event of a kind, with these values, in the transaction of another event."""
    place = place_of(into)
    return kept(kind, {"local_transaction_id": place.transaction, **values}, place)


class _Walk:
    """The way through the blocks of one stream."""

    def __init__(self, of: Filter, output: Output, depth: int, file: str | None) -> None:
        with importing("columns", "a filter of materialised streams"):
            import numpy as np  # noqa: PLC0415 - law 2: tailrace imports neither

            from tailrace.columns.frames import materialised as f  # noqa: PLC0415
            from tailrace.columns.native import kernel  # noqa: PLC0415
        self._np, self._f = np, f
        self._kernel = kernel("filter_frames")
        self._filter = of
        self.writer = NativeWriter(output, depth=depth)
        self._file = file
        self._dictionary = Dictionary()
        self._words = np.zeros(f.WORDS, np.int64)
        self._kinds = np.full(_KINDS, f.UNKNOWN, np.uint8)
        self._kinds[t.DEFINITION] = f.DEFINITION
        self._words[f.KINDS] = self._kinds.ctypes.data
        self._copied = np.empty(t.BLOCK_SIZE + _SLACK, np.uint8)
        self._view = self._copied.data
        self._tables = np.full(1 << 10, f.UNKNOWN, np.uint8)
        self._say_tables()
        self._counted = 0
        self._defined = 0

    def _say_tables(self) -> None:
        f = self._f
        self._words[f.TABLES] = self._tables.ctypes.data
        self._words[f.TABLE_COUNT] = len(self._tables)

    def block(self, block: Block) -> None:
        """Filter a block, and write what is left of it."""
        f, words, data = self._f, self._words, block.frames
        array = self._np.frombuffer(data, self._np.uint8)
        start = array.ctypes.data
        if len(self._copied) < len(data) + _SLACK:
            self._copied = self._np.empty(len(data) + _SLACK, self._np.uint8)
            self._view = self._copied.data
        words[f.CURSOR] = words[f.BEGIN] = words[f.RUN] = start
        words[f.END] = start + len(data)
        words[f.OUT] = self._copied.ctypes.data
        words[f.PASSED] = self._counted = 0
        while (reason := self._kernel(words.ctypes.data)) != f.DONE:
            at = int(words[f.CURSOR]) - start
            if reason == f.DEFINITION:
                words[f.CURSOR] += self._define(data, at, block.offset)
                words[f.PASSED] += 1
            elif reason == f.DECODE:
                words[f.CURSOR] = words[f.RUN] = start + self._decode(data, at, block.offset)
            else:
                raise self._damaged(data, at, block.offset)
        if words[f.RUN] == start:
            self.writer.flush()
            self.writer.passed(block.head, data)
            return
        self._take_out()
        self.writer.flush()

    def _take_out(self) -> None:
        """Give the writer what the kernel copied."""
        f, words = self._f, self._words
        size = int(words[f.OUT]) - self._copied.ctypes.data
        if size:
            passed = int(words[f.PASSED])
            self.writer.frames(self._view[:size], passed - self._counted)
            self._counted = passed
            words[f.OUT] = self._copied.ctypes.data

    def _define(self, data: bytes, at: int, offset: int) -> int:
        """Take in a definition, and decide about what it defines; its frame's bytes."""
        size = int.from_bytes(data[at : at + 4], "little")
        try:
            sort, number = self._dictionary.define(data, at + t.HEAD, at + size)
        except LogError as error:
            raise error.at(self._file, offset + at) from None
        if sort == "event":
            name = self._dictionary.kinds[number].name
            self._kinds[number] = Action(self._filter.of_event(name))
        elif sort == "value":
            table = self._dictionary.shared[number]
            if isinstance(table, ModifiedTable):
                if number >= len(self._tables):
                    more = self._np.full(2 * number, self._f.UNKNOWN, self._np.uint8)
                    self._tables = self._np.concatenate((self._tables, more))
                    self._say_tables()
                self._tables[number] = Action(self._filter.of_table(table))
        return size

    def _decode(self, data: bytes, at: int, offset: int) -> int:
        """Write what the filter makes of an event; where its frame ends."""
        self._take_out()
        frame = frame_at(data, at, self._dictionary, self._file, offset)
        if frame is None:  # only a definition gives none, and the kernel tells these apart
            raise self._damaged(data, at, offset)
        event = frame.event
        for made in self._filter.event(event):
            if made is event:
                self.writer.frames(memoryview(data)[at : frame.end], 1)
            else:
                self.writer.event(made)
        return frame.end

    def _damaged(self, data: bytes, at: int, offset: int) -> LogError:
        """What is wrong with a frame that the kernel did not take."""
        try:
            frame_at(data, at, self._dictionary, self._file, offset)
        except LogError as error:
            return error
        return EventDecodeError(
            "an event of a table that is not defined", file=self._file, offset=offset + at
        )
