"""Work that is hard to take back, on real servers: taken back, and then done again."""

import pytest

import tailrace
from tailrace.errors import StatementChange
from tailrace.sql import commands, script, statements, undo
from tests.sql.campaign import changes, checksums, definitions, execute, feed
from tests.values.replay import since
from tools.dumps import quoted

DATABASE = "undone"

KEYLESS = (
    [
        (
            "CREATE TABLE t (a VARCHAR(20) CHARACTER SET latin1, b FLOAT, c DOUBLE, d TEXT, e DATETIME(3),"
            " f BINARY(4), g CHAR(5), h DECIMAL(10,3), i TIME(2), j VARCHAR(9) CHARACTER SET utf16)"
        ),
        (
            "INSERT INTO t VALUES ('a', 0.1, 0.1, 'x', NULL, 'a', 'p', 1.5, '-01:00:00.5', 'é'),"
            " ('A', 0.1, 0.1, 'X', NULL, 'A', 'P', 1.5, '-01:00:00.5', 'É'),"
            " ('a ', 0.1, 0.1, 'x ', NULL, 'a', 'p', 1.5, '-01:00:00.5', 'e'),"
            " ('á', 0.1, 0.1, 'x', NULL, 'a', 'p', 1.5, '-01:00:00.5', 'é '),"
            " ('a', 0.1, 0.1, 'x', NULL, 'a', 'p', 1.5, '-01:00:00.5', 'é'), (NULL, NULL, NULL, NULL,"
            " NULL, NULL, NULL, NULL, NULL, NULL)"
        ),
    ],
    [
        "UPDATE t SET b = b * 3, c = -c WHERE BINARY a = 'A'",
        "DELETE FROM t WHERE BINARY a = 'a' LIMIT 1",
        "UPDATE t SET d = CONCAT(d, ' more'), g = 'q' WHERE BINARY a = 'a '",
        "DELETE FROM t WHERE a IS NULL",
        "INSERT INTO t SELECT * FROM t",
        "UPDATE t SET a = 'a' WHERE a = 'á' ORDER BY d LIMIT 2",
    ],
)
CLOCKS = (
    [
        (
            "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT,"
            " made TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),"
            " changed TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),"
            " later DATETIME(6) DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP(6))"
        ),
        "INSERT INTO t (v) VALUES (1), (2), (3)",
        "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
        "INSERT INTO t (id, v) VALUES (0, 0)",
    ],
    [
        "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
        "UPDATE t SET v = v + 1 WHERE id = 1",
        "UPDATE t SET v = 20, changed = changed, later = later WHERE id = 2",
        "UPDATE t SET changed = '2001-02-03 04:05:06.5', later = NULL WHERE id = 3",
        "UPDATE t SET id = 9 WHERE id = 0",
        "INSERT INTO t (id, v) VALUES (0, 5)",
        "DELETE FROM t WHERE id = 1",
    ],
)
ODD = (
    [
        "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'",
        (
            "CREATE TABLE `a``b;'\"` (`k``;\"\\` INT PRIMARY KEY, `select` TEXT, e ENUM('', 'x;', 'ü') NOT NULL,"
            " s SET('a', '', 'b;c'), b BIT(64), d DATE, z TIMESTAMP NULL) CHARACTER SET utf8mb4"
        ),
        (
            "INSERT INTO `a``b;'\"` VALUES (1, 'back\\slash; ''quoted'' \"twice\" -- #', 1, 5, 0, NULL, NULL),"
            " (2, CONCAT('nul', CHAR(0), CHAR(13), CHAR(10), 'DELIMITER //', CHAR(10), ';'), 'x;', '',"
            " 18446744073709551615, '0000-00-00', '0000-00-00 00:00:00')"
        ),
    ],
    [
        "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'",
        "INSERT INTO `a``b;'\"` VALUES (3, '\\', 0, 2, 9223372036854775808, '2024-02-00', NULL)",
        "INSERT INTO `a``b;'\"` VALUES (4, 'the error value', 9, 2, 1, '0000-00-00', NULL)",
        "UPDATE `a``b;'\"` SET `select` = REVERSE(`select`), e = 'wrong', s = 7 WHERE `k``;\"\\` < 3",
        'DELETE FROM `a``b;\'"` WHERE `k``;"\\` = 2',
    ],
)
PARTLY = (
    [
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
    ],
    [
        "BEGIN",
        "UPDATE t SET v = 10 WHERE id = 1",
        "SAVEPOINT s",
        "DELETE FROM t",
        "ROLLBACK TO s",
        "INSERT INTO t VALUES (3, 3)",
        "COMMIT",
        "XA START 'x'",
        "UPDATE t SET v = 20 WHERE id = 2",
        "XA END 'x'",
        "XA PREPARE 'x'",
        "XA COMMIT 'x'",
        "XA START 'y'",
        "DELETE FROM t WHERE id = 3",
        "XA END 'y'",
        "XA PREPARE 'y'",
        "XA ROLLBACK 'y'",
    ],
)
CASCADES = (
    [
        "CREATE TABLE p (id INT PRIMARY KEY)",
        (
            "CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id)"
            " ON DELETE CASCADE ON UPDATE CASCADE)"
        ),
        "CREATE TABLE n (p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE SET NULL)",
        "INSERT INTO p VALUES (1), (2), (3)",
        "INSERT INTO c VALUES (1, 1), (2, 1), (3, 2), (4, 3)",
        "INSERT INTO n VALUES (1), (1), (3)",
    ],
    [
        "DELETE FROM p WHERE id = 1",
        "UPDATE p SET id = 20 WHERE id = 2",
        "SET SESSION foreign_key_checks = 0",
        "INSERT INTO c VALUES (9, 99)",
        "SET SESSION foreign_key_checks = 1",
        "DELETE FROM p WHERE id = 3",
    ],
)
DOCUMENTS = (
    [
        "CREATE TABLE t (id INT PRIMARY KEY, j JSON)",
        "CREATE TABLE k (j JSON)",
        (
            "INSERT INTO t VALUES (1, '{\"a\": [1, 1.0, -0.0, 1e300, \"x\\\\n\", null, true]}'), (2, 'null'),"
            " (3, JSON_OBJECT('d', DATE'2024-02-29', 't', CAST('-10:11:12.5' AS TIME(6)), 'm',"
            " TIMESTAMP'2024-01-01 00:00:00.125', 'n', 1.50, 'b', X'00ff', 'o', JSON_ARRAY(2, 2.0))),"
            " (4, CAST(CAST('2024-01-01' AS DATE) AS JSON)), (5, CAST(1.10 AS JSON))"
        ),
        "INSERT INTO k SELECT j FROM t",
    ],
    [
        "UPDATE t SET j = JSON_SET(j, '$.a[1]', CAST('2020-02-02' AS DATE)) WHERE id = 1",
        "DELETE FROM t WHERE id > 2",
        "INSERT INTO t VALUES (7, JSON_ARRAY(1.0, CAST(1.0 AS DECIMAL(5,3)), '2024-01-01'))",
        "UPDATE k SET j = JSON_OBJECT('was', j)",
        "DELETE FROM k WHERE JSON_TYPE(j->'$.was') = 'NULL'",
        "INSERT INTO k VALUES ('1'), ('1.0'), ('\"1\"'), ('{\"b\": 1, \"aa\": 2}')",
        "DELETE FROM k WHERE JSON_TYPE(j) = 'DOUBLE'",
    ],
)
VERSIONS = (
    [
        "CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING",
        (
            "CREATE TABLE p (v INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6)"
            " GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING"
        ),
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        "INSERT INTO p (v) VALUES (1), (2)",
    ],
    [
        "UPDATE t SET v = v + 10",
        "DELETE FROM t WHERE id = 1",
        "INSERT INTO t VALUES (3, 3)",
        "UPDATE p SET v = 5 WHERE v = 1",
        "DELETE FROM p WHERE v = 2",
    ],
)
OVERLAPS = (
    [
        (
            "CREATE TABLE t (room INT, s DATE, e DATE, note VARCHAR(9), PERIOD FOR p (s, e),"
            " PRIMARY KEY (room, p WITHOUT OVERLAPS))"
        ),
        (
            "INSERT INTO t VALUES (1, '2024-01-01', '2024-02-01', 'a'), (1, '2024-02-01',"
            " '2024-03-01', 'b'), (1, '2024-03-01', '2024-04-01', 'c'), (2, '2024-01-01',"
            " '2025-01-01', 'd')"
        ),
    ],
    [
        "UPDATE t SET note = 'x' WHERE room = 1 AND s = '2024-02-01'",
        "DELETE FROM t WHERE room = 1 AND s = '2024-01-01'",
        "UPDATE t FOR PORTION OF p FROM '2024-05-01' TO '2024-06-01' SET note = 'may'",
        "DELETE FROM t FOR PORTION OF p FROM '2024-03-10' TO '2024-03-20'",
        "INSERT INTO t VALUES (1, '2024-01-05', '2024-01-06', 'y')",
        "UPDATE t SET room = 3 WHERE note = 'x'",
    ],
)
BEGINNINGS = (  # of whole columns that compare as equal, the beginnings differ
    [
        (
            "CREATE TABLE t (a VARCHAR(20), b TEXT, v INT, PRIMARY KEY (a(1), b(2)))"
            " CHARACTER SET latin1 COLLATE latin1_german2_ci"
        ),
        "INSERT INTO t VALUES ('ßx', 'q', 1), ('ssx', 'q', 2), ('ä', 'ß', 3), ('ae', 'ss', 4)",
    ],
    [
        "UPDATE t SET v = v + 10 WHERE BINARY a = BINARY 'ssx'",
        "DELETE FROM t WHERE v = 1",
        "UPDATE t SET b = 'SS' WHERE v = 4",
        "DELETE FROM t WHERE v = 3",
    ],
)
MISSING_PARENTS = (
    [
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "CREATE TABLE t (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id))",
        "SET SESSION foreign_key_checks = 0",
        "INSERT INTO t VALUES (1, 9), (2, NULL)",
    ],
    ["DELETE FROM t WHERE id = 1"],
)
OPAQUE = (
    [
        (
            "CREATE TABLE s (bit1 BIT(1), bit10 BIT(10), bit64 BIT(64), tb TINYBLOB, mb MEDIUMBLOB,"
            " lb LONGBLOB, bb BLOB, vb VARBINARY(20), bi BINARY(4), ts TIMESTAMP(6), e"
            " TINYBLOB, u16 VARCHAR(9) CHARACTER SET utf16, u2 TEXT CHARACTER SET ucs2, u4 CHAR(3)"
            " CHARACTER SET utf32)"
        ),
        (
            "INSERT INTO s VALUES (1, b'1010101010', ~0, X'00ff27', X'0180', X'5c00', X'0a0d', X'ff',"
            " X'0102', '2024-05-06 07:08:09.125', '', '😀''é', 'ü\\\\', '😀')"
        ),
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, j JSON)",
        "CREATE TABLE k (j JSON)",
        *(
            f"INSERT INTO t (j) SELECT {made} FROM s"
            for made in (
                "JSON_ARRAY(bit1, bit10, bit64)",
                "JSON_ARRAY(tb, mb, lb, bb, vb, bi, ts, e)",
                "JSON_OBJECT('a', u16, 'b', u2, 'c', JSON_ARRAY(u4, JSON_OBJECT('x', bit10)))",
                "CAST(tb AS JSON)",
                "CAST(bit64 AS JSON)",
                "JSON_EXTRACT(JSON_ARRAY(u16), '$[0]')",
                "JSON_ARRAY(REPEAT(X'ab', 70000))",
                "JSON_OBJECT('a', 1, 'b', JSON_ARRAY(1, 2))",
            )
        ),
        "INSERT INTO k SELECT j FROM t WHERE JSON_LENGTH(j) < 9 AND JSON_TYPE(j) <> 'BLOB'",
    ],
    [
        "UPDATE t, s SET t.j = JSON_SET(t.j, '$.b[0]', s.tb, '$.c', s.u16) WHERE t.id = 9",
        "UPDATE k SET j = JSON_OBJECT('was', j)",
        "DELETE FROM k WHERE JSON_TYPE(JSON_EXTRACT(j, '$.was')) = 'OBJECT'",
        "DELETE FROM t",
        "INSERT INTO t (j) SELECT JSON_ARRAY(u16, bit10, tb) FROM s",
    ],
)
SEQUENCES = [
    "CREATE SEQUENCE s INCREMENT BY 5 CACHE 10",
    "CREATE SEQUENCE r MINVALUE 3 MAXVALUE 40 CYCLE CACHE 2",
    "SELECT NEXTVAL(s), NEXTVAL(r)",
    "SELECT SETVAL(s, 777), SETVAL(r, 39)",
    "DO NEXTVAL(r), NEXTVAL(r), NEXTVAL(r), NEXTVAL(r), NEXTVAL(r)",
]


