"""What ALTER TABLE makes of rows: each table is what SELECT gives, or it is set aside by name.

``tools/campaign/alters.py`` tries the same with random tables.
"""

from __future__ import annotations

import random
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.history.making import Histories
from tests.spark.replay import check_rows, current_states, rows_of, tell
from tools.campaign.alters import run
from tools.dumps import dump_databases
from tools.servers import NAMES

DATABASE = "converted"
STRICT, LENIENT = "STRICT_ALL_TABLES", ""
MORE = "INSERT INTO @ (id) VALUES (9)"
# Each is (column, values, ALTER TABLE, sql_mode, later statements); @ is the table.
KEPT = {
    "a wider integer": ("INT", "1, -5", "MODIFY v BIGINT", STRICT, "INSERT INTO @ VALUES (9, 7)"),
    "another sign": ("INT", "1, 5", "MODIFY v INT UNSIGNED", LENIENT, ""),
    "an integer as decimal": ("INT", "1, -5", "MODIFY v DECIMAL(12,2)", LENIENT, ""),
    "more digits": ("DECIMAL(5,2)", "1.25, -9.5", "MODIFY v DECIMAL(38,5)", STRICT, ""),
    "fewer digits, all zero": ("DECIMAL(9,4)", "1.25, 2", "MODIFY v DECIMAL(5,2)", STRICT, ""),
    "an integer as text": ("INT", "1, -5", "MODIFY v VARCHAR(20)", STRICT, ""),
    "a float as double": ("FLOAT", "0.1, 2.5", "MODIFY v DOUBLE", STRICT, ""),
    "longer text": (
        "VARCHAR(9)",
        "'a ', 'é'",
        "MODIFY v TEXT",
        LENIENT,
        "DELETE FROM @ WHERE id=1",
    ),
    "shorter text that fits": ("VARCHAR(9)", "'ab'", "MODIFY v VARCHAR(2)", LENIENT, ""),
    "text as CHAR": ("VARCHAR(9)", "'a  ', ' b'", "MODIFY v CHAR(9)", STRICT, ""),
    "another character set": (
        *("VARCHAR(9) CHARACTER SET latin1", "'é', 'a'", "CONVERT TO CHARACTER SET utf8mb4"),
        *(LENIENT, "UPDATE @ SET v = 'ö' WHERE id = 1"),
    ),
    "members appended": ("ENUM('a','b')", "'b'", "MODIFY v ENUM('a','b','c')", LENIENT, ""),
    "members in another order": ("SET('a','b')", "'a,b'", "MODIFY v SET('b','a')", STRICT, ""),
    "a member as text": ("ENUM('a','b')", "'b'", "MODIFY v VARCHAR(5)", LENIENT, ""),
    "a longer BINARY": ("BINARY(2)", "'ab'", "MODIFY v BINARY(4)", LENIENT, ""),
    "a date as moment": ("DATE", "'2024-01-31'", "MODIFY v DATETIME(3)", STRICT, ""),
    "NULL allowed": ("INT NOT NULL", "1", "MODIFY v INT", LENIENT, "INSERT INTO @ VALUES (9, 7)"),
    "NULL forbidden, and none there": ("INT", "1", "MODIFY v INT NOT NULL", LENIENT, ""),
    "a constant expression": (*("INT", "1", "ADD n INT DEFAULT (1 + 2)", STRICT, MORE),),
    "the statement's time": (
        *("INT", "1", "ADD n TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6)", STRICT),
        MORE,
    ),
    "options": ("INT", "1", "COMMENT 'x', ENGINE = InnoDB, AUTO_INCREMENT = 50", STRICT, ""),
}
ASIDE = {
    "a member renamed": ("ENUM('small')", "'small'", "MODIFY v ENUM('Small')", STRICT, ""),
    "a member removed": ("ENUM('a','b')", "'b'", "MODIFY v ENUM('a')", LENIENT, ""),
    "text as SET": ("VARCHAR(9)", "'b,a'", "MODIFY v SET('a','b')", STRICT, ""),
    "text as JSON of MySQL": ("TEXT", """'{"b":1,"a":2}'""", "MODIFY v JSON", STRICT, ""),
    "text of digits with zeros": ("INT(5) ZEROFILL", "7", "MODIFY v VARCHAR(9)", STRICT, ""),
    "more digits than an Arrow decimal": (
        "DECIMAL(9,2)",
        "1",
        "MODIFY v DECIMAL(40,9)",
        STRICT,
        "",
    ),
    "a number as member": ("INT", "1", "MODIFY v ENUM('x','y')", STRICT, ""),
    "a sign that is lost": ("INT", "-5", "MODIFY v INT UNSIGNED", LENIENT, ""),
    "NULL as zero": ("INT", "NULL", "MODIFY v INT NOT NULL", LENIENT, ""),
    "text that is cut": ("VARCHAR(9)", "'abc'", "MODIFY v VARCHAR(2)", LENIENT, ""),
    "spaces that are cut": ("VARCHAR(9)", "'ab   '", "MODIFY v VARCHAR(3)", LENIENT, ""),
    "characters that are lost": (
        *("VARCHAR(9)", "'丁'", "CONVERT TO CHARACTER SET latin1", LENIENT, ""),
    ),
    "an engine without rows": ("INT", "1", "ENGINE = BLACKHOLE", STRICT, ""),
    "a default by expression": ("INT", "1", "ADD n INT DEFAULT (id * 2)", STRICT, MORE),
    "numbers by the server": ("INT", "1, 2", "ADD n INT AUTO_INCREMENT UNIQUE", STRICT, MORE),
    "a generated column": ("INT", "1", "ADD g INT AS (id + 1) STORED", STRICT, MORE),
    "DATETIME as DATE": ("DATETIME", "'2024-01-31 23:59:59'", "MODIFY v DATE", STRICT, ""),
}
OF_MARIADB = {
    "text as UUID": (
        *("CHAR(36)", "'123E4567-E89B-12D3-A456-426614174000'", "MODIFY v UUID", STRICT, ""),
    ),
    "rows that are dropped": ("INT", "5, 5", "ADD UNIQUE (v)", "IGNORE", ""),
}
KEYS = {
    "a wider BINARY as key": (
        *("id BINARY(2) PRIMARY KEY, v INT", "('ab', 1), ('cd', 2)", "MODIFY id BINARY(4)"),
        "UPDATE @ SET v = 9 WHERE v = 1; DELETE FROM @ WHERE v = 2",
    ),
    "text with spaces as key": (
        *("id VARCHAR(5) PRIMARY KEY, v INT", "('ab ', 1)", "MODIFY id CHAR(5)"),
        "UPDATE @ SET v = 9",
    ),
}
KEPT_KEYS = {
    "a wider integer as key": (
        *("id INT PRIMARY KEY, v INT", "(1, 1), (2, 2)", "MODIFY id BIGINT"),
        "UPDATE @ SET v = 9 WHERE id = 1; DELETE FROM @ WHERE id = 2",
    ),
    "an integer as text, as key": (
        *("id INT PRIMARY KEY, v INT", "(1, 1), (2, 2)", "MODIFY id VARCHAR(11)"),
        "UPDATE @ SET v = 9 WHERE id = '1'; DELETE FROM @ WHERE id = '2'",
    ),
}


