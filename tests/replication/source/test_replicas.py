"""Real replicas attach to our source, and their tables equal the primary's.

In the chain of the issue: a primary, a receiver that copies its logs, a source that serves the copy
while it grows, and a replica of each flavour.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pymysql
import pytest

from tailrace.replication.receiver import Receiver
from tailrace.wire.authentication import METHODS
from tests.cases import each_case
from tests.replication.conftest import url_of
from tests.replication.source.conftest import PASSWORD, ask
from tests.waiting import DEADLINE, wait_for
from tests.wire.test_traffic import COMMON
from tools.servers import ONE_OF_EACH

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
PARALLEL = {
    "mysql": {"replica-parallel-workers": 4, "replica-preserve-commit-order": True},
    "mariadb": {"slave-parallel-threads": 4, "slave-parallel-mode": "optimistic"},
}
TABLES = ("shop.orders", "shop.documents", "shop.counters")


class Chain:
    """A primary, and a receiver of its logs in a thread."""

    def __init__(self, primary, folder: Path) -> None:
        self.primary = primary
        self.folder = folder
        primary.execute("CREATE DATABASE shop")
        primary.execute("CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, total INT)")
        primary.execute("CREATE TABLE shop.documents (id INT PRIMARY KEY, body LONGBLOB)")
        primary.execute("CREATE TABLE shop.counters (name VARCHAR(20) PRIMARY KEY, n BIGINT)")
        self.work(50)
        self.receiver = Receiver(url_of(primary), str(folder), follow=True)
        self._thread = threading.Thread(target=self.receiver.run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.receiver.stop(at_once=True)
        self._thread.join(DEADLINE)

    def work(self, count: int) -> None:
        """Transactions, statements outside of one, DDL, a change of file."""
        with self.primary.connect(autocommit=False) as client, client.cursor() as cursor:
            for at in range(count):
                cursor.execute("INSERT INTO shop.orders (total) VALUES (%s), (%s)", [at, at + 1])
                cursor.execute(
                    "INSERT INTO shop.counters VALUES (%s, 1) ON DUPLICATE KEY UPDATE n = n + 1",
                    [f"c{at % 7}"],
                )
                if at % 5 == 4:
                    client.rollback()
                if at % 9 == 8:
                    cursor.execute("DELETE FROM shop.orders WHERE id %% 11 = %s", [at % 11])
                client.commit()
            cursor.execute("REPLACE INTO shop.documents VALUES (1, REPEAT('x', 17 << 20))")
            client.commit()
            cursor.execute("ALTER TABLE shop.orders COMMENT 'changed'")
        self.primary.rotate()
        self.primary.settle()

    def checksums(self, server) -> list:
        return server.query(f"CHECKSUM TABLE {', '.join(TABLES)}")

    def end(self) -> tuple[str, int]:
        sql = "SHOW BINARY LOG STATUS" if self.primary.flavour == "mysql" else "SHOW MASTER STATUS"
        file, position, *_ = self.primary.query(sql)[0]
        return file, position


@pytest.fixture(scope="module", params=ONE_OF_EACH)
def chain(request, fresh_server, tmp_path_factory):
    name = request.param
    primary = fresh_server(name, COMMON[name.partition("-")[0]], server_id=1)
    made = Chain(primary, tmp_path_factory.mktemp("copy") / name)
    wait_for(lambda: any(made.folder.glob("binlog.0*")))
    yield made
    made.close()


@pytest.fixture(scope="module")
def replica(chain, fresh_server):
    """A replica of the primary's release, with a parallel applier, for all tests of one."""
    flavour = chain.primary.flavour
    options = COMMON[flavour] | PARALLEL[flavour]
    prefix = chain.primary.prefix
    if flavour == "mariadb" and not (prefix.plugins / "client_ed25519.so").exists():
        (plugin,) = prefix.path.glob("usr/lib/*/libmariadb3/plugin/client_ed25519.so")
        options |= {"plugin-dir": str(plugin.parent)}  # 10.11: the client library's
    return fresh_server(chain.primary.name, options, server_id=71)


