"""Logs written into a bucket of a real S3 server: each file is an object when it is complete."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

import tailrace
from tailrace.errors import KeyMissing, StorageError, UsageError
from tailrace.storage import EventReader, find, keyring
from tailrace.storage.objects import ObjectFolder, ObjectUrl, object_place
from tailrace.storage.objects.bucket import PART, bucket_of
from tests.storage.objects.test_find import CORPUS, FILES
from tests.storage.objects.test_read import big_log
from tests.waiting import wait_for
from tests.writing.made import FLAVOURS, UUID, check_files, orders, row, transactions_of
from tests.writing.made import log as new_log
from tools.servers import available, binlog_tool

if TYPE_CHECKING:
    from pathlib import Path

    from tests.storage.objects.conftest import Bucket


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_log_is_there_file_by_file(bucket: Bucket, flavour: str) -> None:
    table = orders(flavour)
    url = f"{bucket.url}/logs"
    with new_log(f"{url}/binlog.000001", flavour) as log:
        with log.transaction() as trx:
            trx.insert(table, [row(1)])
        log.flush()
        assert bucket.names("logs") == ["binlog.000001.segments-v1", "binlog.index"]
        log.rotate()
        wait_for(lambda: "binlog.000001" in bucket.names("logs"))
        assert log.files == ["binlog.000001", "binlog.000002"]
        with log.transaction() as trx:
            trx.insert(table, [row(2)])
        log.flush()
        assert len(transactions_of(url)) == 2
    assert bucket.names("logs") == ["binlog.000001", "binlog.000002", "binlog.index"]
    assert (bucket.folder / "logs/binlog.index").read_text() == (
        "./binlog.000001\n./binlog.000002\n"
    )
    written = sorted((bucket.folder / "logs").glob("binlog.0*"))
    check_files(*written)
    assert len(transactions_of(url)) == 2
    for path in written:  # IN_USE is not set
        assert path.read_bytes()[21] & 1 == 0
    name = "mysql-9.7" if flavour == "mysql" else "mariadb-11.8"
    if available(name) is None:
        done = subprocess.run(
            [*binlog_tool(name), "--verify-binlog-checksum", "-v", *map(str, written)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.count("### INSERT INTO `shop`.`orders`") == 2


def test_the_same_bytes_as_on_disk(bucket: Bucket, tmp_path: Path) -> None:
    def write(target) -> None:
        table = orders("mysql")
        with new_log(target, "mysql", max_size=1 << 14) as log:
            for number in range(60):
                with log.transaction() as trx:
                    trx.insert(table, [row(number)] * 30)

    write(tmp_path / "here/binlog.000001")
    write(f"{bucket.url}/here/binlog.000001")
    here = tmp_path / "here"
    assert len(bucket.names("here")) > 3
    assert bucket.names("here") == sorted(path.name for path in here.iterdir())
    for path in here.iterdir():
        assert (bucket.folder / "here" / path.name).read_bytes() == path.read_bytes()


def test_large_files_come_in_parts(bucket: Bucket, tmp_path: Path) -> None:
    bucket.asked()
    big_log(f"{bucket.url}/binlog.000001", 2 * PART // (1 << 20) + 3)
    asked = bucket.asked()
    assert asked["begin parts"] == asked["end parts"] == 1
    assert asked["put part"] == 3
    big_log(tmp_path / "binlog.000001", 2 * PART // (1 << 20) + 3)
    assert (bucket.folder / "binlog.000001").read_bytes() == (
        tmp_path / "binlog.000001"
    ).read_bytes()


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_it_is_gone_on_with(bucket: Bucket, flavour: str) -> None:
    """A closed log is gone on with in a new file, by its folder, its index, or its last file."""
    table = orders(flavour)
    url = f"{bucket.url}/logs"
    new_log(f"{url}/", flavour).close()
    for number, target in enumerate((url, f"{url}/binlog.index", f"{url}/binlog.000003"), 2):
        with tailrace.append(target, sync="none") as log:
            with log.transaction() as trx:
                trx.insert(table, [row(number)])
            assert log.position.file == f"binlog.{number:06}"
    assert len(transactions_of(url)) == 3
    check_files(*sorted((bucket.folder / "logs").glob("binlog.0*")), restarts=True)
    with pytest.raises(UsageError, match=r"binlog\.000004 comes after it"):
        tailrace.append(f"{url}/binlog.000002")
    with pytest.raises(StorageError, match="exists: choose another name"):
        new_log(url, flavour)


def test_an_object_is_not_appended_to(bucket: Bucket) -> None:
    """The log of a server that ran when it was copied."""
    in_use = max((CORPUS / "mysql-9.7.in-use").glob("*.0*"))
    bucket.put("binlog.000001", in_use)
    with pytest.raises(StorageError, match="nothing can be appended to an object; copy"):
        tailrace.append(bucket.url, recovered=lambda _: None)
    assert (bucket.folder / "binlog.000001").read_bytes() == in_use.read_bytes()


def test_what_is_there_is_not_replaced(bucket: Bucket) -> None:
    url = ObjectUrl.parse(bucket.url)
    folder = ObjectFolder(url)
    bucket.put("binlog.000001", FILES[0])
    with pytest.raises(StorageError, match=r"binlog\.000001: File exists"):
        folder.create("binlog.000001", b"x")
    output = folder.create("binlog.000002", b"head")
    with pytest.raises(StorageError, match=r"binlog\.000002: File exists"):
        folder.create("binlog.000002", b"x")
    with pytest.raises(StorageError, match="another writer has it open"):
        ObjectFolder(url).reopen("binlog.000002")
    bucket.put("binlog.000002", b"he")  # by a program that is not ours
    with pytest.raises(StorageError, match="the object has 2 bytes, and its segments have 4"):
        output.close()
    assert (bucket.folder / "binlog.000002").read_bytes() == b"he"
    assert f"{0:020}" in {
        name.partition("-")[0] for name in bucket.names("binlog.000002.segments-v1")
    }


def test_where_things_go(bucket: Bucket) -> None:
    for target, folder, name in (
        (f"{bucket.url}", bucket.url, ""),
        (f"{bucket.url}/", bucket.url, ""),
        (f"{bucket.url}/binlog.000007", bucket.url, "binlog.000007"),
        (f"{bucket.url}/a/b", f"{bucket.url}/a/b", ""),
        (f"{bucket.url}/a/v1.2/", f"{bucket.url}/a/v1.2", ""),
        (f"{bucket.url}/a/relay.index", f"{bucket.url}/a", "relay.index"),
        (f"memory://{bucket.name}/a", f"memory://{bucket.name}/a", ""),
    ):
        found, found_name = object_place(target)
        assert (str(found.url), found_name) == (folder, name)
        assert found.path("x.000001") == f"{folder}/x.000001"


def test_other_content_than_logs(bucket: Bucket) -> None:
    folder = ObjectFolder(bucket.url)
    folder.replace("note", b"one")
    folder.replace("note", b"two")
    assert folder.read("note", 1, 100) == b"wo"
    assert (bucket.folder / "note").read_bytes() == b"two"
    store = bucket_of(ObjectUrl.parse(bucket.url))
    assert store.size("nothing") is None
    store.remove("nothing")
    with pytest.raises(StorageError, match="no such object"):
        store.read("nothing", 0, 1)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_in_fsspecs_memory(bucket: Bucket, flavour: str) -> None:
    table = orders(flavour)
    url = f"memory://{bucket.name}/logs"
    with new_log(f"{url}/binlog.000001", flavour) as log:
        with log.transaction() as trx:
            trx.insert(table, [row(1)])
        log.rotate()
        assert len(transactions_of(url)) == 1
    given = {"server_uuid": UUID} if flavour == "mysql" else {}
    with tailrace.append(url, sync="none", **given) as log, log.transaction() as trx:
        trx.insert(table, [row(2)])
    assert len(transactions_of(url)) == 2
    assert [file.name for file in find(url)[0].files] == [
        "binlog.000001",
        "binlog.000002",
        "binlog.000003",
    ]
    assert all(list(EventReader(file)) for file in find(url)[0].files)
    folder = ObjectFolder(url)
    with pytest.raises(StorageError, match=r"binlog\.000001: File exists"):
        folder.create("binlog.000001", b"x")
    folder.remove("binlog.000001")
    assert folder.names() == ["binlog.000002", "binlog.000003", "binlog.index"]


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("place", ["s3", "memory"])
def test_an_encrypted_log(bucket: Bucket, tmp_path: Path, flavour: str, place: str) -> None:
    """Encryption lies on the object as on a file: parts, updates and going on are the same."""
    ring = keyring.make(tmp_path / "ring", "1")
    table = orders(flavour)
    url = f"{place}://{bucket.name}/secret"
    with new_log(url, flavour, encrypt=True, keyring=ring, key_id="1") as log:
        with log.transaction() as trx:
            trx.insert(table, [row(1)])
        log.rotate()
        with log.transaction() as trx:
            trx.insert(table, [row(2)])
    given = {"server_uuid": UUID} if flavour == "mysql" else {}
    with (
        tailrace.append(url, sync="none", keyring=ring, **given) as log,
        log.transaction() as trx,
    ):
        trx.insert(table, [row(3)])
    with tailrace.open(url, keyring=ring) as log:
        assert len(list(log.transactions())) == 3
        assert not log.incomplete
    assert sum(batch.num_rows for batch in tailrace.changes(url, keyring=ring)) == 3
    (series,) = find(url, ring)
    for file in series.files:
        stored = file.store.open(file.name)
        content = stored.read(1 << 16)
        stored.close()
        assert b"shop" not in content
        assert len(content) - file.size == (512 if flavour == "mysql" else 0)
    with pytest.raises(KeyMissing, match="keyring"):
        list(tailrace.open(url))
