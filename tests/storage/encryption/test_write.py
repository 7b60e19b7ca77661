"""Logs that we encrypt: servers serve them, and `append` continues them."""

import shutil
from functools import partial

import pytest

import tailrace
from tailrace.constants import ENCRYPTED_MAGIC
from tailrace.errors import KeyMissing, StorageError, UsageError
from tailrace.schema.table import Table
from tailrace.storage import EventReader, keyring
from tailrace.storage.encryption import Mode, mariadb_output, mysql_output, opened
from tailrace.storage.streams.file import FileInput
from tailrace.storage.streams.memory import MemoryInput, MemoryOutput
from tests.cases import each_case
from tests.storage.encryption.conftest import ONLY_MARIADB, plain, sent_by
from tools.applied import forget, insert_files, replicate
from tools.servers import Server

SQL = "CREATE TABLE applied.t (id INT PRIMARY KEY, a VARCHAR(40) CHARACTER SET utf8mb4, b LONGBLOB)"
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OURS = 55


def settings(recorded):
    if recorded.server.flavour == "mysql":
        return {"flavour": "mysql", "server_id": OURS, "server_uuid": UUID}
    return {
        "flavour": "mariadb",
        "server_id": OURS,
        "encrypt_mode": recorded.mode,
        "server_version": recorded.version,
    }


def fill(log, first, count):
    table = Table.parse(SQL, flavour=log.flavour, database="applied")
    if first == 0:
        for sql in ("CREATE DATABASE applied", SQL):
            with log.transaction() as trx:
                trx.query(sql, "")
    for number in range(first, first + count):
        with log.transaction() as trx:
            trx.insert(
                table, [(number, f"ü{number}", bytes([number % 256]) * (number * 97 % 5000))]
            )


def rows(first, count):
    return [
        (number, f"ü{number}", bytes([number % 256]) * (number * 97 % 5000))
        for number in range(first, first + count)
    ]


def written(recorded, folder):
    """Two files of ours, encrypted with the server's own key; the last was reopened."""
    folder.mkdir()
    log = tailrace.create(folder, encrypt=True, keyring=recorded.keyring, **settings(recorded))
    with log:
        fill(log, 0, 60)
        log.rotate()
        fill(log, 60, 30)
    with tailrace.append(folder, keyring=recorded.keyring, server_uuid=log_uuid(recorded)) as log:
        fill(log, 90, 20)
    return sorted(folder.glob("binlog.0*"))


def log_uuid(recorded):
    return UUID if recorded.server.flavour == "mysql" else None


