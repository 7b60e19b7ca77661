"""A receiver goes on with whatever one before it left: torn, empty, not listed, killed in between."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from tailrace.errors import StorageError
from tailrace.position import Position
from tailrace.replication.receiver import Receiver
from tests.replication.conftest import end_of, insert, rotate, same, url_of
from tests.waiting import wait_for


def run(source, folder, **settings):
    return Receiver(url_of(source), folder, follow=False, **settings).run()


@pytest.fixture(scope="module")
def source(of_the_file):
    """With all its logs: those of `whole`."""
    return of_the_file


@pytest.fixture(scope="module")
def whole(source, tmp_path_factory):
    """A copy of three files, and the source as it was then; each test has a copy of that."""
    for _ in range(2):
        insert(source, [10, 3000, 70_000])
        rotate(source)
    insert(source, [10, 3000])
    made = tmp_path_factory.mktemp("whole") / "copy"
    run(source, made)
    return made


@pytest.fixture
def left(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "copy")
    return tmp_path / "copy"


def last_of(folder):
    return max(folder.glob("binlog.0*"))


@pytest.mark.parametrize("cut", [1, 10, 30, 200, 2900])
def test_a_torn_tail(source, left, cut):
    path = last_of(left)
    raw = path.read_bytes()
    os.truncate(path, len(raw) - cut)
    done = run(source, left)
    same(source, left)
    assert cut <= done.received < cut + 3400  # what is whole is not asked for twice


@pytest.mark.parametrize("tail", [bytes(100), bytes(5000), b"\xff" * 777, b"binlog" * 99])
def test_a_tail_of_garbage(source, left, tail):
    with last_of(left).open("ab") as file:
        file.write(tail)
    assert run(source, left).received == 0
    same(source, left)


def test_pages_that_a_power_cut_left_unwritten(source, left):
    path = last_of(left)
    raw = bytearray(path.read_bytes())
    raw[-2000:-1000] = bytes(1000)
    path.write_bytes(raw)
    assert run(source, left).received >= 1000
    same(source, left)


def test_a_file_that_is_listed_and_empty(source, left):
    size = last_of(left).stat().st_size
    last_of(left).write_bytes(b"")
    assert run(source, left).received > size - 1000
    same(source, left)


@pytest.mark.parametrize("size", [1, 4, 60])
def test_a_file_without_a_whole_head(source, left, size):
    os.truncate(last_of(left), size)
    run(source, left)
    same(source, left)


def test_a_file_that_is_not_listed(source, left):
    index = left / "binlog.index"
    lines = index.read_text().splitlines(keepends=True)
    index.write_text("".join(lines[:-1]))
    assert run(source, left).received == 0
    same(source, left)


def test_an_index_that_is_gone(source, left):
    (left / "binlog.index").unlink()
    run(source, left)
    same(source, left)


def test_files_that_were_taken_away_are_fetched_again(source, left):
    for path in sorted(left.glob("binlog.0*"))[1:]:
        path.unlink()
    run(source, left)
    same(source, left)


def test_killed_between_two_files(source, left):
    last_of(left).unlink()
    index = left / "binlog.index"
    index.write_text("".join(index.read_text().splitlines(keepends=True)[:-1]))
    run(source, left)
    same(source, left)


def test_killed_before_the_flag_of_a_file_was_cleared(source, left):
    test_killed_between_two_files(source, left)
    last_of(left).unlink()
    path = last_of(left)
    raw = bytearray(path.read_bytes())
    raw[21] |= 1
    path.write_bytes(raw)
    index = left / "binlog.index"
    index.write_text("".join(index.read_text().splitlines(keepends=True)[:-1]))
    run(source, left)
    same(source, left)


def test_drafts_that_were_not_named(source, left):
    following = f"binlog.{int(last_of(left).suffix[1:]) + 1:06}"
    (left / f"{following}.new").write_bytes(b"\xfebin")
    run(source, left)
    same(source, left)


def test_only_the_state(source, left):
    for path in left.iterdir():
        if path.name != "receiver.json":
            path.unlink()
    run(source, left)
    same(source, left)


def test_a_copy_without_a_state(source, left):
    (left / "receiver.json").unlink()
    assert run(source, left).received == 0
    same(source, left)


def test_a_purge_that_was_begun(source, left):
    first = min(left.glob("binlog.0*"))
    (left / "binlog.~rec~").write_text(f"./{first.name}\n")
    index = left / "binlog.index"
    index.write_text("".join(index.read_text().splitlines(keepends=True)[1:]))
    run(source, left)
    same(source, left, first=1)


def test_a_file_in_between_that_is_none_of_the_copy(source, left):
    index = left / "binlog.index"
    index.write_text("".join(index.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(StorageError, match="does not list it"):
        run(source, left)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "it is not JSON"),
        ('{"version": 1, "uuid": "x", "encrypted": false, "base": "../x"}', "base is '../x'"),
        ('{"version": 1, "uuid": "x", "encrypted": false, "mark": {"file": 1}}', "mark is"),
    ],
)
def test_a_state_that_somebody_made(source, left, text, said):
    (left / "receiver.json").write_text(text)
    with pytest.raises(StorageError, match=f"receiver.json: {said}"):
        run(source, left)


def test_a_state_that_is_damaged(source, left):
    (left / "receiver.json").write_text('{"version": 1, "uuid": 5}')
    with pytest.raises(StorageError, match=r"receiver\.json: uuid is 5"):
        run(source, left)
    (left / "receiver.json").write_text("{")
    with pytest.raises(StorageError, match="not JSON"):
        run(source, left)


def test_nothing_is_cut_before_the_source_has_agreed(source, left):
    """The tail goes when the source has said that it has what follows, and not before."""
    path = last_of(left)
    os.truncate(path, path.stat().st_size - 5)
    before = path.read_bytes()
    receiver = Receiver("mysql://root@127.0.0.1:1/?retry=0", left, follow=False)
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1"):
        receiver.run()
    assert path.read_bytes() == before
    run(source, left)
    same(source, left)


def test_two_logs_in_a_folder(source, left):
    (left / "receiver.json").unlink()
    shutil.copy(last_of(left), left / "other.000001")
    with pytest.raises(StorageError, match="several logs"):
        run(source, left)


def test_it_is_where_it_says(source, left):
    assert run(source, left).position == Position(*end_of(source))


def test_a_mark_says_from_where_on_to_look(source, left, receiving, monkeypatch):
    monkeypatch.setattr("tailrace.replication.receiver._MARK_BYTES", 50_000)
    insert(source, [100_000] * 3)
    following = receiving(source, left)
    wait_for(lambda: json.loads((left / "receiver.json").read_text())["mark"])
    wait_for(lambda: following.has(source))
    following.stop()
    mark = json.loads((left / "receiver.json").read_text())["mark"]
    assert mark["file"] == last_of(left).name
    assert mark["offset"] > 50_000
    before = end_of(source)[1]
    insert(source, [100])
    run(source, left)
    os.truncate(last_of(left), before + 20)
    run(source, left)
    same(source, left)
