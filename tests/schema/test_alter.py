"""ALTER TABLE by real servers: written examples, and random sequences from a seed."""

import random

import pytest

from tests.cases import each_case
from tests.schema.differ import Differ

START = (
    "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(10), b INT UNSIGNED, c TEXT, d ENUM('x','y'))"
)
EXAMPLES = (
    (
        "ADD COLUMN (n1 INT, n2 VARCHAR(3)), DROP c, MODIFY a VARCHAR(3) FIRST, "
        "CHANGE COLUMN b bb BIGINT AFTER id, ADD z INT AFTER bb"
    ),
    "DROP PRIMARY KEY, ADD PRIMARY KEY (b, id)",
    "RENAME COLUMN a TO b, RENAME COLUMN b TO a",
    "CHANGE id key_id BIGINT UNSIGNED, ADD e INT AFTER key_id",
    "CONVERT TO CHARACTER SET latin1 COLLATE latin1_bin",
    "CONVERT TO CHARSET cp1251",
    "CONVERT TO CHARACTER SET binary",
    "DEFAULT CHARSET latin2, ADD e TEXT",
    "ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=latin2 COMMENT 'x', ADD e VARCHAR(2)",
    "COMMENT 'x' COLLATE latin1_bin, MODIFY a CHAR(3)",
    "MODIFY COLUMN d ENUM('x','y','z') NOT NULL DEFAULT 'x' AFTER id",
    "ADD INDEX (a), ADD UNIQUE KEY u (b) COMMENT 'i', ADD FULLTEXT (c), ADD e INT NOT NULL UNIQUE",
    "ADD CONSTRAINT chk CHECK (b > 0), ADD CONSTRAINT UNIQUE (b), ALTER a SET DEFAULT 'q', ADD e INT",
    "ALTER COLUMN b SET DEFAULT (1 + 2), DROP COLUMN a",
    "ADD e INT, ALGORITHM=COPY, LOCK=SHARED",
    "ORDER BY a, b DESC, ADD e INT",
    "DISABLE KEYS, ADD e INT",
    "ADD e INT PARTITION BY HASH(id) PARTITIONS 3",
    "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)",
    "FORCE, RENAME INDEX PRIMARY TO x",
    "AUTO_INCREMENT=5, ADD first INT FIRST, ADD after INT AFTER first",
    "MODIFY id INT AFTER d",
    "DROP COLUMN id",
    "DROP INDEX `PRIMARY`",
    "DROP CONSTRAINT `PRIMARY`",
    "ADD e JSON, ADD f BIT(5) DEFAULT b'1' NOT NULL FIRST",
    "ADD e VARCHAR(3) CHARSET latin1, CONVERT TO CHARACTER SET utf8mb4",
    "ADD COLUMN (e INT, KEY (e), f INT, UNIQUE (f))",
    "MODIFY b INT UNSIGNED COMMENT 'first, after' , MODIFY c LONGTEXT",
    "DROP COLUMN c, RENAME COLUMN a TO c",
    "CHANGE a b INT, CHANGE b a INT",
    "ADD IF NOT EXISTS b INT, ADD COLUMN IF NOT EXISTS e INT, DROP IF EXISTS nothing, DROP COLUMN IF EXISTS c",
    "MODIFY IF EXISTS nothing INT, CHANGE IF EXISTS nothing n2 INT, MODIFY COLUMN IF EXISTS b BIGINT",
    "RENAME COLUMN IF EXISTS nothing TO n2, ADD VECTOR INT",
    "ADD SYSTEM VERSIONING",
    "MODIFY t.b BIGINT, ADD ddl_alter.t.x INT AFTER b, CHANGE t.a t.aa INT, DROP t.c, ALTER t.d SET DEFAULT 'x'",
    "MODIFY IF EXISTS t.b BIGINT, CHANGE IF EXISTS t.a t.q INT, DROP COLUMN IF EXISTS t.c",
    "DROP PERIOD IF EXISTS FOR app, ADD e INT",
    "ADD f DATE NOT NULL, ADD t DATE NOT NULL, ADD PERIOD IF NOT EXISTS FOR app (f, t)",
    "ADD s TIMESTAMP(6) AS ROW START, ADD e TIMESTAMP(6) AS ROW END INVISIBLE, ADD PERIOD FOR SYSTEM_TIME (s, e), ADD SYSTEM VERSIONING",
    "WITH SYSTEM VERSIONING",
    "MODIFY d ENUM(0x61,b'1100010'), MODIFY b DECIMAL(9.5)",
    "ADD system INT, ADD period INT",
    "ADD e INT CHECK (e > 1) COMMENT 'x', ADD FOREIGN KEY (e) REFERENCES base (id)",
)


@pytest.fixture(scope="module")
def differ(flavour_server):
    differ = Differ(flavour_server, database="ddl_alter")
    assert differ.run("CREATE TABLE base (id INT PRIMARY KEY)")
    yield differ
    differ.close()


