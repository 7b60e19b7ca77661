"""The rules of docs/guide/lake-types.md and lake-history.md, row by row: each has tables of its own."""

import re

import pyarrow as pa
import pytest

from tests.spark.history.landing import FORMATS, READERS, Logged
from tests.spark.replay import differences
from tools.dumps import dump_databases

DATABASE, GONE = "ruled", "ruled_gone"
BEGIN = "CREATE TABLE @t (id INT PRIMARY KEY, v INT); INSERT INTO @t VALUES (1, 10), (2, 20);"
BOTH = f"{BEGIN} CREATE TABLE @u (id INT PRIMARY KEY); INSERT INTO @u VALUES (1);"
NUMBER = "CREATE TABLE @t (id INT PRIMARY KEY, v INT); INSERT INTO @t VALUES (1, 10)"
TEXT = "CREATE TABLE @t (id INT PRIMARY KEY, w VARCHAR(9)); INSERT INTO @t VALUES (1, 'x')"
RETYPED = (
    "CREATE TABLE @t (id INT PRIMARY KEY, v DOUBLE); INSERT INTO @t VALUES (1, 1.5);"
    "ALTER TABLE @t MODIFY v VARCHAR(20); INSERT INTO @t VALUES (2, 'x');"
)
ENDED = [(1, 10, False), (2, 20, False)]
RENAMED = (
    *("v w", [(10, None), (20, None), (None, 30)]),
    "id v w",
    [
        *((1, 10, None, False), (2, 20, None, False)),
        *((1, None, 10, True), (2, None, 20, True), (3, None, 30, True)),
    ],
)
RULES = {
    "added": (
        f"{BEGIN} ALTER TABLE @t ADD w INT DEFAULT 7; INSERT INTO @t VALUES (3, 30, 8)",
        *("id w", [(1, None), (2, None), (3, 8)]),
        *("id w", [(1, None, False), (2, None, False), (1, 7, True), (2, 7, True), (3, 8, True)]),
    ),
    "dropped": (
        f"{BEGIN} ALTER TABLE @t DROP COLUMN v; INSERT INTO @t VALUES (3)",
        *("id v", [(1, 10), (2, 20), (3, None)]),
        *("id v", [*ENDED, (1, None, True), (2, None, True), (3, None, True)]),
    ),
    "renamed": (
        f"{BEGIN} ALTER TABLE @t RENAME COLUMN v TO w; INSERT INTO @t VALUES (3, 30)",
        *RENAMED,
    ),
    "changed": (f"{BEGIN} ALTER TABLE @t CHANGE v w INT; INSERT INTO @t VALUES (3, 30)", *RENAMED),
    "widened": (
        (
            "CREATE TABLE @t (id INT PRIMARY KEY, v INT, x FLOAT, d DECIMAL(5,2));"
            "INSERT INTO @t VALUES (1, 10, 0.5, 1.25), (2, 20, 1.5, 2.5); DELETE FROM @t WHERE id = 2;"
            "ALTER TABLE @t MODIFY v BIGINT, MODIFY x DOUBLE, MODIFY d DECIMAL(9,2);"
            "INSERT INTO @t VALUES (3, 5000000000, 0.1, 1234567.25)"
        ),
        *("v", [(10,), (20,), None, (5_000_000_000,)]),
        *("id v", [(1, 10, True), (2, 20, False), (3, 5_000_000_000, True)]),
    ),
    "retyped_as_the_log_tells": (
        f"{BEGIN} ALTER TABLE @t MODIFY v VARCHAR(9); INSERT INTO @t VALUES (3, 'x')",
        *("v v__string", [(10, None), (20, None), (None, "x")]),
        *("id v", [(1, "10", True), (2, "20", True), (3, "x", True)]),
    ),
    "retyped": (
        f"{RETYPED} CREATE TABLE @u (id INT PRIMARY KEY); INSERT INTO @u VALUES (1)",
        *("v v__string", [(1.5, None), (None, "x")]),
        *("id v", [(1, 1.5, True)]),
    ),
    "retyped_and_dropped": (
        f"{RETYPED} DROP TABLE @t",
        *("v v__string", [(1.5, None), (None, "x")]),
        *("id v", [(1, 1.5, False)]),
    ),
    "made_anew": (
        f"{BEGIN} DROP TABLE @t; CREATE TABLE @t (id INT PRIMARY KEY); INSERT INTO @t VALUES (2)",
        *("id v", [(1, 10), (2, 20), (2, None)]),
        *("id v", [*ENDED, (2, None, True)]),
    ),
    "alternating": (
        f"{NUMBER}; DROP TABLE @t; {TEXT}; DROP TABLE @t; {NUMBER}; DROP TABLE @t; {TEXT}",
        *("v w", [(10, None), (None, "x")] * 2),
        "id v w",
        [(1, 10, None, False), (1, None, "x", False), (1, 10, None, False), (1, None, "x", True)],
    ),
    "dropped_alone": (f"{BOTH} DROP TABLE @t", *("v", [(10,), (20,)]), *("id v", ENDED)),
    "truncated": (f"{BOTH} TRUNCATE TABLE @t", *("v", [(10,), (20,)]), *("id v", ENDED)),
    "called": (
        f"{BEGIN} RENAME TABLE @t TO @u; UPDATE @u SET v = 11 WHERE id = 1",
        *("v", [(10,), (20,)]),
        *("id v", ENDED),
    ),
    "called_by_alter": (
        f"{BEGIN} ALTER TABLE @t RENAME TO @u; UPDATE @u SET v = 11 WHERE id = 1",
        *("v", [(10,), (20,)]),
        *("id v", ENDED),
    ),
}
"""Statements; columns of the images behind the changes of t and what these are; columns of its
versions, and what they are in the order in which they began, and whether they are open."""
OF_U = {
    **dict.fromkeys(("retyped", "dropped_alone", "truncated"), ("id", [(1, True)])),
    **dict.fromkeys(
        ("called", "called_by_alter"), ("id v", [(1, 10, False), (2, 20, True), (1, 11, True)])
    ),
}
"""The versions of u."""
OTHERS = {
    "case": f"{BEGIN} ALTER TABLE @t CHANGE v V INT; INSERT INTO @t VALUES (3, 30)",
    "digits": "CREATE TABLE @t (id INT PRIMARY KEY, d DATETIME(6), x DOUBLE);"
    "INSERT INTO @t VALUES (1, '2024-01-01 00:00:00.123456', 0.126);"
    "ALTER TABLE @t MODIFY d DATETIME(3), MODIFY x DOUBLE(9,2)",
    "key": "CREATE TABLE @t (id INT PRIMARY KEY, v INT NOT NULL);"
    "INSERT INTO @t VALUES (1, 10), (2, 20);"
    "ALTER TABLE @t DROP PRIMARY KEY, ADD PRIMARY KEY (v); UPDATE @t SET id = 3 WHERE v = 10",
}


