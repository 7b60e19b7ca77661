"""The receiver against real servers: names, bytes, index, and when it syncs."""

import os
import time
from types import SimpleNamespace

import pytest

import tailrace
from tailrace.errors import UsageError
from tailrace.live.session import Identity
from tailrace.live.url import Source
from tailrace.observers import RelayFlag, RelayIoObserver
from tailrace.position import Position
from tailrace.replication.progress import SourceEnd
from tailrace.replication.receiver import Receiver, receive
from tailrace.storage.keyring import make
from tailrace.transaction import BoundaryParser
from tests.live.feeding import source_of
from tests.replication.conftest import end_of, insert, rotate, run, same, url_of
from tests.replication.logs import split
from tests.waiting import wait_for
from tools.proxy import Proxy

HOSTS = {"mysql": "SHOW REPLICAS", "mariadb": "SHOW SLAVE HOSTS"}


@pytest.mark.quick
def test_all_that_is_there(source, folder):
    insert(source, range(0, 4000, 97))
    rotate(source)
    insert(source, [1, 100_000, 3])
    done = tailrace.receive(url_of(source), folder, follow=False)
    same(source, folder)
    assert done.done
    assert (done.position.file, done.position.offset) == end_of(source)
    assert done.received > 100_000


def test_it_goes_on_where_it_ended(source, folder):
    for _ in range(3):
        insert(source, [10, 20])
        received = run(source, folder).received
        same(source, folder)
    rotate(source)
    insert(source, [30])
    assert run(source, folder).received < received + 2000
    same(source, folder)
    assert run(source, folder).received == 0
    same(source, folder)


def test_following(source, folder, receiving):
    run = receiving(source, folder)
    for size in (5, 50_000, 5):
        insert(source, [size] * 5)
        wait_for(lambda: run.has(source))
        rotate(source)
    insert(source, [7])
    wait_for(lambda: run.has(source))
    done = run.stop()
    assert run.receiver.state == "stopped"
    same(source, folder)
    assert done.gtid == last_gtid(source)


def last_gtid(server):
    if server.flavour == "mariadb":
        return server.query("SELECT @@gtid_binlog_pos")[0][0]
    found = server.query("SELECT @@gtid_executed")[0][0]
    if not found:
        return None
    uuid, *intervals = found.split(":")
    return f"{uuid}:{intervals[-1].rpartition('-')[2]}"


def test_a_transaction_whose_cache_becomes_the_log_file(source, folder, receiving):
    """MariaDB 11.7 and later: its GTID event is padded with zeros to some kilobytes."""
    if not source.query("SHOW VARIABLES LIKE 'binlog_large_commit_threshold'"):
        pytest.skip(f"{source.name} copies each transaction into the log")
    source.execute("SET GLOBAL binlog_large_commit_threshold = 10485760")
    run = receiving(source, folder)
    with source.connect(autocommit=False) as connection, connection.cursor() as cursor:
        for _ in range(12):
            cursor.execute("INSERT INTO d.t (b) VALUES (REPEAT('x', 1000000))")
        connection.commit()
    source.settle()  # the log file is a new one
    log = source.binlogs()[-1]
    lengths = [event.header.length for event in tailrace.open(str(log)) if event.header.type == 162]
    assert max(lengths) > 1000
    wait_for(lambda: run.has(source))
    assert run.stop().gtid == last_gtid(source)
    same(source, folder)


@pytest.mark.parametrize("start", ["now", "position"])
def test_another_start_is_the_begin_of_a_file(source, folder, start):
    insert(source, [1])
    rotate(source)
    insert(source, [2, 3])
    file, size = end_of(source)
    options = "?start=now" if start == "now" else f"?position={file}:{size}"
    insert(source, [4])
    run(source, folder, options)
    same(source, folder, first=len(source.binlogs()) - 1)
    rotate(source)
    run(source, folder, "?start=oldest")  # there is a copy
    same(source, folder, first=len(source.binlogs()) - 2)


def test_a_time_is_the_begin_of_the_file_that_has_it(source, folder):
    insert(source, [1])
    rotate(source)
    insert(source, [2])
    run(source, folder, "?start=2001-01-01T00:00:00")
    same(source, folder)


class Watcher(RelayIoObserver):
    """Notes what it is told, and what was synced then."""

    def __init__(self, folder, synced):
        self.folder = folder
        self.synced = synced
        self.ends = []
        self.flags = []
        self.wrong = []

    def after_queue_event(self, io, event, flags):
        self.ends.append((io.log_name, io.log_pos))
        self.flags.append(flags)
        raw = (self.folder / io.log_name).read_bytes()
        if raw[io.log_pos - len(event) : io.log_pos] != bytes(event):
            self.wrong.append(("bytes", io.log_name, io.log_pos))
        if self.synced.get((self.folder / io.log_name).stat().st_ino, [0])[-1] < io.log_pos:
            self.wrong.append(("not synced", io.log_name, io.log_pos))


