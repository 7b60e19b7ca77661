"""Logs that grow, end inside a transaction, or are stored in other ways, while they are served."""

import os
import resource
import shutil
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from uuid import uuid4

import fsspec
import pytest
import zstandard

import tailrace
from tailrace.errors import (
    BadMagic,
    ConnectionLost,
    LogError,
    MalformedPacket,
    ServerError,
    StorageError,
    UsageError,
)
from tailrace.gtid import GtidSet
from tailrace.observers import TransmitDelegate, TransmitObserver
from tailrace.replication.source.blocks import BLOCK
from tailrace.replication.source.series import ServedFile, ServedLogs
from tailrace.replication.source.transmit import Transmit
from tailrace.storage.file import LogFile
from tailrace.storage.memory import MemoryFolder, forget_memory, memory_folder
from tailrace.storage.streams.file import FileInput, FileOutput
from tailrace.writing.recover import LogRecovered
from tests.live.feeding import events_of
from tests.replication.source.dumping import Kept, asked, ours
from tests.waiting import DEADLINE, ended, in_thread, wait_for

SHOP = Path("examples/shop")
UUID = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def memory():
    name = f"served-{uuid4()}"
    yield name
    forget_memory(name)


def events(packets):
    """The events of a dump that are in the logs, without format descriptions."""
    found = []
    for packet in packets:
        artificial = packet[0] == 0 and struct.unpack_from("<H", packet, 18)[0] & 0x20
        if packet[0] == 0 and not artificial and packet[5] not in {15, 27, 41}:
            found.append(packet[1:])
    return found


def file_events(path, begin=0, end=None):
    """Those of a file, up to an offset."""
    return [
        raw
        for at, kind, raw in events_of(path.read_bytes()[:end])
        if kind != 15 and at >= begin and len(raw) == int.from_bytes(raw[9:13], "little")
    ]


def transactions_of(path):
    """Where the transactions of a whole file begin and end: with the GTID event of the next."""
    found, begun = [], None
    for at, kind, _ in events_of(path.read_bytes()):
        if kind in {4, 3, 33, 34, 42, 162}:
            if begun is not None:
                found.append((begun, at))
            begun = at if kind > 4 else None
    return found


def growing(raw):
    """A log's bytes, of which it says that it may still grow."""
    return raw[: 4 + 17] + bytes((raw[4 + 17] | 1,)) + raw[4 + 18 :]


def in_use(source, folder):
    """A copy of a log that may still grow."""
    folder.mkdir()
    (folder / source.name).write_bytes(growing(source.read_bytes()))
    return folder / source.name


@pytest.fixture
def served():
    """served(where) is the logs there, until the test's end."""
    with ExitStack() as stack:
        yield lambda where: stack.enter_context(closing(ServedLogs(where)))


class Marking(TransmitObserver):
    """Puts two bytes of its own before each event."""

    def __init__(self, mark, wants=True):
        self.mark, self.wants = mark, wants
        self.seen = []

    def transmit_start(self, io, file, position):
        self.seen.append(("start", io.server_id, file, position))
        return self.wants

    def reserve_header(self, io):
        return bytes(2)

    def before_send_event(self, io, header, event, file, position):
        header[:] = self.mark
        self.seen.append((bytes(event), file, position))

    def after_send_event(self, io, event):
        assert bytes(event) == self.seen[-1][0]

    def transmit_stop(self, io):
        self.seen.append("stop")


def test_a_log_may_end_while_it_is_looked_at(tmp_path, monkeypatch):
    """Its size was one inside an event, and its flag said a moment later that it had ended."""
    source = SHOP / "mysql" / "binlog.000001"
    whole = source.read_bytes()
    path = tmp_path / "binlog.000001"
    path.write_bytes(growing(whole[:-1000]))
    file, size = ServedFile(LogFile.at(path)), FileInput.size

    def then_it_ends(stream):
        found = size(stream)
        path.write_bytes(whole)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(FileInput, "size", then_it_ends)
        assert file.look()
    assert file.end == transactions_of(source)[-1][0]
    assert file.look()
    assert file.end == len(whole)


