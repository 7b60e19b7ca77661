"""Reading logs of real servers from a bucket: as from the disk, by few requests."""

import os
import random
import time

import pytest

import tailrace
from tailrace.errors import LogError, StorageError
from tailrace.storage import EventReader, find
from tailrace.storage.objects.store import ObjectInput
from tailrace.storage.objects.url import ObjectUrl
from tailrace.storage.streams.base import RangedInput
from tailrace.storage.streams.read_ahead import BLOCK, FIRST
from tailrace.testing.reading import check_far, check_wrong_calls
from tests.cases import each_case
from tests.storage.objects.test_find import CORPUS, FILES, put
from tests.waiting import DEADLINE, ended, in_thread, wait_for
from tests.writing.made import log as new_log
from tests.writing.made import orders, row


def big_log(path, megabytes):
    """A log of about that size, of many events."""
    table = orders("mysql")
    note = "x" * 3000
    with new_log(path, "mysql") as log:
        while log.position.offset < megabytes << 20:
            with log.transaction() as trx:
                trx.insert(table, [(number, "n", note, 1) for number in range(300)])
    return path


@each_case("server", ["mysql-9.7", "mariadb-11.8"])
def test_the_same_as_from_the_disk(bucket, server):
    """Events byte for byte, and record batches, of logs that real servers wrote."""
    cases = [folder for folder in sorted(CORPUS.glob(f"{server}.*")) if folder.is_dir()][::12]
    assert cases
    for folder in cases:
        for path in folder.iterdir():
            bucket.put(f"{folder.name}/{path.name}", path)
        local, remote = find(folder), find(f"{bucket.url}/{folder.name}")
        assert [each.name for each in remote] == [each.name for each in local]
        for ours, theirs in zip(remote, local, strict=True):
            assert [file.name for file in ours.files] == [file.name for file in theirs.files]
            for one, other in zip(ours.files, theirs.files, strict=True):
                assert list(EventReader(one)) == list(EventReader(other))
            assert batches(ours) == batches(theirs)


def batches(source):
    try:
        return list(tailrace.changes(source, statements="skip"))
    except LogError as error:
        return str(error).partition(": ")[2]


def test_requests_are_by_the_block(bucket, tmp_path):
    path = big_log(tmp_path / "log/binlog.000001", 40)
    put(bucket, path)
    size = path.stat().st_size
    events = sum(1 for _ in EventReader(path))
    doubling = 5  # from 256 KiB to a block
    bound = doubling + size // BLOCK + 1
    assert events > 20 * bound
    url = f"{bucket.url}/binlog.000001"
    (file,) = find(url)[0].files
    bucket.asked()
    assert sum(1 for _ in EventReader(file)) == events
    asked = bucket.asked()
    assert asked["get"] <= bound
    assert asked["head"] <= 1
    assert set(asked) <= {"get", "head"}
    assert sum(batch.num_rows for batch in tailrace.changes(url)) == sum(
        batch.num_rows for batch in tailrace.changes(path)
    )
    asked = bucket.asked()  # finding it takes two
    assert asked["get"] <= bound + 1
    assert asked["head"] <= 2
    log = tailrace.open(url)
    assert log.format.server_version
    assert bucket.asked() == {"head": 1, "get": 2}


def test_reading_at_random(bucket):
    """Offsets and lengths of all kinds, also behind the end; a read that fails moves nothing."""
    chance = random.Random(11)
    content = chance.randbytes(3 * FIRST + 12345)
    bucket.put("binlog.000001", bytes(content))
    url = ObjectUrl.parse(f"{bucket.url}/binlog.000001")
    bucket.asked()
    stream = ObjectInput(url)
    assert isinstance(stream, RangedInput)
    assert not bucket.asked()
    for _ in range(40):
        start = chance.randrange(len(content) + 1000)
        count = chance.choice([1, 10, 5000, FIRST, 2 * len(content)])
        assert bytes(stream.read_at(start, count)) == content[start : start + count]
        assert stream.size() == len(content)
        assert stream.seek(start) == stream.tell() == start
        assert stream.read(count) == content[start : start + count]
        assert stream.tell() == max(start, min(start + count, len(content)))
        view = bytearray(count)
        stream.seek(start)
        got = stream.readinto(view)
        assert bytes(view[:got]) == content[start : start + count]
    asked = bucket.asked()
    assert asked["get"] == 120
    stream.seek(FIRST)
    bucket.remove("binlog.000001")
    with pytest.raises(StorageError, match="no such object"):
        stream.read(10)
    bucket.put("binlog.000001", content)
    assert stream.tell() == FIRST
    assert stream.read(10) == content[FIRST : FIRST + 10]
    check_far(stream)
    check_wrong_calls(stream)
    stream.close()


def test_an_empty_object_and_one_that_goes(bucket):
    bucket.put("binlog.000001", b"")
    stream = ObjectInput(ObjectUrl.parse(f"{bucket.url}/binlog.000001"))
    assert stream.read(100) == b""
    assert stream.size() == 0
    bucket.remove("binlog.000001")
    for call in (stream.size, lambda: stream.read(1)):
        with pytest.raises(StorageError, match=r"binlog\.000001: no such object"):
            call()


def test_a_log_is_followed(bucket, tmp_path):
    """An object that is replaced by a longer one, and a next one, are gone on with."""
    table = orders("mysql")
    local = tmp_path / "log"
    with new_log(local / "binlog.000001", "mysql") as writer:
        with writer.transaction() as trx:
            trx.insert(table, [row(1)])
        put(bucket, local / "binlog.000001")
        seen = []
        log = tailrace.open(bucket.url, follow=True)

        def watch():
            seen.extend(f"{event.file}@{event.offset}" for event in log if event.name != "ROTATE")

        reader = in_thread(watch)
        try:
            started = time.monotonic()
            bucket.asked()
            asked = []
            wait_for(
                lambda: asked.append(sum(bucket.asked().values())) or sum(asked) > 6, every=0.1
            )
            waited = time.monotonic() - started
            assert sum(asked) <= 3 * (waited + 1)  # bounded while it waits
            for name in ("binlog.000001", "binlog.000002"):
                with writer.transaction() as trx:
                    trx.insert(table, [row(2)])
                if name == "binlog.000001":
                    writer.rotate()
                bucket.put(name, local / name)
            wanted = [
                f"{path.name}@{offset}"
                for path in sorted(local.glob("binlog.0*"))
                for offset, raw in EventReader(path)
                if raw[4] != 4  # ROTATE
            ]
            wait_for(lambda: len(seen) >= len(wanted))
        finally:
            log.close()
            ended(reader)
    assert seen == wanted


def test_a_forked_process_is_told(bucket):
    """It would hang, and disturb its parent."""
    put(bucket, *FILES)
    assert find(bucket.url)
    hear, tell = os.pipe()
    child = os.fork()
    if not child:
        try:
            find(bucket.url)
        except BaseException as error:  # noqa: BLE001 - told to the parent
            os.write(tell, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(tell)
    with os.fdopen(hear, "rb") as answer:
        told = answer.read().decode()
    os.waitpid(child, 0)
    assert told.startswith("StorageError")
    assert "spawn" in told
    assert find(bucket.url)


def test_a_server_that_is_not_there(bucket, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    started = time.monotonic()
    with pytest.raises(StorageError, match=rf"{bucket.url}/x: .*127\.0\.0\.1:9"):
        find(f"{bucket.url}/x")
    assert time.monotonic() - started < DEADLINE
