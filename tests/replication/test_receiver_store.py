"""Copies in an object store: what is received is there when it is synced, by segments."""

import re
import subprocess
import sys
import threading
import time
from itertools import count

import pytest

import tailrace
from tailrace.errors import StorageError, TailraceError
from tailrace.observers import RelayFlag, RelayIoObserver
from tailrace.replication.receiver import Receiver
from tailrace.storage.keyring import make
from tailrace.storage.objects import ObjectStore, ObjectUrl
from tailrace.storage.objects import folder as folders
from tailrace.storage.objects import output as outputs
from tests.live.feeding import plain
from tests.replication.conftest import Running, insert, rotate, url_of
from tests.waiting import ended, in_thread, wait_for


def run(source, bucket, **settings):
    return Receiver(url_of(source), f"{bucket.url}/logs", follow=False, **settings).run()


@pytest.fixture(autouse=True)
def _some(source):
    insert(source, [10, 5000])


def there(bucket):
    return ObjectStore(ObjectUrl.parse(f"{bucket.url}/logs"))


def same_files(source, bucket):
    """Every file but the last is an object; the last one grows by segments; the index lists all."""
    logs = source.binlogs()
    for log in logs[:-1]:
        assert (bucket.folder / "logs" / log.name).read_bytes() == log.read_bytes()
        assert bucket.names(f"logs/{log.name}.segments-v1") == []
    assert logs[-1].name not in [
        name for name in bucket.names("logs") if name.startswith("binlog.0") and "seg" not in name
    ]
    assert plain(there(bucket).read(logs[-1].name, 0, 1 << 30)) == plain(logs[-1].read_bytes())
    listed = (bucket.folder / "logs" / "binlog.index").read_text().splitlines()
    assert listed[-len(logs) :] == [f"./{log.name}" for log in logs]


def test_a_file_is_there_as_it_is_received_and_an_object_when_it_is_whole(source, bucket):
    """Issue 20, zero-loss landing: compacted into the byte-identical log file when it is whole."""
    run(source, bucket)
    same_files(source, bucket)
    insert(source, [20])
    rotate(source)
    insert(source, [30, 100_000])
    run(source, bucket)
    same_files(source, bucket)
    rotate(source)
    assert run(source, bucket).received < 2000
    same_files(source, bucket)


class Acknowledged(RelayIoObserver):
    """What the store holds when an event is told as synced."""

    def __init__(self, bucket):
        self.bucket = bucket
        self.short = []
        self.synced = 0

    def after_queue_event(self, io, event, flags):
        if flags & RelayFlag.SYNCED:
            self.synced += 1
            size = there(self.bucket).head(io.log_name)[1]
            if size < io.log_pos:
                self.short.append((io.log_name, io.log_pos, size))


def test_what_is_acknowledged_is_in_the_store(source, bucket, receiving):
    """Issue 20, zero-loss landing: acknowledges only what is durable in the store asked for."""
    seen = Acknowledged(bucket)
    running = receiving(source, f"{bucket.url}/logs", observers=[seen])
    wait_for(lambda: running.has(source))
    for _ in range(5):
        insert(source, [10, 1000])
        wait_for(lambda: running.has(source))
    rotate(source)
    insert(source, [10, 1000])
    wait_for(lambda: running.has(source))
    running.stop()
    assert seen.short == []
    assert seen.synced > 5
    same_files(source, bucket)


def test_two_receivers_on_two_machines(source, bucket):
    """Issue 20, zero-loss landing: the second is locked out or harmless. It takes over, because it
    has the same replica's identity from the store, for which a source sends its log once: the first
    ends with an error, the other has all, and nothing twice.
    """
    url = f"{bucket.url}/logs"
    first = Running(Receiver(url_of(source), url, follow=True))
    wait_for(lambda: first.has(source))
    with pytest.raises(StorageError, match="another receiver writes into this folder"):
        run(source, bucket)  # in this process
    other = Receiver(url_of(source), url, follow=True)
    lock = "tailrace.replication.copy.folder._locked"
    with pytest.MonkeyPatch.context() as elsewhere:  # of another machine's process
        elsewhere.setattr(lock, set())
        there_open = {}
        for module in (outputs, folders):
            elsewhere.setattr(module, "OPEN", there_open)
        second = Running(other)
        wait_for(lambda: second.error or second.has(source))
        for number in range(200):
            insert(source, [number % 50 + 1])
            if first.error:
                break
        wait_for(lambda: first.error)
        assert re.search("has taken it over|it and took over", str(first.error))
        wait_for(lambda: second.has(source))
        second.stop()
    same_files(source, bucket)