def statements(number, case):
    """The statements of a case, about a table of its own: before, with and after the ALTER."""
    if len(case) == 4:
        columns, rows, clause, later = case
        mode = STRICT
    else:
        column, values, clause, mode, later = case
        columns = f"id INT PRIMARY KEY, v {column}"
        rows = ", ".join(f"({at}, {each})" for at, each in enumerate(_values(values), 1))
    ignore = "IGNORE " if mode == "IGNORE" else ""
    return (
        f"CREATE TABLE t{number} ({columns}) CHARACTER SET utf8mb4; INSERT INTO t{number} VALUES {rows}",
        f"SET sql_mode = '{'' if ignore else mode}'; ALTER {ignore}TABLE t{number} {clause}",
        f"SET sql_mode = ''; {later.replace('@', f't{number}')}",
    )


def _values(values):
    return values.split(", ") if "{" not in values else [values]


@pytest.mark.parametrize("server", NAMES, indirect=True)  # what ALTER makes of rows is a release's
def test_rows_after_alter_are_those_of_select_or_the_table_is_set_aside(server, tmp_path):
    cases = KEPT | KEPT_KEYS | ASIDE | KEYS
    kept = len(KEPT) + len(KEPT_KEYS)
    if server.flavour == "mariadb":
        del cases["text as JSON of MySQL"]
        cases |= OF_MARIADB
    told = [statements(number, case) for number, case in enumerate(cases.values())]
    story = "; ".join(each for phase in zip(*told, strict=True) for each in phase)
    logs = tell(server, DATABASE, story, tmp_path / "logs")
    server.execute("SET sql_mode = DEFAULT")
    wanted = dump_databases(server, DATABASE)
    ways = [
        current_states(logs, tmp_path / "one", "error"),
        current_states(logs, tmp_path / "some", every=len(cases)),
    ]
    made = Histories(tmp_path / "history").take_log(logs, sizes=[len(cases)])
    for at, case in enumerate(cases):
        name = f"{DATABASE}.t{at}"
        refused = [each[name].rows.refused for each in ways]
        refused.append(made.built[name].rows.refused)
        assert all(bool(each) == (at >= kept) for each in refused), (case, refused)
        if at >= kept:
            assert not any(re.search(r"from (.+) to \1 by", each) for each in refused), refused
            assert all("binlog.0" in each for each in refused), (case, refused)
            continue
        open_ = [path for path in made.built[name].paths if path is not None]
        rows = [rows_of(each[name]) for each in ways]
        for found in (*rows, pa.concat_tables(map(pq.read_table, open_)) if open_ else None):
            check_rows(found, wanted[name], case)


def test_a_small_campaign(mysql97):
    """Tables of random types are altered: none is wrong, in a lake, in SQLite and in an index."""
    report, done = run(random.Random(1), mysql97, 12, "delta")
    assert not report.failures, "\n".join(map(str, report.failures))
    assert report.equal + report.aside == 2 * len(done.tables)
    assert report.equal
    assert [(each.target, each.calls) for each in done.targets] == [
        *(("SQLite", "one"), ("index", "one"), ("SQLite", "several"), ("index", "several"))
    ]
    for each in done.targets:
        assert not each.failures, "\n".join(map(str, each.failures))
        assert each.equal + each.rejected == each.tables == len(done.tables)
        assert each.equal
