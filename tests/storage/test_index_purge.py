"""Old files of a log are deleted, in the servers' order: a kill at any step loses nothing."""

import shutil
from uuid import uuid4

import pytest

from tailrace.errors import BadLogName, StorageError, UsageError
from tailrace.storage import find, keyring
from tailrace.storage.index import LogIndex
from tailrace.storage.local import LocalFolder
from tailrace.storage.memory import forget_memory, memory_folder
from tailrace.storage.purge import purge
from tests.cases import each_case
from tests.writing.made import FLAVOURS, START, append, fill, log, transactions_of

both = each_case("flavour", FLAVOURS)
FILES = 5


def made(target, flavour, **options):
    """A log of several files; their names."""
    with log(target, flavour, **options) as out:
        for number in range(FILES):
            fill(out, 2, first=2 * number + 1)
            if number < FILES - 1:
                out.rotate()
    return out.files


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def place(where, tmp_path):
    if where == "disk":
        return str(tmp_path / "binlog.000001"), LocalFolder(tmp_path)
    forget_memory("purged")
    return "memory:purged/binlog.000001", memory_folder("purged")


@both
@each_case("where", ["disk", "memory"])
def test_up_to_a_file(tmp_path, where, flavour):
    target, folder = place(where, tmp_path)
    files = made(target, flavour)
    index = LogIndex(folder, "binlog")
    assert index.purge(to=files[0]) == []
    assert index.purge(to=files[2]) == files[:2]
    assert sorted(folder.names()) == sorted([*files[2:], "binlog.index"])
    assert LogIndex(folder, "binlog").names == index.names == files[2:]
    with pytest.raises(UsageError, match=rf"{files[1]} is not in the index .* {files[2]} to"):
        index.purge(to=files[1])
    assert index.purge(to=files[-1]) == files[2:-1]
    assert index.names == files[-1:]


def begun(folder, name):
    return int.from_bytes(folder.read(name, 4, 4), "little") * 1_000_000


@both
@each_case("where", ["disk", "memory"])
def test_up_to_a_time(tmp_path, where, flavour):
    """A file goes where the second in which the next was begun is over by then."""
    target, folder = place(where, tmp_path)
    files = made(target, flavour)
    index = LogIndex(folder, "binlog")
    closed = begun(folder, files[2])  # when the second file was
    assert index.purge(before=START) == []
    assert index.purge(before=closed) == files[:1]
    assert index.purge(before=closed + 999_999) == []
    assert index.purge(before=closed + 1_000_000) == files[1:2]
    assert index.purge(before=closed + 10**12) == files[2:-1]
    assert index.names == files[-1:]
    assert index.purge(before=closed + 10**12) == []


def test_one_limit_and_not_two(tmp_path):
    made(tmp_path / "binlog.000001", "mysql")
    index = LogIndex(LocalFolder(tmp_path), "binlog")
    for limits in ({}, {"to": "binlog.000002", "before": 1}):
        with pytest.raises(UsageError, match=r"to a file .* or to a time"):
            index.purge(**limits)
    assert len(index.names) == FILES


@both
def test_by_the_writer_and_by_name(tmp_path, flavour):
    folder = tmp_path / flavour
    files = made(folder / "binlog.000001", flavour)
    whole = transactions_of(folder)
    with append(folder) as out:
        fill(out, 2, first=70)
        with pytest.raises(StorageError, match="another writer has it open"):
            purge(folder, to=files[2])
        assert out.purge(to=files[2]) == files[:2]
        fill(out, 1, first=80)
        assert out.files == [*files[2:], "binlog.000006"]
    with pytest.raises(UsageError, match="the log is closed"):
        out.purge(to=files[3])
    left = transactions_of(folder)
    assert left[: len(whole) - 4] == whole[4:]
    assert len(left) == len(whole) - 4 + 3
    assert purge(folder / "binlog.index", to=files[4]) == files[2:4]
    assert names(folder) == [files[4], "binlog.000006", "binlog.index"]


@each_case("entry", ["{folder}/{name}", "./{name}", "{name}", ".\\{name}"])
def test_entries_of_every_form(tmp_path, entry):
    files = made(tmp_path / "binlog.000001", "mysql")
    index = tmp_path / "binlog.index"
    lines = [entry.format(folder=tmp_path, name=name) for name in files]
    index.write_text("".join(f"{line}\n" for line in lines))
    assert purge(tmp_path, to=files[3]) == files[:3]
    assert index.read_text().splitlines() == lines[3:]
    assert names(tmp_path) == [*files[3:], "binlog.index"]


