"""`BinlogFile` out: a log file being written, in folders on disk and in memory."""

import errno
import os
from itertools import pairwise

import pytest

import tailrace
from tailrace.errors import StorageError, UsageError
from tailrace.storage.binlog_file import BinlogFile
from tailrace.storage.encryption import EncryptedFolder
from tailrace.storage.keyring import make
from tailrace.storage.local import LocalFolder
from tailrace.storage.memory import MemoryFolder
from tailrace.storage.streams import file as file_module
from tailrace.storage.streams.buffer import BufferRandomInput, BufferRandomOutput
from tailrace.storage.streams.compression import ZstdOutput
from tailrace.storage.streams.counting import CountingRandomInput
from tailrace.storage.streams.file import FileOutput
from tailrace.storage.streams.memory import MemoryInput, MemoryOutput
from tailrace.testing import Faults, FaultyOutput
from tests.cases import each_case
from tests.recorded import CORPUS
from tests.storage.layers import RefusingSystem


def there(file):
    return file.folder.read(file.name, 0, 1 << 20)


def a_folder(kind, path):
    return LocalFolder(path) if kind == "disk" else MemoryFolder("test")


@each_case("kind", ["disk", "memory"])
@each_case("buffer", [0, 5, 1 << 16])
def test_its_life(tmp_path, kind, buffer):
    folder = a_folder(kind, tmp_path)
    file = BinlogFile(folder, "binlog.000001", buffer=buffer)
    assert not file.is_open
    file.create(b"")
    assert (file.is_open, file.is_empty, file.position) == (True, True, 0)
    file.write(b"abc")
    assert (file.is_empty, file.position) == (False, 3)
    file.write(memoryview(b"defghijkl"))
    file.update(1, b"BCD")
    file.flush()
    assert there(file) == b"aBCDefghijkl"
    file.write(b"mnop")
    file.truncate(14)
    file.sync()
    assert there(file) == b"aBCDefghijklmn"
    file.write(b"q")
    file.close()
    file.close()
    assert (file.is_open, file.position) == (False, 15)
    assert there(file) == b"aBCDefghijklmnq"
    again = BinlogFile(folder, "binlog.000001", buffer=buffer)
    again.open()
    assert again.position == 15
    again.write(b"!")
    again.truncate(2)
    again.close()
    assert there(again) == b"aB"


@each_case("kind", ["disk", "memory"])
def test_what_is_refused(tmp_path, kind):
    folder = a_folder(kind, tmp_path)
    file = BinlogFile(folder, "x")
    for act in (
        lambda: file.write(b"a"),
        lambda: file.update(0, b"a"),
        lambda: file.truncate(0),
        file.flush,
        file.sync,
    ):
        with pytest.raises(StorageError, match=r"x: it is not open for writing"):
            act()
    with pytest.raises(StorageError, match=r"[Nn]o such file"):
        file.open()
    file.create(b"head")
    for act in (file.open, lambda: file.create(b"")):
        with pytest.raises(StorageError, match="it is open already"):
            act()
    with pytest.raises(StorageError, match="another writer has it open"):
        BinlogFile(folder, "x").open()
    with pytest.raises(UsageError, match="cannot be cut to 5"):
        file.truncate(5)
    with pytest.raises(UsageError, match="do not lie within the 4"):
        file.update(3, b"ab")
    file.close()
    with pytest.raises(StorageError, match="File exists"):
        BinlogFile(folder, "x").create(b"")


def test_a_stream_that_cannot_be_changed_is_no_log():
    class Archive(MemoryFolder):
        def create(self, name, head):
            self.store = FaultyOutput()
            return ZstdOutput(self.store)

    folder = Archive("archive")
    with pytest.raises(UsageError, match="BinlogFile needs a RandomOutput below it; ZstdOutput"):
        BinlogFile(folder, "x").create(b"")
    assert folder.store.closed


def test_a_full_disk_is_taken_back(tmp_path, monkeypatch):
    file = BinlogFile(LocalFolder(tmp_path), "x", buffer=250)
    file.create(b"head")
    monkeypatch.setattr(file_module, "os", RefusingSystem(Faults(0, errno.ENOSPC), 0.5))
    for _ in range(4):
        file.write(b"a" * 60)
    assert (tmp_path / "x").read_bytes() == b"head"
    with pytest.raises(StorageError, match=r"x: No space left on device"):
        file.write(b"b" * 60)
    assert file.position == 244
    file.truncate(4)
    monkeypatch.setattr(file_module, "os", os)
    file.write(b"c")
    file.sync()
    assert (tmp_path / "x").read_bytes() == b"headc"
    file.close()


def test_what_was_given_up_is_not_written_when_it_is_closed(tmp_path, monkeypatch):
    file = BinlogFile(LocalFolder(tmp_path), "x", buffer=250)
    file.create(b"head")
    file.write(b"a" * 60)
    faults = Faults(0)
    monkeypatch.setattr(file_module, "os", RefusingSystem(faults, 0.5))
    with pytest.raises(StorageError, match="Input/output error"):
        file.flush()
    faults.at = faults.calls
    with pytest.raises(StorageError, match="Input/output error"):
        file.truncate(4)  # the cut fails, too
    file.close()
    assert (tmp_path / "x").read_bytes() == b"head" + b"a" * 30


def test_a_log_is_in_the_systems_hands_when_a_commit_returns(tmp_path):
    """Also without `sync`: it outlives the end of the process."""
    log = tailrace.create(tmp_path / "binlog.000001", flavour="mysql", server_id=1, sync="none")
    for number in range(3):
        with log.transaction() as trx:
            trx.query(f"create table t{number} (a int)", "d")
        assert log.position.offset == (tmp_path / "binlog.000001").stat().st_size
    log.close()


