"""Where the transactions of a stream end, and what happens to their rows there.

A log that grows while it is read cannot be read ahead for what is rolled back. But a source sends a
transaction only when it has logged all of it, so this waits for the end: what ROLLBACK or ROLLBACK
TO rolled back inside it is known then. An XA transaction's rows wait for its XA COMMIT.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tailrace.columns.frames import plan as k
from tailrace.columns.frames import scan as f
from tailrace.columns.native import kernel
from tailrace.columns.read.grammar import STEPS, place, state_after, types_of
from tailrace.columns.read.payload_heads import PayloadHeads
from tailrace.constants import HEADER_SIZE, event_name
from tailrace.events import DecodeContext
from tailrace.events.header import bad_length, unpack_header
from tailrace.events.query import QueryEvent
from tailrace.transaction import Boundary, BoundaryParser, State
from tailrace.transaction.committed import TO_THE_END, Rollbacks
from tailrace.transaction.statements import xa_name

if TYPE_CHECKING:
    from tailrace.events.base import Event
    from tailrace.events.transaction import XaName

Array = np.ndarray[Any, Any]

_ROOM: Final = 1 << 8


@dataclass(frozen=True, slots=True)
class DecodeStep:
    """The events up to the offset ``end`` must be decoded, and then this step be done.

    ``prepared``: they are an XA transaction's, whose rows wait. ``decided``: that XA transaction
    was committed (True) or rolled back (False).
    """

    end: int
    prepared: XaName | None = None
    decided: tuple[XaName, bool] | None = None


class Ends:
    """Finds the ends of transactions. Fed with the events of a stream, block by block.

    ``left_out`` are the ranges of offsets in the file whose rows were rolled back, up to the end of
    the steps given last.
    """

    def __init__(self) -> None:
        self.left_out: list[tuple[int, int]] = []
        self.context = DecodeContext()
        self.file = ""
        self._parser = BoundaryParser()
        self._rollbacks = Rollbacks()
        self._heads = PayloadHeads()
        self._steps: list[DecodeStep] = []
        self._offset = 0
        self._payloads = np.zeros((_ROOM, k.PAYLOAD_WORDS), np.int64)
        frame = self._frame = np.zeros(f.WORDS, np.int64)
        frame[f.STATE] = State.OUTSIDE
        frame[f.STEPS] = STEPS.ctypes.data
        frame[f.PAYLOADS] = self._payloads.ctypes.data
        frame[f.PAYLOAD_CAPACITY] = _ROOM
        frame[[f.BOUND_TARGET, f.INNER_TARGET]] = TO_THE_END
        self._scan = kernel("scan_events")  # a source that is followed has no small log

    def begin_file(self, name: str, description: bytes) -> None:
        """The next events are of this file; an unfinished transaction is void."""
        self.file = name
        self.context = DecodeContext()
        self.context.decode(description, file=name, offset=4)
        self._types = types_of(self.context.format)
        self._frame[f.TYPES] = self._types.ctypes.data
        self._frame[f.CHECKSUM_BYTES] = self.context.checksum_algorithm.size
        self._frame[f.STATE] = State.OUTSIDE
        self._rollbacks = Rollbacks()
        self.left_out.clear()

    @property
    def inside(self) -> bool:
        """Whether a transaction has started and not ended."""
        return bool(self._frame[f.STATE] & 0xFF != State.OUTSIDE)

    def feed(self, block: Array, offset: int) -> list[DecodeStep]:
        """The steps for whole events at the file's ``offset``, in order.

        The events after the last step belong to a transaction that has not ended. If one was
        unfinished before, the first step is its end. Raises BoundaryError, EventDecodeError.
        """
        frame = self._frame
        start = int(block.ctypes.data)
        frame[f.CURSOR] = start
        frame[f.END] = start + len(block)
        frame[f.BASE] = offset - start
        frame[f.FIRST_END] = -1
        went_on = self.inside
        self._offset = offset
        began = int(frame[f.BEGAN]) if went_on else offset
        self.left_out[:] = [bounds for bounds in self.left_out if bounds[1] > began]
        steps = self._steps = []
        while (reason := self._scan(frame.ctypes.data)) != f.DONE:
            self._stop(reason)
        self._drain()
        if frame[f.CURSOR] < frame[f.END]:
            self._event(int(frame[f.CURSOR]))  # raises the reason why it is not whole
        first = int(frame[f.FIRST_END])
        last = int(frame[f.BEGAN]) if self.inside else offset + len(block)
        if last > (steps[-1].end if steps else offset):
            steps.append(DecodeStep(last))
        if went_on and steps and steps[0].end > first >= 0:
            steps.insert(0, DecodeStep(first))
        return steps

    def _drain(self) -> None:
        """Take in the payloads that the kernel has noted since the last call."""
        frame = self._frame
        payloads = self._payloads[: frame[f.PAYLOAD_COUNT]]
        frame[f.PAYLOAD_COUNT] = 0
        if len(payloads):
            tail, base = int(frame[f.CHECKSUM_BYTES]), -int(frame[f.BASE])
            for name, offset, size, began in self._heads.prepared_among(
                payloads, base, tail, self.context.format, self.file
            ):
                self._prepared(name, began, offset + size)

    def _stop(self, reason: int) -> None:
        """Handle the event at the cursor, and continue after it."""
        frame = self._frame
        self._drain()
        if reason == f.FULL:
            return
        event = self._event(int(frame[f.CURSOR]))
        inside, end = self.inside, event.end_offset or 0
        boundary = place(self._parser, int(frame[f.STATE]), event)
        frame[f.STATE] = state_after(self._parser)
        if not inside:
            frame[f.BEGAN] = event.offset or 0
        elif isinstance(event, QueryEvent):
            self._note(event)
        if boundary is Boundary.END:
            if frame[f.FIRST_END] < 0:
                frame[f.FIRST_END] = end
            self._end(event, end)
        frame[f.CURSOR] += event.header.length

    def _event(self, cursor: int) -> Event:
        header = unpack_header(ctypes.string_at(cursor, HEADER_SIZE))
        size, offset = header[3], int(cursor + self._frame[f.BASE])
        tail = int(self._frame[f.CHECKSUM_BYTES])
        if not HEADER_SIZE + tail <= size <= int(self._frame[f.END]) - cursor:
            raise bad_length(size, tail=tail).at(self.file, offset, event_name(header[1]))
        raw = ctypes.string_at(cursor, size)
        # Its checksum is verified when it is decoded.
        return self.context.decode(raw, file=self.file, offset=offset, verify_checksum=False)

    def _note(self, event: QueryEvent) -> None:
        """Take in a statement inside a transaction: it may roll rows back."""
        ranges = self._rollbacks.ranges
        self._rollbacks.feed(event, {self.file: int(self._frame[f.BEGAN])})
        self.left_out += [(start, end) for _, start, end in ranges]
        ranges.clear()

    def _end(self, event: Event, end: int) -> None:
        """A transaction ends with this event, which may prepare, commit or roll back an XA
        transaction.
        """
        said = xa_name(event)
        if said is None or said[0] == "START":
            return
        how, name = said
        if how == "PREPARE":
            self._prepared(name, int(self._frame[f.BEGAN]), end)
        else:
            self._steps.append(DecodeStep(end, decided=(name, how == "COMMIT")))

    def _prepared(self, name: XaName, began: int, end: int) -> None:
        """The transaction that began and ends there prepares an XA transaction."""
        steps = self._steps
        if (steps[-1].end if steps else self._offset) < began:
            steps.append(DecodeStep(began))
        steps.append(DecodeStep(end, prepared=name))
