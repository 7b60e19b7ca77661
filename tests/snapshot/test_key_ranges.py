"""Ranges of keys on real servers: they cover each row once, and planning reads almost no rows."""

from contextlib import closing

import pytest

from tailrace.live.url import Source
from tailrace.snapshot.columns import columns_of
from tailrace.snapshot.connection import reading
from tailrace.snapshot.key_ranges import key_ranges

DATABASE = "key_ranges"
ROWS, SIZE = 1000, 50
KEYS = {
    "number": ("k BIGINT UNSIGNED PRIMARY KEY", "18446744073709551615 - n"),
    "eras": ("k BIGINT PRIMARY KEY", "IF(n < 700, n, 1000000000000000 + n)"),
    "decimal": ("k DECIMAL(30,5) PRIMARY KEY", "n * 1.00001 - 1000"),
    "bytes": ("k VARBINARY(32) PRIMARY KEY", "UNHEX(SHA2(n, 256))"),
    "moment": ("k TIMESTAMP(3) PRIMARY KEY", "'2024-01-31 23:50:00' + INTERVAL n SECOND"),
    "invalid": (
        "k DATETIME PRIMARY KEY",
        "IF(n < 2, IF(n, '2020-02-30', '0000-00-00'), '2024-01-01' + INTERVAL n SECOND)",
    ),
    "folded": (
        "k VARCHAR(40) CHARACTER SET utf8mb4 PRIMARY KEY",
        "CONCAT(IF(n % 2, 'Ab', 'aB'), IF(n % 3, 'É', 'e'), LEFT(SHA2(n, 256), 30))",
    ),
    "unicode": (
        "k VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci PRIMARY KEY",
        "CONCAT(IF(n % 3, 'É', 'e'), LEFT(SHA2(n, 256), 30))",
    ),
    "german": (
        "k CHAR(40) CHARACTER SET latin1 COLLATE latin1_german1_ci PRIMARY KEY",
        "CONCAT('ä', LEFT(SHA2(n, 256), 30))",
    ),
    "latin": ("k CHAR(9) CHARACTER SET latin1 PRIMARY KEY", "CONCAT('é', n)"),
    "han": (
        "k VARCHAR(9) CHARACTER SET utf8mb4 PRIMARY KEY",
        "CONCAT(CONVERT(UNHEX(HEX(19968 + n * 7)) USING ucs2), n)",
    ),
    "surrogates": (
        "k VARCHAR(9) CHARACTER SET ucs2 COLLATE ucs2_bin PRIMARY KEY",
        "CONCAT(LEFT(SHA2(n, 256), 8), CONVERT(UNHEX('D83D') USING ucs2))",
    ),
    "pair": ("a DATE, k INT, PRIMARY KEY (a, k)", "'2024-01-01' + INTERVAL n % 3 DAY, n"),
    "three": (
        "a INT, b VARCHAR(9), k INT, PRIMARY KEY (a, b, k)",
        "1, IF(n < 900, 'x', 'Y'), n",
    ),
    "prefix": ("a INT, k ENUM('x'), n INT, PRIMARY KEY (a, k, n)", "n % 20, 1, n"),
    "unique": ("v INT, k CHAR(64) NOT NULL, UNIQUE KEY u (k), KEY (v)", "n, SHA2(n, 256)"),
}
WHOLE = {
    "keyless": ("k INT", "n"),
    "nullable": ("k INT NULL UNIQUE", "n"),
    "named": ("k ENUM('a', 'b'), n INT, PRIMARY KEY (k, n)", "n % 2 + 1, n"),
    "beginning": ("k VARCHAR(99), PRIMARY KEY (k(9))", "n"),
    "hashed": ("k INT PRIMARY KEY) ENGINE = MEMORY -- ", "n"),
}


@pytest.fixture
def connection(flavour_server):
    run = flavour_server.execute
    run(f"DROP DATABASE IF EXISTS {DATABASE}")
    run(f"CREATE DATABASE {DATABASE}")
    run("SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
    run(f"CREATE TABLE {DATABASE}.numbers (n INT PRIMARY KEY)")
    values = ", ".join(f"({number})" for number in range(ROWS))
    run(f"INSERT INTO {DATABASE}.numbers VALUES {values}")
    scheme, port = flavour_server.flavour, flavour_server.port
    with reading(Source.parse(f"{scheme}://root@127.0.0.1:{port}/?ssl_mode=DISABLED")) as made:
        yield made
    run("SET SESSION sql_mode = DEFAULT, time_zone = DEFAULT")
    run(f"DROP DATABASE {DATABASE}")


def planned(server, connection, name, columns, row):
    """A table's ranges, and how many rows the planning read."""
    server.execute(f"CREATE TABLE {DATABASE}.{name} ({columns})")
    server.execute(f"INSERT INTO {DATABASE}.{name} SELECT {row} FROM {DATABASE}.numbers")
    server.query(f"ANALYZE TABLE {DATABASE}.{name}")  # else its statistics are an empty table's
    known = columns_of(connection, DATABASE, name)
    with closing(connection.cursor()) as cursor:
        cursor.execute("FLUSH STATUS")
        ranges = key_ranges(connection, DATABASE, name, known, SIZE)
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read_%'")
        read = {key.decode().lower(): int(value) for key, value in cursor.fetchall()}
    return ranges, read["handler_read_next"] + read["handler_read_prev"]


def counts(server, name, ranges):
    table = f"{DATABASE}.{name}"
    return [server.query(f"SELECT COUNT(*) FROM {table}{part.clause}")[0][0] for part in ranges]


def test_ranges_cover_each_row_once(flavour_server, connection):
    for name, (columns, row) in KEYS.items():
        ranges, read = planned(flavour_server, connection, name, columns, row)
        found = counts(flavour_server, name, ranges)
        assert (sum(found), min(found) > 0) == (ROWS, True), name
        assert max(found) <= 3 * SIZE, name
        assert len(ranges) <= 4 * ROWS / SIZE, name
        assert read < ROWS / 10, name
        assert ranges[0].low is ranges[-1].high is None
        assert [part.low for part in ranges[1:]] == [part.high for part in ranges[:-1]]


def test_tables_that_cannot_be_cut_are_one_range(flavour_server, connection):
    for name, (columns, row) in WHOLE.items():
        ranges, _ = planned(flavour_server, connection, name, columns, row)
        assert counts(flavour_server, name, ranges) == [ROWS], name
