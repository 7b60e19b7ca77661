"""What a catalogue knows, forgets and says of itself."""

import pickle

from tailrace.constants import Flavour
from tailrace.schema import Catalogue
from tailrace.values.schema import Logical, TableDefinition
from tests.cases import each_case

MYSQL = Flavour.MYSQL


def catalogue(*statements, flavour=MYSQL, database="shop", **session):
    known = Catalogue()
    for sql in statements:
        known.apply(sql, database, flavour=flavour, **session)
    return known


def names(known, table, database="shop"):
    definition = known.lookup(database, table)
    return None if definition is None else [column.name for column in definition.columns]


def test_source_and_reason():
    known = catalogue("CREATE TABLE t (a INT)")
    assert known.source_of("shop", "t") == "ddl"
    assert known.reason_unknown("shop", "t") is None
    assert known.source_of("shop", "u") is None
    assert known.reason_unknown("shop", "u") == "its CREATE TABLE is not in these logs"
    assert known.lookup("other", "t") is None
    assert known.lookup("shop", "T") is None  # names compare as written


def test_the_users_definition_wins():
    known = catalogue("CREATE TABLE t (a INT)")
    known.given([TableDefinition("shop", "t", ())])
    assert known.source_of("shop", "t") == "given"
    known.apply("DROP TABLE t", "shop", flavour=MYSQL)
    assert names(known, "t") == []


def test_a_definition_without_database_fits_all():
    known = Catalogue()
    known.given([TableDefinition("", "t", ())])
    assert known.source_of("anywhere", "t") == "given"
    assert known.reason_unknown("anywhere", "t") is None


@each_case(
    ("sql", "reason"),
    [
        (
            "CREATE TABLE t SELECT 1 AS a",
            "it was created from a query, whose columns are not in the log",
        ),
        (
            "CREATE TABLE t (a INT) AS SELECT 1 AS b",
            "it was created from a query, whose columns are not in the log",
        ),
        ("CREATE TABLE t LIKE other.u", "it was made LIKE other.u, which is not known either"),
        ("CREATE TABLE t (a NOSUCHTYPE)", "unknown column type at 'NOSUCHTYPE'"),
        (
            "CREATE TABLE t (a INT FROBNICATED)",
            "unknown attribute at 'FROBNICATED'",
        ),
        ("CREATE TABLE t (a INT", ") expected at the end"),
        ("CREATE TABLE t (a TEXT CHARSET klingon)", "mysql has no character set 'klingon'"),
        ("CREATE TABLE t ENGINE=CONNECT", "it was created without a column list"),
        ("CREATE TABLE t (a INT DEFAULT ,)", "a default value is expected at ','"),
        ("CREATE TABLE t (a NATIONAL INT)", "CHAR or VARCHAR expected at 'INT'"),
        ("CREATE TABLE t (a INT NOT 1)", "NULL expected at '1'"),
        ("CREATE TABLE t (a INT CHECK a)", "( expected at 'a'"),
        ("CREATE TABLE t (a INT, CONSTRAINT c WITH (a))", "a constraint is expected at 'WITH'"),
        (
            "CREATE TABLE t (a INT, PERIOD FOR SYSTEM_TIME (a))",
            "a period without its two columns at ')'",
        ),
        ("ALTER SEQUENCE t AS INT", "the type of a sequence was altered"),
    ],
)
def test_what_is_not_understood_is_unknown(sql, reason):
    known = catalogue("CREATE TABLE t (old INT)", sql)
    assert names(known, "t") is None
    shown = "" if " LIKE " in sql else f": «{sql}»"
    assert known.reason_unknown("shop", "t") == reason + shown


@each_case(
    "sql",
    [
        "ALTER TABLE t ADD a INT",
        "ALTER TABLE t DROP b",
        "ALTER TABLE t MODIFY b INT",
        "ALTER TABLE t CHANGE b c INT",
        "ALTER TABLE t RENAME COLUMN b TO c",
        "ALTER TABLE t ADD c INT AFTER b",
        "ALTER TABLE t ADD PRIMARY KEY (b)",
        "ALTER TABLE t ADD c NOSUCHTYPE",
        "ALTER TABLE t ADD COLUMN (c INT",
        "ALTER TABLE t DROP a, MODIFY a INT",
        "ALTER TABLE t CONVERT TO CHARACTER SET klingon",
        "ALTER TABLE t CONVERT TO COLLATE utf8mb4_bin",
    ],
)
def test_an_alter_that_does_not_fit_makes_unknown(sql):
    known = catalogue("CREATE TABLE t (a INT)", sql)
    assert names(known, "t") is None
    assert known.reason_unknown("shop", "t") != "its CREATE TABLE is not in these logs"


def test_a_statement_that_names_no_table_makes_all_unknown():
    known = catalogue("CREATE TABLE t (a INT)", "ALTER TABLE `half")
    assert known.reason_unknown("shop", "t").startswith("a statement was not understood: ")


