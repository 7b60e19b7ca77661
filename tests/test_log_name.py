"""Names of log files: what a server may call one, and what no folder takes for a file's name."""

import pickle

import pytest

from tailrace.errors import BadLogName, ProtocolError, StorageError, UsageError
from tailrace.log_name import LogName, base_and_number, file_number, plain_name
from tailrace.position import Position
from tailrace.replication.copy.folder import CopyFolder
from tailrace.selection import start_of
from tailrace.storage.local import LocalFolder
from tailrace.storage.memory import forget_memory, memory_folder
from tailrace.storage.objects import ObjectFolder
from tests.cases import each_case
from tests.live.test_feed_rules import HOSTILE

PATHS = ["../x.000001", "/tmp/x", "a/../b", "..", ".", "", "a\\b", "a\0b", "a\nb", "x" * 256]


def test_the_names_that_servers_give():
    """``log_bin=NAME`` as MySQL and MariaDB take it: letters of all kinds, blanks and dots too."""
    for text, base, number, after in (
        ("binlog.000001", "binlog", 1, "binlog.000002"),
        (
            "db-1.example.org-bin.999999",
            "db-1.example.org-bin",
            999999,
            "db-1.example.org-bin.1000000",
        ),
        ("größe.000009", "größe", 9, "größe.000010"),
        ("my log.2147483646", "my log", 2147483646, "my log.2147483647"),
    ):
        name = LogName(text)
        assert (name, name.base, name.number, name.next) == (text, base, number, after)
        assert type(name.next) is type(pickle.loads(pickle.dumps(name))) is LogName
    with pytest.raises(BadLogName, match="at most 2147483647"):
        _ = LogName("binlog.2147483647").next


def test_base_and_number():
    """One answer for files that are read, for positions and for names that are written."""
    for name, base, number in (
        ("mysql-bin.000042", "mysql-bin", 42),
        ("a.b.7", "a.b", 7),
        ("a\nb.7", "a\nb", 7),
        ("binlog.2147483647", "binlog", 2147483647),
        ("binlog.2147483648", "binlog.2147483648", None),
        ("binlog." + "9" * 5000, "binlog." + "9" * 5000, None),
        ("binlog", "binlog", None),
        ("binlog.00x1", "binlog.00x1", None),
        ("binlog.000001\n", "binlog.000001\n", None),
        ("binlog.٣", "binlog.٣", None),
        (".000001", ".000001", None),
    ):
        assert base_and_number(name) == (base, number)
        assert file_number(name) == Position(name, 4).number == number
        if known := LogName.parse(name):
            assert (known.base, known.number) == (base, number)
        if number is not None:
            assert start_of(name) == Position(name, 4)
            continue
        assert LogName.parse(name) is None
        if name == name.strip():
            with pytest.raises(UsageError, match="start is"):
                start_of(name)


@each_case("letter", ["b", "ß"])
def test_the_longest_names(tmp_path, letter):
    """Names are limited so that a folder can write each: a draft's name is longer."""
    longest = LogName(letter * (233 // len(letter.encode())) + ".000001")
    folder = LocalFolder(tmp_path)
    folder.create(longest, b"head").close()
    folder.replace(longest, b"content")
    folder.replace(f"{longest.base}.index", b"")
    assert folder.read(longest, 0, 10) == b"content"
    for more in (8, 15):
        with pytest.raises(BadLogName, match="more than 240 bytes"):
            LogName("b" * (233 + more) + ".000001")


def test_a_name_that_a_server_gave():
    """The error names the server, and bytes that are not UTF-8 are shown."""
    assert LogName.given_by("mysql://h", b"binlog.000001") == "binlog.000001"
    for raw in (b"../x.000001", b"b\xff.000001", "../x.000001"):
        with pytest.raises(BadLogName, match=r"mysql://h: .* nothing was written"):
            LogName.given_by("mysql://h", raw)


@each_case("given", HOSTILE)
def test_names_that_lead_elsewhere(given):
    assert LogName.parse(given) is None
    with pytest.raises(BadLogName) as caught:
        LogName(given)
    assert isinstance(caught.value, ProtocolError)
    assert isinstance(caught.value, StorageError)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200


@each_case("kind", ["disk", "memory", "objects", "copy"])
@each_case("given", PATHS)
def test_a_folder_checks_again(tmp_path, kind, given):
    """Whoever forgot to: no path leads a folder to a file of another."""
    (tmp_path / "x.000001").write_text("not yours")
    folders = {
        "disk": LocalFolder(tmp_path / "log"),
        "memory": memory_folder("names"),
        "objects": ObjectFolder("memory://names/log"),
        "copy": CopyFolder(LocalFolder(tmp_path / "log"), None),
    }
    folder = folders[kind]
    (tmp_path / "log").mkdir()
    before = sorted(tmp_path.rglob("*"))
    for use in (
        lambda: folder.create(given, b"head"),
        lambda: folder.reopen(given),
        lambda: folder.replace(given, b"content"),
        lambda: folder.remove(given),
        lambda: folder.read(given, 0, 1),
        lambda: folder.size(given),
    ):
        with pytest.raises(BadLogName):
            use()
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "x.000001").read_text() == "not yours"
    forget_memory("names")
    with pytest.raises(BadLogName):
        plain_name(given)


def test_links_lead_nowhere(tmp_path):
    """A link in a folder that came from others: what is written stays in the folder."""
    outside = tmp_path / "outside"
    outside.write_text("not yours")
    folder = LocalFolder(tmp_path / "log")
    folder.folder.mkdir()
    for name in ("binlog.000001", "binlog.index.new", "binlog.000002.new"):
        (folder.folder / name).symlink_to(outside)
    with pytest.raises(StorageError, match=r"binlog\.000001"):
        folder.reopen("binlog.000001")
    folder.replace("binlog.index", b"./binlog.000002\n")
    folder.create("binlog.000002", b"head").close()
    folder.remove("binlog.000001")
    assert outside.read_text() == "not yours"
    assert (folder.folder / "binlog.000002").read_bytes() == b"head"
