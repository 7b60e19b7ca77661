"""A receiver goes on with whatever one before it left: torn, empty, not listed, killed in between."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tailrace.errors import StorageError
from tailrace.position import Position
from tailrace.replication.receiver import Receiver
from tests.cases import each_case
from tests.replication.conftest import end_of, insert, rotate, run, same
from tests.waiting import wait_for


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


def lines_of_index(left, chosen):
    index = left / "binlog.index"
    index.write_text("".join(index.read_text().splitlines(keepends=True)[chosen]))


def torn(cut):
    return lambda left: os.truncate(last_of(left), last_of(left).stat().st_size - cut)


def garbage(tail):
    def damage(left):
        with last_of(left).open("ab") as file:
            file.write(tail)

    return damage


def unwritten_pages(left):
    raw = bytearray(last_of(left).read_bytes())
    raw[-2000:-1000] = bytes(1000)
    last_of(left).write_bytes(raw)


def only_the_first_file(left):
    for path in sorted(left.glob("binlog.0*"))[1:]:
        path.unlink()


def killed_between_two_files(left):
    last_of(left).unlink()
    lines_of_index(left, slice(-1))


def killed_before_the_flag_of_a_file_was_cleared(left):
    killed_between_two_files(left)
    raw = bytearray(last_of(left).read_bytes())
    raw[21] |= 1
    last_of(left).write_bytes(raw)


def a_draft_that_was_not_named(left):
    following = f"binlog.{int(last_of(left).suffix[1:]) + 1:06}"
    (left / f"{following}.new").write_bytes(b"\xfebin")


def only_the_state(left):
    for path in left.iterdir():
        if path.name != "receiver.json":
            path.unlink()


ANY = range(1 << 30)
LEFT = {
    # What is whole is not asked for twice.
    **{f"{cut} bytes are missing": (torn(cut), range(cut, cut + 3400)) for cut in (1, 10, 30, 200)},
    "a large tail is missing": (torn(2900), range(2900, 6300)),
    "zeros at the end": (garbage(bytes(100)), range(1)),
    "pages of zeros at the end": (garbage(bytes(5000)), range(1)),
    "ones at the end": (garbage(b"\xff" * 777), range(1)),
    "a text at the end": (garbage(b"binlog" * 99), range(1)),
    "pages that a power cut left unwritten": (unwritten_pages, ANY[1000:]),
    "a file that is listed and empty": (lambda left: os.truncate(last_of(left), 0), ANY[2500:]),
    **{
        f"a head of {size} bytes": (lambda left, size=size: os.truncate(last_of(left), size), ANY)
        for size in (1, 4, 60)
    },
    "a file that is not listed": (lambda left: lines_of_index(left, slice(-1)), range(1)),
    "no index": (lambda left: (left / "binlog.index").unlink(), ANY),
    "files that were taken away": (only_the_first_file, ANY),
    "killed between two files": (killed_between_two_files, ANY),
    "killed before a flag was cleared": (killed_before_the_flag_of_a_file_was_cleared, ANY),
    "a draft that was not named": (a_draft_that_was_not_named, ANY),
    "only the state": (only_the_state, ANY),
    "no state": (lambda left: (left / "receiver.json").unlink(), range(1)),
}
"""What is done to a copy, and how many bytes are then received."""


@each_case("name", LEFT)
def test_what_was_left_is_continued(source, whole, tmp_path, name):
    damage, received = LEFT[name]
    left = Path(shutil.copytree(whole, tmp_path / "copy"))
    damage(left)
    done = run(source, left)
    assert done.received in received
    assert done.position == Position(*end_of(source))
    same(source, left)


def test_a_purge_that_was_begun(source, left):
    first = min(left.glob("binlog.0*"))
    (left / "binlog.~rec~").write_text(f"./{first.name}\n")
    lines_of_index(left, slice(1, None))
    run(source, left)
    same(source, left, first=1)


def test_a_file_in_between_that_is_none_of_the_copy(source, left):
    lines_of_index(left, slice(1, None))
    with pytest.raises(StorageError, match="does not list it"):
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
