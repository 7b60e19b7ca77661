"""Real replicas, and logs that cannot be read for longer than a dump waits."""

from __future__ import annotations

import pytest

import tailrace
from tests.replication.source.test_replicas import attach
from tests.waiting import wait_for
from tests.wire.test_traffic import COMMON

pytestmark = pytest.mark.slow
UUID = "11111111-2222-3333-4444-555555555555"


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"])
def test_replicas_connect_again_by_themselves_after_an_outage(
    name, serve, fresh_server, tmp_path, monkeypatch, caplog
):
    """Nobody has to start them. What they ask when they attach is answered meanwhile."""
    caplog.set_level("INFO", "tailrace")
    monkeypatch.setattr("tailrace.replication.source.transmit._OUTAGE", 2.0)
    flavour = name.partition("-")[0]
    replica = fresh_server(name, COMMON[flavour], server_id=71)
    copy, away = tmp_path / "copy", tmp_path / "away"
    given = {"server_uuid": UUID} if flavour == "mysql" else {}

    def has(database):
        wait_for(lambda: (database,) in replica.query("SHOW DATABASES"), lambda: caplog.text)

    with (
        tailrace.create(copy / "binlog.000001", flavour=flavour, server_id=7, **given) as log,
        log.transaction() as transaction,
    ):
        transaction.query("create database `before`")
    server = serve(copy)
    attach(replica, server.port)
    has("before")
    copy.rename(away)
    wait_for(lambda: "error 1053" in caplog.text)
    wait_for(lambda: caplog.text.count("waiting for the logs") >= 2)
    away.rename(copy)
    with tailrace.append(copy, **given) as log, log.transaction() as transaction:
        transaction.query("create database `after`")
    has("after")
    assert "ERROR" not in caplog.text
    assert "error 1236" not in caplog.text