def attach(replica, port: int, authority=None, **where) -> None:
    """``where``: a file and a position; without, by GTID."""
    if replica.flavour == "mysql":
        given = {
            "SOURCE_HOST": "localhost" if authority else "127.0.0.1",
            "SOURCE_PORT": port,
            "SOURCE_USER": "repl",
            "SOURCE_PASSWORD": PASSWORD,
            "SOURCE_SSL": int(authority is not None),
            "SOURCE_SSL_CA": str(authority or ""),
            "SOURCE_SSL_VERIFY_SERVER_CERT": int(authority is not None),
            "SOURCE_CONNECT_RETRY": 1,
            "SOURCE_AUTO_POSITION": int(not where),
        }
        given |= {f"SOURCE_LOG_{name}": value for name, value in where.items()}
        how = ", ".join(f"{name}={value!r}" for name, value in given.items())
        replica.execute(f"CHANGE REPLICATION SOURCE TO {how}")
        replica.execute("START REPLICA")
        return
    given = {
        "MASTER_HOST": "localhost" if authority else "127.0.0.1",
        "MASTER_PORT": port,
        "MASTER_USER": "repl",
        "MASTER_PASSWORD": PASSWORD,
        "MASTER_SSL": int(authority is not None),
        "MASTER_SSL_CA": str(authority or ""),
        "MASTER_SSL_VERIFY_SERVER_CERT": int(authority is not None),
        "MASTER_CONNECT_RETRY": 1,
    }
    given |= {f"MASTER_LOG_{name}": value for name, value in where.items()}
    how = ", ".join(f"{name}={value!r}" for name, value in given.items())
    replica.execute(f"CHANGE MASTER TO {how}, MASTER_USE_GTID={'no' if where else 'slave_pos'}")
    replica.execute("START SLAVE")


def status(replica) -> dict:
    sql = "SHOW REPLICA STATUS" if replica.flavour == "mysql" else "SHOW SLAVE STATUS"
    with replica.connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute(sql)
        return cursor.fetchone() or {}


def errors(replica) -> dict:
    return {
        name: value
        for name, value in status(replica).items()
        if name in ("Last_IO_Error", "Last_SQL_Error", "Last_Error") and value
    }


@contextmanager
def emptied(replica):
    """The replica forgets everything at the end."""
    try:
        yield
    finally:
        mysql = replica.flavour == "mysql"
        word = "REPLICA" if mysql else "SLAVE"
        replica.execute(f"STOP {word}")
        replica.execute(f"RESET {word} ALL")
        replica.execute("DROP DATABASE IF EXISTS shop")
        replica.execute("RESET BINARY LOGS AND GTIDS" if mysql else "RESET MASTER")
        if not mysql:
            replica.execute("SET GLOBAL gtid_slave_pos = ''")


def equal(chain, replica) -> None:
    """The replica's tables become the primary's."""
    wanted = chain.checksums(chain.primary)

    def same() -> bool:
        failed = errors(replica)
        assert not failed, failed
        try:
            return chain.checksums(replica) == wanted
        except pymysql.Error:
            return False

    wait_for(same)


@pytest.mark.parametrize(
    ("by_gtid", "encrypted"), [(False, False), (True, True)], ids=["file, plain", "gtid, tls"]
)
def test_from_nothing_while_the_primary_works(
    chain, replica, serve, certificate, by_gtid, encrypted
):
    """The log grows, and the primary changes to new files, while the replica reads."""
    authority, cert, key = certificate
    server = serve(chain.folder, tls_cert=cert, tls_key=key)
    worker = threading.Thread(target=chain.work, args=[100])
    with emptied(replica):
        worker.start()
        where = {} if by_gtid else {"FILE": "binlog.000001", "POS": 4}
        attach(replica, server.port, authority if encrypted else None, **where)
        worker.join()
        equal(chain, replica)
        (session,) = [each for each in server.sessions if each.transmit is not None]
        assert session.connection.is_tls == encrypted
        assert session.replica.server_id == 71
        assert (
            status(replica)[
                "Replica_IO_Running" if replica.flavour == "mysql" else "Slave_IO_Running"
            ]
            == "Yes"
        )