def test_the_store_is_away(source, bucket, monkeypatch):
    run(source, bucket)
    rotate(source)
    insert(source, [10])
    with monkeypatch.context() as away:
        away.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        away.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
        with pytest.raises(TailraceError):
            run(source, bucket)
    run(source, bucket)
    same_files(source, bucket)


def test_a_copy_is_forgotten(source, bucket):
    """Old files, by the size of all with the one that is just begun; or everything."""
    rotate(source)
    first, _ = source.binlogs()
    limit = first.stat().st_size
    receiver = Receiver(url_of(source), f"{bucket.url}/logs", follow=False, retain=f"{limit}B")
    receiver.run()
    assert receiver.purged == [first.name]
    receiver = Receiver(url_of(source), f"{bucket.url}/logs", follow=False)
    receiver.reset()
    assert there(bucket).listing() == {}
    receiver.run()
    same_files(source, bucket)


def test_how_long_events_wait_for_the_store_is_bounded_and_shown(source, bucket, receiving):
    """Issue 20, zero-loss landing: the latency is bounded by an option and shown."""
    shown = []
    running = receiving(
        source, f"{bucket.url}/logs", sync="60ms", on_progress=shown.append, every=0.05
    )
    wait_for(lambda: running.has(source))
    shown.clear()
    for _ in range(20):
        insert(source, [10])
    wait_for(lambda: running.has(source))

    def soon():
        insert(source, [10])
        wait_for(lambda: running.has(source))
        return any(each.sync_seconds is not None and each.sync_seconds < 0.1 for each in shown)

    wait_for(soon, "always at the next look, which is 0.1 s later")
    running.stop()
    waited = [each.sync_seconds for each in shown if each.sync_seconds is not None]
    assert all(each >= 0.06 for each in waited[:-1])  # the last is that of the end


def test_encrypted(source, bucket, tmp_path):
    """Whether a file is whole cannot be seen in an encrypted one: it is not taken for whole."""
    keyring = make(tmp_path / "keys", "copies").path
    run(source, bucket, encrypt=True, keyring=keyring)
    same_names = [log.name for log in source.binlogs()]
    assert same_names[-1] not in bucket.names("logs")
    insert(source, [10])
    rotate(source)
    run(source, bucket, encrypt=True, keyring=keyring)
    log = source.binlogs()[-2]
    raw = (bucket.folder / "logs" / log.name).read_bytes()
    assert raw.startswith(b"\xfdbin")
    found = tailrace.open(f"{bucket.url}/logs/{log.name}", keyring=keyring)
    assert [event.encode() for event in found] == [
        event.encode() for event in tailrace.open(str(log))
    ]


@pytest.mark.slow
def test_one_of_two_receivers_remains(source, bucket):
    """Each is a process; the second one starts while the first one creates files."""
    url = url_of(source, "?retry=20&heartbeat=2")
    command = [sys.executable, "-m", "tailrace", "receive", url, "--follow", "--into"]

    def start(folder):
        return subprocess.Popen([*command, f"{bucket.url}/{folder}"], stderr=subprocess.PIPE)

    def writing():
        with source.connect() as connection, connection.cursor() as cursor:
            for number in count():
                if stopped.wait(0.005):
                    return
                cursor.execute("INSERT INTO d.t (b) VALUES (REPEAT('x', 5000))")
                connection.commit()
                if number % 60 == 59:
                    cursor.execute("FLUSH BINARY LOGS")

    stopped = threading.Event()
    thread = in_thread(writing)
    both = []
    try:
        for number in range(4):
            both = [start(number)]
            wait_for(lambda number=number: "binlog.index" in bucket.names(str(number)))
            both.append(start(number))
            wait_for(lambda both=both: any(each.poll() is not None for each in both))
            time.sleep(3)
            left = [each for each in both if each.poll() is None]
            assert len(left) == 1, [each.stderr.read() for each in both]
            for each in both:
                each.kill()
                each.communicate()
    finally:
        stopped.set()
        ended(thread)
        for each in both:
            each.kill()
            each.wait()
