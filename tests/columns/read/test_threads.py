"""`threads` changes nothing but the time: the same batches and errors, and no thread is left."""

import random
import threading
from pathlib import Path

import pytest

from tailrace.columns import batches
from tailrace.columns.batches import changes
from tailrace.columns.read import blocks, table, walk
from tailrace.errors import StorageError, TailraceError
from tailrace.storage import find
from tests.cases import each_case
from tests.recorded import folders
from tests.waiting import wait_for

FOLDERS = folders(shop=True)
LARGEST = sorted(FOLDERS, key=lambda path: -sum(each.stat().st_size for each in path.iterdir()))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Small blocks and batches, all of which other threads read and finish."""
    monkeypatch.setattr(walk, "_WORTH_A_THREAD", 0)
    monkeypatch.setattr(table, "MOST_ROWS", 16)
    of_size(monkeypatch, 1 << 9)


def of_size(monkeypatch, size):
    for module in (blocks, batches):
        monkeypatch.setattr(module, "BLOCK", size)
    monkeypatch.setattr(walk, "_WORTH_A_BATCH", size // 8)


def outcome(source, **options):
    """All batches, and the error after them."""
    found = []
    try:
        found.extend(changes(source, statements="skip", **options))
    except TailraceError as error:
        return found, (type(error), str(error))
    return found, None


def assert_same(source, **options):
    one, error = outcome(source, **options)
    two, other = outcome(source, threads=2, **options)
    assert error == other
    assert len(one) == len(two)
    for a, b in zip(one, two, strict=True):
        assert a.equals(b, check_metadata=True)
    return error


def helpers():
    return [each.name for each in threading.enumerate() if each.name.startswith("tailrace changes")]


@pytest.mark.slow
@each_case("folder", FOLDERS, ids=lambda path: path.name)
def test_corpus(folder, monkeypatch):
    of_size(monkeypatch, 1 << (9 if FOLDERS.index(folder) % 2 else 13))
    for series in find(folder):
        assert_same(series)
    assert not helpers()


@pytest.mark.slow
@each_case("folder", LARGEST[:6], ids=lambda path: path.name)
def test_damage(folder, tmp_path, monkeypatch):
    """Bytes that are wrong, where checksums show it and where only values do; and logs cut off."""
    chance = random.Random(folder.name)
    (series, *_) = find(folder)
    content = Path(series.files[0].path).read_bytes()
    errors = 0
    for number in range(16):
        of_size(monkeypatch, 1 << (9 if number % 8 < 4 else 13))
        damaged = bytearray(content)
        at = chance.randrange(len(content) // 4, len(content))
        if number % 4:
            damaged[at] ^= 1 << chance.randrange(8)
        else:
            del damaged[at:]
        path = tmp_path / series.files[0].name
        path.write_bytes(damaged)
        errors += assert_same(path, verify_checksums=bool(number % 2)) is not None
    assert errors


def test_closing_early_leaves_no_thread(monkeypatch):
    opened = []
    monkeypatch.setattr(blocks, "accelerated", lambda file: opened.append(file) or file)
    (series, *_) = find(LARGEST[0])
    for count in range(4):
        reading = changes(series, threads=2, statements="skip")
        for _ in range(count):
            next(reading)
        reading.close()
        assert not helpers()
    assert opened
    for file in opened:
        with pytest.raises(StorageError, match="it was closed"):
            file.read(1)


def test_a_reader_that_stops_holds_up_nothing():
    (series, *_) = find(LARGEST[0])
    reading = changes(series, threads=2, statements="skip")
    next(reading)
    del reading
    wait_for(lambda: not helpers())


def test_an_error_of_the_thread_that_reads_comes_after_the_same_rows(monkeypatch):
    (series, *_) = find(LARGEST[0])
    size = series.files[0].size

    class Failing:
        def __init__(self, file):
            self.file = file

        def readinto(self, view):
            if self.file.tell() + len(view) > size // 2:
                raise StorageError("the disk is gone")
            return self.file.readinto(view)

        def __getattr__(self, name):
            return getattr(self.file, name)

    monkeypatch.setattr(blocks, "accelerated", Failing)
    one, error = outcome(series)
    two, other = outcome(series, threads=2)
    assert error == other
    assert "the disk is gone" in error[1]
    assert sum(batch.num_rows for batch in one) >= sum(batch.num_rows for batch in two)