def test_before_send_event_and_the_other_hooks_of_a_dump_see_every_packet():
    """WL#4398: an observer that wants no packets changes nothing."""
    plain = ours(SHOP / "mysql", asked())
    one, two, none = Marking(b"AB"), Marking(b"XY"), Marking(b"--", wants=False)
    delegate = TransmitDelegate([one, none, two])
    got = ours(SHOP / "mysql", asked(), delegate=delegate)
    assert got[-1] == plain[-1]
    assert got[:-1] == [b"\0ABXY" + packet[1:] for packet in plain[:-1]]
    assert one.seen == two.seen
    assert (one.seen[0], one.seen[-1]) == (("start", 99, "", 4), "stop")
    assert none.seen == [one.seen[0], "stop"]
    places = [seen[1:] for seen in one.seen[1:-1]]
    assert places[-1] == ("binlog.000004", (SHOP / "mysql" / "binlog.000004").stat().st_size)
    assert ours(SHOP / "mysql", asked(), delegate=TransmitDelegate([none])) == plain


class Dumping:
    """A dump in a thread that waits for more."""

    def __init__(self, logs, **given):
        self.kept = Kept()
        self.transmit = Transmit(logs, asked(**{"flags": 0, **given}), self.kept)
        self.run = in_thread(self.transmit.run)

    def has(self, count):
        """Wait until so many events of the logs came."""
        return wait_for(lambda: len(events(self.packets())) >= count and self.packets())

    def packets(self):
        copy = Kept()
        copy.raw = bytearray(self.kept.raw)
        try:
            return copy.packets()
        except (MalformedPacket, ValueError):  # a packet is just being appended
            return []

    def failed(self):
        """The error that ends it."""
        return self.run.exception(DEADLINE)

    def end(self):
        self.transmit.stop()
        ended(self.run)
        return self.kept.packets()


def made(where, **settings):
    return tailrace.create(
        f"{where}/binlog.000001", flavour="mysql", server_id=1, server_uuid=UUID, **settings
    )


def commit(log, text="create database a"):
    with log.transaction() as trx:
        trx.query(text)


def test_what_this_process_writes_is_sent_at_once(memory, monkeypatch, served):
    """A program that writes with `tailrace.create` wakes the dump: files are not looked at."""
    monkeypatch.setattr(MemoryFolder, "looks_every", 3600.0)
    with made(f"memory:{memory}") as log:
        logs = served(f"memory:{memory}")
        dumping = Dumping(logs)
        dumping.has(1)  # PREVIOUS_GTIDS
        for number in range(3):
            commit(log, f"create database d{number}")
            packets = dumping.has(1 + 2 * (number + 1))
        log.rotate()
        commit(log)
        packets = dumping.has(1 + 6 + 1 + 1 + 2)
        assert [packet[5] for packet in packets].count(4) == 3  # two artificial, one real
        dumping.end()


def test_a_file_that_was_made_a_moment_ago_is_found(memory, served):
    """A replica that asks for a new file stops for good if it is told that there is none."""
    with made(f"memory:{memory}") as log:
        logs = served(f"memory:{memory}")
        for number in range(2, 5):
            assert logs.file(f"binlog.{number:06}") is None
            log.rotate()
            assert logs.file(f"binlog.{number:06}") is not None


def test_logs_that_were_closed_let_nobody_wait(tmp_path, served):
    logs = served(in_use(SHOP / "mysql" / "binlog.000004", tmp_path / "logs").parent)
    file = logs.file("binlog.000004")
    logs.close()
    assert ended(in_thread(logs.wait, file, file.end, 10 * DEADLINE)) == [False]