def test_a_server_serves_our_encrypted_log(recorded, tmp_path):
    files = written(recorded, tmp_path / "log")
    ring = keyring.open(recorded.keyring)
    assert len(files) == 3
    wanted = [plain(path, ring) for path in files]
    for path, clear in zip(files, wanted, strict=True):
        assert clear[21] & 1 == 0  # not in use
        assert b"CREATE TABLE applied" not in path.read_bytes()
        (tmp_path / path.name).write_bytes(clear)
        assert next(offset for offset, _ in EventReader(tmp_path / path.name)) == 4
    assert b"CREATE TABLE applied" in wanted[0]

    name = recorded.kind.partition(" ")[0]
    options = {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"} if name[:2] == "my" else None
    with recorded.server as source, Server(name, options, server_id=77) as replica:
        forget(source, "d", "applied", "end_of_logs")
        put = insert_files(source, files, alone=True)
        sent = sent_by(source, [path.name for path in put], tmp_path / "sent")
        assert [path.read_bytes() for path in sent] == wanted
        replicate(source, replica, by_gtid=True)
        found = replica.query("SELECT id, a, b FROM applied.t ORDER BY id")
    assert found == rows(0, 110)


def test_a_torn_log_is_gone_on_with(recorded, tmp_path):
    """Cut off inside its last event: in the same file, with the transactions before that."""
    ring = keyring.open(recorded.keyring)
    for cut in (3, 20):
        path = written(recorded, tmp_path / f"cut-{cut}")[-1]
        whole, clear = path.read_bytes(), tmp_path / "clear"
        clear.write_bytes(plain(path, ring))
        *_, (last, _) = EventReader(clear)
        path.write_bytes(whole[: len(whole) - clear.stat().st_size + last + cut])
        _in_use(path, ring)
        with (
            pytest.warns(tailrace.writing.recover.LogRecovered),
            tailrace.append(path, keyring=ring, server_uuid=log_uuid(recorded)) as log,
        ):
            fill(log, 110, 3)
        assert max(path.parent.glob("binlog.0*")) == path
        numbers = [row.after["id"] for row in tailrace.rows(path, keyring=ring)]
        assert numbers in ([*range(90, 113)], [*range(90, 109), *range(110, 113)])
        if not recorded.kind.startswith("mysql"):
            assert _mode(path, ring) == recorded.mode


def _in_use(path, ring):
    raw = bytearray(path.read_bytes())
    raw[(512 if raw.startswith(ENCRYPTED_MAGIC) else 0) + 21] ^= 1
    path.write_bytes(raw)


def _mode(path, ring):
    source = opened(FileInput(path), ring, path=str(path))
    source.seek(300)
    source.read(10)
    return str(source._cipher.mode)


def test_append_needs_the_key(recorded, tmp_path):
    encrypted, _ = recorded.pairs[-1]
    path = shutil.copy(encrypted, tmp_path)
    with pytest.raises(KeyMissing, match=r"MySQLReplicationKey_|key 1"):
        tailrace.append(path)
    assert (tmp_path / encrypted.name).read_bytes() == encrypted.read_bytes()


@each_case("flavour", ["mysql", "mariadb"])
def test_a_rotated_key_is_used_from_the_next_file_on(flavour, tmp_path):
    first = "MySQLReplicationKey_ours_9" if flavour == "mysql" else "1"
    ring = keyring.make(tmp_path / "ring", first)
    with tailrace.create(
        tmp_path / "log" / "binlog.000001",
        flavour=flavour,
        server_id=OURS,
        encrypt=True,
        keyring=ring,
    ) as log:
        fill(log, 0, 2)
        ring.add("MySQLReplicationKey_ours_10" if flavour == "mysql" else "1")
        log.rotate()
        fill(log, 2, 2)
    files = sorted((tmp_path / "log").glob("binlog.0*"))
    old, new = (path.read_bytes() for path in files)
    if flavour == "mysql":
        assert b"MySQLReplicationKey_ours_9\2" in old
        assert b"MySQLReplicationKey_ours_10\2" in new
    else:
        for raw, version in ((old, 1), (new, 2)):
            at = 4 + int.from_bytes(raw[13:17], "little")
            assert (raw[at + 4], int.from_bytes(raw[at + 20 : at + 24], "little")) == (164, version)
    assert [b"CREATE TABLE applied" in plain(path, ring) for path in files] == [True, False]
    with tailrace.append(tmp_path / "log", keyring=ring) as log:
        fill(log, 4, 1)
    assert len(plain(max((tmp_path / "log").glob("binlog.0*")), ring)) > 200


def test_a_key_has_to_be_named_where_there_are_several(tmp_path):
    ring = keyring.make(tmp_path / "ring", "a", "b")
    create = partial(tailrace.create, server_id=1, encrypt=True, keyring=ring)
    log = tmp_path / "log" / "binlog.000001"
    with pytest.raises(StorageError, match="2 keys"):
        create(log, flavour="mysql")
    assert not log.exists()
    create(log, flavour="mysql", key_id="b").close()
    with pytest.raises(KeyMissing, match="key 1"):
        create(tmp_path / "m", flavour="mariadb")
    with pytest.raises(UsageError, match="aes_gcm"):
        create(tmp_path / "m", flavour="mariadb", encrypt_mode="aes_gcm")


def test_mysql_encrypts_a_new_file_only(tmp_path):
    ring = keyring.make(tmp_path / "ring", "k")
    store = MemoryOutput()
    mysql_output(store, ring, key_id="k")
    with pytest.raises(StorageError, match="starts a new file"):
        mysql_output(store, ring, key_id="k")


@ONLY_MARIADB
@each_case("mode", list(Mode))
def test_mariadb_output_alone(mode, tmp_path, recorded):
    """A log as its server sends it, written in odd pieces, has every event where it was."""
    wanted = recorded.pairs[0][1].read_bytes()
    form_end = 4 + int.from_bytes(wanted[13:17], "little")
    begin = form_end + 40  # START_ENCRYPTION, as the server sends it
    ring = keyring.make(tmp_path / "ring", "1")
    store = MemoryOutput()
    out = mariadb_output(store, ring, wanted[:begin], mode=mode)
    assert out.size == begin
    at = begin
    for size in [1, 5, 12, 13, 18, 19, 700, 65_536] * 10:
        out.write(wanted[at : at + size])
        at = min(at + size, len(wanted))
        assert out.size == at
    out.write(wanted[at:])
    out.update(21, wanted[21:23])
    with pytest.raises(UsageError, match="can be"):
        out.update(begin + 30, b"x")
    source = opened(MemoryInput(bytes(store.data)), ring, path="p")
    made = b"".join(iter(lambda: source.read(1 << 20), b""))
    assert made[begin:] == wanted[begin:]
    assert made[:form_end] == wanted[:form_end]
    out.write(b"begun")
    with pytest.raises(StorageError, match="5 bytes"):
        out.close()
