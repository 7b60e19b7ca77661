"""Versions of folders and their head, on disk and in an object store (`tailrace.storage.versions`)."""

import os
import stat

import pytest

from tailrace.errors import StorageError
from tailrace.storage.objects import ObjectUrl
from tailrace.storage.objects.bucket import bucket_of
from tailrace.storage.versions import local_copy, versions_of


@pytest.fixture(params=["disk", "objects"])
def place(request, tmp_path, monkeypatch):
    """Where versions are kept."""
    monkeypatch.setenv("TAILRACE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "there" if request.param == "disk" else f"memory://versions{tmp_path}"


def make(versions, base, new, **files):
    """A new version with files of these contents, besides those of the one before it."""
    folder = versions.fork(base, new)
    for name, text in files.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_text(text)
    versions.done(base, new)


def seen(place):
    """What a reader of the head's version sees."""
    folder = local_copy(place, "head", lambda head: head.decode().split())
    version = (folder / "head").read_text()
    return {
        each.name: each.read_text()
        for each in (folder / version).iterdir()
        if each.name != "files.json"
    }


def test_readers_see_what_the_head_names_and_files_are_shared(place, tmp_path):
    """Until the head names a version, nobody sees it; what it does not change is not stored again."""
    versions = versions_of(place, "head", tmp_path / "work")
    assert versions.head() is None
    make(versions, None, "v/1", large="the same", small="old")
    versions.publish("v/1")
    make(versions, "v/1", "v/2", small="new")
    assert seen(place) == {"large": "the same", "small": "old"}
    versions.publish("v/2")
    assert seen(place) == {"large": "the same", "small": "new"}
    if isinstance(place, str):
        url = ObjectUrl.parse(place)
        names = bucket_of(url).list((url / "v/2").key).objects
        assert {*names} == {"small", "files.json"}
    else:
        assert (place / "v/1/large").samefile(place / "v/2/large")


def test_what_is_not_kept_is_removed(place, tmp_path):
    """Versions that no head names, finished or not; one of which others have files stays as long."""
    versions = versions_of(place, "head", tmp_path / "work")
    make(versions, None, "v/1", large="the same", small="old")
    make(versions, "v/1", "v/2", small="new")
    make(versions, None, "v/3", other="left by a writer that was killed")
    versions.fork("v/2", "v/4")
    versions.publish("v/2")
    versions.clean({"v/2"})
    assert seen(place) == {"large": "the same", "small": "new"}
    make(versions, "v/2", "v/5", large="another", small="newest")
    versions.publish("v/5")
    versions.clean({"v/5"})
    assert seen(place) == {"large": "another", "small": "newest"}
    if isinstance(place, str):
        url = ObjectUrl.parse(place)
        left = [
            each for each in ("v/1", "v/2", "v/3") if bucket_of(url).list((url / each).key).objects
        ]
        assert not left
    else:
        assert [path.name for path in (place / "v").iterdir()] == ["5"]


def test_one_writer_at_a_time(place, tmp_path):
    """By a lock on this machine, and by a conditional write in an object store."""
    first = versions_of(place, "head", tmp_path / "work")
    with first.alone(), pytest.raises(StorageError, match="another process writes"), first.alone():
        pass
    if isinstance(place, str):
        second = versions_of(place, "head", tmp_path / "elsewhere")
        assert first.head() is second.head() is None
        make(first, None, "v/1", small="ours")
        make(second, None, "v/2", small="theirs")
        first.publish("v/1")
        with pytest.raises(StorageError, match="another process writes"):
            second.publish("v/2")
        assert seen(place) == {"small": "ours"}


def test_a_head_survives_a_power_cut(tmp_path, monkeypatch):
    """Its content is synced before it has its name, and the folder afterwards."""
    synced = []

    def sync(handle):
        found = os.fstat(handle)
        is_folder = stat.S_ISDIR(found.st_mode)
        synced.append((is_folder, (tmp_path / "head").exists()))

    monkeypatch.setattr(os, "fsync", sync)
    versions_of(tmp_path, "head", tmp_path).publish("v/1")
    assert synced == [(False, False), (True, True)]
    assert (tmp_path / "head").read_text() == "v/1"
    assert [each.name for each in tmp_path.iterdir()] == ["head"]


def test_there_is_nothing(place):
    if isinstance(place, str):
        with pytest.raises(StorageError, match="there is no head"):
            local_copy(place, "head", lambda head: [head.decode()])
    else:
        assert local_copy(place, "head", lambda head: [head.decode()]) == place
