"""What a test changes on a shared server is put back, or found."""

import pytest

from tests.shared import Shared
from tests.waiting import purge, wait_for


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def shared(request, fresh_server):
    found = Shared(fresh_server(request.param))
    yield found
    found.close()


def test_it_is_asked_again_only_when_anybody_said_anything(shared, monkeypatch):
    before = shared.state()
    with monkeypatch.context() as nobody:
        nobody.setattr(shared, "_state", lambda: pytest.fail("asked again"))
        assert [shared.state() is before for _ in range(3)] == [True] * 3
    shared.server.execute("SELECT 1")
    assert shared.state() is not before


def test_what_is_put_back(shared):
    server = shared.server
    before = shared.state()
    server.execute("CREATE DATABASE `o``dd`")
    server.execute("CREATE TABLE `o``dd`.t (a INT PRIMARY KEY)")
    server.execute("CREATE USER 'o''dd'@'127.0.0.1'")
    server.execute("SET GLOBAL binlog_row_metadata = FULL")
    server.execute("SET GLOBAL max_binlog_size = 8192")
    server.execute("SET SESSION sql_mode = '', @left = 1")
    if server.flavour == "mariadb":
        server.execute("INSTALL SONAME 'auth_ed25519'")
    assert shared.state() != before
    assert shared.put_back(before) == []
    now = shared.state()
    assert (now.databases, now.accounts, now.plugins, now.variables) == (
        before.databases,
        before.accounts,
        before.plugins,
        before.variables,
    )
    assert server.query("SELECT @left")[0][0] is None


def test_what_is_not(shared):
    server = shared.server
    before = shared.state()
    server.rotate()
    assert shared.put_back(before) == []
    purge(server, server.binlogs()[-1].name)
    assert "its logs were purged" in shared.put_back(before)
    before = shared.state()
    server.execute("RESET BINARY LOGS AND GTIDS" if server.flavour == "mysql" else "RESET MASTER")
    assert shared.put_back(before)[0] in {"its logs were reset", "its logs were purged"}
    server.execute("CREATE DATABASE xa")
    server.execute("CREATE TABLE xa.t (a INT PRIMARY KEY)")
    before = shared.state()
    with server.connect() as connection, connection.cursor() as cursor:
        thread = connection.thread_id()
        for sql in (
            "XA START 'left'",
            "INSERT INTO xa.t VALUES (1)",
            "XA END 'left'",
            "XA PREPARE 'left'",
        ):
            cursor.execute(sql)
    (found,) = shared.put_back(before)
    assert "left" in found
    wait_for(lambda: thread not in {row[0] for row in server.query("SHOW PROCESSLIST")})
    server.execute("XA ROLLBACK 'left'")
    if server.flavour == "mysql":
        before = shared.state()
        server.execute("SET GLOBAL gtid_mode = ON_PERMISSIVE")
        assert "gtid_mode was changed" in shared.put_back(before)[0]
        server.execute("SET GLOBAL gtid_mode = ON")
    before = shared.state()
    server.restart()
    assert shared.put_back(before) == ["it was stopped or restarted"]
