"""Issue 20: a program's commit returns when it is in the object store, by segments."""

import sys
import threading
import time

import pytest

import tailrace
from tailrace.errors import KeyMissing, StorageError
from tailrace.storage.objects import ObjectFolder, ObjectStore, ObjectUrl
from tailrace.storage.objects import output as outputs
from tests.storage.objects.test_landing import NAME, forget
from tests.waiting import ended, in_thread, wait_for
from tests.writing.made import FLAVOURS, UUID, check_files, orders, row, transactions_of
from tests.writing.made import log as new_log


def insert(log, *numbers):
    """A transaction."""
    with log.transaction() as trx:
        trx.insert(orders(log.flavour), [row(number) for number in numbers])


def again(url, flavour, **given):
    if flavour == "mysql":
        given.setdefault("server_uuid", UUID)
    return tailrace.append(url, **given)


@pytest.mark.parametrize("encrypt", [False, True], ids=["plain", "encrypted"])
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_commit_is_in_the_store_when_it_returns(bucket, flavour, encrypt, tmp_path):
    """Issue 20: a commit can be acknowledged only when it is durable in an object store. All that
    reads the folder sees it; a writer without the local disk continues after it.
    """
    url = f"{bucket.url}/logs"
    given = {}
    if encrypt:
        given = {"keyring": tailrace.storage.keyring.make(tmp_path / "ring", "1")}
    create = {"encrypt": True, "key_id": "1"} if encrypt else {}
    log = new_log(f"{url}/{NAME}", flavour, sync="transaction", **given, **create)
    for number in range(1, 7):
        insert(log, number)
        if number == 3:
            log.rotate()
        there = ObjectStore(ObjectUrl.parse(url)).listing()[log.position.file]
        assert there is not None
        assert there - log.position.offset == (512 if encrypt and flavour == "mysql" else 0)
        with tailrace.open(url, **given) as found:
            assert len(list(found.transactions())) == number
        assert sum(1 for _ in tailrace.rows(url, **given)) == number
        assert sum(each.num_rows for each in tailrace.changes(url, **given)) == number
    wait_for(lambda: encrypt or NAME in bucket.names("logs"))  # an object, while it is open
    forget()
    with again(url, flavour, **given) as log:
        assert log.recovery is None
        assert log.position.file == "binlog.000002"
        insert(log, 7)
    if encrypt:
        assert all(b"shop" not in path.read_bytes() for path in (bucket.folder / "logs").iterdir())
        with pytest.raises(KeyMissing, match="keyring"):
            list(tailrace.open(url))
    assert bucket.names("logs") == [NAME, "binlog.000002", "binlog.index"]
    with tailrace.open(url, **given) as found:
        assert len(list(found.transactions())) == 7


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_torn_tail_is_cut_as_it_is_on_disk(bucket, flavour, tmp_path):
    """Issue 20: append on a machine without the local disk leaves the same bytes, and continues."""
    whole = tmp_path / "whole"
    log = new_log(whole / NAME, flavour)
    insert(log, 1, 2, 3)
    kept = log.position.offset
    insert(log, *range(4, 304))
    log.flush()
    content = (whole / NAME).read_bytes()
    for part in range(1, 4):
        url = f"{bucket.url}/torn{part}"
        end = kept + 3000 * part
        assert end < len(content)
        for start, stop in ((0, kept), *((at, at + 1000) for at in range(kept, end, 1000))):
            key = f"torn{part}/{NAME}.segments-v1/{start:020}-0000000001"
            bucket.put(key, content[start:stop])
        for name in (f"{0:020}-0000000001-0000000000", "owner-0000000001"):
            bucket.put(f"torn{part}/{NAME}.segments-v1/{name}", b"")
        bucket.put(f"torn{part}/binlog.index", f"./{NAME}\n".encode())
        local = tmp_path / f"torn{part}"
        local.mkdir()
        (local / NAME).write_bytes(content[:end])
        (local / "binlog.index").write_text(f"./{NAME}\n")
        told = []
        for place in (url, local):
            with again(
                place, flavour, recovered=told.append, now=lambda: 1_800_000_000_000_000
            ) as log:
                assert log.position.offset == kept
                insert(log, *range(500, 800))
        assert [(each.size, each.kept, each.reason) for each in told[:1]] == [
            (each.size, each.kept, each.reason) for each in told[1:]
        ]
        assert told[0].kept == kept
        stored = (bucket.folder / f"torn{part}" / NAME).read_bytes()
        assert stored == (local / NAME).read_bytes()
        assert len(transactions_of(url)) == 2


def test_who_is_replaced_while_it_commits_gets_an_error(bucket, monkeypatch):
    """It hangs between two requests, another one takes over, cuts what is torn, and commits."""
    for place in ("storage.objects.output.PART", "writing.cache._PIECE"):
        monkeypatch.setattr(f"tailrace.{place}", 1 << 18)
    large = [{**row(number), "note": "x" * 5000} for number in range(500)]
    url = f"{bucket.url}/logs"
    first = new_log(url, "mysql", sync="transaction")
    insert(first, 1)
    put = outputs.SegmentOutput._put_segment
    stored = []

    def taken_over(self, start, data):
        if self.path == path and len(stored) == 2:
            monkeypatch.setattr(outputs.SegmentOutput, "_put_segment", put)
            forget()
            second.append(again(url, "mysql", recovered=cut.append))
            insert(second[0], *range(500, 900))
            assert second[0].position.offset < start
        stored.append(start)
        return put(self, start, data)

    path = f"{url}/{NAME}"
    second = []
    cut = []
    monkeypatch.setattr(outputs.SegmentOutput, "_put_segment", taken_over)
    with (
        pytest.raises(StorageError, match="another receiver or writer has taken it over"),
        first.transaction() as trx,
    ):
        trx.insert(orders("mysql"), large)
    assert cut
    assert len(stored) == 3
    with pytest.raises(StorageError, match=r"could not be rolled back; tailrace\.append"):
        insert(first, 3)
    with pytest.raises(StorageError):
        first.close()
    insert(second[0], 900)
    second[0].close()
    assert [each["id"] for each in tailrace.rows(url)] == [1, *range(500, 901)]
    check_files(bucket.folder / "logs" / NAME, restarts=True)


