"""A lake does not call current what lacks rows from before the log that was read."""

import shutil

import pytest

from tailrace.errors import PipelineError
from tailrace.live import tables
from tailrace.spark import mirror
from tailrace.spark.input import server_facts
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.verify import verify
from tests.spark.following import FLAVOURS, Follow, url_of, values
from tests.spark.test_mirror_server import purge

ROWS = (
    "INSERT INTO shop.{} SELECT seq.n, 0 FROM (WITH RECURSIVE seq AS (SELECT 1 AS n UNION ALL "
    "SELECT n + 1 FROM seq WHERE n < 500) SELECT n FROM seq) AS seq"
)


def begin(server):
    """Three tables with rows whose logs are gone, and one that is created after."""
    server.execute("CREATE DATABASE shop")
    for name in ("orders", "emptied", "untouched", "vacant"):
        server.execute(f"CREATE TABLE shop.{name} (a INT PRIMARY KEY, b INT)")
        if name != "vacant":
            server.execute(ROWS.format(name))
    server.execute("FLUSH BINARY LOGS")
    last = server.binlogs()[-1].name
    purge(server, last)
    server.execute("UPDATE shop.orders SET b = 1 WHERE a = 7")
    server.execute("DELETE FROM shop.emptied WHERE a = 7")
    server.execute("TRUNCATE TABLE shop.emptied")
    server.execute("INSERT INTO shop.emptied VALUES (1, 1)")
    server.execute("CREATE TABLE shop.later (a INT PRIMARY KEY, b INT)")
    server.execute("INSERT INTO shop.later VALUES (1, 1)")


def states(lake):
    tables = LakeView.open(lake).manifest.tables
    return {name: [each.kind for each in table.states] for name, table in tables.items()}


@pytest.mark.parametrize("name", FLAVOURS)
def test_a_server_whose_logs_are_purged(name, fresh_server, tmp_path):
    server = fresh_server(name, {"binlog_row_metadata": "FULL"})
    begin(server)
    url, lake = url_of(server), tmp_path / "lake"
    wrong = (
        r"shop\.orders, shop\.untouched are incomplete: rows from before binlog\.\d+:4, .*"
        "--incomplete accept"
    )
    with pytest.raises(PipelineError, match=wrong):
        mirror(url, lake)
    assert not LakeView.is_there(lake)
    told = []
    report = mirror(url, lake, incomplete="accept", notice=told.append)
    assert [text.partition(":")[0] for text in told] == [
        "shop.orders, shop.untouched are incomplete"
    ]
    assert states(lake) == {"shop.emptied": [], "shop.later": [], "shop.orders": ["incomplete"]}
    notes = {table.name: table.notes for table in report.tables}
    assert any(
        "incomplete: its CREATE TABLE is not in the log" in each for each in notes["shop.orders"]
    )
    assert not notes["shop.emptied"]

    found = verify(url, lake, tables=["shop.orders", "shop.emptied", "shop.later"])
    assert found.verdict == "incomplete"
    (orders,) = (each for each in found.tables if each.name == "shop.orders")
    assert orders.incomplete
    assert orders.reason.startswith("it is incomplete in the lake: its CREATE TABLE is not in")
    assert verify(url, lake, tables=["shop.emptied", "shop.later"]).verdict == "equal"

    # touched later it comes into the lake, and is marked; emptied it is complete
    server.execute("UPDATE shop.untouched SET b = 2 WHERE a = 1")
    server.execute("INSERT INTO shop.vacant VALUES (1, 1)")
    server.execute("RENAME TABLE shop.orders TO shop.old")
    mirror(url, lake)
    assert {key: each for key, each in states(lake).items() if each} == {
        "shop.untouched": ["incomplete"],
        "shop.vacant": ["incomplete"],
        "shop.old": ["incomplete"],
        "shop.orders": ["incomplete"],  # dropped in the lake, as it was
    }
    server.execute("TRUNCATE TABLE shop.untouched")
    server.execute("DROP TABLE shop.old")
    server.execute("CREATE TABLE shop.old (a INT PRIMARY KEY, b INT)")
    server.execute("INSERT INTO shop.old VALUES (3, 3)")
    mirror(url, lake)
    marked = states(lake)
    assert (marked["shop.untouched"], marked["shop.old"]) == ([], [])
    assert values(lake, "shop.old", "a") == [3]
    assert verify(url, lake, tables=["shop.untouched", "shop.old"]).verdict == "equal"

    # one of which nothing can be said is not equal, whatever else is incomplete
    server.execute("CREATE TABLE shop.loose (a INT)")
    server.execute("INSERT INTO shop.loose VALUES (1)")
    mirror(url, lake)
    found = verify(url, lake, tables=["shop.old", "shop.vacant", "shop.loose"])
    assert (found.verdict, found.unsure) == ("unsure", ("shop.loose",))


@pytest.fixture(scope="module")
def begun(fresh_server):
    server = fresh_server("mariadb-11.8", {"binlog_row_metadata": "FULL"})
    begin(server)
    return server


