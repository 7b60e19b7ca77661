"""Real replicas follow a program's local transactions, through the log that they are written to."""

import pymysql
import pytest

import tailrace
from tailrace import generators
from tests.replication.source.test_replicas import attach, errors
from tests.waiting import ended, in_thread, wait_for
from tests.wire.test_traffic import COMMON

pytestmark = pytest.mark.slow
TABLES = {
    "orders": "id INT PRIMARY KEY, note VARCHAR(40) CHARACTER SET utf8mb4, total DECIMAL(10,2)",
    "totals": "id INT PRIMARY KEY, total DECIMAL(10,2)",
}
UUID = "896e7882-18fe-11ef-ab88-22222d34d411"


class State(generators.RowConsumer):
    """The tables, as the rows that it was told of make them."""

    def __init__(self):
        self.tables = {name: {} for name in TABLES}

    def row_write(self, event):
        row = event.after_image
        self.tables[event.table.name][row["id"]] = row

    def row_update(self, event):
        del self.tables[event.table.name][event.before_image["id"]]
        self.row_write(event)

    def row_delete(self, event):
        del self.tables[event.table.name][event.before_image["id"]]

    def rows(self, name):
        return [tuple(row.values()) for _, row in sorted(self.tables[name].items())]


@pytest.fixture(params=["mysql-9.7", "mariadb-10.11", "mariadb-11.8"])
def replica(request, fresh_server):
    return fresh_server(request.param, COMMON[request.param.partition("-")[0]], server_id=71)


def test_a_replica_has_the_rows_that_consumers_were_told_of(replica, serve, tmp_path):
    """Several threads commit and roll back while the replica follows, by GTID."""
    flavour = replica.flavour
    uuid = UUID if flavour == "mysql" else None
    orders, totals = (
        tailrace.Table(f"shop.{name}", columns, flavour=flavour) for name, columns in TABLES.items()
    )
    state = State()

    def work(server, first):
        for number in range(first, first + 50):
            with server.transaction() as transaction:
                transaction.insert(orders, [(number, "nöte", number), (-number, None, "0.50")])
                transaction.savepoint("whole")
                transaction.insert(totals, [(number, 9)])
                if number % 3:
                    transaction.rollback(to="whole")
                else:
                    with transaction.statement(orders, totals):
                        transaction.update(orders, [(number, "nöte", number)], [(number, "all", 1)])
                        transaction.update(totals, [(number, 9)], [(number, 1)])
                if number % 4 == 0:
                    transaction.rollback()
                elif number % 5 == 0:
                    transaction.delete(orders, [(-number, None, "0.50")])

    with tailrace.local(
        tmp_path / "binlog.000001", flavour=flavour, server_id=4242, server_uuid=uuid
    ) as server:
        server.row.register(state)
        source = serve(tmp_path, server_uuid=uuid) if uuid else serve(tmp_path)
        server.query("CREATE DATABASE shop", "shop")
        for name, columns in TABLES.items():
            server.query(f"CREATE TABLE shop.{name} ({columns})", "shop")
        attach(replica, source.port)
        ended(*[in_thread(work, server, at) for at in (100, 300, 500)])
        server.insert(orders, [(1, "the last", 1)])

        def same():
            failed = errors(replica)
            assert not failed, failed
            try:
                return all(
                    list(map(tuple, replica.query(f"SELECT * FROM shop.{name} ORDER BY id")))
                    == state.rows(name)
                    for name in TABLES
                )
            except pymysql.Error:
                return False

        wait_for(same)
    assert len(state.rows("totals")) > 20
    assert len(state.rows("orders")) > 200
