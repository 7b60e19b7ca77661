"""Servers set up in other ways: encrypted key files, no checksums, encrypted relay logs."""

import shutil
import subprocess
from pathlib import Path

from tailrace.storage import keyring
from tests.cases import each_case
from tests.conftest import _require
from tests.storage.encryption.conftest import plain, sent_by
from tests.waiting import wait_for
from tools.applied import address, follow
from tools.servers import ONE_OF_EACH, Server
from tools.servers.encrypting import KEYS, mariadb_with_keys, mysql_with_keyring


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
    """The replica's relay logs, with all that the source has in them."""
    replica.execute("SET GLOBAL relay_log_purge = 0")
    follow(replica, by_gtid=True, **address(source))
    mysql = source.flavour == "mysql"
    theirs, ours = ("gtid_executed",) * 2 if mysql else ("gtid_binlog_pos", "gtid_slave_pos")
    done = source.query(f"SELECT @@{theirs}")
    wait_for(lambda: replica.query(f"SELECT @@{ours}") == done)
    replica.execute("STOP REPLICA" if mysql else "STOP SLAVE")
    kept.mkdir()
    return [Path(shutil.copy(path, kept)) for path in sorted(replica.data.glob("relay.0*"))]