def logged(server, made):
    """The log that statements leave behind."""
    before = server.rotate().name
    with (
        server.connect(init_command="SET sql_mode = ''") as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(f"USE {DATABASE}")
        for sql in made:
            cursor.execute(sql)
    return since(server, before)


@pytest.fixture
def database(flavour_server):
    feed(flavour_server, [f"DROP DATABASE IF EXISTS {DATABASE};", f"CREATE DATABASE {DATABASE};"])
    yield flavour_server
    feed(flavour_server, [f"DROP DATABASE IF EXISTS {DATABASE};"])


def take_back_and_do_again(server, setup, work, *, compare=checksums):
    logged(server, setup)
    before = compare(server, DATABASE)
    series = logged(server, work)
    after = compare(server, DATABASE)
    assert after != before
    schema = definitions(server, DATABASE)
    execute(server, commands(undo(changes(series, schema))))
    assert compare(server, DATABASE) == before
    execute(server, commands(statements(changes(series, schema))))
    assert compare(server, DATABASE) == after
    feed(server, script(undo(changes(series, schema))))
    assert compare(server, DATABASE) == before
    feed(server, script(statements(changes(series, schema))))
    assert compare(server, DATABASE) == after


@pytest.mark.parametrize(
    "work", [KEYLESS, CLOCKS, ODD, PARTLY], ids=["keyless", "clocks", "odd", "partly"]
)
def test_taken_back_and_done_again(database, work):
    take_back_and_do_again(database, *work)


@pytest.mark.parametrize("work", [CASCADES, DOCUMENTS], ids=["cascades", "documents"])
@pytest.mark.parametrize("flavour_server", ["mysql-9.7"], indirect=True)
def test_mysql_alone(database, work):
    take_back_and_do_again(database, *work)


@pytest.mark.parametrize("flavour_server", ["mariadb-11.8"], indirect=True)
def test_versioned_tables(database):
    """The rows of now come and go; the history is that of the copy."""

    def compare(server, name):
        return {
            table: sorted(server.query(f"SELECT v FROM {quoted(name)}.{table}"))
            for table in ("t", "p")
        }

    take_back_and_do_again(database, *VERSIONS, compare=compare)


def done_again(server, made):
    """What statements do, done again by their log alone."""
    series = logged(server, made)
    after = checksums(server, DATABASE)
    feed(server, [f"DROP DATABASE {DATABASE};", f"CREATE DATABASE {DATABASE};"])
    feed(server, script(statements(changes(series, ""))))
    assert checksums(server, DATABASE) == after


def test_done_again(database):
    """ON UPDATE CURRENT_TIMESTAMP must not move what a MINIMAL image does not name. MariaDB's log has
    no rows of what foreign keys did: they do it again.
    """
    done_again(database, ["SET SESSION binlog_row_image = MINIMAL", *CLOCKS[0], *CLOCKS[1]])
    feed(database, [f"DROP TABLE {DATABASE}.t;"])
    done_again(database, [*CASCADES[0], *CASCADES[1]])


@pytest.mark.parametrize("by_client", [True, False])
def test_statements_in_other_character_sets(database, by_client):
    """What a client in another character set said: its bytes, beside rows in UTF-8."""
    before = database.rotate().name
    for number, (charset, text) in enumerate(
        (("latin1", "é£ÿ"), ("gbk", "中文誠汉"), ("sjis", "表示ソ能"), ("utf8mb4", "日本😀;"))
    ):
        with (
            database.connect(charset=charset, init_command="SET sql_mode = ''") as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(f"USE {DATABASE}")
            cursor.execute(
                f"CREATE TABLE t{number} (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(40) DEFAULT"
                f" '{text}', raw VARBINARY(40)) CHARACTER SET utf8mb4 COMMENT '{text}; {text}'"
            )
            cursor.execute("SET SESSION binlog_format = 'STATEMENT'")
            cursor.execute(
                f"SET @given = '{text[:1]}''x', @n = 18446744073709551615, @d = 1.50, @f = 1e0"
            )
            cursor.execute("SET SESSION time_zone = '+05:00', timestamp = 1700000000.5")
            cursor.execute(
                f"INSERT INTO t{number} (v, raw) VALUES ('{text}', '{text}'), ('', @given)"
            )
            cursor.execute(
                f"INSERT INTO t{number} (v, raw) SELECT CONCAT(@n, ' ', @d, ' ', @f, ' ', NOW()),"
                " CONCAT(RAND(), @none)"
            )
            cursor.execute("SET SESSION binlog_format = 'ROW'")
            cursor.execute(f"INSERT INTO t{number} (v, raw) VALUES ('{text}', '{text}')")
    series = since(database, before)
    after, made = checksums(database, DATABASE), definitions(database, DATABASE)
    feed(database, [f"DROP DATABASE {DATABASE};", f"CREATE DATABASE {DATABASE};"])
    if by_client:
        feed(database, script(statements(changes(series, ""))))
    else:
        execute(database, commands(statements(changes(series, ""))))
    assert checksums(database, DATABASE) == after
    assert definitions(database, DATABASE) == made


@pytest.mark.parametrize("image", ["FULL", "MINIMAL"])
@pytest.mark.parametrize("flavour_server", ["mariadb-11.8"], indirect=True)
def test_periods_without_overlaps(database, image):
    """The key is the room with both bounds, as the server keeps it; with NO_LOG, by the DDL."""
    setup, work = OVERLAPS
    work = [f"SET SESSION binlog_row_image = {image}", *work]
    if image == "FULL":
        take_back_and_do_again(database, setup, work)
    else:
        done_again(database, [*setup, *work])


def test_keys_of_beginnings(database):
    take_back_and_do_again(database, *BEGINNINGS)


@pytest.mark.quick
def test_rows_without_their_parents(database):
    take_back_and_do_again(database, *MISSING_PARENTS)


def stored(series):
    """The documents as they are stored, of the rows that a log adds."""
    return sorted(
        (change.schema.table, image.raw(change.schema.index_of("j")))
        for change in changes(series, "")
        for row in change.rows()
        if (image := row.after) is not None and row.before is None and change.schema.table != "s"
    )


@pytest.mark.parametrize("flavour_server", ["mysql-9.7"], indirect=True)
def test_documents_with_values_of_every_type(database):
    """The same bytes again: types and all."""

    def compare(server, name):  # in bytes: text of utf16 is printed as it is, in no character set
        with server.connect(use_unicode=False) as connection, connection.cursor() as cursor:
            found = []
            for table in ("t", "k"):
                cursor.execute(f"SELECT j FROM {name}.{table}")
                found.append(sorted(cursor.fetchall()))
            return found

    take_back_and_do_again(database, *OPAQUE, compare=compare)
    setup, _ = OPAQUE
    feed(database, [f"DROP TABLE {DATABASE}.{table};" for table in "stk"])
    database.execute("SET GLOBAL binlog_row_metadata = FULL")
    try:
        series = logged(database, setup)
    finally:
        database.execute("SET GLOBAL binlog_row_metadata = MINIMAL")
    again = [sql.decode() for sql in commands(statements(changes(series, "")))]
    feed(database, [f"DROP TABLE {DATABASE}.{table};" for table in "stk"])
    database.execute("SET GLOBAL binlog_row_metadata = FULL")
    try:
        made_again = logged(database, again)
    finally:
        database.execute("SET GLOBAL binlog_row_metadata = MINIMAL")
    assert stored(made_again) == stored(series)


@pytest.mark.parametrize("image", ["FULL", "MINIMAL", "NOBLOB"])
@pytest.mark.parametrize("flavour_server", ["mariadb-11.8"], indirect=True)
def test_sequences(database, image):
    """Of a MINIMAL image only the next value is logged, and no column has a default."""

    def values():
        return [database.query(f"SELECT * FROM {DATABASE}.{name}") for name in "sr"]

    series = logged(database, [f"SET SESSION binlog_row_image = {image}", *SEQUENCES])
    after = values()
    feed(database, [f"DROP SEQUENCE {DATABASE}.s, {DATABASE}.r;"])
    feed(database, script(statements(changes(series, ""))))
    assert values() == after


TRIGGER = "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.id = NEW.id + 1"
MARIADB_ONLY = [
    "SET STATEMENT max_statement_time = 100 FOR OPTIMIZE TABLE t",
    TRIGGER,
    "SET STATEMENT max_statement_time = 100 FOR DROP TRIGGER g",
]


def test_what_servers_log_after_a_comment(database):
    """Servers log these statements as typed: a comment, or SET STATEMENT, stands before them."""
    logged(database, ["CREATE TABLE t (id INT PRIMARY KEY)"])
    before = checksums(database, DATABASE)
    first = logged(database, ["INSERT INTO t VALUES (1)", "/* app */ ANALYZE TABLE t"])
    schema = definitions(database, DATABASE)
    execute(database, commands(undo(changes(first, schema))))
    assert checksums(database, DATABASE) == before
    work = [TRIGGER, "/* app */ DROP TRIGGER g"]
    if database.flavour == "mariadb":
        work += MARIADB_ONLY
    second = logged(database, [*work, "INSERT INTO t VALUES (2)"])
    after = checksums(database, DATABASE)
    database.execute(f"DELETE FROM {DATABASE}.t")
    feed(database, script(statements(changes(second, schema))))
    assert checksums(database, DATABASE) == after


@pytest.mark.parametrize("flavour_server", ["mariadb-11.8"], indirect=True)
def test_an_update_that_is_analyzed_is_a_change(database):
    """MariaDB's ANALYZE UPDATE carries out the update; in statement format it is logged as typed."""
    schema = "CREATE TABLE t (id INT PRIMARY KEY)"
    work = [schema, "SET SESSION binlog_format = STATEMENT", "ANALYZE UPDATE t SET id = id + 1"]
    series = logged(database, work)
    with pytest.raises(StatementChange, match="ANALYZE UPDATE"):
        list(changes(series, ""))
    with pytest.raises(StatementChange, match="ANALYZE UPDATE"):
        list(tailrace.changes(series))