@each_case("flavour", ["mysql", "mariadb"])
@each_case("buffer", [0, 1 << 16])
def test_encrypted_below(tmp_path, flavour, buffer):
    """Offsets, changes and cuts are the plain log's, in an encrypted one of either flavour."""
    with tailrace.create(tmp_path / "plain.000001", flavour=flavour, server_id=1) as log:
        ends = [log.position.offset]
        for number in range(5):
            with log.transaction() as trx:
                trx.query(f"create table t{number} (a int)", "d")
            ends.append(log.position.offset)
    plain = bytearray((tmp_path / "plain.000001").read_bytes())[: ends[-1]]
    plain[21] |= 1  # IN_USE, as while it is written
    key = "1" if flavour == "mariadb" else "MySQLReplicationKey_x_1"
    ring = make(tmp_path / "keys", key)
    key_id = None if key == "1" else key
    folder = EncryptedFolder(LocalFolder(tmp_path), ring, key_id=key_id, mode="aes_ctr")
    file = BinlogFile(folder, "binlog.000001", buffer=buffer)
    file.create(bytes(plain[: ends[0]]))
    shift = file.position - ends[0]  # MariaDB's shows its START_ENCRYPTION event
    for start, end in pairwise(ends[:4]):
        file.write(plain[start:end])
    file.truncate(ends[2] + shift)
    file.sync()
    file.close()
    folder = EncryptedFolder(LocalFolder(tmp_path), ring)  # of another mode: the file's is kept
    file = BinlogFile(folder, "binlog.000001", buffer=buffer)
    file.open()
    assert file.position == ends[2] + shift
    for start, end in pairwise(ends[2:]):
        file.write(plain[start:end])
    file.update(21, bytes([plain[21] & ~1]))
    plain[21] &= ~1
    file.close()
    found = folder.read("binlog.000001", 0, 1 << 20)
    assert found[: 21 + 1] == plain[: 21 + 1]
    assert found[ends[0] + shift :] == plain[ends[0] :]
    stored = (tmp_path / "binlog.000001").read_bytes()
    assert b"create table t4" in found
    assert b"create table t4" not in stored


@each_case("mode", ["aes_cbc", "aes_ctr"])
def test_an_encrypted_event_of_mariadb_is_not_updated(tmp_path, mode):
    """WL#10956, Binlog_ofile::update: the document of `update` says why."""
    ring = make(tmp_path / "keys", "1")
    folder = EncryptedFolder(MemoryFolder("updated"), ring, mode=mode)
    head = (CORPUS / "mariadb-11.8.interleaved" / "binlog.000001").read_bytes()[:256]
    file = BinlogFile(folder, "binlog.000001")
    file.create(head)
    whole = folder.read("binlog.000001", 0, 1 << 20)
    for offset, count in ((256, 1), (255, 2), (len(whole) - 1, 1)):
        with pytest.raises(UsageError, match=r"only the first 256 bytes of a log that MariaDB"):
            file.update(offset, bytes(count))
    file.update(21, bytes([head[21] ^ 1]))
    file.close()
    assert folder.read("binlog.000001", 0, 1 << 20)[256:] == whole[256:]


@each_case("flavour", ["mysql-9.7", "mariadb-11.8"])
@each_case("count", [0, 3, 4, 22, 30, 126])
def test_an_encrypted_log_is_created_with_its_beginning(tmp_path, flavour, count):
    """Binlog_ofile::open: the beginning says whose encryption it is; without it nothing is made."""
    raw = (CORPUS / f"{flavour}.interleaved" / "binlog.000001").read_bytes()
    below = MemoryFolder("begun")
    folder = EncryptedFolder(below, make(tmp_path / "keys", "1"))
    for head in (raw[:count], b"none" + raw[4:256]):
        with pytest.raises(UsageError, match="an encrypted log is created with its beginning"):
            BinlogFile(folder, "binlog.000001").create(head)
    assert below.names() == []


class Noting(MemoryOutput):
    """Notes the pieces that come down to it, as objects."""

    def __init__(self):
        super().__init__()
        self.pieces = []

    def write(self, data, /):
        self.pieces.append(data if isinstance(data, bytes) else bytes(data))
        super().write(data)


def test_a_transaction_goes_down_uncopied():
    """WL#10956, NF5: what is written once before each flush gains nothing by a buffer."""
    below = Noting()
    output = BufferRandomOutput(below)
    transactions = [bytes([number]) * 8192 for number in range(1, 5)]
    for number, each in enumerate(transactions):
        output.write(each)
        output.flush()
        assert number == 0 or below.pieces[number] is each
    small = [b"one", b"two", b"three"]
    for each in small:
        output.write(each)
    assert below.pieces[4:] == [b"one"]
    assert output.size == sum(map(len, transactions)) + 11
    output.flush()
    assert below.pieces[4:] == [b"one", b"twothree"]
    assert below.data == b"".join([*transactions, *small])


def test_small_pieces_become_few_large_ones():
    """NF5: 4 reads and 4 writes for each MiB."""
    below = Noting()
    output = BufferRandomOutput(below)
    for _ in range(2048):
        output.write(bytes(512))
    output.close()
    assert len(below.pieces) in {4, 5}
    counted = CountingRandomInput(MemoryInput(bytes(1 << 20)))
    stream = BufferRandomInput(counted)
    while stream.read(8192):
        pass
    assert counted.reads == 5  # the last finds the end


def test_a_device_that_is_full():
    output = FileOutput("/dev/full", os.open("/dev/full", os.O_RDWR))
    with pytest.raises(StorageError, match="/dev/full: No space left on device"):
        output.write(b"a")
    assert output.size == 0
    output.close()
