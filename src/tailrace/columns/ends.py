"""Where the transactions of a stream end, and what becomes of their rows there.

A log that is read as it grows cannot be looked ahead in for what is taken back. But a source sends
a transaction when it has logged it to its end, so the end is waited for: what ROLLBACK or ROLLBACK
TO took back inside it is known then. An XA transaction's rows wait for its XA COMMIT.
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tailrace.columns import ends_frame as f
from tailrace.columns.native import kernel
from tailrace.constants import HEADER_SIZE, ChecksumAlgorithm, EventType, event_name
from tailrace.errors import BoundaryError
from tailrace.events import DecodeContext
from tailrace.events.header import bad_length, unpack_header
from tailrace.events.payload import TransactionPayloadEvent
from tailrace.events.query import QueryEvent
from tailrace.events.transaction import XaPrepareEvent
from tailrace.rollbacks import Rollbacks, XaName, prepared_in, xa_statement

if TYPE_CHECKING:
    from tailrace.events.base import Event

Array = np.ndarray[Any, Any]

_TRAIL: Final = rb"\s*(?:/\*.*)?\Z"
_BEGIN: Final = re.compile(rb"BEGIN" + _TRAIL + rb"|XA\s+START\b", re.DOTALL | re.IGNORECASE)
_END: Final = re.compile(
    rb"COMMIT" + _TRAIL + rb"|ROLLBACK\b(?!\s+(?:WORK\s+)?TO\b)", re.DOTALL | re.IGNORECASE
)
_PLACES: Final = {
    f.OUTSIDE: "between transactions",
    f.BEGUN: "right after a GTID",
    f.OPEN: "inside a transaction",
    f.SINGLE: "inside a group of one statement",
}


@dataclass(frozen=True, slots=True)
class Step:
    """The events up to the offset ``end`` are to be decoded, and then this is to be done.

    ``prepared``: they are an XA transaction's, whose rows wait. ``decided``: that XA transaction
    was committed (True) or rolled back (False).
    """

    end: int
    prepared: XaName | None = None
    decided: tuple[XaName, bool] | None = None


class Ends:
    """Fed with the events of a stream, block by block, it finds the ends of transactions.

    ``undone`` are the ranges of offsets in the file whose rows were taken back, as far as the steps
    go that were given last. It stays one and the same list.
    """

    def __init__(self) -> None:
        self.undone: list[tuple[int, int]] = []
        self.context = DecodeContext()
        self.file = ""
        self._rollbacks = Rollbacks()
        self._steps: list[Step] = []
        self._offset = 0
        self._frame = np.zeros(f.WORDS, np.int64)
        self._find = kernel("find_ends")

    def begin_file(self, name: str, description: bytes) -> None:
        """What comes next is of this file; an unfinished transaction is void."""
        self.file = name
        self.context = DecodeContext()
        self.context.decode(description, file=name, offset=4)
        with_checksum = self.context.checksum_algorithm is ChecksumAlgorithm.CRC32
        self._frame[f.CHECKSUM_BYTES] = 4 if with_checksum else 0
        self._frame[f.STATE] = f.OUTSIDE
        self._rollbacks = Rollbacks()
        self.undone.clear()

    @property
    def inside(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return bool(self._frame[f.STATE] != f.OUTSIDE)

    def feed(self, block: Array, offset: int) -> list[Step]:
        """The steps that whole events, which stand at ``offset``, lead to, in order.

        What is behind the last step is a transaction that has not ended. Where one had not ended
        before, the first step is its end. Raises BoundaryError, EventDecodeError.
        """
        frame = self._frame
        start = int(block.ctypes.data)
        frame[f.CURSOR] = start
        frame[f.END] = start + len(block)
        frame[f.BASE] = offset - start
        frame[f.FIRST] = frame[f.LAST] = -1
        went_on = self.inside
        self._offset = offset
        began = int(frame[f.BEGAN]) if went_on else offset
        self.undone[:] = [bounds for bounds in self.undone if bounds[1] > began]
        steps = self._steps = []
        while self._find(frame.ctypes.data) != f.DONE:
            self._stop()
        first, last = int(frame[f.FIRST]), int(frame[f.LAST])
        if last >= 0 and (not steps or steps[-1].end < last):
            steps.append(Step(last))
        if went_on and steps and steps[0].end > first:
            steps.insert(0, Step(first))
        return steps

    def _stop(self) -> None:
        """Look at the event at the cursor, and go on behind it."""
        frame = self._frame
        cursor = int(frame[f.CURSOR])
        event = self._event(cursor)
        kind = event.type
        state = int(frame[f.STATE])
        if kind == EventType.TRANSACTION_PAYLOAD and state in {f.OUTSIDE, f.BEGUN}:
            self._end(event, _prepared_inside(event))
        elif isinstance(event, XaPrepareEvent) and state == f.OPEN:
            self._end(event, _name(event))
        elif kind == EventType.INCIDENT:
            if state != f.OPEN:
                self._end(event)
        elif isinstance(event, QueryEvent):
            self._statement(event, state)
        elif kind in {
            EventType.EXECUTE_LOAD_QUERY,
            EventType.LOAD,
            EventType.NEW_LOAD,
            EventType.EXEC_LOAD,
            EventType.DELETE_FILE,
        }:
            if state != f.OPEN:
                self._end(event)
        else:
            raise event.error(
                f"it cannot come {_PLACES[state]}; reading must begin, and go on, where a"
                " transaction ends",
                BoundaryError,
            )
        frame[f.CURSOR] += event.header.length

    def _event(self, cursor: int) -> Event:
        header = unpack_header(ctypes.string_at(cursor, HEADER_SIZE))
        size, offset = header[3], int(cursor + self._frame[f.BASE])
        tail = int(self._frame[f.CHECKSUM_BYTES])
        if not HEADER_SIZE + tail <= size <= int(self._frame[f.END]) - cursor:
            raise bad_length(size, tail=tail).at(self.file, offset, event_name(header[1]))
        raw = ctypes.string_at(cursor, size)
        # Its checksum is verified where it is decoded.
        return self.context.decode(raw, file=self.file, offset=offset, verify_checksum=False)

    def _statement(self, event: QueryEvent, state: int) -> None:
        frame = self._frame
        sql = event.sql_bytes
        if state < f.OPEN and _BEGIN.match(sql):
            if state == f.OUTSIDE:
                frame[f.BEGAN] = event.offset or 0
            frame[f.STATE] = f.OPEN
        elif state == f.OPEN:
            self._note(event)
            if _END.match(sql):
                self._end(event)
        else:
            said = xa_statement(event)
            if said is None or said[0] == "START":
                self._end(event)
            else:
                self._end(event, decided=(said[1], said[0] == "COMMIT"))

    def _note(self, event: QueryEvent) -> None:
        """Take in a statement inside a transaction: it may take rows back."""
        ranges = self._rollbacks.ranges
        self._rollbacks.feed(event, {self.file: int(self._frame[f.BEGAN])})
        self.undone += [(start, end) for _, start, end in ranges]
        ranges.clear()

    def _end(
        self,
        event: Event,
        prepared: XaName | None = None,
        decided: tuple[XaName, bool] | None = None,
    ) -> None:
        """A transaction ends with this event."""
        frame, steps = self._frame, self._steps
        end = event.end_offset or 0
        if prepared is not None or decided is not None:
            before = steps[-1].end if steps else self._offset
            if prepared is not None and before < frame[f.BEGAN]:
                steps.append(Step(int(frame[f.BEGAN])))
            steps.append(Step(end, prepared, decided))
        frame[f.STATE] = f.OUTSIDE
        frame[f.LAST] = end
        if frame[f.FIRST] < 0:
            frame[f.FIRST] = end


def _name(event: XaPrepareEvent) -> XaName | None:
    """The XA transaction that was prepared; None where it was committed at once."""
    xid = event.xid
    return None if event.one_phase else (xid.format_id, xid.gtrid, xid.bqual)


def _prepared_inside(payload: Event) -> XaName | None:
    """The XA transaction that a compressed transaction prepares."""
    if not isinstance(payload, TransactionPayloadEvent):
        return None
    return prepared_in(payload.pieces(), payload.form)