@each_case("relative", [False, True])
def test_files_that_lie_elsewhere_are_read_and_not_deleted(tmp_path, relative):
    """The index lies in one folder, the older files in another."""
    here, there = tmp_path / "here", tmp_path / "there"
    files = made(here / "binlog.000001", "mariadb")
    there.mkdir()
    for name in files[:4]:
        shutil.move(here / name, there / name)
    prefix = "../there" if relative else str(there)
    lines = [f"{prefix}/{name}" for name in files[:4]] + [f"./{files[4]}"]
    (here / "binlog.index").write_text("".join(f"{line}\n" for line in lines))
    assert len(transactions_of(here)) == 10
    index = LogIndex(LocalFolder(here), "binlog")
    for limit in ({"before": START + 10**12}, {"to": files[3]}):
        with pytest.raises(StorageError, match=r"in another folder: files elsewhere are read, and"):
            index.purge(**limit)
    assert names(there) == files[:4]
    assert (here / "binlog.index").read_text().splitlines() == lines


@each_case(
    "entry",
    [
        *("{outside}/x.000001", "../outside/x.000001", "{outside}/keys", "../outside/keys"),
        *("./keys", "./receiver.json", "./other.000001", "..", "/", "./binlog.000001\x1b[2J"),
    ],
)
def test_a_register_deletes_nothing_elsewhere(tmp_path, entry):
    """Who can write ``binlog.~rec~`` into a folder that others copy into chooses no file of theirs."""
    folder, outside = tmp_path / "log", tmp_path / "outside"
    files = made(folder / "binlog.000001", "mysql")
    outside.mkdir()
    kept = [outside / "x.000001", outside / "keys", folder / "keys", folder / "receiver.json"]
    kept.append(folder / "other.000001")
    for path in kept:
        path.write_text("not yours")
    register = folder / "binlog.~rec~"
    register.write_text(f"./binlog.000000\n{entry.format(outside=outside)}\n")
    with pytest.raises(BadLogName, match=r"binlog\.~rec~: it lists"):
        LogIndex(LocalFolder(folder), "binlog").recover()
    assert register.exists()
    assert all(path.read_text() == "not yours" for path in kept)
    assert LogIndex(LocalFolder(folder), "binlog").names == files


def test_what_lies_beside_goes_before_what_the_entry_says(tmp_path):
    """A copied log's index names the files of the log that it was copied from: they stay."""
    files = made(tmp_path / "log" / "binlog.000001", "mysql")
    index = tmp_path / "log" / "binlog.index"
    index.write_text("".join(f"{tmp_path}/log/{name}\n" for name in files))
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    assert purge(tmp_path / "copy", to=files[3]) == files[:3]
    assert names(tmp_path / "log") == [*files, "binlog.index"]
    assert names(tmp_path / "copy") == [*files[3:], "binlog.index"]


def test_a_file_that_is_gone_already(tmp_path):
    files = made(tmp_path / "binlog.000001", "mysql")
    (tmp_path / files[0]).unlink()
    (tmp_path / files[1]).unlink()
    time = begun(LocalFolder(tmp_path), files[2]) + 1_000_000
    assert purge(tmp_path, before=time) == files[:2]
    assert names(tmp_path) == [*files[2:], "binlog.index"]


def test_mariadbs_index_of_gtids_goes_with_its_file(tmp_path):
    files = made(tmp_path / "binlog.000001", "mariadb")
    for name in files:
        (tmp_path / f"{name}.idx").write_bytes(b"")
    purge(tmp_path, to=files[4])
    assert names(tmp_path) == [files[4], f"{files[4]}.idx", "binlog.index"]


def test_an_encrypted_file_says_no_time(tmp_path):
    files = made(tmp_path / "binlog.000001", "mysql")
    (tmp_path / files[1]).write_bytes(b"\xfdbin" + bytes(600))
    with pytest.raises(StorageError, match=rf"{files[1]}: it is encrypted.* purge up to a file"):
        purge(tmp_path, before=START + 10**12)
    (tmp_path / files[1]).write_bytes(b"nonsense")
    with pytest.raises(StorageError, match=rf"{files[1]}: it is no log"):
        purge(tmp_path, before=START + 10**12)
    assert LogIndex(LocalFolder(tmp_path), "binlog").names == files
    assert purge(tmp_path, to=files[4]) == files[:4]