def test_what_this_process_has_not_synced_is_not_sent(tmp_path, monkeypatch, served):
    """As mysqld with ``sync_binlog=1``: no replica has what a failing sync rolls back."""
    synced, go = FileOutput.sync, threading.Event()
    syncing, fails = threading.Event(), [True]

    def waits(output):
        syncing.set()
        assert go.wait(DEADLINE)
        if fails.pop():
            raise StorageError("the disk is full")
        synced(output)

    with made(tmp_path, sync="transaction") as log:
        logs = served(tmp_path)
        dumping = Dumping(logs)
        packets = dumping.has(1)
        before = log.position.offset
        for fails[:], error in (([True], StorageError), ([False], None)):
            monkeypatch.setattr(FileOutput, "sync", waits)
            go.clear()
            syncing.clear()
            with ThreadPoolExecutor(1) as pool:
                returned = pool.submit(commit, log)
                assert syncing.wait(DEADLINE)
                assert (tmp_path / "binlog.000001").stat().st_size > before
                assert logs.look(logs.files()[-1]) == before
                time.sleep(0.1)  # more than one look
                assert dumping.has(1) == packets
                monkeypatch.undo()
                go.set()
                assert type(returned.exception(DEADLINE)) is (error or type(None))
        dumping.has(1 + 2)
        assert logs.look(logs.files()[-1]) == log.position.offset
        dumping.end()


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_an_unfinished_transaction_is_held_back(tmp_path, flavour, served):
    """A copy that stops anywhere is sent up to its last whole transaction, and no byte further."""
    log = SHOP / flavour / "binlog.000001"
    raw = growing(log.read_bytes()[:40_000])
    whole = [(begin, end) for begin, end in transactions_of(log) if end <= len(raw)]
    ends = [whole[0][0], *(end for _, end in whole)]  # the first is that of the file's head
    copy = tmp_path / "binlog.000001"
    copy.write_bytes(raw[:300])
    logs = served(tmp_path)
    dumping = Dumping(logs, flags=2 if flavour == "mariadb" else 0)
    sizes = sorted({*range(1000, len(raw), 997), *(end - 1 for end in ends[1:20]), *ends[1:20]})
    before = 300
    for size in sizes:
        if size <= before:
            continue
        with copy.open("ab") as file:
            file.write(raw[before:size])
        before = size
        expected = file_events(copy, end=max(end for end in ends if end <= size))
        assert events(dumping.has(len(expected))) == expected
    dumping.end()


def test_a_file_that_ends_inside_a_transaction_and_another_follows(tmp_path):
    """Its tail is not sent: a source that crashed left it out, too."""
    first, second = (SHOP / "mysql" / f"binlog.00000{number}" for number in (1, 2))
    begin, end = transactions_of(first)[5]
    (tmp_path / first.name).write_bytes(growing(first.read_bytes()[: end - 10]))
    shutil.copy(second, tmp_path)
    packets = ours(tmp_path, asked())
    expected = file_events(first, end=begin) + file_events(second)
    assert events(packets) == expected
    assert packets[-1][0] == 0xFE


def test_a_file_that_was_closed_but_ends_inside_an_event(tmp_path):
    """Damage, and no crash: error 1236 as from a server."""
    first = SHOP / "mysql" / "binlog.000001"
    (tmp_path / first.name).write_bytes(first.read_bytes()[:-7])
    *packets, error = ours(tmp_path, asked())
    assert events(packets) == file_events(tmp_path / first.name)
    assert error.startswith("binlog truncated in the middle of event; consider out of disk space")


def test_a_dump_from_inside_an_event_sends_no_part_of_a_packet(served):
    """What stands where a length should be is often more than the file has: error 1236."""
    path = SHOP / "mysql" / "binlog.000001"
    raw = path.read_bytes()
    logs = served(path.parent)
    beyond = 0
    for position in range(transactions_of(path)[0][0] + 1, 2000):
        length = int.from_bytes(raw[position + 9 : position + 13], "little")
        if 1 << 20 < length <= 1 << 30:
            *packets, error = ours(logs, asked(file=path.name, position=position))
            assert events(packets) == []
            assert error.startswith("binlog truncated in the middle of event")
            beyond += 1
    assert beyond > 50


