"""Receivers are killed under load (`tools.campaign.received`), and what the campaign would find.

TAILRACE_KILLS makes it more than 2 kills of each server's receiver: encrypted copies of MySQL, plain
ones of MariaDB. `--size full` of the campaign has all cases.
"""

import os
import shutil

import pytest

from tailrace.storage import keyring
from tailrace.storage.encryption.mysql import MysqlHeader
from tests.cases import each_case
from tests.conftest import _require
from tools.campaign.received import Case, Size, run
from tools.campaign.received_copy import BESIDE, Copy, Wrong, borders

KILLS = int(os.environ.get("TAILRACE_KILLS", "2"))
CASES = {"mysql-9.7": Case(KILLS, encrypt=True), "mariadb-11.8": Case(KILLS)}
KEY_ID = "MySQLReplicationKey_896e7882-18fe-11ef-ab88-22222d34d411_1"


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_killed_again_and_again(name):
    _require(name)
    (report,) = run(name, Size((CASES[name],), backlog=3 << 20), seed=1)
    assert not report.failures, "\n".join(map(str, report.failures))
    assert report.places.total() == KILLS
    assert report.files > 2


# --- what it would find --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def source(mysql97, tmp_path_factory):
    """Logs of a real server with its index, at rest."""
    mysql97.execute("CREATE DATABASE IF NOT EXISTS received")
    mysql97.execute("CREATE TABLE IF NOT EXISTS received.t (a INT AUTO_INCREMENT PRIMARY KEY)")
    for _ in range(3):
        mysql97.execute("INSERT INTO received.t VALUES (), (), ()")
        mysql97.rotate()
    mysql97.execute("INSERT INTO received.t VALUES ()")
    folder = tmp_path_factory.mktemp("source")
    for path in [*mysql97.binlogs(), mysql97.data / "binlog.index"]:
        shutil.copy(path, folder)
    mysql97.execute("DROP DATABASE received")
    return folder


def copied(source, tmp_path):
    """A copy as it should be."""
    folder = tmp_path / "copy"
    shutil.copytree(source, folder)
    for name in BESIDE - {"binlog.index"}:
        (folder / name).touch()
    return Copy(folder, source)


@pytest.fixture
def copy(source, tmp_path):
    return copied(source, tmp_path)


def edit(path, change):
    path.write_bytes(change(path.read_bytes()))


def test_a_copy_as_it_should_be(copy):
    assert copy.after_a_kill() == "no transaction"
    copy.at_the_end()


def events(raw):
    return list(borders(raw))


DAMAGE = {
    "a byte": lambda raw: raw[:300] + bytes((raw[300] ^ 1,)) + raw[301:],
    "an event is left out": lambda raw: raw[: events(raw)[3]] + raw[events(raw)[4] :],
    "an event is doubled": lambda raw: raw[: events(raw)[4]] + raw[events(raw)[3] :],
    "an event too much": lambda raw: raw + raw[events(raw)[3] : events(raw)[4]],
}


@each_case("damage", DAMAGE)
@each_case("which", [0, -1])
def test_what_is_not_the_sources_is_found(copy, damage, which):
    long = [name for name in copy.names() if len(events((copy.folder / name).read_bytes())) > 8]
    path = copy.folder / long[which]
    sound = path.read_bytes()
    edit(path, DAMAGE[damage])
    for look in (copy.after_a_kill, copy.at_the_end):
        with pytest.raises(Wrong, match=f"{path.name}.*they differ at"):
            look()
    path.write_bytes(sound)


def test_a_file_that_is_short(copy):
    """Of the last one a kill may leave less; in the end, and of others, it is a fault."""
    last = copy.folder / copy.names()[-1]
    starts = events(last.read_bytes())
    for size, where in (
        (starts[-1], "no transaction"),
        (starts[-2] + 1, "an event"),
        (starts[-2], "a transaction"),
        (4, "a file's begin"),
    ):
        edit(last, lambda raw, size=size: raw[:size])
        assert copy.after_a_kill() == where
        if size < starts[-1]:
            with pytest.raises(Wrong, match=last.name):
                copy.at_the_end()
    first = copy.folder / copy.names()[0]
    edit(first, lambda raw: raw[:-1])
    with pytest.raises(Wrong, match=f"{first.name}, which is not the last"):
        copy.after_a_kill()


def no_last_line(copy):
    edit(copy.folder / "binlog.index", lambda raw: b"".join(raw.splitlines(keepends=True)[:-1]))


def no_last_file(copy):
    (copy.folder / copy.names()[-1]).unlink()
    no_last_line(copy)


def in_use(copy, number):
    edit(
        copy.folder / copy.names()[number], lambda raw: raw[:21] + bytes((raw[21] | 1,)) + raw[22:]
    )


@each_case(
    ("change", "left", "told"),
    [
        (no_last_file, "a file's end", r"the copy has .*'"),
        (lambda copy: (copy.folder / copy.names()[1]).unlink(), None, "the copy has"),
        (no_last_line, "a file's begin", "the index lists"),
        (lambda copy: (no_last_line(copy), no_last_line(copy)), None, "the index lists"),
        (lambda copy: (copy.folder / "x~draft").touch(), "no transaction", "beside the logs lie"),
        (lambda copy: in_use(copy, -1), "no transaction", None),
        (lambda copy: in_use(copy, 0), "no transaction", "binlog"),
    ],
)
def test_files_and_their_index(source, tmp_path, change, left, told):
    """What a kill may leave, and what is wrong then (None), or in the end."""
    copy = copied(source, tmp_path)
    change(copy)
    if left is None:
        with pytest.raises(Wrong, match=told):
            copy.after_a_kill()
    else:
        assert copy.after_a_kill() == left
    if told is None:
        copy.at_the_end()
    else:
        with pytest.raises(Wrong, match=told):
            copy.at_the_end()


def test_encrypted_copies_are_opened(copy, tmp_path):
    ring = keyring.make(tmp_path / "keyring", KEY_ID)
    copy.key, copy.encrypted = ring.key(KEY_ID), True
    with pytest.raises(Wrong, match="is not encrypted"):
        copy.after_a_kill()
    for name in copy.names():
        header, keystream = MysqlHeader.new(ring, KEY_ID)
        edit(
            copy.folder / name,
            lambda raw, head=header, key=keystream: head.encode() + key.apply(raw, 0),
        )
    assert copy.after_a_kill() == "no transaction"
    copy.at_the_end()
    last = copy.folder / copy.names()[-1]
    edit(last, lambda raw: raw[:-1] + bytes((raw[-1] ^ 1,)))
    with pytest.raises(Wrong, match=last.name):
        copy.at_the_end()
    edit(last, lambda raw: raw[:100])
    assert copy.after_a_kill() == "a file's begin"
