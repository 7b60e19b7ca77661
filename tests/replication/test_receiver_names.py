"""A source that names its logs by paths: `receive` writes nothing outside of its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tailrace
from tailrace.errors import BadLogName
from tailrace.replication.receiver import receive
from tests.cases import each_case
from tools.campaign.hostile.naming import Names, NamingServer, events_of

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = ["{}/outside/authorized_keys", "../outside/x.000001", "binlog.000001\n/x", "binlog"]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    path = tmp_path_factory.mktemp("log") / "binlog.000001"
    with (
        tailrace.create(path, flavour="mysql", server_id=77) as log,
        log.transaction() as transaction,
    ):
        transaction.query("CREATE TABLE shop.t (a INT PRIMARY KEY)", "shop")
    return events_of(path.read_bytes())[:-1]  # without its STOP


def test_plain_names(events: list[bytes], tmp_path: Path) -> None:
    """The server is one that is received from, where its names are plain."""
    names = Names(rotate=b"binlog.000002", heartbeat=b"binlog.000001", listed=b"binlog.000001")
    with NamingServer(events, names) as server:
        receive(server.address, tmp_path / "copy", follow=False)
    written = sorted(path.name for path in (tmp_path / "copy").glob("binlog.*"))
    assert written == ["binlog.000001", "binlog.000002", "binlog.index"]


@each_case("given", HOSTILE)
@each_case("where", ["first", "rotate", "heartbeat", "listed"])
def test_names_that_are_paths(events: list[bytes], tmp_path: Path, where: str, given: str) -> None:
    (tmp_path / "outside").mkdir()
    name = given.format(tmp_path).encode()
    with (
        NamingServer(events, Names(**{where: name})) as server,
        pytest.raises(BadLogName, match="log file"),
    ):
        receive(f"{server.address}&start=now", tmp_path / "copy", follow=False)
    assert list((tmp_path / "outside").iterdir()) == []
    held = {path.name for path in tmp_path.glob("copy/*")}
    assert held <= {"receiver.lock", "receiver.json", "binlog.000001", "binlog.index"}