@pytest.fixture
def synced(monkeypatch):
    """How much of each file (by its number) was given to fsync, each time."""
    found = {}
    fsync = os.fsync

    def noting(handle):
        file = os.fstat(handle)
        fsync(handle)
        found.setdefault(file.st_ino, []).append(file.st_size)

    monkeypatch.setattr(os, "fsync", noting)
    return found


@pytest.mark.parametrize("sync", ["group", "transaction", 0.2])
def test_after_queue_event_says_what_is_synced(source, folder, receiving, synced, sync):
    rotate(source)
    watcher = Watcher(folder, synced)
    run = receiving(source, folder, options="?start=now", sync=sync, observers=[watcher])
    insert(source, [10] * 20)
    wait_for(lambda: run.has(source) and watcher.ends and watcher.ends[-1] == end_of(source))
    run.stop()
    assert not watcher.wrong
    assert watcher.flags[-1] is RelayFlag.SYNCED
    _, _, *ends = split((folder / end_of(source)[0]).read_bytes())
    assert [end for _, end in watcher.ends] == ends
    if sync == "transaction":
        assert len(synced[(folder / end_of(source)[0]).stat().st_ino]) >= 20


def test_encrypted(source, folder, tmp_path):
    keyring = make(tmp_path / "keys", "copies")
    rotate(source)
    insert(source, [10, 100_000])
    file = source.binlogs()[-1]

    given = {"options": f"?position={file.name}:4", "encrypt": True, "keyring": keyring.path}
    run(source, folder, **given)
    insert(source, [11])
    run(source, folder, **given)
    rotate(source)
    insert(source, [12])
    run(source, folder, **given)
    for log in source.binlogs()[-2:]:
        copied = (folder / log.name).read_bytes()
        assert copied.startswith(b"\xfdbin")
        assert b"x" * 50 not in copied
        expected = [bytes(event.encode()) for event in tailrace.open(str(log))]
        found = [
            bytes(event.encode())
            for event in tailrace.open(str(folder / log.name), keyring=keyring.path)
        ]
        assert found[1:] == expected[1:]
    # What is encrypted stays so, and cannot be gone on with without its keys.
    with pytest.raises(UsageError, match="keyring"):
        run(source, folder)
    insert(source, [13])
    run(source, folder, keyring=keyring.path)
    rotate(source)
    run(source, folder, keyring=keyring.path)
    assert all(path.read_bytes().startswith(b"\xfdbin") for path in folder.glob("binlog.0*"))


def test_it_stops_at_a_transaction_s_end(source, folder, receiving):
    rotate(source)
    run = receiving(source, folder, options="?start=now")
    for _ in range(3):
        insert(source, [200_000] * 10)
        wait_for(lambda run=run: run.receiver.position)  # one that connects is stopped at once
        run.stop()
        file = run.receiver.position.file
        parser = BoundaryParser()
        for event in tailrace.open(str(folder / file)):
            parser.feed(event)
        assert not parser.inside
        run = receiving(source, folder)
    wait_for(lambda: run.has(source))
    run.stop()
    same(source, folder, first=len(source.binlogs()) - 1)


def test_usage(source, folder):
    gtid = "0-1-1" if source.flavour == "mariadb" else f"{'0' * 8}-0000-0000-0000-{'0' * 12}:1"
    path = folder.parent / "file"
    path.touch()
    for url, into, given, told in (
        ("mysql://root@one,two/", folder, {}, "one host"),
        (url_of(source), folder, {"sync": "seldom"}, "sync"),
        (url_of(source), folder, {"retain": "much"}, "retain"),
        (url_of(source), folder, {"encrypt": True}, "keyring"),
        (url_of(source, f"?gtid={gtid}"), folder, {}, "begins with a file"),
        (url_of(source), path, {}, "this is a file"),
    ):
        with pytest.raises(UsageError, match=told):
            Receiver(url, into, **given).run()
    assert not folder.exists() or not list(folder.glob("binlog*"))


def test_progress_and_that_an_idle_source_is_not_ahead(
    source, folder, receiving, monkeypatch, caplog
):
    """However old its last event is; while it is not known how far it is, nor is the lag."""
    caplog.set_level("INFO", logger="tailrace.live")
    clock = SimpleNamespace(time=lambda: time.time() + 60, monotonic=time.monotonic)
    monkeypatch.setattr("tailrace.replication.progress.time", clock)
    reports = []
    run = receiving(
        source, folder, options="?heartbeat=0.5", on_progress=reports.append, every=0.0001
    )
    wait_for(lambda: reports and reports[-1].lag_bytes == 0)
    count = len(reports)
    wait_for(lambda: len(reports) > count + 20)  # heartbeats come meanwhile
    insert(source, [10] * 20)
    wait_for(lambda: run.has(source))
    position = Position(*end_of(source))
    last = wait_for(
        lambda: (each := reports[-1]).position == position and each.lag_bytes == 0 and each
    )
    assert last.lag_seconds == 0
    assert last.connected
    assert last.gtid == last_gtid(source)
    assert {each.lag_seconds for each in reports if each.lag_bytes is None} <= {None}
    assert all(each.lag_seconds is None or each.lag_seconds < 30 for each in reports[count:])
    assert run.stop().received == reports[-1].received
    assert reports[-1].done
    said = [each.getMessage().partition(": ")[2] for each in caplog.records]
    assert said[0] == "reading from the start of the oldest log"


