"""A user's schema file."""

import pytest

from tailrace.errors import SchemaError, StorageError
from tailrace.schema import Catalogue, load, parse, user_schema
from tailrace.schema.user_schema import split
from tailrace.values.schema import Logical
from tests.cases import each_case

DUMP = """\
-- MySQL dump 10.13
/*!40101 SET NAMES utf8mb4 */;
DROP TABLE IF EXISTS `orders`;
CREATE TABLE `orders` (
  `id` int unsigned NOT NULL AUTO_INCREMENT, -- the key; of course
  `note` varchar(10) DEFAULT ';' COMMENT 'a;b',
  `hidden` int DEFAULT NULL /*!80023 INVISIBLE */,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1;
/*!50001 CREATE VIEW `v` AS SELECT 1 AS `a`*/;
DELIMITER ;;
CREATE TRIGGER tr BEFORE INSERT ON orders FOR EACH ROW BEGIN SET @a = 1; SET @b = 2; END ;;
DELIMITER ;
INSERT INTO `orders` VALUES (1,'it''s; CREATE TABLE x (y INT)',NULL);
USE `other``db`;
create table t (a int)
"""


def test_parse_a_dump():
    orders, t = parse(DUMP)
    assert orders.definition.database == ""
    assert [column.name for column in orders.definition.columns] == ["id", "note", "hidden"]
    assert orders.definition.primary_key == ("id",)
    assert orders.definition.columns[1].collation == 8
    assert (t.definition.database, t.definition.table) == ("other`db", "t")


def test_split():
    assert list(split("a;;b ; -- c;\n d # e;\n;'f;';`g;`;/* h; */")) == [
        "a",
        "b",
        "d",
        "'f;'",
        "`g;`",
    ]
    assert list(split("delimiter $$\na;b$$\nDELIMITER ;\nc")) == ["a;b", "c"]
    assert list(split("'unfinished; string")) == ["'unfinished", "string"]


def test_the_flavour_is_told_by_the_header():
    text = "CREATE TABLE t (a JSON);"
    assert parse(text)[0].definition.columns[0].declared == "json"
    states = parse(f"-- MariaDB dump 10.19\n{text}")
    assert states[0].definition.columns[0].declared == "longtext"
    assert states[0].definition.columns[0].logical is Logical.JSON


@each_case("text", ["", "SELECT 1;", "DROP TABLE t;"])
def test_a_file_without_tables_is_refused(text):
    with pytest.raises(SchemaError, match="there is no CREATE TABLE in it"):
        parse(text)


def test_a_table_that_is_not_understood_is_refused(tmp_path):
    path = tmp_path / "schema.sql"
    path.write_text("CREATE TABLE good (a INT);\nCREATE TABLE bad (a NOSUCHTYPE);")
    with pytest.raises(
        SchemaError, match=r"schema.sql: table bad is not understood: .*; leave it out"
    ):
        load(path)
    path.write_text("USE d; CREATE TABLE t LIKE u;")
    with pytest.raises(SchemaError, match=r"table t is not understood: it was made LIKE d\.u"):
        load(path)


def test_what_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(StorageError, match="No such file"):
        load(tmp_path / "missing.sql")
    with pytest.raises(StorageError):
        load(tmp_path)
    path = tmp_path / "schema.sql"
    path.write_bytes(b"CREATE TABLE t (`\xff` INT)")
    with pytest.raises(SchemaError, match="not UTF-8"):
        load(path)
    monkeypatch.setattr(user_schema, "_LARGEST", 9)
    with pytest.raises(StorageError, match="give a dump of the definitions alone"):
        load(path)


def test_a_real_dump(flavour_server):
    """What the server's own dump tool writes gives what the DDL gave."""
    server = flavour_server
    server.execute("CREATE DATABASE IF NOT EXISTS given_dump CHARACTER SET latin2")
    server.execute("USE given_dump")
    server.execute("DROP TABLE IF EXISTS t")
    sql = (
        "CREATE TABLE t (id BIGINT UNSIGNED, a VARCHAR(9) DEFAULT 'x;', b ENUM('a;','b''') CHARSET latin1, "
        "c INT DEFAULT 0 INVISIBLE, d JSON, e INT AS (c + 1) VIRTUAL, f BIT(3) DEFAULT b'1', PRIMARY KEY (id, c), "
        "KEY k ((c + 1)))"
    )
    if server.flavour == "mariadb":
        sql = sql.replace(", KEY k ((c + 1))", "")
    server.execute(sql)
    ((_, text),) = server.query("SHOW CREATE TABLE t")
    ddl = Catalogue()
    ddl.apply(sql, "given_dump", flavour=server.flavour, default_collation=9)
    (state,) = parse(f"-- {server.flavour} dump\nUSE given_dump;\n{text};")
    expected = ddl.lookup("given_dump", "t")
    for name in ("name", "collation", "members", "logical", "unsigned"):
        assert [getattr(column, name) for column in state.definition.columns] == [
            getattr(column, name) for column in expected.columns
        ], name
    assert state.definition.primary_key == expected.primary_key
