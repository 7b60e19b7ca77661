"""Encrypted logs that end anywhere, where of the last event nothing may be decrypted."""

import pytest

import tailrace
from tailrace.columns import plan_splits
from tailrace.columns.read.planner import SplitPlanner
from tailrace.constants import FILE_FLAGS_AT
from tailrace.errors import TruncatedEvent
from tailrace.log import Log
from tailrace.storage import LogFile, LogSeries, keyring
from tailrace.storage.memory import MemoryFolder
from tailrace.storage.pipe import Pipe
from tailrace.storage.reader import EventReader
from tailrace.storage.streams.memory import MemoryInput


@pytest.fixture(params=["aes_cbc", "aes_ctr"])
def encrypted(request, tmp_path):
    """A log of two transactions, its keyring, and where its events begin, with its end."""
    path = tmp_path / "binlog.000001"
    keys = keyring.make(tmp_path / "keys", "1")
    table = tailrace.Table.parse("create table d.t (a int primary key)", flavour="mariadb")
    made = tailrace.create(
        path, flavour="mariadb", server_id=7, encrypt=True, keyring=keys, encrypt_mode=request.param
    )
    with made as out:
        for number in range(2):
            with out.transaction() as transaction:
                transaction.insert(table, [(number,)])
    edges = [at for at, _ in EventReader(LogFile.at(path, keys))]
    return path.read_bytes(), keys, [*edges, path.stat().st_size]


def in_memory(data, keys):
    store = MemoryFolder("torn")
    store.files = {"binlog.000001": bytearray(data)}
    return LogFile(store, "binlog.000001", len(data), keyring=keys)


def in_a_pipe(data, keys):
    return LogFile(Pipe(MemoryInput(data), "pipe"), "pipe", 0, keyring=keys)


@pytest.mark.parametrize("place", [in_memory, in_a_pipe])
@pytest.mark.slow
def test_a_torn_event_is_told_wherever_it_ends(encrypted, place):
    raw, keys, edges = encrypted
    for in_use in (0, 1):
        for size in range(edges[2], len(raw) + 1):
            data = bytearray(raw[:size])
            data[FILE_FLAGS_AT] = in_use
            last = max(edge for edge in edges if edge <= size)
            reader = EventReader(place(bytes(data), keys))
            if size in edges or in_use:
                assert [at for at, _ in reader] == edges[: edges.index(last)]
                assert reader.torn_tail_offset == (None if size in edges else last)
            else:
                with pytest.raises(TruncatedEvent, match=rf"ends after {size - last}$") as caught:
                    list(reader)
                assert caught.value.offset == last
                assert caught.value.file


@pytest.mark.slow
def test_a_closed_file_that_ends_inside_an_event_has_no_splits(encrypted):
    raw, keys, edges = encrypted
    for size in range(edges[2] + 1, len(raw)):
        data = bytearray(raw[:size])
        data[FILE_FLAGS_AT] = 0
        series = LogSeries("binlog", (in_memory(bytes(data), keys),))
        for planned in (plan_splits, SplitPlanner().plan):
            if size in edges:
                planned(series)
                continue
            with pytest.raises(TruncatedEvent) as caught:
                planned(series)
            assert caught.value.offset == max(edge for edge in edges if edge <= size)


def test_a_file_that_grows_byte_by_byte_is_followed(encrypted):
    raw, keys, edges = encrypted
    data = bytearray(raw[: edges[2]])
    data[FILE_FLAGS_AT] = 1
    file = in_memory(bytes(data), keys)
    stored = file.store.files[file.name]

    def more():
        stored.extend(raw[len(stored) : len(stored) + 1])
        return len(stored) < len(raw) or not done

    done = []
    for at, event in EventReader(file, more=more):
        if at + len(event) == len(raw):
            done.append(at)
            break
    assert done == [edges[-2]]


def test_the_log_as_a_whole_says_so(encrypted):
    raw, keys, edges = encrypted
    series = LogSeries("binlog", (in_memory(raw[: edges[-2] + 19], keys),))
    if edges[-1] - edges[-2] > 19:
        for read in (lambda: Log(series), lambda: tailrace.changes(series)):
            with pytest.raises(TruncatedEvent, match=rf"binlog\.000001 at {edges[-2]}"):
                list(read())
