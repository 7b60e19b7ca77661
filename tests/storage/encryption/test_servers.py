"""Servers set up in other ways: encrypted key files, no checksums, encrypted relay logs."""

import shutil
import subprocess

from pymysql.cursors import DictCursor

from tailrace.storage import keyring
from tailrace.storage.encryption import opened
from tailrace.storage.streams.file import FileInput
from tests.cases import each_case
from tests.conftest import _require
from tests.storage.encryption.conftest import plain, sent_by
from tests.storage.encryption.servers import KEYS, mariadb_with_keys, mysql_with_keyring
from tests.waiting import wait_for
from tools.servers import ONE_OF_EACH, Server


def write(server):
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, a TEXT)")
    for number in range(30):
        server.execute("INSERT INTO d.t VALUES (%s, %s)", (number, "a secret " * number))


@each_case("name, mode", [("mariadb-10.11", "aes_cbc"), ("mariadb-11.8", "aes_ctr")])
def test_an_encrypted_key_file_and_no_checksums(name, mode, tmp_path):
    _require(name)
    (tmp_path / "plain").write_text(KEYS)
    (tmp_path / "secret").write_text("a password\n")
    command = ["openssl", "enc", "-aes-256-cbc", "-md", "sha1", "-k", "a password"]
    paths = ["-in", tmp_path / "plain", "-out", tmp_path / "keys"]
    subprocess.run([*command, *paths], check=True, capture_output=True)
    more = [f"--file-key-management-filekey=FILE:{tmp_path / 'secret'}", "--binlog-checksum=NONE"]
    server = mariadb_with_keys(name, tmp_path, mode, more)
    try:
        write(server)
        path = server.rotate()
        (clear,) = sent_by(server, [path.name], tmp_path / "sent")
        ring = keyring.open(
            f"file_key_management:{tmp_path / 'keys'}?filekey={tmp_path / 'secret'}"
        )
        assert plain(path, ring) == clear.read_bytes()
        assert b"a secret" not in path.read_bytes()
        source = opened(FileInput(path), ring, path="log")
        wanted = clear.read_bytes()
        for at in (5000, 300, 2000, len(wanted) - 10):
            source.seek(at)
            got = source.read(50)
            assert got == wanted[at : at + len(got)]
            assert got
    finally:
        server.stop()


@each_case("name", ONE_OF_EACH)
def test_an_encrypted_relay_log(name, tmp_path):
    _require(name)
    mysql = name.startswith("mysql")
    with Server(
        name, {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"} if mysql else None
    ) as source:
        write(source)
        if mysql:
            replica = mysql_with_keyring(tmp_path / "r", {"relay_log": "relay"}, server_id=9)
            keys = tmp_path / "r/keyring"
        else:
            replica = mariadb_with_keys(
                name, tmp_path / "r", "aes_ctr", ["--relay-log=relay"], server_id=9
            )
            keys = tmp_path / "r/keys"
        try:
            files = _receive(source, replica, tmp_path / "kept")
            ring = keyring.open(keys)
            clear = [plain(path, ring) for path in files]
        finally:
            replica.stop()
    assert all(b"a secret" not in path.read_bytes() for path in files)
    assert sum(data.count(b"a secret " * 29) for data in clear) == 1
    for data in clear:  # whole events from begin to end
        at = 4
        while at < len(data):
            at += int.from_bytes(data[at + 9 : at + 13], "little")
        assert at == len(data)


def _receive(source, replica, kept):
    """The replica's relay logs, with all that the source has in them; nothing is applied."""
    to = f"HOST='127.0.0.1', {{0}}_PORT={source.port}, {{0}}_USER='root'"
    if source.flavour == "mysql":
        replica.execute(
            f"CHANGE REPLICATION SOURCE TO SOURCE_{to.format('SOURCE')}, SOURCE_AUTO_POSITION=1"
        )
        replica.execute("START REPLICA IO_THREAD")
    else:
        replica.execute(
            f"CHANGE MASTER TO MASTER_{to.format('MASTER')}, MASTER_USE_GTID=slave_pos,"
            " MASTER_SSL=0"
        )
        replica.execute("START SLAVE IO_THREAD")
    wait_for(lambda: _received(source, replica))
    replica.execute("STOP REPLICA" if source.flavour == "mysql" else "STOP SLAVE")
    kept.mkdir()
    files = replica.data.glob("relay.0*")
    return [shutil.copy(path, kept) and kept / path.name for path in sorted(files)]


def _received(source, replica):
    """Whether the replica has all transactions, by its own word."""
    with replica.connect(cursorclass=DictCursor) as connection, connection.cursor() as cursor:
        if source.flavour == "mysql":
            cursor.execute("SHOW REPLICA STATUS")
            (row,) = cursor.fetchall()
            ((executed,),) = source.query("SELECT @@gtid_executed")
            return bool(row["Retrieved_Gtid_Set"] == executed)
        cursor.execute("SHOW SLAVE STATUS")
        (row,) = cursor.fetchall()
        ((executed,),) = source.query("SELECT @@gtid_binlog_pos")
        return bool(row["Gtid_IO_Pos"] == executed)