@pytest.mark.parametrize("by_gtid", [False, True], ids=["file", "gtid"])
def test_from_the_middle_after_the_source_was_away(chain, replica, serve, by_gtid):
    """The replica reconnects by itself, to another source at the same port, and continues."""
    server = serve(chain.folder)
    with emptied(replica):
        where = {} if by_gtid else {"FILE": "binlog.000001", "POS": 4}
        attach(replica, server.port, **where)
        equal(chain, replica)
        server.close()
        chain.work(30)
        again = serve(chain.folder, listen=f"127.0.0.1:{server.port}")
        wait_for(lambda: any(each.transmit for each in again.sessions))
        equal(chain, replica)
        sent = max(each.transmit.sent for each in again.sessions if each.transmit)
        whole = sum(each.stat().st_size for each in chain.folder.glob("binlog.0*"))
        assert sent < whole / 2  # not from the beginning


def test_from_a_position_in_the_middle(chain, replica, serve):
    """A replica that was copied from the primary at a position."""
    with emptied(replica):
        chain.work(3)
        file, position = chain.end()
        for table in TABLES:
            ((_, create),) = chain.primary.query(f"SHOW CREATE TABLE {table}")
            replica.execute("CREATE DATABASE IF NOT EXISTS shop")
            replica.execute(create.replace("TABLE `", "TABLE `shop`.`", 1))
            rows = chain.primary.query(f"SELECT * FROM {table}")
            marks = ", ".join(["%s"] * len(rows[0]))
            for row in rows:
                replica.execute(f"INSERT INTO {table} VALUES ({marks})", row)
        if replica.flavour == "mysql":
            replica.execute("RESET BINARY LOGS AND GTIDS")
        chain.work(20)
        wait_for((chain.folder / chain.end()[0]).exists)
        server = serve(chain.folder)
        attach(replica, server.port, FILE=file, POS=position)
        equal(chain, replica)


def test_what_the_source_says_of_its_replicas_and_logs(chain, replica, serve):
    server = serve(chain.folder)
    with emptied(replica):
        attach(replica, server.port)
        equal(chain, replica)
        (row,) = ask(server, "SHOW REPLICAS")
        assert (row[0], row[2]) == (71, replica.port)
        if replica.flavour == "mysql":
            ((uuid,),) = replica.query("SELECT @@server_uuid")
            assert row[4] == uuid
        logs = ask(server, "SHOW BINARY LOGS")
        theirs = chain.primary.query("SHOW BINARY LOGS")
        assert [each[:2] for each in logs[:-1]] == [each[:2] for each in theirs[: len(logs) - 1]]
        wait_for(lambda: ask(server, "SHOW MASTER STATUS")[0][:2] == chain.end())
    wait_for(lambda: ask(server, "SHOW REPLICAS") == [])


@each_case("method", METHODS)
def test_replicas_log_in_by_each_method(chain, replica, serve, certificate, tmp_path, method):
    """With accounts as a server stores them. MySQL has no ed25519."""
    if replica.flavour == "mysql" and method == "ed25519":
        return
    authority, cert, key = certificate
    stored = METHODS[method].of_password(PASSWORD).stored
    (tmp_path / "users").write_text(f"repl {method} 0x{stored.hex()}", "utf-8")
    server = serve(chain.folder, users=tmp_path / "users", tls_cert=cert, tls_key=key)
    with emptied(replica):
        attach(replica, server.port, authority)
        equal(chain, replica)