def test_a_user_who_must_not_know_where_the_log_ends(begun, tmp_path):
    """Then a mirror that follows says that it cannot look for tables with older rows."""
    begun.execute("CREATE USER few@'127.0.0.1' IDENTIFIED BY 's3cret'")
    begun.execute("GRANT SELECT, REPLICATION SLAVE ON *.* TO few@'127.0.0.1'")
    url, said = url_of(begun).replace("root@", "few:s3cret@"), []
    with Follow(url, tmp_path / "lake", incomplete="accept", notice=said.append) as follow:
        follow.wait_for(lambda: any("where the log ends" in each for each in said))


def test_a_table_that_has_its_name_in_a_later_batch(fresh_server, lake):
    """The log is cut where the foreign keys change that are carried out."""
    server = fresh_server("mariadb-11.8", {"binlog_row_metadata": "FULL"})
    for sql in (
        "CREATE DATABASE shop",
        "CREATE TABLE shop.p (a INT PRIMARY KEY)",
        "CREATE TABLE shop.c (a INT PRIMARY KEY, b INT, "
        "FOREIGN KEY (b) REFERENCES shop.p (a) ON UPDATE CASCADE)",
        "INSERT INTO shop.p VALUES (1)",
        "RENAME TABLE shop.p TO shop.q",
        "DELETE FROM shop.q",
        "RENAME TABLE shop.q TO shop.p",
        "INSERT INTO shop.p VALUES (2)",
    ):
        server.execute(sql)
    assert mirror(url_of(server), lake, cascades="apply").version > 1
    assert not any(states(lake).values())
    assert values(lake, "shop.p", "a") == [2]


def test_a_table_that_is_created_while_the_server_is_asked(fresh_server, lake, monkeypatch):
    """Its CREATE TABLE comes in a later batch: nothing is missing of it."""
    server = fresh_server("mariadb-11.8", {"binlog_row_metadata": "FULL"})
    server.execute("CREATE DATABASE shop")
    server.execute("CREATE TABLE shop.orders (a INT PRIMARY KEY, b LONGTEXT)")

    def tables_of(connection):
        server.execute("INSERT INTO shop.orders VALUES (1, REPEAT('x', 200000))")
        server.execute("FLUSH BINARY LOGS")  # no batch of so few bytes has more than a file
        server.execute("CREATE TABLE shop.later (a INT PRIMARY KEY)")
        server.execute("INSERT INTO shop.later VALUES (1)")
        return tables.tables_of(connection)

    monkeypatch.setattr(server_facts, "tables_of", tables_of)
    with Follow(url_of(server), lake, batch_bytes=100_000) as follow:
        follow.wait_for(lambda: LakeView.is_there(lake) and "shop.later" in states(lake))
    assert states(lake) == {"shop.orders": [], "shop.later": []}
    assert len([moment for moment in follow.moments if moment.report is not None]) > 1


def test_what_files_tell(fresh_server, tmp_path):
    """The first log has all; a part of the logs has what its statements create."""
    server = fresh_server("mysql-9.7", {"binlog_row_metadata": "FULL"})
    for sql in (
        "CREATE DATABASE IF NOT EXISTS shop",
        "CREATE TABLE IF NOT EXISTS shop.orders (a INT PRIMARY KEY)",
        "INSERT INTO shop.orders VALUES (1)",
        "FLUSH BINARY LOGS",
        "INSERT INTO shop.orders VALUES (2)",
        "CREATE TABLE IF NOT EXISTS shop.orders (a INT PRIMARY KEY)",
        "CREATE TABLE shop.lines (a INT PRIMARY KEY)",
        "INSERT INTO shop.lines VALUES (1)",
        "CREATE DATABASE crm",
        "CREATE TABLE IF NOT EXISTS crm.people (a INT PRIMARY KEY)",
        "INSERT INTO crm.people VALUES (1)",
        "CREATE TABLE crm.made (a INT PRIMARY KEY)",
        "INSERT INTO crm.made VALUES (1)",
        "RENAME TABLE crm.made TO crm.named",
    ):
        server.execute(sql)
    for keep in ("current", "history"):  # which stays of the name that is gone
        mirror(server.data, tmp_path / keep, keep=[keep])
        assert set(map(tuple, states(tmp_path / keep).values())) == {()}
    part = tmp_path / "part"
    part.mkdir()
    shutil.copy(server.data / "binlog.000002", part)
    with pytest.raises(PipelineError, match=r"shop\.orders is incomplete.* binlog\.000002:4"):
        mirror(part, tmp_path / "lake")
    assert not (tmp_path / "lake").exists()
    mirror(part, tmp_path / "lake", exclude="shop.orders")
    assert set(map(tuple, states(tmp_path / "lake").values())) == {()}
    mirror(part, tmp_path / "changes", keep=["changelog"])
    mirror(part, tmp_path / "accepted", incomplete="accept")
    assert states(tmp_path / "accepted") == {
        "crm.made": [],
        "crm.named": [],
        "crm.people": [],
        "shop.lines": [],
        "shop.orders": ["incomplete"],
    }