def split(text):
    return filter(str.strip, text.split(";"))


class Told(Logged):
    """All these statements on a server, and the lake that is made of their log."""

    def __init__(self, server, folder, kind):
        names = [f"{DATABASE}.*", f"{GONE}.*"]
        super().__init__(
            server, folder, kind, keep=["changelog", "current", "history"], tables=names
        )
        self.begin(DATABASE, GONE)
        self.say(f"USE {GONE}", *split(BOTH.replace("@", "")), f"DROP DATABASE {GONE}")
        self.say(f"USE {DATABASE}")
        for name, text in ({name: rule[0] for name, rule in RULES.items()} | OTHERS).items():
            self.say(*split(text.replace("@t", f"t_{name}").replace("@u", f"u_{name}")))
        self.tables = {each.name: each for each in self.step().tables}
        self.said = dump_databases(server, DATABASE)

    def part(self, part, table):
        """A table by its format's own reader."""
        name = table if "." in table else f"{DATABASE}.{table}"
        return READERS[self.kind](self.lake, name, part)

    def after(self, table, columns):
        rows = self.part("changelog", table).sort_by("_seq").column("after").to_pylist()
        return [row and tuple(row[each] for each in columns.split()) for row in rows]

    def versions(self, table, columns):
        names = columns.split()
        rows = self.part("history", table)
        rows = rows.sort_by([("_seq", "ascending"), (names[0], "ascending")]).to_pylist()
        assert all(row["_is_current"] == (row["_valid_to"] is None) for row in rows)
        return [(*(row[each] for each in names), row["_is_current"]) for row in rows]


@pytest.mark.parametrize(
    ("server", "kind"),
    [*(("mysql-9.7", kind) for kind in FORMATS), ("mariadb-11.8", "parquet")],
    indirect=["server"],
)
def test_the_rules(server, kind, tmp_path):
    told = Told(server, tmp_path, kind)
    refused = {name: each.set_aside.reason for name, each in told.tables.items() if each.set_aside}
    assert list(refused) == [f"{DATABASE}.t_retyped"]
    assert "v was changed from double to varchar(20)" in refused[f"{DATABASE}.t_retyped"]
    for name, wanted in told.said.items():
        if name not in refused:
            assert differences(told.part("current", name), wanted) == [], name
    for name, (_, *rule) in RULES.items():
        columns, after, of_versions, versions = rule
        assert told.after(f"t_{name}", columns) == after, name
        assert told.versions(f"t_{name}", of_versions) == versions, name
    for name, (columns, versions) in OF_U.items():
        assert told.versions(f"u_{name}", columns) == versions, name
    assert "v" not in told.part("current", "t_dropped").schema.names
    assert told.part("current", "t_retyped_as_the_log_tells").schema.field("v").type == pa.string()
    (image,) = (each for each in told.part("changelog", "t_widened").schema if each.name == "after")
    schemas = [told.part(part, "t_widened").schema for part in ("current", "history")]
    for schema in (*schemas, pa.schema(image.type)):
        found = [schema.field(each).type for each in ("v", "x", "d")]
        assert found == [pa.int64(), pa.float64(), pa.decimal128(9, 2)]

    # a name that changes in case alone is the same; what is rounded was as before until then
    assert told.after("t_case", "v") == [(10,), (20,), (30,)]
    assert [row[1] for row in told.versions("t_case", "id v") if row[2]] == [10, 20, 30]
    rows = [(x, d.microsecond, now) for x, d, now in told.versions("t_digits", "x d")]
    assert rows == [(0.126, 123456, False), (0.13, 123000, True)]
    rows = told.versions("t_key", "id v")
    assert [row for row in rows if row[2]] == [(2, 20, True), (3, 10, True)]
    assert (1, 10, False) in rows

    # tables of a database that is dropped; which tables are; and what a history lacks is said
    assert told.versions(f"{GONE}.t", "id v") == ENDED
    assert told.versions(f"{GONE}.u", "id") == [(1, False)]
    dropped = {name.partition(".")[2] for name, each in told.tables.items() if each.dropped}
    expected = {"t_dropped_alone", "t_retyped_and_dropped", "t_called", "t_called_by_alter"}
    assert dropped == expected | {"t", "u"}
    ((name, note),) = ((name, note) for name, each in told.tables.items() for note in each.notes)
    assert name == f"{DATABASE}.t_retyped_and_dropped"
    assert re.match(r"its history has not all versions since \S+:\d+ until 20", note)
    assert "v was changed from double to varchar(20)" in note