@each_case(
    "sql",
    [
        "INSERT INTO t VALUES (1)",
        "CREATE INDEX i ON t (a)",
        "DROP INDEX i ON t",
        "CREATE VIEW v AS SELECT 1",
        "ANALYZE TABLE t",
        "TRUNCATE TABLE t",
        "CREATE TABLE IF NOT EXISTS t (other INT)",
        "CREATE TABLE IF NOT EXISTS t LIKE u",
        "CREATE TABLE IF NOT EXISTS t SELECT 1 AS other",
        "ALTER VIEW v AS SELECT 1",
        "ALTER SEQUENCE t RESTART",
        "ALTER TABLE t COMMENT 'x';",
        "ALTER TABLE t DATA DIRECTORY = '/x'",
        "ALTER TABLE t RENAME INDEX i TO j",
        "ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (9))",
        "ALTER TABLE t REORGANIZE PARTITION p INTO (PARTITION q VALUES LESS THAN (9))",
        "ALTER TABLE t MODIFY a INT flag=1",
        "ALTER TABLE t MODIFY a INT DEFAULT NEXT VALUE FOR s",
        "DROP TEMPORARY TABLE t",
        "CREATE TEMPORARY TABLE t (other INT)",
        "GRANT ALL ON t TO u",
        "",
        "# comment",
    ],
)
def test_statements_without_effect(sql):
    assert names(catalogue("CREATE TABLE t (a INT)", sql), "t") == ["a"]


def test_renames():
    known = catalogue(
        "CREATE TABLE a (x INT)",
        "CREATE TABLE b (y INT)",
        "RENAME TABLE a TO swap, b TO a, swap TO b",
        "RENAME TABLE a TO other.moved",
        "ALTER TABLE unseen RENAME TO seen",
    )
    assert names(known, "b") == ["x"]
    assert names(known, "a") is None
    assert names(known, "moved", "other") == ["y"]
    assert known.lookup("other", "moved").database == "other"
    assert known.reason_unknown("shop", "seen") == "it was renamed from shop.unseen, unknown too"


def test_dropped_databases():
    known = catalogue("CREATE DATABASE d", "CREATE TABLE d.t (a INT)", "DROP DATABASE d")
    assert names(known, "t", "d") is None


def test_or_replace_and_drop_several():
    known = catalogue(
        "CREATE TABLE t (a INT)", "CREATE OR REPLACE TABLE t (b INT)", flavour=Flavour.MARIADB
    )
    assert names(known, "t") == ["b"]
    known = catalogue(
        "CREATE TABLE t (a INT)",
        "CREATE TABLE x.u (a INT)",
        "DROP TABLES IF EXISTS `t` , x.u CASCADE",
    )
    assert (names(known, "t"), names(known, "u", "x")) == (None, None)


def test_temporary_tables_in_statement_format():
    known = catalogue(
        "CREATE TABLE t (a INT)", "CREATE TEMPORARY TABLE t (z INT)", "ALTER TABLE t ADD b INT"
    )
    assert names(known, "t") == ["a", "b"]  # not flagged as using a temporary table


def test_collations_by_session():
    sql = "CREATE TABLE t (a VARCHAR(3), b VARCHAR(3) CHARSET utf8mb4)"
    for session, expected in (
        ({}, (None, 255)),
        ({"default_collation": 8}, (8, 255)),
        ({"default_collation": 45, "charset_collations": {"utf8mb4": 45}}, (45, 45)),
        ({"flavour": Flavour.MARIADB}, (None, 45)),
        ({"flavour": Flavour.MARIADB, "charset_collations": {"utf8mb4": 2304}}, (None, 2304)),
    ):
        columns = catalogue(sql, **session).lookup("shop", "t").columns
        assert tuple(column.collation for column in columns) == expected
        assert {column.logical for column in columns} == {Logical.TEXT}


def test_copies_are_independent_and_pickle():
    known = catalogue("CREATE TABLE t (a INT)", "CREATE DATABASE d CHARSET latin1")
    other = known.copy()
    other.apply("ALTER TABLE t ADD b INT", "shop", flavour=MYSQL)
    assert (names(known, "t"), names(other, "t")) == (["a"], ["a", "b"])
    again = pickle.loads(pickle.dumps(other))
    assert again.lookup("shop", "t") == other.lookup("shop", "t")


@each_case("size", range(140))
def test_cut_statements_never_raise(size):
    sql = (
        "CREATE TABLE `t` (a INT COMMENT 'x''y', b ENUM('a','b') /*!80023 INVISIBLE */, "
        "PRIMARY KEY (a(3) DESC)) DEFAULT CHARSET=latin1 PARTITION BY HASH (a)"
    )
    known = catalogue("CREATE TABLE t (a INT)", sql[:size])
    definition = known.lookup("shop", "t")
    assert definition is None or [column.name for column in definition.columns] in (
        ["a"],
        ["a", "b"],
    )


def test_a_size_that_no_type_has():
    catalogue("CREATE TABLE t (a INT)", "CREATE TABLE t (a DECIMAL(99999999999999999999999999))")
