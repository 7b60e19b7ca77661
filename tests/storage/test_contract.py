"""The contract suite catches streams that break the contract, each by the check meant for it."""

from __future__ import annotations

import struct
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from tailrace.errors import StorageError
from tailrace.storage.streams.buffer import BufferRandomInput, BufferRandomOutput
from tailrace.storage.streams.counting import CountingRandomInput, CountingRandomOutput
from tailrace.storage.streams.layer import Layer
from tailrace.testing import (
    BrokenContract,
    StreamContract,
    check,
    check_growth,
    check_read_faults,
    check_reading,
    check_sync,
    check_write_faults,
    check_writing,
)
from tests.cases import each_case


class SyncKeepsBuffer(BufferRandomOutput):
    def sync(self):
        self.lower.sync()


class FlushForSync(CountingRandomOutput):
    def sync(self):
        self.lower.flush()


class DropsWhatFailed(BufferRandomOutput):
    def _spill(self):
        held, self._end = self._held.getvalue()[: self._end], 0
        self._held.seek(0)
        self.lower.write(held)
        self._below += len(held)


class WritesAgainWhatWasWritten(BufferRandomOutput):
    def _spill(self):
        self.lower.write(self._held.getvalue()[: self._end])
        self._held.seek(0)
        self._below += self._end
        self._end = 0


class HidesFullDisks(CountingRandomOutput):
    def write(self, data, /):
        with suppress(StorageError):
            self.lower.write(data)


class UpdatesBelowOnly(BufferRandomOutput):
    def update(self, offset, data, /):
        if offset + len(data) <= self.lower.size:
            self.lower.update(offset, data)


class CutsBelowOnly(BufferRandomOutput):
    def truncate(self, size, /):
        self.lower.truncate(min(size, self.lower.size))


class LetsCutBehindTheEnd(CountingRandomOutput):
    def truncate(self, size, /):
        self.lower.truncate(min(size, self.size))


class NeverClosesBelow(CountingRandomOutput):
    def __init__(self, lower):
        super().__init__(lower)
        self.close = lambda: None


class WritesOnAfterClose(BufferRandomOutput):
    """Takes what will never be stored, or is stored nevertheless."""

    def close(self):
        if self._end:
            self._spill()
        self.lower.close()


class FlushesAfterClose(CountingRandomOutput):
    def close(self):
        super().close()
        self.flush = lambda: None


class KeepsAReference(CountingRandomOutput):
    """Holds what it was given instead of a copy."""

    held: Any = b""

    @property
    def size(self):
        return self.lower.size + len(self.held)

    def write(self, data, /):
        self.flush()
        self.held = data

    def __init__(self, lower):
        super().__init__(lower)
        self.flush = self._spill
        self.close = lambda: (self._spill(), lower.close())

    def _spill(self):
        held, self.held = self.held, b""
        if held:
            self.lower.write(held)

    def sync(self):
        self._spill()
        self.lower.sync()

    def update(self, offset, data, /):
        self._spill()
        self.lower.update(offset, data)

    def truncate(self, size, /):
        self._spill()
        self.lower.truncate(size)


class EndsAtShortReads(CountingRandomInput):
    ended = False

    def read(self, count, /):
        data = b"" if self.ended else self.lower.read(count)
        self.ended = len(data) < count
        return data


class SeeksNowhere(BufferRandomInput):
    def seek(self, offset, /):
        return offset


class HidesErrors(CountingRandomInput):
    def read(self, count, /):
        try:
            return self.lower.read(count)
        except StorageError:
            return b""


class LosesWhatItHeld(BufferRandomInput):
    """Moves on before what it asked for has come."""

    def _read_at(self, offset, count):
        self._at += 1
        data = super()._read_at(offset, count)
        self._at -= 1
        return data


class RemembersItsSize(CountingRandomInput):
    def __init__(self, lower):
        super().__init__(lower)
        size = lower.size()
        self.size = lambda: size


class LeavesBelowOpen(CountingRandomInput):
    def close(self):
        pass


class GoesBelowZero(BufferRandomInput):
    def seek(self, offset, /):
        self._at = offset
        return offset


class SaysItInPython(BufferRandomInput):
    """A wrong offset, and a closed stream, are Python's errors."""

    def seek(self, offset, /):
        if offset < 0:
            raise ValueError(offset)
        return super().seek(offset)


class ReadsAllAsPythonDoes(BufferRandomInput):
    def read(self, count, /):
        return super().read(self.size() if count in (-1, None) else count)


class GoesNowhereFar(BufferRandomInput):
    """Offsets are the system's 64-bit numbers."""

    def seek(self, offset, /):
        there = super().seek(offset)
        struct.pack("q", offset)
        return there


class ReadsOnAfterClose(BufferRandomInput):
    def close(self):
        self.lower.close()


class RaisesOfItsOwnAfterClose(BufferRandomInput):
    closed = False

    def read(self, count, /):
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return super().read(count)

    def close(self):
        self.closed = True
        self.lower.close()


BROKEN = {
    check_sync: [SyncKeepsBuffer, FlushForSync],
    check_write_faults: [DropsWhatFailed, WritesAgainWhatWasWritten, HidesFullDisks],
    check_writing: [
        *(UpdatesBelowOnly, CutsBelowOnly, LetsCutBehindTheEnd, NeverClosesBelow),
        *(KeepsAReference, WritesOnAfterClose, FlushesAfterClose),
    ],
    check_reading: [
        *(EndsAtShortReads, SeeksNowhere, LeavesBelowOpen, GoesBelowZero, SaysItInPython),
        *(ReadsAllAsPythonDoes, GoesNowhereFar, ReadsOnAfterClose, RaisesOfItsOwnAfterClose),
    ],
    check_read_faults: [HidesErrors, LosesWhatItHeld],
    check_growth: [RemembersItsSize],
}


def small(kind):
    """A stream that is made with a small buffer, if it has one."""
    has_one = issubclass(kind, (BufferRandomInput, BufferRandomOutput))
    return partial(kind, limit=100) if has_one else kind


@each_case(("kind", "meant"), [(kind, meant) for meant, kinds in BROKEN.items() for kind in kinds])
def test_a_broken_stream_is_caught(kind, meant):
    layer = Layer("", output=small(kind)) if hasattr(kind, "write") else Layer("", small(kind))

    class AsTests(StreamContract):
        seeds = range(10)

    AsTests.layer = layer
    with pytest.raises(BrokenContract):
        getattr(AsTests(), meant.__name__.replace("check", "test"))()


def test_what_keeps_it_passes():
    check(Layer("", small(BufferRandomInput), small(BufferRandomOutput)))


class ReadsOnly:
    def __init__(self, lower):
        self.read = lower.read


def test_an_input_that_only_reads_lacks_its_close_alone():
    layer = Layer("", ReadsOnly, small(BufferRandomOutput))
    for passes in (check_growth, check_read_faults, check_writing):
        passes(layer)
    with pytest.raises(BrokenContract, match="no close"):
        check(layer)


def test_the_message_says_what_differs():
    class Wrong(CountingRandomInput):
        def read(self, count, /):
            return self.lower.read(count).replace(b"\0", b"\1")

    with pytest.raises(BrokenContract, match=r"beginning to end: .* offset \d+: 01"):
        check(Layer("", Wrong))
