"""Finding logs in a bucket of a real S3 server, and in fsspec's memory; requests are counted."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import fsspec
import pytest

import tailrace
from tailrace.errors import BadMagic, StorageError, UsageError
from tailrace.storage import EventReader, find, find_all
from tailrace.storage.objects import ObjectStore
from tests.recorded import CORPUS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.storage.objects.conftest import Bucket

LOG = CORPUS / "mysql-9.7.clean-shutdown"
FILES = sorted(LOG.glob("*.0*"))


def put(
    bucket: Bucket, *files: Path, folder: str = "", base: str = "binlog", first: int = 1
) -> list[str]:
    """Put files there as a series; gives their names."""
    names = [f"{base}.{number:06}" for number, _ in enumerate(files, first)]
    for name, file in zip(names, files, strict=True):
        bucket.put(folder + name, file)
    bucket.asked()
    return names


def named(url: str) -> dict[str, list[str]]:
    return {series.name: [file.name for file in series.files] for series in find(url)}


def test_a_folder_is_one_listing_and_one_look(bucket: Bucket) -> None:
    names = put(bucket, *FILES * 4, folder="logs/")
    bucket.put("logs/notes.txt", b"no log")
    bucket.asked()
    (series,) = find(f"{bucket.url}/logs/")
    assert bucket.asked() == {"list": 1, "get": 1}
    assert series.name == "logs"
    assert [file.name for file in series.files] == names
    assert [file.size for file in series.files] == [file.stat().st_size for file in FILES * 4]
    assert [file.path for file in series.files] == [f"{bucket.url}/logs/{name}" for name in names]
    assert named(f"{bucket.url}/logs") == {"logs": names}


def test_a_bucket_and_its_folders(bucket: Bucket) -> None:
    ours = put(bucket, *FILES, folder="ours/")
    theirs = put(bucket, *FILES, first=9, folder="theirs/")
    assert named(bucket.url) == {"ours": ours, "theirs": theirs}
    both = put(bucket, *FILES, base="relay") + put(bucket, *FILES, base="a.b")
    found = named(bucket.url)
    assert list(found) == [f"{bucket.name}/a.b", f"{bucket.name}/relay"]
    assert list(found.values()) == [both[len(FILES) :], both[: len(FILES)]]
    with pytest.raises(UsageError, match=r"a\.b, .*relay"):
        tailrace.open(bucket.url)


def test_one_log_of_any_name(bucket: Bucket) -> None:
    bucket.put("the log", FILES[0])
    bucket.asked()
    (series,) = find(f"{bucket.url}/the log")
    assert bucket.asked() == {"head": 1, "get": 1}
    assert series.files[0].name == "the log"
    assert series.files[0].size == FILES[0].stat().st_size


def test_what_is_not_there_or_no_log(bucket: Bucket) -> None:
    bucket.put("notes.000001", b"not a log")
    for url in (bucket.url, f"{bucket.url}/logs", f"{bucket.url}/none/binlog.000001"):
        with pytest.raises(StorageError, match="there is no log"):
            find(url)
    with pytest.raises(StorageError, match="not a binary log"):
        find(f"{bucket.url}/notes.000001")
    names = put(bucket, *FILES)
    assert named(bucket.url) == {bucket.name: names}
    bucket.put(names[1], b"overwritten")
    with pytest.raises(BadMagic, match=names[1]):
        list(tailrace.open(bucket.url))


def test_a_bucket_that_is_not_there(bucket: Bucket) -> None:
    with pytest.raises(StorageError, match=r"^s3://nowhere-at-all/logs: there is no such bucket$"):
        find("s3://nowhere-at-all/logs")


def test_a_hole_is_an_error(bucket: Bucket) -> None:
    names = put(bucket, *FILES * 2)
    bucket.remove(names[1])
    with pytest.raises(StorageError, match=rf"{bucket.url}: {names[1]} is missing"):
        find(bucket.url)


def test_an_index(bucket: Bucket) -> None:
    names = put(bucket, *FILES * 2)
    bucket.put("other.log", FILES[0])
    listed = ["binlog.000000", *names[1:]]
    bucket.put("binlog.index", "".join(f"/var/lib/mysql/{name}\n" for name in listed).encode())
    (series,) = find(f"{bucket.url}/binlog.index")
    assert series.name == "binlog"
    assert [file.name for file in series.files] == names[1:]
    assert named(bucket.url) == {bucket.name: names}
    listed = [*names, "binlog.000077"]
    bucket.put("binlog.index", "".join(f"./{name}\n" for name in listed).encode())
    with pytest.raises(StorageError, match=r"binlog\.000077, which is missing after"):
        find(bucket.url)
    bucket.put("binlog.index", b"./elsewhere.000001\n")
    with pytest.raises(StorageError, match="none of the logs"):
        find(f"{bucket.url}/binlog.index")
    bucket.put("binlog.index", f"./{names[0]}\n./{names[1]}\n./other.log\n".encode())
    with pytest.raises(StorageError, match="other"):
        find(f"{bucket.url}/binlog.index")


def test_more_than_a_listing_holds(bucket: Bucket) -> None:
    """S3 lists a thousand objects at a time."""
    for number in range(1, 1203):
        path = bucket.folder / f"binlog.{number:06}"  # the server has not looked there yet
        path.write_bytes(FILES[0].read_bytes()[:300])
    (series,) = find(bucket.url)
    assert [file.number for file in series.files] == list(range(1, 1203))
    assert bucket.asked() == {"list": 2, "get": 1}


def test_several_urls_are_one_series(bucket: Bucket) -> None:
    names = put(bucket, *FILES * 2)
    urls = [f"{bucket.url}/{name}" for name in reversed(names)]
    (series,) = find_all(urls)
    assert [file.name for file in series.files] == names


def test_files_pickle_as_their_urls(bucket: Bucket) -> None:
    put(bucket, *FILES)
    (series,) = find(bucket.url)
    data = pickle.dumps(series)
    assert pickle.loads(data) == series
    assert isinstance(pickle.loads(data).files[0].store, ObjectStore)
    assert bucket.server.secret.encode() not in data
    assert bucket.server.key.encode() not in data
    assert bucket.server.secret not in repr(series)


def test_fsspecs_memory(bucket: Bucket) -> None:
    files = fsspec.filesystem("memory")
    place = f"/{bucket.name}"
    for number, file in enumerate(FILES, 1):
        files.pipe_file(f"{place}/logs/binlog.{number:06}", file.read_bytes())
    names = [f"binlog.{number:06}" for number, _ in enumerate(FILES, 1)]
    assert named(f"memory:/{place}/logs") == {"logs": names}
    assert named(f"memory:/{place}") == {"logs": names}
    assert named(f"memory:/{place}/logs/{names[0]}") == {"binlog": names[:1]}
    events = [list(EventReader(file)) for file in find(f"memory:/{place}/logs")[0].files]
    assert events == [list(EventReader(file)) for file in FILES]
    for url in (f"memory:/{place}/none", "memory://none"):
        with pytest.raises(StorageError, match="there is no log"):
            find(url)
    assert not bucket.asked()
