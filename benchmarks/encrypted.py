"""Decoding encrypted logs against the plain ones: MySQL's way of encrypting, and MariaDB's two."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from typing import TYPE_CHECKING, Final

from benchmarks import logs
from benchmarks.measure import Worker, compare, pin, ratio
from tailrace.storage import LogFile, keyring
from tailrace.storage.encryption import mysql_output
from tailrace.storage.streams.file import FileOutput
from tools.servers import Server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SETUP = "from tailrace.columns import changes"
_KEY_ID = "MySQLReplicationKey_benchmark_1"
_PIECE = 1 << 20
_KEYS = "1;770A8A65DA156D24EE2A093277530142770A8A65DA156D24EE2A093277530142\n"
_MARIADB: Final = (
    "--binlog-row-metadata=FULL",
    "--max-binlog-size=1G",
    "--plugin-load-add=file_key_management",
    "--encrypt-binlog=ON",
)
_CIPHERS: Final = ("aes_cbc", "aes_ctr")


def run(*, quick: bool) -> None:
    """Print a line for each log: MB/s plain and encrypted, and how many times as long it takes."""
    found = []
    for name, rows in (("bulk", 1_000_000), ("single", 60_000)):
        count = rows // 10 if quick else rows
        found.append((f"MySQL 9.7 {name}", _mysql(logs.log(name, rows=count))))
        for cipher in _CIPHERS:
            made = _mariadb(name, count // 2, cipher)
            found.append((f"MariaDB 11.8 {name}, {cipher}", made))
    pin()
    for title, (plain, encrypted, keys) in found:
        _one(title, plain, encrypted, keys, rounds=3 if quick else 7)


def _one(title: str, plain: Path, encrypted: Path, keys: Path, rounds: int) -> None:
    size = plain.stat().st_size
    workers = {
        name: Worker(
            f"{_SETUP}\npath, keys = {str(path)!r}, {str(keys)!r}",
            "sum(batch.num_rows for batch in changes(path, keyring=keys))",
        )
        for name, path in (("plain", plain), ("encrypted", encrypted))
    }
    contenders: dict[str, Callable[[], tuple[float, int]]] = dict(workers)
    found = compare(contenders, rounds)
    for worker in workers.values():
        worker.close()
    low, middle, high = ratio(found["encrypted"], found["plain"])
    speeds = ", ".join(
        f"{name} {size / each.median / 1e6:.0f} MB/s ({each.peak_bytes / 1e6:.0f} MB peak)"
        for name, each in found.items()
    )
    print(
        f"{title}: {size / 1e6:.0f} MB; {speeds}; {middle:.2f} times as long"
        f" ({low:.2f} to {high:.2f}), medians of {rounds} rounds, one core"
    )


def _mysql(plain: Path) -> tuple[Path, Path, Path]:
    """A log of MySQL, encrypted as it does it (its servers read it: tests/storage/encryption)."""
    folder = plain.parent / "encrypted"
    path, keys = folder / plain.name, folder / "keyring"
    if not path.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        draft = folder / "draft"
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with (
            plain.open("rb") as source,
            closing(
                mysql_output(FileOutput(draft, handle), keyring.make(keys, _KEY_ID), key_id=_KEY_ID)
            ) as output,
        ):
            while piece := source.read(_PIECE):
                output.write(piece)
        draft.replace(path)
    return plain, path, keys


def _mariadb(name: str, rows: int, cipher: str) -> tuple[Path, Path, Path]:
    """A log that a MariaDB encrypted, and what it would send of it."""
    folder = logs.FOLDER / f"{name}-{rows}-mariadb-{cipher}"
    path, keys = folder / "binlog.000001", folder / "keys"
    if not path.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        keys.write_text(_KEYS)
        options = [
            *_MARIADB,
            f"--file-key-management-filename={keys}",
            f"--file-key-management-encryption-algorithm={cipher}",
        ]
        with Server("mariadb-11.8", options) as server:
            logs.fill(server, name, rows)
            largest = max(server.binlogs(), key=lambda file: file.stat().st_size)
            shutil.copy(largest, path.with_suffix(".partial"))
        path.with_suffix(".partial").replace(path)
    plain = folder / "plain"
    if not plain.exists():
        log = LogFile.at(path, keyring.open(keys))
        with closing(log.open()) as source, plain.with_suffix(".partial").open("wb") as output:
            while piece := source.read(_PIECE):
                output.write(piece)
        plain.with_suffix(".partial").replace(plain)
    return plain, path, keys
