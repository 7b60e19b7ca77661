"""Real replicas, and logs that cannot be read for longer than a dump waits."""

import pytest

import tailrace
from tailrace.replication.source import refusals
from tests.cases import each_case
from tests.replication.source.dumping import asked, ours
from tests.replication.source.test_replicas import attach, status
from tests.waiting import wait_for
from tests.wire.test_traffic import COMMON
from tools.servers import ONE_OF_EACH

pytestmark = pytest.mark.slow
UUID = "11111111-2222-3333-4444-555555555555"


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_a_replica_waits_for_a_file_that_was_announced_and_has_not_begun(
    name, serve, fresh_server, tmp_path, monkeypatch, caplog
):
    """The copy ends with a ROTATE, which a replica has got, as its primary was then killed."""
    caplog.set_level("INFO", "tailrace")
    monkeypatch.setattr("tailrace.replication.source.transmit._OUTAGE", 2.0)
    flavour = name.partition("-")[0]
    primary = fresh_server(name, COMMON[flavour], server_id=1)
    replica = fresh_server(name, COMMON[flavour], server_id=71)
    primary.execute("CREATE DATABASE `before`")
    first = primary.rotate()
    primary.execute("CREATE DATABASE shop")
    second = primary.rotate()
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / first.name).write_bytes(first.read_bytes())
    server = serve(copy)
    attach(replica, server.port, first=second.name)
    wait_for(lambda: "it is not there yet" in caplog.text, lambda: str(status(replica)))
    wait_for(lambda: "error 1053" in caplog.text, lambda: caplog.text)
    (copy / second.name).write_bytes(second.read_bytes())
    wait_for(lambda: ("shop",) in replica.query("SHOW DATABASES"), lambda: caplog.text)
    assert "error 1236" not in caplog.text


PATHS = ("../mysql/binlog.000001", "/etc/passwd", "binlog.index", "a/b")


@each_case("name", ["binlog.000002", "other.000001", "x" * 5000, "\udcff", *PATHS])
def test_a_file_that_was_not_announced_is_none(tmp_path, name):
    first = tmp_path / "binlog.000001"
    with tailrace.create(first, flavour="mysql", server_id=7, server_uuid=UUID):
        pass
    *_, said = ours(tmp_path, asked(file=name, position=4, flags=0))
    assert said == refusals.NO_SUCH_FILE
