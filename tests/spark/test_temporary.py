"""Statements that name a temporary table or no table, and a table of a lake: it keeps its rows."""

import pytest

from tests.spark.history.landing import land
from tools.campaign.mirrored_lake import LakeReader
from tools.servers import NAMES

_MADE = "CREATE TEMPORARY TABLE t (x INT PRIMARY KEY)"
_NIX = "RENAME TABLE IF EXISTS nix TO t"
STATEMENTS = [_MADE, "TRUNCATE TABLE t", "ALTER TABLE t RENAME TO tt", "ALTER TABLE tt RENAME TO t"]
MARIADB = ["RENAME TABLE t TO tt", "DROP TABLE tt", _NIX, f"{_NIX}, o TO o2"]


@pytest.mark.parametrize("each", [False, True], ids=["one batch", "a batch for each"])
@pytest.mark.parametrize("name", NAMES)
def test_a_table_of_the_name_keeps_its_rows(running, tmp_path, name, each):
    server, lake = running(name), tmp_path / "lake"
    mariadb = server.flavour == "mariadb"
    server.execute("RESET MASTER" if mariadb else "RESET BINARY LOGS AND GTIDS")
    server.execute("DROP DATABASE IF EXISTS d")
    server.execute("CREATE DATABASE d")
    for table in ("t", "o"):
        server.execute(f"CREATE TABLE d.{table} (id INT PRIMARY KEY, v INT)")
        server.execute(f"INSERT INTO d.{table} VALUES (1, 1), (2, 2)")

    def mirror():
        land(server.data, lake, tables="d.*", format="parquet", keep=("current", "history"))

    mirror()
    with server.connect(database="d", autocommit=True) as client, client.cursor() as cursor:
        cursor.execute(f"SET SESSION binlog_format = {'MIXED' if mariadb else 'STATEMENT'}")
        for sql in [*STATEMENTS, *(MARIADB if mariadb else [])]:
            cursor.execute(sql)
            if each:
                mirror()
    server.execute("UPDATE d.t SET v = 3 WHERE id = 1")
    mirror()
    reader = LakeReader(lake, "parquet")
    for table in ("t", "o2" if mariadb else "o"):
        wanted = sorted(server.query(f"SELECT id, v FROM d.{table}"))
        current, history = reader.current(f"d.{table}"), reader.history(f"d.{table}")
        for found in (current, history.filter(history["_is_current"])):
            assert sorted(zip(*(found[c].to_pylist() for c in ("id", "v")), strict=True)) == wanted
