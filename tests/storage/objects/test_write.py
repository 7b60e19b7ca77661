"""Logs written into a bucket of a real S3 server: each file is an object when it is complete."""

import shutil

import pytest

import tailrace
from tailrace.errors import StorageError, UsageError
from tailrace.storage.objects import ObjectFolder, ObjectUrl, object_place
from tailrace.storage.objects.bucket import PART
from tests.storage.objects.test_find import FILES
from tests.storage.objects.test_read import big_log
from tests.writing.made import FLAVOURS, check_files, fill, orders, row, transactions_of
from tests.writing.made import log as new_log


def test_large_files_come_in_parts(bucket, tmp_path):
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
def test_it_is_gone_on_with(bucket, flavour):
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


def test_an_object_is_not_appended_to(bucket, tmp_path):
    """A log that a program still wrote when it was copied."""
    with new_log(tmp_path / "binlog.000001", "mysql") as writer:
        fill(writer, 1)
        writer.flush()
        in_use = shutil.copy(tmp_path / "binlog.000001", tmp_path / "copy")
    bucket.put("binlog.000001", in_use)
    with pytest.raises(StorageError, match="nothing can be appended to an object; copy"):
        tailrace.append(bucket.url, recovered=lambda _: None)
    assert (bucket.folder / "binlog.000001").read_bytes() == in_use.read_bytes()


def test_what_is_there_is_not_replaced(bucket):
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


def test_where_things_go(bucket):
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
