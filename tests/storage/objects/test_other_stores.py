"""The tests of landing (issue 20) in other stores than rclone's: moto, and Azurite for Azure."""

import os
from contextlib import closing
from types import SimpleNamespace

import pytest

import tailrace
from tailrace.errors import StorageError
from tailrace.storage.objects import ObjectFolder, ObjectStore, ObjectUrl
from tailrace.storage.objects import folder as folders
from tailrace.storage.objects.bucket import PART, bucket_of
from tailrace.testing import check_store, check_writable_store
from tests.storage.objects import test_landing as landing
from tests.storage.objects import test_two_writers as two_writers
from tests.storage.objects.conftest import lead_to, require
from tests.storage.objects.test_commit import again, insert
from tests.writing.made import log as new_log
from tools.stores import Azurite, Moto


@pytest.fixture(scope="module", params=[Moto, Azurite], ids=lambda kind: kind.name)
def store(request):
    require(request.param.name, request.param.available())
    with request.param() as running:
        yield running


@pytest.fixture
def place(store, request, monkeypatch):
    lead_to(store, monkeypatch)
    return SimpleNamespace(url=f"{store.url}/{request.node.originalname}-{len(request.node.name)}")


def test_the_contract(place):
    """Of `tailrace.testing`, which other people's stores are tested by, too."""
    check_writable_store(ObjectFolder(place.url))
    url = ObjectUrl.parse(f"{place.url}/read")
    folder = ObjectFolder(url)
    check_store(ObjectStore(url), lambda name, content: folder.create(name, content).close())


def test_an_object_of_the_folders_own_name(place, store):
    """Some tools make an empty object ``FOLDER/`` for a folder: it is no file in it."""
    if not isinstance(store, Moto):
        pytest.skip("only moto takes a request that is not signed")
    url = ObjectUrl.parse(f"{place.url}/logs")
    store.put(f"/{url.bucket}/{url.key}/", {}, 200)
    assert ObjectStore(url).listing() == {}
    ObjectFolder(url).create("binlog.000001", b"head").close()
    assert list(ObjectStore(url).listing()) == ["binlog.000001"]


def test_all_that_can_be_done_to_a_file(place):
    landing.change_at_random(place.url, 1, 25)


def test_a_large_file_is_one_object(place):
    """It is uploaded in parts, and read in pieces."""
    content = os.urandom(PART + 1000)
    folder = ObjectFolder(place.url)
    with closing(folder.create("binlog.000001", b"head")) as output:
        for at in range(0, len(content), 1 << 20):
            output.write(content[at : at + (1 << 20)])
    assert folder.spool.names() == []
    with closing(ObjectStore(ObjectUrl.parse(place.url)).open("binlog.000001")) as stream:
        assert b"".join(iter(lambda: stream.read(1 << 20), b"")) == b"head" + content


def test_two_writers_of_a_file(place):
    """The conditional request of each store: who was replaced changes nothing."""
    landing.test_two_writers_of_a_file(place)


@pytest.mark.slow
def test_a_writer_stopped_at_some_requests(place, monkeypatch):
    two_writers.in_stores(place.url, monkeypatch)


def test_a_program_commits(place):
    """Small commits are merged, and each file is one object in the end."""
    log = new_log(place.url, "mariadb", sync="transaction")
    for number in range(40):
        insert(log, number)
        if number == 35:
            log.rotate()
    assert [row["id"] for row in tailrace.rows(place.url)] == [*range(40)]
    landing.forget()
    with again(place.url, "mariadb") as log:
        assert log.recovery is None
        insert(log, 40)
    assert [row["id"] for row in tailrace.rows(place.url)] == [*range(41)]
    url = ObjectUrl.parse(place.url)
    listing = bucket_of(url).list(url.key)
    assert sorted(listing.objects) == ["binlog.000001", "binlog.000002", "binlog.index"]
    assert listing.folders == []


def test_a_store_without_conditional_writes(monkeypatch):
    """It would replace what a commit was told is stored: no log is written into it."""
    url = ObjectUrl.parse("memory://unconditional/logs")
    lower = bucket_of(url)
    put = lower.put
    monkeypatch.setattr(lower, "put", lambda key, content, **_: put(key, content))
    monkeypatch.setattr(folders, "_CONDITIONAL", set())
    with pytest.raises(StorageError, match=r"memory://unconditional: .* \(If-None-Match\)"):
        new_log(str(url), "mysql")
    assert ObjectStore(url).listing() == {}
