"""What a stream is decoded to is what its files are decoded to: every recorded log, in chunks."""

import random

import numpy as np
import pytest

from tailrace.columns.batches import changes
from tailrace.columns.frames.plan import PADDING
from tailrace.columns.live.decoder import LiveDecoder
from tailrace.columns.read.decoder import LogDecoder
from tailrace.errors import TailraceError
from tailrace.live.chunks import Chunk, FileBegin
from tailrace.log.prepared import Prepared
from tailrace.storage import EventReader, find
from tailrace.storage.binlog_cache import BinlogCache
from tests.cases import each_case
from tests.columns.oracle import assert_same_rows as assert_same
from tests.recorded import ROOT, folders, has

FOLDERS = folders("relay", shop=True)
"""No source sends a log of the form of relay logs."""
SIZES = (1, 3000, 100_000, 1 << 30)


def chunks(file, size):
    """A file as a feed gives it: chunks of at least so many bytes, in memory that is used again."""
    events = iter(EventReader(file))
    _, description = next(events)
    begin = 4 + len(description)
    yield FileBegin(file.name, begin, bytes(description), artificial=False)
    memory = np.zeros(0, np.uint8)
    held, starts, offset = bytearray(), [], begin

    def chunk():
        nonlocal memory
        if len(memory) < len(held) + PADDING:
            memory = np.zeros(2 * len(held) + PADDING, np.uint8)
        memory[:] = 0xA5
        memory[: len(held)] = np.frombuffer(bytes(held), np.uint8)
        return Chunk(file.name, offset, memoryview(memory)[: len(held)], list(starts))

    for _, raw in events:
        starts.append(len(held))
        held += raw
        if len(held) >= size:
            yield chunk()
            offset += len(held)
            held.clear()
            starts.clear()
    if held:
        yield chunk()


def decode(series, size, most=None, **options):
    live = LiveDecoder(LogDecoder(series.name, statements="skip", **options))
    if most is not None:
        live._held, live._prepared = BinlogCache(most), Prepared(most)
    for file in series.files:
        for item in chunks(file, size):
            if isinstance(item, FileBegin):
                live.begin_file(item)
            else:
                yield from live.decode(item)
    yield from live.finish()
    live.close()


@pytest.mark.slow
@each_case("folder", FOLDERS, ids=lambda path: path.name)
def test_corpus(folder):
    size = random.Random(folder.name).choice(SIZES)
    for series in find(folder):
        if has(folder, "unreadable", "unknown-documents"):
            with pytest.raises(TailraceError):
                list(decode(series, size))
        else:
            assert_same(decode(series, size), changes(series, statements="skip"))


TAKES_BACK = [path for path in FOLDERS if path.name.endswith((".xa", ".savepoints", "-format"))]


@each_case("folder", TAKES_BACK, ids=lambda path: path.name)
def test_what_is_taken_back(folder):
    for series in find(folder):
        expected = list(changes(series, statements="skip"))
        for size, most in ((1, 100), (1, None), (3000, 2000), (100_000, 100), (1 << 30, 2000)):
            assert_same(decode(series, size, most), expected)


def begun(begin):
    live = LiveDecoder(LogDecoder("x"))
    live.begin_file(begin)
    return live


@pytest.fixture
def half():
    """A file that ends inside a transaction, as its begin and events by themselves."""
    folder = ROOT / "tests/corpus/mysql-9.7.integers-min"
    (series,) = find(folder)
    begin, items = None, []
    for item in chunks(series.files[0], 1):  # its memory is used again
        if isinstance(item, FileBegin):
            begin = item
        else:
            data = memoryview(bytearray(item.data) + bytes(PADDING))[: len(item.data)]
            items.append(Chunk(item.file, item.offset, data, [0]))
    last = max(n for n, item in enumerate(items) if item.data[4] == 30)
    return begin, items[: last + 1], items[last + 1 :]


def rows_of(live, items):
    return sum(batch.num_rows for item in items for batch in live.decode(item))


def test_a_break_inside_a_transaction(half):
    """Reading goes on where it was: the file is entered once more, and nothing is lost or doubled."""
    begin, before, behind = half
    whole = rows_of(begun(begin), before + behind)
    live = begun(begin)
    first = rows_of(live, before)
    assert first < whole
    live.begin_file(FileBegin(begin.file, before[-1].end, begin.description, artificial=True))
    assert first + rows_of(live, behind) == whole


def test_a_transaction_that_a_crash_cut_short(half, caplog):
    begin, before, _ = half
    live = begun(begin)
    first = rows_of(live, before)
    live.begin_file(FileBegin("binlog.000099", begin.offset, begin.description, artificial=False))
    assert "has no end" in caplog.text
    again = [Chunk("binlog.000099", item.offset, item.data, item.starts) for item in before]
    assert rows_of(live, again) == first
    assert rows_of(live, []) == 0