@both
def test_an_encrypted_log_by_time(tmp_path, flavour):
    ring = tmp_path / "ring"
    keyring.make(ring).add("1")
    files = made(
        tmp_path / "log" / "binlog.000001", flavour, encrypt=True, keyring=ring, key_id="1"
    )
    purge(tmp_path / "log", to=files[1])
    assert purge(tmp_path / "log", before=START + 10**12, keyring=ring) == files[1:4]
    assert names(tmp_path / "log") == [files[4], "binlog.index"]


def test_a_log_in_an_object_store():
    """A store has no rename: its index is put anew in one piece."""
    target = f"memory://purged-{uuid4().hex}/binlog.000001"
    files = made(target, "mysql")
    assert purge(target.rpartition("/")[0], to=files[3]) == files[:3]
    assert purge(target.rpartition("/")[0], before=START + 10**12) == files[3:4]
    (series,) = find(target.rpartition("/")[0])
    assert [file.name for file in series.files] == files[4:]


class Killed(BaseException):
    """The process ends here."""


class Dying(LocalFolder):
    """A folder on disk whose process is killed right before its n-th change."""

    def __init__(self, folder, left):
        super().__init__(folder)
        self.left = left

    def _step(self):
        if not self.left:
            raise Killed
        self.left -= 1

    def remove(self, name):
        self._step()
        super().remove(name)

    def replace(self, name, content):
        self._step()
        super().replace(name, content)


@both
@each_case("step", range(8))
def test_killed_at_every_step(tmp_path, flavour, step):
    """All files are listed and there, or the old ones are not listed; the next writer ends it."""
    folder = tmp_path / flavour
    files = made(folder / "binlog.000001", flavour)
    whole = transactions_of(folder)
    index = LogIndex(Dying(folder, step), "binlog")
    done = step == 6  # register, index, three files, register
    if step <= 5:
        with pytest.raises(Killed):
            index.purge(to=files[3])
    else:
        assert index.purge(to=files[3]) == files[:3]
    listed = LogIndex(LocalFolder(folder), "binlog").names
    assert listed == (files if step < 2 else files[3:])
    assert all((folder / name).exists() for name in listed)
    assert ("binlog.~rec~" in names(folder)) == (0 < step <= 5)
    assert not done or names(folder) == [*files[3:], "binlog.index"]

    with append(folder) as out:
        fill(out, 1, first=90)
    assert "binlog.~rec~" not in names(folder)
    assert names(folder) == sorted([*out.files, "binlog.index"])
    assert out.files == [*listed, "binlog.000006"]
    assert transactions_of(folder)[:-1] == (whole if step < 2 else whole[6:])


def test_a_register_of_nothing_that_is_there(tmp_path):
    """What is listed is never deleted, nor what is not there an error."""
    files = made(tmp_path / "mysql" / "binlog.000001", "mysql")
    (tmp_path / "mysql" / "binlog.~rec~").write_text(f"./{files[0]}\n./binlog.000000\n./binl")
    index = LogIndex(LocalFolder(tmp_path / "mysql"), "binlog")
    assert index.recover() == []
    assert index.recover() == []
    assert names(tmp_path / "mysql") == [*files, "binlog.index"]


def test_a_servers_index_that_was_not_put_in_place(tmp_path):
    """Servers delete the index and then rename the new one; between the two they may be killed."""
    folder = tmp_path / "mysql"
    files = made(folder / "binlog.000001", "mysql")
    (folder / "binlog.index").rename(folder / "binlog.index_crash_safe")
    assert LogIndex(LocalFolder(folder), "binlog").names == files
    with append(folder):
        pass
    assert (folder / "binlog.index").read_text().splitlines() == [
        f"./{name}" for name in [*files, "binlog.000006"]
    ]


def test_what_cannot_be_deleted_is_tried_again(tmp_path):
    class Refusing(LocalFolder):
        def remove(self, name):
            if name == files[1]:
                raise StorageError(f"{name}: Permission denied")
            super().remove(name)

    files = made(tmp_path / "binlog.000001", "mysql")
    with pytest.raises(StorageError, match=rf"{files[1]}: Permission denied"):
        LogIndex(Refusing(tmp_path), "binlog").purge(to=files[3])
    assert names(tmp_path) == [*files[1:], "binlog.index", "binlog.~rec~"]
    assert purge(tmp_path, to=files[4]) == files[3:4]
    assert names(tmp_path) == [files[4], "binlog.index"]