def test_append_cuts_no_commit_that_comes_after_it_has_read_the_file(bucket, monkeypatch):
    """`append` reads the log, and the other writer commits before it is taken over."""
    url = f"{bucket.url}/logs"
    first = new_log(url, "mysql", sync="transaction")
    insert(first, 1)
    forget()
    module = sys.modules["tailrace.writing.create"]  # the package has a function of that name
    scan = module._scan

    def late(*given):
        found = scan(*given)
        monkeypatch.setattr(module, "_scan", scan)
        insert(first, 2)
        return found

    monkeypatch.setattr(module, "_scan", late)
    with again(url, "mysql", recovered=pytest.fail) as second:
        with pytest.raises(StorageError, match="taken it over"):
            insert(first, 3)
        insert(second, 4)
        assert str(second.gtids).endswith(":1-3")
    assert [each["id"] for each in tailrace.rows(url)] == [1, 2, 4]
    check_files(bucket.folder / "logs" / NAME, restarts=True)


def test_a_commit_that_the_store_did_not_take(bucket, monkeypatch):
    """The log is as it was, and continues when the store is back."""
    url = f"{bucket.url}/logs"
    log = new_log(url, "mariadb", sync="transaction")
    insert(log, 1)
    before = log.position
    store = type(log._folder._bucket)

    def away(*_, **__):
        raise StorageError("no route to host")

    with monkeypatch.context() as gone:
        gone.setattr(store, "put", away)
        with pytest.raises(StorageError, match="no route to host"):
            insert(log, 2)
    assert log.position == before
    insert(log, 3)
    assert [each["id"] for each in tailrace.rows(url)] == [1, 3]
    with monkeypatch.context() as gone:
        gone.setattr(store, "upload", away)
        with pytest.raises(StorageError, match="no route to host"):
            log.close()
    assert bucket.names("logs") == [f"{NAME}.segments-v1", "binlog.index"]
    assert [each["id"] for each in tailrace.rows(url)] == [1, 3]
    with again(url, "mariadb") as log:
        insert(log, 4)
    assert bucket.names("logs") == [NAME, "binlog.000002", "binlog.index"]
    assert [each["id"] for each in tailrace.rows(url)] == [1, 3, 4]


def test_what_is_not_synced_is_stored_within_a_second(bucket):
    """With sync="none" a commit does not wait, and its bytes are in the store soon."""
    url = f"{bucket.url}/logs"
    log = new_log(url, "mysql")
    bucket.asked()
    before = time.monotonic()
    for number in range(1, 201):
        insert(log, number)
    asked = bucket.asked()["put"]
    assert asked <= 1 + (time.monotonic() - before) / outputs.FLUSHED
    wait_for(lambda: len(transactions_of(url)) == 200)
    log.close()


@pytest.mark.slow
def test_threads_that_sync_share_a_request(monkeypatch):
    """Issue 20: each sync returns when what was written before it is stored."""
    url = ObjectUrl.parse("memory://commit/shared")
    file = ObjectFolder(url).spool.create(NAME, b"head")
    lower = file._bucket
    put, requests, short = lower.put, [], []
    lock, written = threading.Lock(), set()

    def slow(key, data, **given):
        """The first one takes until all have written: they wait for the second one then."""
        requests.append(len(data))
        wait_for(lambda: len(written) == 8)
        put(key, data, **given)

    monkeypatch.setattr(lower, "put", slow)

    def commit(number):
        for _ in range(20):
            with lock:
                file.write(bytes([number]) * 10)
                written.add(number)
                end = file.size
            file.sync()
            if len(ObjectStore(url).read(NAME, 0, 10_000)) < end:
                short.append(end)

    ended(*[in_thread(commit, number) for number in range(8)])
    file.close()
    assert not short
    found = ObjectStore(url).read(NAME, 4, 10_000)
    pieces = [found[at : at + 10] for at in range(0, len(found), 10)]
    assert sorted(pieces) == sorted(bytes([number]) * 10 for number in range(8) for _ in range(20))
    assert sum(requests[:2]) >= 80


def test_commits_of_several_threads_share_an_object(bucket):
    """Issue 20: committed in groups, also by a program."""
    url = f"{bucket.url}/logs"
    log = new_log(url, "mariadb", sync="transaction")
    bucket.asked()

    def commit(first):
        for number in range(first, first + 20):
            insert(log, number)

    ended(*[in_thread(commit, 100 * number) for number in range(8)])
    assert bucket.asked()["put"] < 160  # of 160 commits, with what was merged
    assert len(transactions_of(url)) == 160
    log.close()


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_readers_follow_a_program(bucket, flavour):
    """From the segments of a file through its object into the segments of the next one."""
    url = f"{bucket.url}/logs"
    log = new_log(url, flavour, sync="transaction")
    seen = []
    follower = tailrace.rows(url, follow=True)
    reading = in_thread(lambda: seen.extend(each["id"] for each in follower))
    for number in range(30):
        insert(log, number)
        if number == 15:
            wait_for(lambda: len(seen) > 10)
            log.rotate()
    wait_for(lambda: len(seen) == 30)
    follower.close()
    ended(reading)
    assert seen == [*range(30)]
    log.close()
