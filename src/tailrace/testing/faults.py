"""What is below a stream under test: an input and an output that fail on request."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from tailrace.errors import StorageError
from tailrace.storage.streams.base import check_count, check_cut, check_offset, check_within

if TYPE_CHECKING:
    from random import Random

    from tailrace.storage.streams.base import Data

FAULTS: Final = {
    "disk full": errno.ENOSPC,
    "I/O error": errno.EIO,
    "connection reset": errno.ECONNRESET,
}
"""The errors that can occur, as the operating system's numbers."""


class Faults:
    """Makes one call fail: the ``at``-th of all (from 0), with this error number; None: no call.

    ``calls`` counts the calls; ``told`` is a text in the error's message.
    """

    def __init__(self, at: int | None = None, number: int = errno.EIO) -> None:
        self.at = at
        self.number = number
        self.calls = 0
        self.done = False
        self.told = os.strerror(number)

    def due(self) -> bool:
        """Whether this call fails."""
        call, self.calls = self.calls, self.calls + 1
        if call != self.at:
            return False
        self.done = True
        return True

    def refusal(self) -> StorageError:
        """The error."""
        error = StorageError(f"store: {self.told}")
        error.__cause__ = OSError(self.number, self.told)
        return error


class FaultyOutput:
    """A `RandomOutput` in memory that knows what would survive a power failure.

    ``data`` is what was written to it, ``durable`` what the last `sync` acknowledged. A write that
    fails has stored ``share`` of its bytes.
    """

    def __init__(self, faults: Faults | None = None, share: float = 0.5) -> None:
        self.data = bytearray()
        self.durable = b""
        self.closed = False
        self.faults = faults or Faults()
        self._share = share
        self._later: list[tuple[int, bytes | None]] = []

    @property
    def size(self) -> int:
        """The number of bytes stored."""
        return len(self.data)

    def write(self, data: Data, /) -> None:
        """Append; on a failure only a part."""
        self._check_open()
        if self.faults.due():
            self._put(len(self.data), bytes(data)[: int(len(data) * self._share)])
            raise self.faults.refusal()
        self._put(len(self.data), bytes(data))

    def update(self, offset: int, data: Data, /) -> None:
        """Overwrite; on a failure only a part."""
        self._check_open()
        check_within(offset, len(data), len(self.data))
        if self.faults.due():
            self._put(offset, bytes(data)[: int(len(data) * self._share)])
            raise self.faults.refusal()
        self._put(offset, bytes(data))

    def _put(self, offset: int, data: bytes) -> None:
        self.data[offset : offset + len(data)] = data
        self._later.append((offset, data))

    def truncate(self, size: int, /) -> None:
        """Cut off."""
        self._check_open()
        check_cut(size, len(self.data))
        self._check_faults()
        del self.data[size:]
        self._later.append((size, None))

    def flush(self) -> None:
        """Do nothing."""
        self._check()

    def sync(self) -> None:
        """Everything would now survive a power failure."""
        self._check()
        self.durable = bytes(self.data)
        self._later.clear()

    def close(self) -> None:
        """Close; a failure here is an error, but the store is then closed too."""
        if not self.closed:
            self.closed = True
            self._check_faults()

    def _check_open(self) -> None:
        if self.closed:
            raise StorageError("store: it was closed")

    def _check(self) -> None:
        self._check_open()
        self._check_faults()

    def _check_faults(self) -> None:
        if self.faults.due():
            raise self.faults.refusal()

    def after_power_cut(self, chance: Random) -> bytes:
        """What can remain after it: what was synced, and some prefix of what was written later."""
        data = bytearray(self.durable)
        kept = chance.randint(0, len(self._later))
        for index, (offset, piece) in enumerate(self._later[: kept + 1]):
            if piece is None:
                if index < kept:
                    del data[offset:]
                continue
            part = piece if index < kept else piece[: chance.randint(0, len(piece))]
            data[offset : offset + len(part)] = part
        return bytes(data)


class FaultyInput:
    """A `RandomInput` over bytes that may grow, with failures and, by ``chance``, short reads."""

    def __init__(
        self,
        data: bytes | bytearray,
        faults: Faults | None = None,
        chance: Random | None = None,
    ) -> None:
        self.faults = faults or Faults()
        self.closed = False
        self._data = data
        self._chance = chance
        self._at = 0

    def read(self, count: int, /) -> bytes:
        """Some bytes, often fewer than requested."""
        self._check()
        check_count(count)
        if self._chance is not None and count > 1:
            count = self._chance.choice((1, count // 2, count, self._chance.randint(1, count)))
        data = bytes(self._data[self._at : self._at + count])
        self._at += len(data)
        return data

    def readinto(self, view: bytearray | memoryview, /) -> int:
        """As `read`."""
        data = self.read(len(view)) if len(view) else b""
        view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, /) -> int:
        """Move to an offset."""
        self._check()
        check_offset(offset)
        self._at = offset
        return offset

    def tell(self) -> int:
        """The current offset."""
        return self._at

    def size(self) -> int:
        """The number of bytes stored."""
        self._check()
        return len(self._data)

    def close(self) -> None:
        """Close."""
        self.closed = True

    def _check(self) -> None:
        if self.closed:
            raise StorageError("store: it was closed")
        if self.faults.due():
            raise self.faults.refusal()
