"""Real replicas attach to our source, and their tables equal the primary's.

In the chain of the issue: a primary, a receiver that copies its logs, a source that serves the copy
while it grows, and a replica of each flavour.
"""

from contextlib import contextmanager

import pymysql
import pytest

from tailrace.replication.receiver import Receiver
from tailrace.wire.authentication import METHODS
from tests.cases import each_case
from tests.replication.conftest import Running, url_of
from tests.replication.source.conftest import PASSWORD
from tests.waiting import ended, in_thread, wait_for
from tests.wire.test_traffic import COMMON
from tools.applied import address, follow, leave
from tools.servers import ONE_OF_EACH

pytestmark = pytest.mark.slow
PARALLEL = {
    "mysql": {"replica-parallel-workers": 4, "replica-preserve-commit-order": True},
    "mariadb": {"slave-parallel-threads": 4, "slave-parallel-mode": "optimistic"},
}
TABLES = ("shop.orders", "shop.documents", "shop.counters")


class Chain:
    """A primary, and a receiver of its logs in a thread."""

    def __init__(self, primary, folder):
        self.primary = primary
        self.folder = folder
        primary.execute("CREATE DATABASE shop")
        primary.execute("CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, total INT)")
        primary.execute("CREATE TABLE shop.documents (id INT PRIMARY KEY, body LONGBLOB)")
        primary.execute("CREATE TABLE shop.counters (name VARCHAR(20) PRIMARY KEY, n BIGINT)")
        self.work(50)
        self.receiving = Running(Receiver(url_of(primary), str(folder), follow=True))

    def work(self, count):
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

    def checksums(self, server):
        return server.query(f"CHECKSUM TABLE {', '.join(TABLES)}")


@pytest.fixture(scope="module", params=ONE_OF_EACH)
def chain(request, fresh_server, tmp_path_factory):
    name = request.param
    primary = fresh_server(name, COMMON[name.partition("-")[0]], server_id=1)
    made = Chain(primary, tmp_path_factory.mktemp("copy") / name)
    wait_for(lambda: any(made.folder.glob("binlog.0*")))
    yield made
    made.receiving.stop(at_once=True)


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


def attach(replica, port, authority=None, first=""):
    """From the beginning of a file ``first``; without, by GTID."""
    follow(
        replica,
        by_gtid=not first,
        first=first,
        HOST="localhost" if authority else "127.0.0.1",
        PORT=port,
        USER="repl",
        PASSWORD=PASSWORD,
        SSL=int(authority is not None),
        SSL_CA=str(authority or ""),
        SSL_VERIFY_SERVER_CERT=int(authority is not None),
        CONNECT_RETRY=1,
    )


def status(replica):
    sql = "SHOW REPLICA STATUS" if replica.flavour == "mysql" else "SHOW SLAVE STATUS"
    with replica.connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute(sql)
        return cursor.fetchone() or {}


def errors(replica):
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


def equal(chain, replica):
    """The replica's tables become the primary's."""
    wanted = chain.checksums(chain.primary)

    def same():
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
    with emptied(replica):
        working = in_thread(chain.work, 100)
        first = "" if by_gtid else "binlog.000001"
        attach(replica, server.port, authority if encrypted else None, first=first)
        ended(working)
        equal(chain, replica)
        (session,) = [each for each in server.sessions if each.transmit is not None]
        assert session.connection.is_tls == encrypted
        assert session.replica.server_id == 71
        running = "Replica_IO_Running" if replica.flavour == "mysql" else "Slave_IO_Running"
        assert status(replica)[running] == "Yes"


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


RECONNECTS = {0, 1053, 2003, 2013}
UPDATES = {"mysql": {"log_replica_updates": True}, "mariadb": {"log_slave_updates": True}}


def work(server, count):
    for number in range(count):
        server.execute("INSERT INTO shop.t (n) VALUES (%s), (%s)", (number, -number))


def follows(server, other):
    """The table becomes equal, and nothing but reconnecting is shown."""
    wanted = server.query("CHECKSUM TABLE shop.t")

    def same():
        shown = status(other)
        assert not shown["Last_SQL_Error"], shown["Last_SQL_Error"]
        assert int(shown["Last_IO_Errno"]) in RECONNECTS, shown["Last_IO_Error"]
        try:
            return other.query("CHECKSUM TABLE shop.t") == wanted
        except pymysql.Error:
            return False

    wait_for(same)


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_replicas_by_gtid_notice_nothing_when_the_source_changes(
    fresh_server, serve, receiving, tmp_path, name
):
    """Issue 20, failover: source → tailrace → replica, and another source takes over."""
    flavour = name.partition("-")[0]
    options = COMMON[flavour] | UPDATES[flavour]
    first = fresh_server(name, options, server_id=1)
    second = fresh_server(name, options, server_id=2)
    replica = fresh_server(name, options, server_id=71)
    first.execute("CREATE DATABASE shop")
    first.execute("CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, n INT) ENGINE=InnoDB")
    follow(second, by_gtid=True, **address(first))

    def copied(source):
        folder = tmp_path / str(source.server_id)
        receiving(source, folder, options="?start=oldest")
        wait_for(lambda: any(folder.glob("binlog.*[0-9]")))
        return folder

    server = serve(copied(first))
    attach(replica, server.port)
    work(first, 30)
    follows(first, second)
    follows(first, replica)
    first.kill()
    leave(second)
    work(second, 10)
    folder = copied(second)
    server.close()  # and at once, under the same port, server id and UUID:
    again = serve(folder, listen=f"127.0.0.1:{server.port}")
    work(second, 20)
    second.rotate()
    work(second, 20)
    follows(second, replica)
    running = "Replica_IO_Running" if flavour == "mysql" else "Slave_IO_Running"
    assert status(replica)[running] == "Yes"
    assert sum(each.transmit is not None for each in again.sessions) == 1
    replica.execute("STOP REPLICA" if flavour == "mysql" else "STOP SLAVE")