@pytest.mark.parametrize("size", [60_000, 3 << 20])
def test_a_file_that_is_cut_off_while_it_is_served(tmp_path, size, served):
    """The cut is inside the event that is to be sent next: error 1236, no part of its packet."""
    with made(tmp_path) as log:
        commit(log)
        begin = log.position.offset
        commit(log, f"create database d /* {'x' * size} */")
        commit(log)
    path = tmp_path / "binlog.000001"
    logs = served(tmp_path)
    assert logs.position.offset == path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(begin + size // 2)
    *packets, error = ours(logs, asked())
    assert error.startswith("the source's logs were replaced by others, or cut off")
    sent = events(packets)
    assert sent == file_events(path)[: len(sent)]
    wait_for(lambda: sized(logs) == [("binlog.000001", path.stat().st_size)])


@pytest.mark.parametrize("cut", [0, 100])
def test_a_file_that_is_cut_off_and_continued_between_two_looks(tmp_path, cut, served):
    """Its beginning is the same, and it is as long as before: its end is another one."""
    path, other = tmp_path / "served" / "binlog.000001", tmp_path / "other"
    other.mkdir()
    with made(path.parent) as log:
        for _ in range(6):
            commit(log)
    size = path.stat().st_size
    shutil.copy(path, other)
    os.truncate(other / path.name, size - 40)
    with pytest.warns(LogRecovered):
        log = tailrace.append(other, server_uuid=UUID)
    with log:
        for _ in range(6):
            commit(log, "create database other")
    logs = served(path.parent)
    assert logs.position.offset == size
    before = str(logs.gtids)
    raw = growing((other / path.name).read_bytes())
    path.write_bytes(raw[: len(raw) - cut])
    wait_for(lambda: logs.position.offset > size and str(logs.gtids) != before)
    *packets, _ = ours(logs, asked())
    assert events(packets) == file_events(path, end=logs.position.offset)


def test_an_idle_dump_sends_heartbeats(memory, served):
    with made(f"memory:{memory}") as log:
        commit(log)
        logs = served(f"memory:{memory}")
        for flags, kind in ((0, 27), (2, 41)):
            dumping = Dumping(logs, heartbeat=0.05, flags=flags)
            while sum(packet[5] == kind for packet in dumping.packets()) < 3:
                assert not dumping.run.done()
            packets = dumping.end()
            beats = [p for p in packets if p[5] == kind]
            assert len({bytes(beat) for beat in beats}) == 1
            assert struct.unpack_from("<I", beats[0], 14)[0] == log.position.offset
            assert b"binlog.000001" in beats[0]


def beats(packets):
    return sum(packet[5] == 27 for packet in packets)


def test_an_outage_of_the_folder_ends_no_dump(tmp_path, caplog, served):
    """The folder is away for a while: idle dumps and new ones wait, with heartbeats, and go on."""
    caplog.set_level("INFO", "tailrace")
    shop = SHOP / "mysql"
    folder, away = tmp_path / "copy", tmp_path / "away"
    first = in_use(shop / "binlog.000001", folder)
    logs = served(folder)
    idle = Dumping(logs, heartbeat=0.05)
    sent = file_events(first)
    assert events(idle.has(len(sent))) == sent
    folder.rename(away)
    wait_for(lambda: "waiting for the logs" in caplog.text)
    before = beats(idle.packets())
    wait_for(lambda: beats(idle.packets()) > before + 1)
    new = Dumping(logs)
    wait_for(lambda: caplog.text.count("waiting for the logs") >= 2)
    assert "No such file or directory" in caplog.text
    shutil.copy(shop / "binlog.000002", away)
    away.rename(folder)
    sent += file_events(shop / "binlog.000002")
    for dumping in (idle, new):
        assert events(dumping.has(len(sent))) == sent
        dumping.end()


def test_out_of_file_descriptors_ends_no_dump(tmp_path, caplog, served):
    """EMFILE: the log rotates while no file can be opened; afterwards the dump goes on."""
    shop = SHOP / "mysql"
    first = in_use(shop / "binlog.000001", tmp_path / "copy")
    logs = served(first.parent)
    dumping = Dumping(logs, heartbeat=0.05)
    sent = file_events(first)
    dumping.has(len(sent))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    then = Path(shutil.copy(shop / "binlog.000002", tmp_path))
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        then.rename(first.parent / then.name)  # whole at once: a half of it would end the dump
        wait_for(lambda: "Too many open files" in caplog.text)
        before = beats(dumping.packets())
        wait_for(lambda: beats(dumping.packets()) > before)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    sent += file_events(shop / "binlog.000002")
    assert events(dumping.has(len(sent))) == sent
    dumping.end()


@pytest.mark.parametrize("waits", [True, False])
def test_storage_that_fails_for_long_ends_a_dump_so_that_replicas_connect_again(
    tmp_path, monkeypatch, waits, served
):
    """Error 1053, at which replicas reconnect; the reason is told to the source's log only."""
    monkeypatch.setattr("tailrace.replication.source.transmit._OUTAGE", 1.0)
    first = in_use(SHOP / "mysql" / "binlog.000001", tmp_path / "copy")
    logs = served(first.parent)
    logs.files()
    logs._listed = 0.0
    first.parent.rename(tmp_path / "away")
    dumping = Dumping(logs, flags=0 if waits else 1)
    error = dumping.failed()
    assert isinstance(error, ServerError)
    assert (error.code, error.sqlstate) == (1053, "08S01")
    assert "no such file" in str(error)
    assert "no such file" not in error.text


def test_the_reason_of_a_fatal_error_is_in_the_sources_log(tmp_path, served):
    """A damaged event: the replica is told the servers' words, the log what is wrong."""
    first = in_use(SHOP / "mysql" / "binlog.000001", tmp_path / "copy")
    logs = served(first.parent)
    dumping = Dumping(logs)
    dumping.has(len(file_events(first)))
    with first.open("ab") as file:
        file.write(bytes(19))
    error = dumping.failed()
    assert isinstance(error, ServerError)
    assert error.code == 1236
    assert error.text.startswith("I/O error reading log event; the first event")
    assert str(error).endswith(f"({error.__cause__})")
    assert "not 0" in str(error)


def sized(logs):
    return [(file.name, logs.look(file)) for file in logs.files()]


@pytest.mark.parametrize("seconds", [0, 2])
@pytest.mark.parametrize("where", ["disk", "memory"])
def test_a_copy_that_is_removed_and_made_again_is_another_one(
    tmp_path, memory, where, seconds, caplog, served
):
    """The old log's dumps end, those by GTID so that the replica reconnects."""
    folder = tmp_path / "copy" if where == "disk" else f"memory:{memory}"
    uuids = ["aaaaaaaa-71ca-11e1-9e33-c80aa9429562", "bbbbbbbb-71ca-11e1-9e33-c80aa9429562"]
    given = {"flavour": "mysql", "server_id": 7}
    with tailrace.create(f"{folder}/binlog.000001", server_uuid=uuids[0], **given) as log:
        for number in range(3):
            commit(log, f"create database a{number}")
    logs = served(folder)
    by_file, by_gtid = Dumping(logs), Dumping(logs, gtids=GtidSet())
    for dumping in (by_file, by_gtid):
        dumping.has(7)
    assert logs.gtids == GtidSet.parse(f"{uuids[0]}:1-3")
    if where == "disk":
        shutil.rmtree(folder)
    else:
        forgotten = memory_folder(memory)
        for name in forgotten.names():
            forgotten.remove(name)
    time.sleep(seconds)  # the old dumps look meanwhile
    with tailrace.create(f"{folder}/binlog.000001", server_uuid=uuids[1], **given) as log:
        for number in range(9):
            commit(log, f"create database b{number}")
        for dumping, code in ((by_file, 1236), (by_gtid, 1053)):
            error = dumping.failed()
            assert isinstance(error, ServerError)
            assert error.code == code
        wait_for(lambda: logs.gtids == GtidSet.parse(f"{uuids[1]}:1-9"))
        assert sized(logs) == [("binlog.000001", log.position.offset)]
        assert caplog.text.count("was replaced or cut off") == 1
        sent = events(ours(logs, asked(gtids=GtidSet())))
        begun = [event[20:36].hex() for event in sent if event[4] == 33]
        assert begun == [uuids[1].replace("-", "")] * 9
        commit(log)
        wait_for(lambda: sized(logs) == [("binlog.000001", log.position.offset)])


def test_another_servers_logs_in_the_same_folder(tmp_path, served):
    """The files are replaced by those of MariaDB: version, sizes and events are theirs."""
    for path in (SHOP / "mysql").iterdir():
        shutil.copy(path, tmp_path)
    logs = served(tmp_path)
    assert logs.flavour == "mysql"
    assert events(ours(logs, asked()))
    for path in tmp_path.iterdir():
        path.unlink()
    for path in (SHOP / "mariadb").iterdir():
        shutil.copy(path, tmp_path)
    wait_for(lambda: logs.flavour == "mariadb")
    kept = sorted((SHOP / "mariadb").glob("binlog.0*"))
    wait_for(lambda: sized(logs) == [(path.name, path.stat().st_size) for path in kept])
    expected = [event for path in kept for event in file_events(path)]
    assert events(ours(logs, asked(flags=3))) == expected


def test_a_longer_copy_in_place_of_the_file_continues_it(tmp_path, caplog, served):
    """As rsync does it: another file of the same beginning gets the name. No dump ends."""
    first = in_use(SHOP / "mysql" / "binlog.000001", tmp_path / "copy")
    raw = first.read_bytes()
    _, end = transactions_of(first)[5]
    first.write_bytes(raw[:end])
    logs = served(first.parent)
    dumping = Dumping(logs)
    dumping.has(len(file_events(first)))
    (tmp_path / "longer").write_bytes(raw)
    (tmp_path / "longer").rename(first)
    sent = file_events(first)
    assert events(dumping.has(len(sent))) == sent
    dumping.end()
    assert "replaced" not in caplog.text


def test_a_replica_that_went_away_ends_its_dump(memory, served):
    with made(f"memory:{memory}"):
        logs = served(f"memory:{memory}")
        dumping = Dumping(logs)
        dumping.has(1)
        dumping.kept.gone = True
        assert isinstance(dumping.failed(), ConnectionLost)


def test_files_that_are_purged_while_they_are_served(memory, served):
    with made(f"memory:{memory}") as log:
        commit(log)
        log.rotate()
        commit(log)
        logs = served(f"memory:{memory}")
        assert [file.name for file in logs.files()] == ["binlog.000001", "binlog.000002"]
        log.purge(to="binlog.000002")
        wait_for(lambda: [file.name for file in logs.files()] == ["binlog.000002"])
        assert logs.purged == GtidSet.parse(f"{UUID}:1")
        assert logs.gtids == GtidSet.parse(f"{UUID}:1-2")
        (error,) = ours(logs, asked(gtids=GtidSet()))
        assert "purged required binary logs" in error
        assert f"'{UUID}:1'" in error
        assert ours(logs, asked(gtids=GtidSet.parse(f"{UUID}:1")))[-1][0] == 0xFE


def test_a_transaction_that_is_rolled_back_in_the_file_is_never_sent(tmp_path, served):
    first = SHOP / "mysql" / "binlog.000001"
    raw = growing(first.read_bytes())
    begin, end = transactions_of(first)[4]
    copy = tmp_path / first.name
    copy.write_bytes(raw[: end - 40])
    logs = served(tmp_path)
    assert logs.position.offset == begin
    with copy.open("r+b") as file:
        file.truncate(begin)
    assert logs.position.offset == begin
    copy.write_bytes(raw[:end])
    assert logs.position.offset == end


def test_stored_in_other_ways(tmp_path):
    """Compressed files, and a folder of an object store, give the same dump."""
    folder = SHOP / "mysql"
    expected = ours(folder, asked())
    assert len(events(expected)) > 100
    names = [path.name for path in sorted(folder.glob("binlog.0*"))]

    for name in names:
        packed = zstandard.ZstdCompressor().compress((folder / name).read_bytes())
        (tmp_path / f"{name}.zst").write_bytes(packed)
    assert ours(tmp_path, asked()) == expected
    place = f"memory://served-{uuid4()}"
    store = fsspec.filesystem("memory")
    for name in names:
        store.pipe_file(f"{place}/{name}", (folder / name).read_bytes())
    assert ours(place, asked()) == expected


def test_replicas_that_begin_at_different_places_share_blocks(tmp_path, served):
    """Blocks end at the same places for all, so that each piece is read and framed once."""
    with made(tmp_path) as log:
        for number in range(40):
            commit(log, f"create database d{number} /* {'x' * 50_000} */")
        end = log.position.offset
    logs = served(tmp_path)
    one = ours(logs, asked())
    blocks = dict(logs.blocks._blocks)
    assert len(blocks) >= end // BLOCK
    begin = struct.unpack_from("<I", one[6], 14)[0]  # where the sixth packet's event ends
    for sequence in (1, 7, 250):
        later = ours(logs, asked(position=begin), sequence=sequence)
        assert later[2:] == one[7:]
    assert len(logs.blocks._blocks) == len(blocks) + 1  # the rest of the first one


def test_events_of_more_than_16_mib(tmp_path):
    """A packet of 0xFFFFFF bytes continues in the next, which may be empty."""
    other = 0
    for size in (0, 0xFFFFFF - 200, 0xFFFFFF - 1, 0xFFFFFF, 40 << 20):
        folder = tmp_path / str(size)
        with made(folder) as log:
            commit(log)
            commit(log, f"create database d /* {'x' * (size - other)} */")
            commit(log)
        expected = file_events(folder / "binlog.000001")
        other = other or len(expected[4])
        assert len(expected[4]) == size or not size
        assert events(ours(folder, asked())) == expected


def test_positions_beyond_4_gib(tmp_path):
    """By GTID a dump may begin anywhere; heartbeats have the whole position in their second form."""
    first = SHOP / "mysql" / "binlog.000001"
    raw = bytearray(first.read_bytes())
    begin, first_end = transactions_of(first)[0]
    size = 1 << 30
    path = tmp_path / first.name
    filler = struct.pack("<IBIIIH", 1, 28, 1, size, 0, 0x80)
    at = begin
    with path.open("wb") as file:
        file.write(raw[:begin])
        for _ in range(4):
            file.seek(at)
            file.write(filler)
            at += size
        file.seek(at)
        file.write(raw[begin:])
    have = GtidSet.parse(next(iter(tailrace.transactions(first))).gtid)
    packets = ours(tmp_path, asked(file=first.name, position=at, gtids=have, flags=3))
    assert packets[0][20:28] == at.to_bytes(8, "little")
    beats = [packet for packet in packets[:-1] if packet[5] == 41]
    end = at + first_end - begin
    assert len(beats) == 1
    assert end.to_bytes(5, "little") in beats[0]
    kept = events(packets)
    assert kept == file_events(first, begin=end - at + begin)


def test_several_series_and_none(tmp_path):
    with pytest.raises(StorageError, match="no log"):
        ServedLogs(tmp_path)
    shutil.copytree(SHOP, tmp_path / "both")
    with pytest.raises(UsageError, match=r"several logs \(.*one server"):
        ServedLogs(tmp_path / "both")


def test_what_is_no_log_is_not_waited_for(tmp_path):
    """A text, and a log without its first event: the errors say so, at once."""
    text = tmp_path / "passwd"
    text.write_text("root:x:0:0:root:/root:/bin/bash\n")
    with pytest.raises(BadMagic, match="not a binary log: it begins with 72 6F 6F 74"):
        ServedLogs(text)
    other = tmp_path / "binlog.000001"
    raw = (SHOP / "mysql" / "binlog.000001").read_bytes()
    first = 4 + int.from_bytes(raw[13:17], "little")
    other.write_bytes(raw[:4] + raw[first:])
    with pytest.raises(LogError, match="no format description event came before it"):
        ServedLogs(other)
