"""Rows of XA transactions that were prepared, until it is decided what becomes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tailrace.storage.streams.temporary import TemporaryOutput

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.transactions.statements import XaName

_MOST_HELD: Final = 64 << 20
"""Bytes of batches that are held in memory, of all transactions together."""


class _Rows:
    """The batches of one transaction: first those in memory, behind them those in a file."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.bytes = 0
        self._file: TemporaryOutput | None = None
        self._sizes: list[int] = []

    def add(self, batch: pa.RecordBatch, room: int) -> int:
        """Take in a batch; how many bytes of memory it holds on to."""
        if self._file is None and batch.nbytes <= room:
            self.batches.append(batch)
            self.bytes += batch.nbytes
            return int(batch.nbytes)
        if self._file is None:
            self._file = TemporaryOutput("the temporary file of a prepared XA transaction")
        data: Any = pa.BufferOutputStream()
        with pa.ipc.new_stream(data, batch.schema) as writer:
            writer.write_batch(batch)
        view = memoryview(data.getvalue())
        self._file.write(view)
        self._sizes.append(len(view))
        return 0

    def give(self) -> Iterator[pa.RecordBatch]:
        """The batches, in order."""
        yield from self.batches
        if self._file is None:
            return
        self._file.flush()
        source = self._file.input()
        for size in self._sizes:
            data = bytearray(size)
            view = memoryview(data)
            while view:
                view = view[source.readinto(view) :]
            with pa.ipc.open_stream(data) as reader:
                yield reader.read_next_batch()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()


class Prepared:
    """Batches by the name of their XA transaction; past a bound they go to temporary files.

    Raises StorageError where such a file cannot be made or written.
    """

    def __init__(self, most: int = _MOST_HELD) -> None:
        self._room = most
        self._held: dict[XaName, _Rows] = {}

    def hold(self, name: XaName, batches: Iterable[pa.RecordBatch]) -> None:
        """Keep a transaction's batches; one of the same name that was there is over."""
        self.drop(name)
        rows = self._held[name] = _Rows()
        for batch in batches:
            self._room -= rows.add(batch, self._room)

    def take(self, name: XaName) -> Iterator[pa.RecordBatch]:
        """Give the batches of a transaction, in order, and let go of it."""
        rows = self._held.get(name)
        if rows is not None:
            yield from rows.give()
            self.drop(name)

    def drop(self, name: XaName) -> None:
        """Let go of a transaction, if it is there."""
        rows = self._held.pop(name, None)
        if rows is not None:
            self._room += rows.bytes
            rows.close()

    def __contains__(self, name: XaName) -> bool:
        return name in self._held

    def __iter__(self) -> Iterator[XaName]:
        """The names, in the order in which they were prepared."""
        return iter(list(self._held))

    def close(self) -> None:
        """Let go of all."""
        for name in self:
            self.drop(name)
