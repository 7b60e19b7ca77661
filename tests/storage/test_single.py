"""What each stream does beyond the contract."""

import subprocess
import sys
import threading

import pytest
import zstandard

from tailrace.errors import StorageError
from tailrace.storage.streams.buffer import BufferOutput, BufferRandomInput
from tailrace.storage.streams.compression import ZstdInput, ZstdOutput
from tailrace.storage.streams.counting import (
    CountingRandomInput,
    CountingRandomOutput,
    counted_input,
)
from tailrace.storage.streams.file import FileInput
from tailrace.storage.streams.memory import MemoryInput, MemoryOutput
from tailrace.storage.streams.read_ahead import ReadAhead
from tests.waiting import DEADLINE

PLAIN = bytes(range(256)) * 4096


# --- standard input ------------------------------------------------------------------------------


def test_standard_input_seeks_forward_only():
    code = (
        "from tailrace.storage.pipe import StandardInput\n"
        "stream = StandardInput()\n"
        "print(stream.seek(100_000), stream.tell(), stream.read(3).hex())\n"
        "stream.seek(200_010)\n"
        "print(stream.read(2).hex())\n"
        "try:\n"
        "    stream.seek(5)\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
        "print(stream.seek(1 << 30), stream.read(1))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], input=PLAIN, capture_output=True, check=True)
    assert run.stdout.decode().splitlines() == [
        f"100000 100000 {PLAIN[100_000:100_003].hex()}",
        PLAIN[200_010:200_012].hex(),
        (
            "StorageError standard input: it stands at 200012 and cannot go back to 5, because it"
            " comes in one piece; read it from a file of its own"
        ),
        f"{1 << 30} b''",
    ]


# --- zstd ----------------------------------------------------------------------------------------


def test_archives_are_those_of_zstd():
    """Ours are read by zstd's own reader, and what others wrote by us: several frames, too."""
    output = MemoryOutput()
    archive = ZstdOutput(output, level=9)
    archive.write(PLAIN)
    archive.close()
    reader = zstandard.ZstdDecompressor().stream_reader(bytes(output.data))
    assert reader.readall() == PLAIN
    assert len(output.data) < len(PLAIN) / 100
    frames = zstandard.compress(b"one") + zstandard.compress(b"") + zstandard.compress(PLAIN)
    stream = ZstdInput(MemoryInput(frames))
    assert stream.read(10) == b"one"
    assert stream.seek(3 + 1000) == 1003
    assert stream.read(5) == PLAIN[1000:1005]
    assert ZstdInput(MemoryInput(b"")).read(1) == b""


def test_an_archive_that_is_not_whole():
    output = MemoryOutput()
    archive = ZstdOutput(output)
    archive.write(PLAIN)
    archive.close()
    packed = bytes(output.data)
    stream = ZstdInput(MemoryInput(packed[: len(packed) // 2]))
    with pytest.raises(StorageError, match="ends inside a frame"):
        stream.seek(len(PLAIN))
    with pytest.raises(StorageError, match="ends inside a frame"):
        stream.read(1)
    for damaged in (
        b"no archive",
        packed[:30] + bytes([packed[30] ^ 1]) + packed[31:],
        packed + b"junk",
    ):
        stream = ZstdInput(MemoryInput(damaged))
        with pytest.raises(StorageError, match="damaged, or no archive of zstd"):
            stream.seek(len(PLAIN) + 1)


@pytest.mark.slow
def test_a_bomb_fills_no_memory():
    """A GiB of zeros from 32 KiB: what is unpacked at once stays bounded."""
    packer = zstandard.ZstdCompressor().compressobj()
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(1024)) + packer.flush()
    code = (
        "from tailrace.storage.streams.compression import ZstdInput\n"
        "from tailrace.storage.pipe import StandardInput\n"
        "stream = ZstdInput(StandardInput())\n"
        "size = 0\n"
        "while data := stream.read(1 << 16):\n"
        "    size += len(data)\n"
        "with open('/proc/self/status') as status:\n"
        "    print(size, *(line.split()[1] for line in status if line.startswith('VmHWM')))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], input=packed, capture_output=True, check=True
    )
    size, kibibytes = map(int, run.stdout.split())
    assert size == 1 << 30
    print(f"{kibibytes >> 10} MiB")
    assert 10 << 10 < kibibytes < 200 << 10


# --- buffer, counting ----------------------------------------------------------------------------


def test_a_buffer_makes_few_calls_of_many():
    below = CountingRandomInput(MemoryInput(PLAIN))
    stream = BufferRandomInput(below, 1 << 16)
    assert b"".join(iter(lambda: stream.read(100), b"")) == PLAIN
    assert below.reads == len(PLAIN) // (1 << 16) + 1
    stream.seek(len(PLAIN) - 50)
    stream.read(10)
    stream.seek(len(PLAIN) - 60)
    reads = below.reads
    stream.seek(len(PLAIN) - 50)
    stream.read(5)
    assert below.reads == reads
    written = CountingRandomOutput(MemoryOutput())
    output = BufferOutput(written, 1000)
    for _ in range(100):
        output.write(bytes(100))
    output.write(bytes(5000))
    output.sync()
    assert (written.writes, written.bytes_written, written.syncs) == (11, 15000, 1)


def test_counting():
    stream = counted_input(MemoryInput(b"0123456789"))
    stream.read(4)
    stream.seek(2)
    stream.readinto(bytearray(5))
    assert (stream.bytes_read, stream.reads, stream.seeks) == (9, 2, 1)
    output = CountingRandomOutput(MemoryOutput())
    output.write(b"abc")
    output.update(0, b"A")
    output.truncate(1)
    assert (output.bytes_written, output.updates, output.cuts, output.size) == (3, 1, 1, 1)


# --- read-ahead ----------------------------------------------------------------------------------


class Asked(MemoryInput):
    """Notes what it is asked for, and by which thread."""

    def __init__(self, data):
        super().__init__(data)
        self.requests = []
        self.sizes = 0
        self.threads = set()

    def read(self, count, /):
        self.requests.append((self.tell(), count))
        self.threads.add(threading.current_thread().name)
        return super().read(count)

    def size(self):
        self.sizes += 1
        return super().size()


class AskedForRanges(Asked):
    """As an object in a store is."""

    def read_at(self, offset, count, /):
        self.requests.append((offset, count))
        self.threads.add(threading.current_thread().name)
        return bytes(self.stored()[offset : offset + count])


def read_whole(stream, count):
    return b"".join(iter(lambda: stream.read(count), b""))


def test_a_request_for_each_piece():
    """Small ones first, then whole blocks, each once; none behind the end but one at it."""
    below = AskedForRanges(PLAIN)
    stream = ReadAhead(below, block=1 << 16, ahead=2, first=1 << 14)
    assert read_whole(stream, 777) == PLAIN
    sizes = [count for _, count in below.requests[:-1]]
    assert sizes[:3] == [1 << 14, 1 << 15, 1 << 16]
    assert set(sizes[2:]) == {1 << 16}
    starts = sorted(start for start, _ in below.requests)
    assert len(set(starts)) == len(starts)
    assert len(starts) == 2 + -(-(len(PLAIN) - 3 * (1 << 14)) // (1 << 16)) + 1
    assert below.sizes <= 2
    assert all(name.startswith("tailrace read-ahead") for name in below.threads)
    assert len(below.threads) <= 2
    stream.close()
    assert not [each for each in threading.enumerate() if each.name in below.threads]


def test_who_wants_the_head_asks_for_little():
    below = AskedForRanges(PLAIN)
    stream = ReadAhead(below, first=1 << 12)
    stream.read(4)
    stream.read(500)
    stream.seek(len(PLAIN) - 10)
    stream.read(4)
    stream.close()
    assert below.requests == [(0, 1 << 12), (len(PLAIN) - 10, 1 << 12)]


def test_the_next_piece_comes_while_one_is_used():
    begun = threading.Event()
    go_on = threading.Event()

    class Slow(MemoryInput):
        def read(self, count, /):
            if self.tell() >= 300:
                begun.set()
                assert go_on.wait(DEADLINE)
            return super().read(count)

    stream = ReadAhead(Slow(PLAIN), block=100, first=100)
    assert stream.read(100) == PLAIN[:100]
    stream.read(100)
    assert stream.read(100) == PLAIN[200:300]
    assert begun.wait(DEADLINE)  # what lies behind was asked for, and nobody waits for it
    go_on.set()
    assert stream.read(100) == PLAIN[300:400]
    stream.close()


def test_what_it_holds_is_bounded():
    held = most = 0
    lock = threading.Lock()

    class Noted(MemoryInput):
        def read(self, count, /):
            nonlocal held, most
            with lock:
                held += count
                most = max(most, held)
            return super().read(count)

    stream = ReadAhead(Noted(PLAIN), block=1 << 16, ahead=3, first=1 << 16)
    while data := stream.read(1 << 16):
        with lock:
            held -= len(data)
    stream.close()
    assert most <= 4 << 16


def test_ranges_are_asked_for_at_once():
    """A store that many threads may ask is asked by as many as pieces are fetched ahead."""
    together = threading.Barrier(3, timeout=DEADLINE)

    class Ranged(MemoryInput):
        def read_at(self, offset, count, /):
            if 400 <= offset < 700:
                together.wait()  # broken unless three are under way
            return PLAIN[:2000][offset : offset + count]

    stream = ReadAhead(Ranged(PLAIN[:2000]), block=100, ahead=3, first=100)
    assert read_whole(stream, 100) == PLAIN[:2000]
    stream.close()


def test_a_file_that_grows_is_asked_for_its_size_again():
    data = bytearray(PLAIN[:1000])
    below = Asked(data)
    stream = ReadAhead(below, block=100, first=100)
    assert stream.size() == 1000
    data += PLAIN[1000:2000]
    for _ in range(5):
        stream.read(100)
        stream.size()
    assert below.sizes == 1
    assert stream.size() == 2000  # asked twice at a place
    assert read_whole(stream, 100) == PLAIN[500:2000]
    assert stream.size() == 2000
    stream.close()


# --- file ----------------------------------------------------------------------------------------


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(StorageError, match=r"missing: No such file or directory"):
        FileInput(tmp_path / "missing")
    with pytest.raises(StorageError, match="Is a directory"):
        FileInput(tmp_path)
