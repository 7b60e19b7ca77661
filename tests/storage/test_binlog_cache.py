"""`BinlogCache`: memory, then a temporary file."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import StorageError, UsageError
from tailrace.storage.binlog_cache import BinlogCache
from tailrace.storage.encryption import EncryptedFolder, temporary
from tailrace.storage.keyring import make
from tailrace.storage.local import LocalFolder
from tailrace.storage.memory import MemoryFolder
from tailrace.storage.streams import file as file_module
from tailrace.storage.streams.file import TemporaryOutput
from tailrace.storage.streams.memory import MemoryOutput
from tailrace.testing import FAULTS, Faults
from tests.cases import each_case
from tests.storage.layers import RefusingSystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.storage.streams.base import SpillOutput

    Wrap = Callable[[SpillOutput], SpillOutput]


def copied(cache):
    output = MemoryOutput()
    cache.copy_to(output)
    return bytes(output.data)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 300)),
        st.tuples(st.just("savepoint"), st.just(0)),
        st.tuples(st.just("back"), st.integers(0, 5)),
        st.tuples(st.just("reset"), st.just(0)),
        st.tuples(st.just("copy"), st.just(0)),
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=150)
@given(
    limit=st.sampled_from([1, 10, 100, 1 << 20]),
    steps=STEPS,
    seed=st.integers(0, 9),
    wrap=st.sampled_from([None, temporary]),
)
def test_as_bytes_in_memory(limit, steps, seed, wrap):
    chance = Random(seed)
    plain = bytearray()
    savepoints = [0]
    with BinlogCache(limit, wrap=wrap) as cache:
        for act, number in steps:
            if act == "write":
                data = chance.randbytes(number)
                cache.write(chance.choice((bytes, bytearray, memoryview))(data))
                plain += data
            elif act == "savepoint":
                savepoints.append(len(cache))
            elif act == "back":
                size = savepoints[-1 - number % len(savepoints)]
                savepoints = [each for each in savepoints if each <= size]
                cache.truncate(size)
                del plain[size:]
            elif act == "reset":
                cache.reset()
                plain.clear()
                savepoints = [0]
            else:
                assert copied(cache) == plain
            assert len(cache) == len(plain)
            assert bool(cache) is bool(plain)
            assert cache.in_memory <= limit
        assert copied(cache) == copied(cache) == plain


def test_disk_writes_are_counted():
    """Binlog_cache::disk_writes: those of a transaction; the next starts anew."""
    cache = BinlogCache(100)
    cache.write(bytes(100))
    assert (cache.disk_writes, cache.in_memory) == (0, 100)
    cache.write(b"x")
    assert (cache.disk_writes, cache.in_memory) == (1, 1)
    cache.write(bytes(250))
    assert (cache.disk_writes, cache.in_memory) == (3, 0)
    cache.copy_to(other := BinlogCache(1000))
    assert (other.disk_writes, copied(other)) == (0, copied(cache))
    cache.reset()
    cache.write(bytes(20))
    assert cache.disk_writes == 0
    with pytest.raises(UsageError, match="cannot be cut to 21"):
        cache.truncate(21)
    cache.write(bytes(120))
    cache.close()
    assert cache.disk_writes == 2


@each_case("wrap", [None, temporary])
def test_the_name_of_the_temporary_file(wrap, tmp_path):
    """Binlog_cache::tmp_file_name: where the file can be read, and its size on the disk be seen."""
    with BinlogCache(10, wrap=wrap, folder=tmp_path) as cache:
        cache.write(b"memory")
        assert cache.tmp_file_name is None
        cache.write(b"and disk, by now")
        name = cache.tmp_file_name
        assert name is not None
        assert (Path(name).read_bytes() == b"memoryand disk, by now") is (wrap is None)
        assert Path(name).stat().st_size == len(cache) == 22
        assert Path(name).readlink().parent == tmp_path
        cache.reset()
        assert cache.tmp_file_name is None


def open_files():
    """How many files without a name this process has open; other tests' sockets come and go."""
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found += str(each.readlink()).endswith(" (deleted)")
    return found


def test_the_file_is_gone_afterwards(tmp_path):
    before = open_files()

    def fail():
        with BinlogCache(10, folder=tmp_path) as cache:
            cache.write(bytes(50))
            assert open_files() == before + 1
            assert list(tmp_path.iterdir()) == []  # it has no name
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert open_files() == before
    dropped = BinlogCache(10)
    dropped.write(bytes(50))
    del dropped
    assert open_files() == before


