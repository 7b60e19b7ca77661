"""Logs that real servers encrypted, beside what the same servers send of them in clear."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tailrace.storage.encryption import opened
from tailrace.storage.streams.file import FileInput
from tests.conftest import _require
from tools.servers.encrypting import mariadb_with_keys, mysql_with_keyring

if TYPE_CHECKING:
    from tailrace.storage.keyring import Keyring
    from tools.servers import Server

KINDS = (
    "mysql-9.7",
    "mariadb-10.11 aes_cbc",
    "mariadb-11.8 aes_ctr",
)
"""Each release, and each of MariaDB's modes."""
ONLY_MYSQL = pytest.mark.parametrize("recorded", KINDS[:1], indirect=True, scope="session")
ONLY_MARIADB = pytest.mark.parametrize("recorded", KINDS[1:], indirect=True, scope="session")


@dataclass(frozen=True)
class Recorded:
    """``pairs`` of files, encrypted and clear; the keyring's file; the server, which is stopped."""

    kind: str
    pairs: tuple[tuple[Path, Path], ...]
    keyring: Path
    server: Server
    version: str

    @property
    def mode(self) -> str:
        return self.kind.partition(" ")[2] or "aes_cbc"


def start(kind: str, folder: Path) -> tuple[Server, Path]:
    """An encrypting server and its keyring's file."""
    name, _, mode = kind.partition(" ")
    _require(name)
    if name.startswith("mysql"):
        return mysql_with_keyring(folder), folder / "keyring"
    return mariadb_with_keys(name, folder, mode), folder / "keys"


def write_some(server: Server) -> None:
    """One-row transactions of all sizes, large events, one larger than a block."""
    server.execute("CREATE DATABASE IF NOT EXISTS d CHARACTER SET utf8mb4")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, a VARCHAR(99), b LONGBLOB)")
    for number in range(120):
        row = (number, "ä" * (number % 41), bytes([number]) * (number * 131 % 3001))
        server.execute("INSERT INTO d.t VALUES (%s, %s, %s)", row)
    server.rotate()
    server.execute("INSERT INTO d.t SELECT id + 1000, a, REPEAT(b, 20) FROM d.t")
    server.execute("UPDATE d.t SET a = 'x' WHERE id % 3 = 0")
    server.execute("INSERT INTO d.t VALUES (5000, '', REPEAT('z', 9500000))")
    server.execute("DELETE FROM d.t WHERE id > 1050")
    server.rotate()


def sent_by(server: Server, names: list[str], folder: Path) -> list[Path]:
    """Files as ``mysqlbinlog --read-from-remote-server --raw`` gives them: clear."""
    folder.mkdir(parents=True, exist_ok=True)
    server.mysqlbinlog(
        "--read-from-remote-server",
        "--raw",
        "--host=127.0.0.1",
        f"--port={server.port}",
        "--user=root",
        f"--result-file={folder}/",
        *names,
    )
    return [folder / name for name in names]


def plain(path: Path, ring: Keyring) -> bytes:
    """An encrypted file's content, as we decrypt it."""
    source = opened(FileInput(path), ring, path=str(path))
    return b"".join(iter(lambda: source.read(1 << 20), b""))


_recorded: dict[str, Recorded] = {}
"""By kind: a fixture with parameters is made anew for each file."""


@pytest.fixture(scope="session", params=KINDS)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Two files of each kind of server, closed; MySQL's key is another after the first."""
    kind = str(request.param)
    if kind not in _recorded:
        _recorded[kind] = _record(kind, tmp_path_factory.mktemp("recorded"))
    return _recorded[kind]


def _record(kind: str, folder: Path) -> Recorded:
    server, keyring = start(kind, folder)
    version = server.version
    write_some(server)
    if server.flavour == "mysql":
        server.execute("ALTER INSTANCE ROTATE BINLOG MASTER KEY")
        server.execute("INSERT INTO d.t VALUES (7000, 'another key', NULL)")
        server.rotate()
    (folder / "kept").mkdir()
    kept = [Path(shutil.copy(path, folder / "kept")) for path in server.binlogs()[:-1]]
    clear = sent_by(server, [path.name for path in kept], folder / "clear")
    server.kill()
    pairs = tuple(zip(kept, clear, strict=True))
    return Recorded(kind, pairs, keyring, server, version)
