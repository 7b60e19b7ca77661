"""Copies in an object store: files become visible when they are whole, and go on in the spool."""

from __future__ import annotations

import shutil

import pytest

import tailrace
from tailrace.errors import TailraceError
from tailrace.replication.receiver import Receiver
from tailrace.storage.keyring import make
from tests.replication.conftest import insert, rotate, url_of
from tests.storage.objects.conftest import bucket, s3_server, spool  # noqa: F401 - fixtures


def run(source, bucket, **settings):  # noqa: F811 - the fixture's value
    return Receiver(url_of(source), f"{bucket.url}/logs", follow=False, **settings).run()


@pytest.fixture(autouse=True)
def _some(source):
    insert(source, [10, 5000])


def same_objects(source, bucket):  # noqa: F811
    """Every file but the last is an object, and the index lists those; the last waits."""
    logs = source.binlogs()
    names = [log.name for log in logs[:-1]]
    there = {name for name in bucket.names("logs") if name.startswith("binlog.0")}
    assert set(names) <= there
    for log in logs[:-1]:
        assert (bucket.folder / "logs" / log.name).read_bytes() == log.read_bytes()
    assert logs[-1].name not in there
    if names:
        listed = (bucket.folder / "logs" / "binlog.index").read_text().splitlines()
        assert listed[-len(names) :] == [f"./{name}" for name in names]


def spooled(spool, name):  # noqa: F811
    return next(spool.rglob(name))


def test_a_file_becomes_an_object_when_it_is_whole(source, bucket, spool):  # noqa: F811
    run(source, bucket)
    same_objects(source, bucket)
    last = source.binlogs()[-1]
    assert spooled(spool, last.name).read_bytes() == last.read_bytes()
    insert(source, [20])
    rotate(source)
    insert(source, [30, 100_000])
    run(source, bucket)
    same_objects(source, bucket)
    last = source.binlogs()[-1]
    assert spooled(spool, last.name).read_bytes() == last.read_bytes()
    rotate(source)
    assert run(source, bucket).received < 2000
    same_objects(source, bucket)


def test_on_another_machine(source, bucket, spool):  # noqa: F811
    """Without the spool it begins with the file behind the last that is whole."""
    rotate(source)
    insert(source, [10])
    run(source, bucket)
    same_objects(source, bucket)
    shutil.rmtree(spool)
    insert(source, [20])
    run(source, bucket)
    same_objects(source, bucket)
    last = source.binlogs()[-1]
    assert spooled(spool, last.name).read_bytes() == last.read_bytes()


def test_a_torn_tail_in_the_spool(source, bucket, spool):  # noqa: F811
    run(source, bucket)
    last = source.binlogs()[-1]
    with spooled(spool, last.name).open("ab") as file:
        file.write(bytes(1000))
    rotate(source)
    run(source, bucket)
    same_objects(source, bucket)


def test_the_store_is_away(source, bucket, spool, monkeypatch):  # noqa: F811
    run(source, bucket)
    rotate(source)
    insert(source, [10])
    with monkeypatch.context() as away:
        away.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        away.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
        with pytest.raises(TailraceError):
            run(source, bucket)
    run(source, bucket)
    same_objects(source, bucket)


def test_encrypted(source, bucket, spool, tmp_path):  # noqa: F811
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


def test_retain(source, bucket, spool):  # noqa: F811
    for _ in range(4):
        insert(source, [100_000])
        rotate(source)
    limit = sum(log.stat().st_size for log in source.binlogs()[-3:]) + 1000
    receiver = Receiver(url_of(source), f"{bucket.url}/logs", follow=False, retain=f"{limit}B")
    receiver.run()
    logs = [log.name for log in source.binlogs()]
    there = [name for name in bucket.names("logs") if name.startswith("binlog.0")]
    assert there
    assert receiver.purged
    assert receiver.purged + there + [logs[-1]] == logs