@each_case("number", FAULTS.values())
@each_case("share", [0, 0.5, 1])
@each_case("wrap", [None, temporary])
def test_a_full_disk_is_taken_back(monkeypatch, number, share, wrap):
    for call in range(4):
        with BinlogCache(10, wrap=wrap) as cache:
            faults = Faults(call, number)
            cache.write(b"first")
            savepoint = len(cache)
            refused = []
            for piece in (b"a" * 8, b"b" * 30, b"c" * 9, b"d" * 20):
                monkeypatch.setattr(file_module, "os", RefusingSystem(faults, share))
                try:
                    cache.write(piece)
                except StorageError as error:
                    refused.append(str(error))
                    cache.truncate(savepoint)
                    cache.write(piece)
                savepoint = len(cache)
            monkeypatch.setattr(file_module, "os", os)
            assert refused == [f"the transaction's temporary file: {os.strerror(number)}"]
            assert copied(cache) == b"first" + b"a" * 8 + b"b" * 30 + b"c" * 9 + b"d" * 20


def test_no_folder_to_spill_to(tmp_path):
    cache = BinlogCache(1, folder=tmp_path / "missing")
    with pytest.raises(StorageError, match=r"temporary file: No such file or directory"):
        cache.write(b"ab")


def test_a_folder_protects_what_spills(tmp_path):
    """Where logs are encrypted, temporary files are; elsewhere they are as they are."""
    keyring = make(tmp_path / "keys", "1")
    for folder in (LocalFolder(tmp_path), MemoryFolder("x")):
        for encrypting in (True, False):
            around = EncryptedFolder(folder, keyring, encrypting=encrypting)
            file = TemporaryOutput()
            with BinlogCache(10, wrap=lambda _, file=file, to=around: to.spill(file)) as cache:
                cache.write(b"this is a secret, or it is none")
                assert copied(cache) == b"this is a secret, or it is none"
                assert (b"secret" in file.input().read(100)) is not encrypting
        assert folder.spill(file) is file
    with pytest.raises(UsageError, match="needs a SpillOutput"):
        BinlogCache(1, wrap=lambda lower: lower.input()).write(b"ab")


MUCH = """
from tailrace.storage.binlog_cache import BinlogCache
from tailrace.storage.encryption.temporary import temporary
class Sum:
    def __init__(self): self.size = self.check = 0
    def write(self, data):
        self.size += len(data)
        self.check ^= data[0] ^ data[-1]
def peak():  # of this process alone; getrusage's is also its parent's
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
piece = bytes(range(256)) * 32
for wrap in (None, temporary):
    out = Sum()
    with BinlogCache(16 << 20, wrap=wrap) as cache:
        for _ in range((1 << 27) // len(piece)):
            cache.write(piece)
        cache.copy_to(out)
        assert out.size == len(cache) == 1 << 27
        print(cache.disk_writes)
print(peak())
"""


def test_much_in_little_memory():
    """Plain and encrypted."""
    run = subprocess.run([sys.executable, "-c", MUCH], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    plain, encrypted, kibibytes = map(int, run.stdout.split())
    assert plain >= 7
    assert encrypted >= 7
    assert kibibytes > 10_000
    assert kibibytes * 1024 < 100_000_000  # Python and all modules among them


@each_case("size", [5, 500], ids=["in memory", "on disk"])
def test_a_closed_cache_takes_and_gives_nothing(size):
    """WL#10956, Binlog_cache: after it was closed what is done with it is an error."""
    cache = BinlogCache(10)
    cache.write(bytes(size))
    cache.close()
    cache.close()
    output = MemoryOutput()
    calls = [
        lambda: cache.write(b"x"),
        lambda: cache.truncate(0),
        cache.reset,
        lambda: cache.read(0, 1),
        lambda: cache.read_into(0, memoryview(bytearray(1))),
        lambda: cache.copy_to(output),
        lambda: list(cache.whole_events(100)),
        lambda: list(cache.take_events(100, 0)),
    ]
    for call in calls:
        with pytest.raises(StorageError, match="BinlogCache: it was closed"):
            call()
    assert (len(cache), output.size) == (0, 0)
