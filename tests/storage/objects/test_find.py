"""Finding logs in a bucket of a real S3 server; requests are counted."""

import pytest

import tailrace
from tailrace.errors import BadMagic, StorageError, UsageError
from tailrace.storage import find
from tests.recorded import CORPUS

LOG = CORPUS / "mysql-9.7.clean-shutdown"
FILES = sorted(LOG.glob("*.0*"))


def put(bucket, *files, folder="", base="binlog", first=1):
    """Put files there as a series; gives their names."""
    names = [f"{base}.{number:06}" for number, _ in enumerate(files, first)]
    for name, file in zip(names, files, strict=True):
        bucket.put(folder + name, file)
    bucket.asked()
    return names


def named(url):
    return {series.name: [file.name for file in series.files] for series in find(url)}


def test_a_folder_is_one_listing_and_one_look(bucket):
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


def test_a_bucket_and_its_folders(bucket):
    ours = put(bucket, *FILES, folder="ours/")
    theirs = put(bucket, *FILES, first=9, folder="theirs/")
    assert named(bucket.url) == {"ours": ours, "theirs": theirs}
    both = put(bucket, *FILES, base="relay") + put(bucket, *FILES, base="a.b")
    found = named(bucket.url)
    assert list(found) == [f"{bucket.name}/a.b", f"{bucket.name}/relay"]
    assert list(found.values()) == [both[len(FILES) :], both[: len(FILES)]]
    with pytest.raises(UsageError, match=r"a\.b, .*relay"):
        tailrace.open(bucket.url)


def test_what_is_not_there_or_no_log(bucket):
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


def test_a_bucket_that_is_not_there(bucket):
    with pytest.raises(StorageError, match=r"^s3://nowhere-at-all/logs: there is no such bucket$"):
        find("s3://nowhere-at-all/logs")


def test_an_index(bucket):
    names = put(bucket, *FILES * 2)
    bucket.put("other.log", FILES[0])
    listed = ["binlog.000000", *names[1:]]
    bucket.put("binlog.index", "".join(f"/var/lib/mysql/{name}\n" for name in listed).encode())
    (series,) = find(f"{bucket.url}/binlog.index")
    assert series.name == "binlog"
    assert [file.name for file in series.files] == names[1:]
    assert named(bucket.url) == {bucket.name: names}
    bucket.put("binlog.index", f"./{names[0]}\n./{names[1]}\n./other.log\n".encode())
    with pytest.raises(StorageError, match="other"):
        find(f"{bucket.url}/binlog.index")


def test_more_than_a_listing_holds(bucket):
    """S3 lists a thousand objects at a time."""
    for number in range(1, 1203):
        path = bucket.folder / f"binlog.{number:06}"  # the server has not looked there yet
        path.write_bytes(FILES[0].read_bytes()[:300])
    (series,) = find(bucket.url)
    assert [file.number for file in series.files] == list(range(1, 1203))
    assert bucket.asked() == {"list": 2, "get": 1}
