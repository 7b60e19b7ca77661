"""A server whose log is applied to another one of its release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

import tailrace
from tools.applied import forget, gtid_mode, same_tables
from tools.postgres import Postgres, programs
from tools.servers import ONE_OF_EACH

if TYPE_CHECKING:
    from tailrace.applier import Applied
    from tests.conftest import FreshServer
    from tools.servers import Server


def empty(server: Server) -> None:
    """Without databases, and with a log that begins."""
    names = {str(name) for (name,) in server.query("SHOW DATABASES")}
    forget(server, *names - {"information_schema", "mysql", "performance_schema", "sys"})


class Pair:
    """A source and a target, both empty, with GTIDs."""

    def __init__(self, source: Server, target: Server) -> None:
        self.source = source
        self.target = target

    @property
    def url(self) -> str:
        return f"mysql://root@127.0.0.1:{self.target.port}/"

    def empty(self) -> None:
        empty(self.source)
        empty(self.target)

    def did(self, *statements: str) -> str:
        """Execute statements on the source in one session, and give its log."""
        for sql in statements:
            self.source.execute(sql)
        return self.log()

    def applied(self, *statements: str, **given: Any) -> Applied:
        """Execute statements on the source, and apply its log; what came of that."""
        return tailrace.apply(self.did(*statements), self.url, **given)

    def log(self) -> str:
        """The folder of the source's log, to its present end."""
        self.source.disconnect()
        self.source.rotate()
        return str(self.source.data)

    def check(self, *databases: str, checksums: bool = True) -> None:
        """Both hold the same."""
        same_tables(self.source, self.target, *databases, checksums=checksums)

    def gtids(self, server: Server) -> str:
        """The GTIDs that a server's log has."""
        name = "gtid_executed" if server.flavour == "mysql" else "gtid_binlog_state"
        return str(server.query(f"SELECT @@GLOBAL.{name}")[0][0])


@pytest.fixture(scope="module", params=ONE_OF_EACH)
def servers(request: pytest.FixtureRequest, fresh_server: FreshServer) -> Pair:
    pair = Pair(fresh_server(request.param), fresh_server(request.param, server_id=2))
    if pair.source.flavour == "mysql":
        gtid_mode(pair.source, "ON")
        gtid_mode(pair.target, "ON")
    return pair


@pytest.fixture
def pair(servers: Pair) -> Pair:
    servers.empty()
    return servers


@pytest.fixture(scope="module")
def postgres():
    if programs() is None:
        pytest.skip("needs PostgreSQL: this machine has none (apt-get install postgresql)")
    with Postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'applied.db'}"
    made = request.getfixturevalue("postgres")
    engine = sa.create_engine(made.url)
    with engine.begin() as connection:
        for schema in ("tailrace", "shop", "warehouse", "d"):
            connection.execute(sa.text(f"DROP SCHEMA IF EXISTS {schema} CASCADE"))
    engine.dispose()
    return made.url