def test_a_lost_source_is_not_connected(source, folder, receiving):
    """From the first failed attempt on, and not only after two heartbeat periods."""
    reports = []
    with Proxy(source.port) as proxy:
        through = SimpleNamespace(flavour=source.flavour, port=proxy.port)
        receiving(
            through, folder, options="?heartbeat=3600", on_progress=reports.append, every=0.001
        )
        wait_for(lambda: reports and reports[-1].connected)
        proxy.refuse()
        wait_for(lambda: not reports[-1].connected)


class Calls(RelayIoObserver):
    def __init__(self):
        self.calls = []

    def thread_stop(self, io):
        self.calls.append("stop")

    def after_queue_event(self, io, event, flags):
        self.calls.append("queue")

    def after_reset_replica(self, io):
        self.calls.append("reset")


def test_observers_are_told_of_the_end_behind_all_events(source, folder):
    insert(source, [5])
    seen = Calls()
    Receiver(url_of(source), folder, follow=False, observers=[seen]).run()
    assert seen.calls.count("queue") > 5
    assert seen.calls.index("stop") == len(seen.calls) - 1


def test_after_reset_slave_a_reset_begins_a_new_copy(source, folder):
    insert(source, [5])
    seen = Calls()
    receiver = Receiver(url_of(source), folder, follow=False, observers=[seen])
    receiver.run()
    (folder / "notes.txt").write_text("mine")
    receiver.reset()
    assert seen.calls[-1] == "reset"
    assert receiver.position is None
    assert {path.name for path in folder.iterdir()} <= {"notes.txt", "receiver.lock"}
    (folder / "notes.txt").unlink()
    receiver.run()
    same(source, folder)


class Asks(RelayIoObserver):
    def before_request_transmit(self, io, flags):
        self.shown = (io.host, io.user, io.port, io.server_id)
        self.answer = list(io.connection.query("SELECT CONNECTION_ID()"))
        self.flags = flags
        return flags

    def after_queue_event(self, io, event, flags):
        self.place = (io.log_name, io.log_pos)


def test_host_user_port_server_id_and_place_are_shown(server, tmp_path):
    observer = Asks()
    server.rotate()
    last = server.binlogs()[-1]
    progress = receive(
        source_of(server, server_id=4398), tmp_path / "copy", follow=False, observers=[observer]
    )
    assert observer.shown == ("127.0.0.1", "root", server.port, 4398)
    assert observer.answer[0][0] > 0
    assert observer.place == (progress.position.file, progress.position.offset)
    assert observer.place[0] >= last.name


def test_bytes_ahead(source, monkeypatch):
    monkeypatch.setattr("tailrace.replication.progress._SECONDS", 0.1)  # between two questions
    insert(source, [1000])
    rotate(source)
    insert(source, [100_000])
    rotate(source)
    insert(source, [50])
    sizes = [(log.name, log.stat().st_size) for log in source.binlogs()]
    end = SourceEnd(Source.parse(url_of(source)), Identity())
    first, middle, last = (name for name, _ in sizes[-3:])
    assert end.ahead_of(Position(first, 4), None) is None
    end.want()
    wait_for(lambda: end.ahead_of(Position(last, 4), None) is not None)
    total = sum(size for _, size in sizes[-3:])
    assert end.ahead_of(Position(first, 4), None) == total - 4
    assert end.ahead_of(Position(middle, 500), None) == total - sizes[-3][1] - 500
    assert end.ahead_of(Position(*end_of(source)), None) == 0
    assert end.ahead_of(Position(last, 4), Position(last, 10_000_000)) == 10_000_000 - 4
    assert end.ahead_of(Position("binlog.000000", 4), None) is None
    insert(source, [10_000])
    rotate(source)
    wait_for(lambda: end.want() or end.ahead_of(Position(last, 4), None) == ahead(source, last))
    end.close()


def ahead(server, name):
    return sum(log.stat().st_size for log in server.binlogs() if log.name >= name) - 4


def test_it_is_only_a_convenience(source):
    """Without the privilege, or a server, it does not know; and that is all."""
    source.execute("CREATE USER IF NOT EXISTS mere@'%' IDENTIFIED BY 'x'")
    url = url_of(source).replace("root@", "mere:x@")
    for each in (url, "mysql://root@127.0.0.1:1/"):
        end = SourceEnd(Source.parse(each), Identity())
        end.want()
        wait_for(lambda asked=end: asked._last_error)
        assert end.ahead_of(Position("binlog.000001", 4), None) is None
        end.close()