def test_examples(differ):
    taken = 0
    for clauses in EXAMPLES:
        differ.run("DROP TABLE IF EXISTS t")
        assert differ.run(START)
        if differ.run(f"ALTER TABLE t {clauses}"):
            taken += 1
            differ.check("t", clauses)
            if "SYSTEM" not in clauses:  # what has a history does not let itself be altered
                assert differ.run("ALTER TABLE t ADD another VARCHAR(3)")
                differ.check("t", clauses)
    assert taken > 0.7 * len(EXAMPLES)


def test_rename(differ):
    differ.run("DROP TABLE IF EXISTS t, u")
    assert differ.run(START)
    assert differ.run("ALTER TABLE t RENAME TO u, ADD e INT")
    differ.check("u", "")
    assert differ.actual("t") is None
    assert differ.run("ALTER TABLE u RENAME AS ddl_alter.t")
    differ.check("t", "")


def test_system_versioning(mariadb118):
    differ = Differ(mariadb118, database="ddl_versioning")
    differ.run("SET system_versioning_alter_history=KEEP")
    assert differ.run(START + " WITH SYSTEM VERSIONING")
    for sql in (
        "ADD e INT",
        "DROP c",
        "DROP SYSTEM VERSIONING",
        "ADD f INT",
        "ADD SYSTEM VERSIONING",
    ):
        assert differ.run(f"ALTER TABLE t {sql}"), sql
        differ.check("t", sql)
        hidden = [column.name for column in differ.catalogue.lookup("ddl_versioning", "t").columns]
        assert (hidden[-2:] == ["row_start", "row_end"]) == (
            "DROP SYSTEM" not in sql and sql != "ADD f INT"
        )
    differ.close()


TYPES = (
    "INT", "INT UNSIGNED", "BIGINT UNSIGNED ZEROFILL", "TINYINT(1)", "BOOL", "DECIMAL(10,3)", "FLOAT",
    "DOUBLE UNSIGNED", "BIT(9)", "YEAR", "DATE", "TIME(3)", "DATETIME(6)", "TIMESTAMP NULL", "CHAR(5)",
    "CHAR(5) BINARY", "VARCHAR(20)", "VARCHAR(20) CHARACTER SET latin1", "VARCHAR(7) COLLATE utf8mb4_bin",
    "VARCHAR(9) CHARSET binary", "NATIONAL CHAR(4)", "TEXT", "TEXT(50)", "MEDIUMTEXT CHARSET sjis", "TINYTEXT",
    "BLOB", "BINARY(4)", "VARBINARY(8)", "ENUM('a','b c','d''e')", "SET('x','y','z') CHARSET latin1",
    "ENUM('é','日') COLLATE utf8mb4_bin", "GEOMETRY", "JSON", "INT NOT NULL DEFAULT 5 COMMENT 'a, (b'",
    "VARCHAR(3) DEFAULT 'x,y' CHECK (1 < 2)", "LONG VARCHAR", "CHAR BYTE", "DOUBLE PRECISION",
)  # fmt: skip
CHARSETS = ("latin1", "utf8mb4", "utf8mb3", "gbk", "cp1251", "utf8mb4 COLLATE utf8mb4_unicode_ci")


def random_clause(rng, names, fresh):
    """A clause over columns that may or may not be there."""
    any_name = rng.choice(names or ["none"])
    place = rng.choice(["", "", " FIRST", f" AFTER {rng.choice([*names, 'none'])}"])
    kind = rng.choice(TYPES)
    return rng.choice(
        (
            f"ADD {fresh} {kind}{place}",
            f"ADD COLUMN {fresh} {kind}{place}",
            f"ADD ({fresh} {kind}, {fresh}x {rng.choice(TYPES)})",
            f"DROP {any_name}",
            f"MODIFY {any_name} {kind}{place}",
            f"CHANGE {any_name} {fresh} {kind}{place}",
            f"CHANGE COLUMN {any_name} {any_name.upper()} {kind}{place}",
            f"RENAME COLUMN {any_name} TO {fresh}",
            f"RENAME COLUMN {any_name} TO {rng.choice(names or ['none'])}",
            "DROP PRIMARY KEY",
            f"ADD PRIMARY KEY ({any_name})",
            f"CONVERT TO CHARACTER SET {rng.choice(CHARSETS)}",
            f"DEFAULT CHARACTER SET {rng.choice(CHARSETS)}",
            f"ADD INDEX ({any_name})",
            f"ALTER {any_name} DROP DEFAULT",
            "COMMENT='ADD x INT, DROP y'",
        )
    )


@each_case("seed", range(3))
def test_random_sequences(differ, seed):
    rng = random.Random(seed)
    differ.run("DROP TABLE IF EXISTS t")
    charset = rng.choice(CHARSETS)
    assert differ.run(f"{START} CHARACTER SET {charset}")
    taken = tried = 0
    history = []
    while taken < 25 and tried < 150:
        tried += 1
        names = [column[0] for column in differ.expected("t")[0]]
        clauses = [
            random_clause(rng, names, f"n{tried}_{number}")
            for number in range(rng.choice((1, 1, 2, 3, 4)))
        ]
        sql = f"ALTER TABLE t {', '.join(clauses)}"
        if differ.run(sql):
            taken += 1
            history.append(sql)
            differ.check("t", history, sizes=False)
    assert taken >= 15
