"""What streams cost: a plain file, read and written, against the whole chain, in one run.

Plain is Python's own unbuffered file object. The chain is what a log is written and read through:
counting, the buffer in `BinlogFile`, a `LocalFolder`'s file; for reading counting over the buffer
over the file. Pieces are of the sizes that logs are written in (a transaction, which is flushed:
the operating system has it when a commit returns) and read in (1 MiB by `EventReader`, a block of
8 MiB by the column path); and small ones, for which plain means Python's own buffers, written in C.
Files lie in memory (/dev/shm), so that no disk hides what a chain costs, and the processor's time
is measured; the contenders alternate within a round, and each round's own ratio counts. The
last two lines are whole logs: transactions of one row committed by `LogWriter`, events read by
`EventReader`, through the chain and through a bare file.
"""

from __future__ import annotations

import io
import os
import statistics
import time
from collections import deque
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from unittest.mock import patch

import tailrace
from benchmarks.measure import pin
from tailrace.constants import FILE_FLAGS_AT
from tailrace.schema.table import Table
from tailrace.storage import EventReader, LogFile
from tailrace.storage.binlog_file import BinlogFile
from tailrace.storage.local import LocalFolder, LocalStore
from tailrace.storage.streams.buffer import BufferRandomInput
from tailrace.storage.streams.counting import CountingRandomInput, CountingRandomOutput
from tailrace.storage.streams.file import FileInput
from tailrace.writing import log as log_module

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from tailrace.storage.streams.base import InputFile
    from tailrace.storage.streams.file import FileOutput
    from tailrace.writing import LogWriter

_SIZE = 256 << 20
_SLICES = 16
"""Each round is so many turns of both, a slice of the file each: a slow moment hits both."""


class _CountedFolder(LocalFolder):
    """A folder whose files count what is written to them."""

    def create(self, name: str, head: bytes) -> FileOutput:
        return CountingRandomOutput(super().create(name, head))  # type: ignore[return-value]


def _timed(act: Callable[[], None]) -> float:
    start = time.process_time()
    act()
    return time.process_time() - start


