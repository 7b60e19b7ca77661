"""What was taken back is looked for in a whole series, and not again for each of its files."""

from __future__ import annotations

import pytest

import tailrace
from tailrace.columns.read import begin, committed

FILES = 5


@pytest.fixture(scope="module")
def server(fresh_server):
    server = fresh_server("mysql-9.7", {"binlog_row_metadata": "FULL"})
    server.execute("create database d")
    server.execute("create table d.t (id int primary key)")
    yield server
    server.stop()


def test_a_series_with_rollbacks_in_each_file(server, monkeypatch):
    for number in range(FILES):
        server.execute(f"xa start 'x{number}'")
        server.execute(f"insert into d.t values ({100 + number})")
        server.execute(f"xa end 'x{number}'")
        server.execute(f"xa prepare 'x{number}'")
        server.execute(f"xa rollback 'x{number}'")
        server.execute(f"insert into d.t values ({number})")
        server.connection.commit()
        server.rotate()
    looked = []

    def counted(series):
        looked.append(series)
        return committed.committed_in(series)

    monkeypatch.setattr(begin, "committed_in", counted)
    found = [
        row["after"]["id"]
        for batch in tailrace.changes(server.data)
        for row in batch.select(["after"]).to_pylist()
    ]
    assert found == list(range(FILES))
    assert [row[0] for row in server.query("select id from d.t order by id")] == found
    assert len(looked) == 1
