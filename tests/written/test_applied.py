"""The three ways by which servers take logs, shown on logs that the servers themselves wrote.

What `tools.applied` says the servers demand is held here, and that each way refuses a broken log.
"""

from __future__ import annotations

import shutil
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.applied import (
    ApplyFailed,
    as_relay_log,
    by_tool,
    differences,
    forget,
    gtid_mode,
    insert_files,
    replicate,
    same_tables,
)
from tools.servers import Server

Way = Callable[[Server, list[Path]], None]
WAYS = pytest.mark.parametrize("way", [by_tool, as_relay_log])
TYPE_AT, LENGTH_AT = 4, 9


@pytest.fixture
def files(origin: Server, taker: Server, tmp_path: Path) -> Iterator[list[Path]]:
    """Two log files of `origin`, and nothing of what they hold on `taker`."""
    for server in (origin, taker):
        if server.flavour == "mysql":
            gtid_mode(server, "ON")
        forget(server, "applied", "own", "end_of_logs")
    origin.execute("CREATE DATABASE applied")
    origin.execute("CREATE TABLE applied.t (id INT PRIMARY KEY, a VARCHAR(20), b BLOB)")
    origin.execute("INSERT INTO applied.t VALUES (1, 'one', x'00ff'), (2, 'two', NULL)")
    origin.rotate()
    origin.execute("UPDATE applied.t SET a = 'é' WHERE id = 2")
    origin.execute("DELETE FROM applied.t WHERE id = 1")
    origin.rotate()
    yield [Path(shutil.copy(path, tmp_path)) for path in origin.binlogs()[:-1]]
    forget(origin, "applied", "own", "end_of_logs")
    forget(taker, "applied", "own", "end_of_logs")


def events(data: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of each event of a file."""
    start = 4
    while start < len(data):
        (length,) = struct.unpack_from("<I", data, start + LENGTH_AT)
        yield start, start + length
        start += length


def change(path: Path, edit: Callable[[bytearray], None], *, sums: bool = True) -> None:
    """Edit each event of a file, and make its checksum anew."""
    data = path.read_bytes()
    parts = []
    for start, end in events(data):
        event = bytearray(data[start:end])
        edit(event)
        if sums and event:
            event[-4:] = zlib.crc32(event[:-4]).to_bytes(4, "little")
        parts.append(event)
    path.write_bytes(data[:4] + b"".join(parts))


@WAYS
def test_a_servers_own_log_gives_its_tables(
    origin: Server, taker: Server, files: list[Path], way: Way
) -> None:
    way(taker, files)

    same_tables(origin, taker, "applied")
    assert taker.query("SELECT id, a FROM applied.t") == [(2, "é")]


@WAYS
def test_a_wrong_checksum_is_refused(taker: Server, files: list[Path], way: Way) -> None:
    data = bytearray(files[1].read_bytes())
    place = data.rindex("é".encode())
    data[place] ^= 1
    files[1].write_bytes(data)

    with pytest.raises(ApplyFailed, match=r"(?i)checksum|crc|read failure|cannot read"):
        way(taker, files)


@WAYS
def test_an_event_left_out_shows(
    origin: Server, taker: Server, files: list[Path], way: Way
) -> None:
    def without_deletes(event: bytearray) -> None:
        if event[TYPE_AT] in {25, 32, 168}:
            event.clear()

    change(files[1], without_deletes)
    way(taker, files)

    (line,) = differences(origin, taker, "applied")
    assert "count 1 against 2" in line


@pytest.mark.parametrize("way", ["by position", "by gtid"])
def test_files_in_a_sources_index_reach_its_replica(
    origin: Server, taker: Server, files: list[Path], way: str
) -> None:
    put = insert_files(origin, files, alone=True)
    if origin.flavour == "mysql":
        gtid_mode(origin, "ON")
    origin.execute("CREATE DATABASE own")
    origin.execute("CREATE TABLE own.t (id INT PRIMARY KEY)")
    origin.execute("INSERT INTO own.t VALUES (3)")

    replicate(origin, taker, by_gtid=way == "by gtid")

    assert origin.binlogs()[:2] == put
    same_tables(origin, taker, "applied", "own")
