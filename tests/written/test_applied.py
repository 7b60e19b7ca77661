"""The three ways by which servers take logs, shown on logs that the servers themselves wrote.

What `tools.applied` says the servers demand is held here, and that each way refuses a broken log.
"""

import shutil
from collections.abc import Callable
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
from tools.campaign.mutate import Parsed
from tools.servers import Server

Way = Callable[[Server, list[Path]], None]
WAYS = pytest.mark.parametrize("way", [by_tool, as_relay_log])


@pytest.fixture
def files(origin, taker, tmp_path):
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


@WAYS
def test_a_servers_own_log_gives_its_tables(origin, taker, files, way):
    way(taker, files)

    same_tables(origin, taker, "applied")
    assert taker.query("SELECT id, a FROM applied.t") == [(2, "é")]


@WAYS
def test_a_wrong_checksum_is_refused(taker, files, way):
    data = bytearray(files[1].read_bytes())
    place = data.rindex("é".encode())
    data[place] ^= 1
    files[1].write_bytes(data)

    with pytest.raises(ApplyFailed, match=r"(?i)checksum|crc|read failure|cannot read"):
        way(taker, files)


@WAYS
def test_an_event_left_out_shows(origin, taker, files, way):
    parsed = Parsed.of(files[1].read_bytes())
    parsed.events = [event for event in parsed.events if event[4] not in {25, 32, 168}]
    files[1].write_bytes(parsed.bytes())
    way(taker, files)

    (line,) = differences(origin, taker, "applied")
    assert "count 1 against 2" in line


@pytest.mark.parametrize("way", ["by position", "by gtid"])
def test_files_in_a_sources_index_reach_its_replica(origin, taker, files, way):
    put = insert_files(origin, files, alone=True)
    if origin.flavour == "mysql":
        gtid_mode(origin, "ON")
    origin.execute("CREATE DATABASE own")
    origin.execute("CREATE TABLE own.t (id INT PRIMARY KEY)")
    origin.execute("INSERT INTO own.t VALUES (3)")

    replicate(origin, taker, by_gtid=way == "by gtid")

    assert origin.binlogs()[:2] == put
    same_tables(origin, taker, "applied", "own")