def _turns(plain: Callable[[int], None], chain: Callable[[int], None]) -> tuple[float, float]:
    """Seconds of each, summed over slices that are taken in turn, in changing order."""
    one = other = 0.0
    for number in range(_SLICES):
        if number % 2:
            one += _timed(lambda: plain(_SIZE // _SLICES))
            other += _timed(lambda: chain(_SIZE // _SLICES))
        else:
            other += _timed(lambda: chain(_SIZE // _SLICES))
            one += _timed(lambda: plain(_SIZE // _SLICES))
    return one, other


def _writes(folder: Path, piece: int, *, buffered: bool) -> tuple[float, float]:
    data = os.urandom(piece)
    plain = (folder / "plain").open("wb", buffering=1 << 16 if buffered else 0)
    chain = BinlogFile(_CountedFolder(folder), "chain")
    chain.create(b"")

    def write(put: Callable[[bytes], object]) -> Callable[[int], None]:
        def act(count: int) -> None:
            for _ in range(count // piece):
                put(data)

        return act

    def commit(count: int) -> None:
        for _ in range(count // piece):
            chain.write(data)
            chain.flush()

    try:
        return _turns(write(plain.write), write(chain.write) if buffered else commit)
    finally:
        plain.close()
        chain.close()
        for name in ("plain", "chain"):
            (folder / name).unlink()


def _reads(path: Path, piece: int, *, buffered: bool) -> tuple[float, float]:
    plain = path.open("rb", buffering=1 << 16 if buffered else 0)
    chain = CountingRandomInput(BufferRandomInput(FileInput(path)))

    def read(get: Callable[[int], bytes]) -> Callable[[int], None]:
        def act(count: int) -> None:
            while count > 0 and (data := get(piece)):
                count -= len(data)

        return act

    try:
        return _turns(read(plain.read), read(chain.read))
    finally:
        plain.close()
        chain.close()


def _reads_into(path: Path, piece: int) -> tuple[float, float]:
    view = memoryview(bytearray(piece))
    plain = io.FileIO(path)
    chain = CountingRandomInput(BufferRandomInput(FileInput(path)))

    def read(get: Callable[[memoryview], int | None]) -> Callable[[int], None]:
        def act(count: int) -> None:
            while count > 0 and (got := get(view)):
                count -= got

        return act

    try:
        return _turns(read(plain.readinto), read(chain.readinto))
    finally:
        plain.close()
        chain.close()


class _BareOutput(io.FileIO):
    """What `LogWriter` needs of a file, and no more."""

    def __init__(self, folder: LocalFolder, name: str) -> None:
        super().__init__(folder.folder / name, "wb")
        self.position = 0

    def create(self, head: bytes) -> None:
        self.write(head)

    def write(self, data: Buffer, /) -> int:
        count = super().write(data)
        self.position += count
        return count

    def update(self, offset: int, data: bytes) -> None:
        self.seek(offset)
        super().write(data)
        self.seek(self.position)

    def mark(self, *, in_use: bool) -> None:
        """As `BinlogFile.mark`."""
        self.update(FILE_FLAGS_AT, bytes([in_use]))

    def sync(self) -> None:
        """Nothing: it lies in memory."""


class _BareFile(LogFile):
    """A log that is read through Python's own file object."""

    def open(self) -> InputFile:
        file = io.FileIO(self.path)
        file.size = lambda: os.fstat(file.fileno()).st_size  # type: ignore[attr-defined]
        return file  # type: ignore[return-value]


class _CountedFile(LogFile):
    """A log that is read through the chain."""

    def open(self) -> InputFile:
        return CountingRandomInput(BufferRandomInput(FileInput(self.path)))


_COMMITS = 1500


def _log_written(folder: Path) -> tuple[float, float]:
    table = Table.parse("create table d.t (id int primary key, v varchar(30))", flavour="mysql")

    def commits(log: LogWriter, first: int) -> None:
        for number in range(first, first + _COMMITS // _SLICES):
            with log.transaction() as transaction:
                transaction.insert(table, [(number, "a row of the benchmark")])

    logs = []
    for kind in (_BareOutput, BinlogFile):
        target = folder / kind.__name__ / "binlog.000001"
        target.parent.mkdir()
        with patch.object(log_module, "BinlogFile", kind):
            logs.append(tailrace.create(target, flavour="mysql", server_id=1, sync="none"))
    try:
        return _turns(lambda count: commits(logs[0], count), lambda count: commits(logs[1], count))
    finally:
        for log in logs:
            log.close()
        rmtree(folder / "_BareOutput")
        rmtree(folder / "BinlogFile")


def _log_read(folder: Path) -> tuple[float, float]:
    path = folder / "log"
    if not path.exists():
        with tailrace.create(folder / "made.000001", flavour="mysql", server_id=1) as log:
            for _ in range(30):
                with log.transaction() as transaction:
                    for number in range(1000):
                        transaction.query(f"insert into t values ({number}, 'benchmark')", "d")
        (folder / "made.000001").rename(path)
    size = path.stat().st_size

    def events(kind: type[LogFile]) -> Callable[[int], None]:
        return lambda _: deque(EventReader(kind(LocalStore(folder), "log", size)), 0).clear()

    return _turns(events(_BareFile), events(_CountedFile))


def run(*, quick: bool) -> None:
    """Print a table: MB/s of both, and what the chain costs in each round."""
    pin()
    rounds = 3 if quick else 11
    shared = Path("/dev/shm")
    with TemporaryDirectory(dir=shared if shared.is_dir() else None) as name:
        folder = Path(name)
        path = folder / "read"
        path.write_bytes(os.urandom(1 << 20) * (_SIZE >> 20))
        contenders: dict[str, Callable[[], tuple[float, float]]] = {
            "transactions of 1 MiB": lambda: _writes(folder, 1 << 20, buffered=False),
            "transactions of 64 KiB": lambda: _writes(folder, 1 << 16, buffered=False),
            "transactions of 8 KiB": lambda: _writes(folder, 1 << 13, buffered=False),
            "written, pieces of 8 KiB": lambda: _writes(folder, 1 << 13, buffered=True),
            "written, pieces of 512 bytes": lambda: _writes(folder, 1 << 9, buffered=True),
            "read, pieces of 1 MiB": lambda: _reads(path, 1 << 20, buffered=False),
            "read into memory, 8 MiB": lambda: _reads_into(path, 8 << 20),
            "read, pieces of 8 KiB": lambda: _reads(path, 1 << 13, buffered=True),
            "a log written": lambda: _log_written(folder),
            "a log read": lambda: _log_read(folder),
        }
        print(f"{_SIZE >> 20} MiB in memory, {rounds} rounds, one core: plain file, whole chain")
        for label, measured in contenders.items():
            measured()
            _line(label, [measured() for _ in range(rounds)])


def _line(label: str, found: list[tuple[float, float]]) -> None:
    costs = sorted(chain / plain - 1 for plain, chain in found)
    plain, chain = (statistics.median(each) for each in zip(*found, strict=True))
    figures = f"{_SIZE / plain / 1e6:8,.0f} MB/s {_SIZE / chain / 1e6:8,.0f} MB/s"
    if label.startswith("a log"):
        figures = f"{plain * 1e3:10,.0f} ms {chain * 1e3:10,.0f} ms"
    print(
        f"  {label:30} {figures}"
        f"  {statistics.median(costs):+7.1%} ({costs[0]:+.1%} to {costs[-1]:+.1%})"
    )
