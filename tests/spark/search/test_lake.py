"""WL#3283's reference application: an index of a lake equals the index of the log that is in it."""

import shutil

import pytest

from tailrace.errors import PipelineError, UsageError
from tailrace.search import Index, index
from tailrace.spark import mirror
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.search import index as on_spark
from tests.spark.search.shop import WORDS, Following, begin, change, hits_of, rows_of

TYPES = {
    "u": ("BIGINT UNSIGNED", "18446744073709551615"),
    "d": ("DECIMAL(12, 2)", "-1234.50"),
    "p": ("DECIMAL(60, 2)", "-1234.50"),
    "f": ("FLOAT", "0.1"),
    "g": ("DOUBLE", "-1e300"),
    "b": ("BIT(9)", "b'101010101'"),
    "y": ("YEAR", "2024"),
    "t": ("TIME(3)", "'-30:00:01.5'"),
    "dt": ("DATETIME(6)", "'2024-02-29 12:00:00.000001'"),
    "ts": ("TIMESTAMP NULL", "'2024-02-29 12:00:00'"),
    "da": ("DATE", "'0000-00-00'"),
    "e": ("ENUM('red', 'blue')", "'red'"),
    "s": ("SET('red', 'blue')", "'red,blue'"),
    "bi": ("VARBINARY(20)", "x'00ff'"),
    "geo": ("POINT", "ST_GeomFromText('POINT(1 2)')"),
    "latin": ("VARCHAR(20) CHARACTER SET latin1", "'müde'"),
    "bin": ("VARCHAR(20) COLLATE utf8mb4_bin", "'Red'"),
    "j": ("JSON", """'{"a": ["slow red", 1.50, null]}'"""),
}
"""A column of each family: none but text and JSON is searched, and all are in the row."""


@pytest.fixture
def shop(fresh_server, request):
    """A fresh server with some rows."""
    name = getattr(request, "param", "mysql-9.7")
    made = fresh_server(name, ["--binlog-row-metadata=FULL"])
    made.execute("SET SESSION sql_mode = ''")
    begin(made)
    made.execute("CREATE TABLE shop.pairs (a VARCHAR(9), b INT, t TEXT, PRIMARY KEY (a, b))")
    listed = ", ".join(f"`{name}` {declared}" for name, (declared, _) in TYPES.items())
    made.execute(f"CREATE TABLE shop.types (id INT PRIMARY KEY, {listed})")
    values = ", ".join(value for _, value in TYPES.values())
    made.execute(f"INSERT INTO shop.types VALUES (1, {values})")
    made.execute("INSERT INTO shop.types (id) VALUES (2)")
    for number in range(40):
        row = f"'k{number % 3}', {number}, '{WORDS[number % 4]}'"
        made.execute(f"INSERT INTO shop.pairs VALUES ({row})")
    return made


ROUNDS = [
    [
        "UPDATE shop.things SET name = 'blue bus' WHERE id % 5 = 0",
        "DELETE FROM shop.things WHERE id % 7 = 3",
        "UPDATE shop.things SET id = id + 1000 WHERE id % 3 = 0",
        "UPDATE shop.pairs SET a = UPPER(a) WHERE b < 9",
        "UPDATE shop.types SET latin = 'lost car', j = '[\"found red\"]' WHERE id = 1",
    ],
    ["ALTER TABLE shop.things DROP COLUMN more", "INSERT INTO shop.things VALUES (9, 'red again')"],
    ["TRUNCATE TABLE shop.pairs", "INSERT INTO shop.pairs VALUES ('new', 1, 'lost red')"],
    ["ALTER TABLE shop.pairs RENAME COLUMN t TO words", "DROP TABLE shop.types"],
    ["RENAME TABLE shop.pairs TO shop.moved", "INSERT INTO shop.moved VALUES ('new', 2, 'a boat')"],
]
"""Each is in a version of the lake of its own."""


def content(place):
    """All rows of an index, and what each query finds; tables without rows do not count."""
    rows = {table: found for table, found in rows_of(place).items() if found}
    return rows, {query: hits for query, (_, _, hits) in hits_of(place).items()}


@pytest.mark.parametrize(
    ("shop", "form", "update_mode"),
    [
        ("mysql-9.7", "delta", "merge-on-read"),
        ("mariadb-11.8", "iceberg", "merge-on-read"),
        ("mysql-9.7", "parquet", "copy-on-write"),
    ],
    indirect=["shop"],
)
def test_an_index_of_a_lake_equals_that_of_its_log(spark, shop, tmp_path, form, update_mode):
    """At first and after each change of the lake: deletes, changed keys, dropped columns and
    tables, TRUNCATE, RENAME; in one shard without Spark's tasks, and in three.
    """
    lake, one, three, log = (tmp_path / name for name in ("lake", "one", "three", "log"))
    for number, statements in enumerate([[], *ROUNDS]):
        change(shop, statements)
        shop.execute("FLUSH BINARY LOGS")
        kind = {"format": form, "update_mode": update_mode}
        mirror(shop.data, into=lake, tables="shop.*", **kind)
        index(shop.data, log, tables="shop.*")
        on_spark(lake, one, tables="shop.*")
        expected = content(log)
        assert content(one) == expected, number
        if number % 2:  # also over two versions of the lake at once
            on_spark(lake, three, shards=3, tables="shop.*", spark=spark)
            assert content(three) == expected, number
            (source,) = LakeView.open(lake).manifest.sources.values()
            assert {state.position for state in Index(three).states} == {source.position}


def test_only_what_changed_is_indexed_unless_a_file_is_gone(shop, tmp_path):
    """A version of the lake whose files were removed since is replaced by all rows of now."""
    lake, into, log = tmp_path / "lake", tmp_path / "index", tmp_path / "log"
    mirror(shop.data, into=lake, format="delta", tables="shop.things")
    assert on_spark(lake, into, tables="shop.*").rows == 40
    before = {each.name for each in (lake / "shop.things").glob("*.parquet")}
    for number in range(2):
        change(shop, [f"UPDATE shop.things SET more = 'lost' WHERE id = {number}"])
        mirror(shop.data, into=lake)
        if number:
            for name in before:
                (lake / "shop.things" / name).unlink(missing_ok=True)
            before_last = Index(into).states[0].lake["shop.things"]["files"]
            for name in before_last:
                (lake / "shop.things" / name).unlink(missing_ok=True)
        done = on_spark(lake, into, tables="shop.*")
        assert done.rows == (40 if number else 2), "the row as it was, and as it is"
    index(shop.data, log, tables="shop.things")
    assert content(into) == content(log)


def test_a_table_of_thousands_of_rows(shop, tmp_path):
    """More than are taken from a file at once; their deletes, too."""
    lake, into, log = tmp_path / "lake", tmp_path / "index", tmp_path / "log"
    values = ", ".join(f"({100 + number}, 'red {number}', '')" for number in range(3100))
    change(shop, [f"INSERT INTO shop.things VALUES {values}"])
    mirror(shop.data, into=lake, tables="shop.things")
    index(shop.data, log, tables="shop.things")
    on_spark(lake, into)
    assert content(into) == content(log)
    change(shop, ["DELETE FROM shop.things WHERE id BETWEEN 150 AND 2800"])
    mirror(shop.data, into=lake)
    index(shop.data, log, tables="shop.things")
    on_spark(lake, into)
    assert content(into) == content(log)


def test_an_index_follows_a_lake(shop, tmp_path, run):
    """The command, and what it takes to be another source."""
    lake, into = tmp_path / "lake", tmp_path / "index"
    shop.execute("CREATE TABLE shop.loose (name TEXT)")
    change(shop, ["INSERT INTO shop.loose VALUES ('red')"])
    mirror(shop.data, into=lake)
    with pytest.raises(PipelineError, match=r"no current state of shop\.loose.*--exclude"):
        on_spark(lake, into)
    shutil.rmtree(into)
    with Following(lake, into, exclude="shop.loose") as following:
        following.wait_for((into / "index.json").exists)
        change(shop, ["INSERT INTO shop.things VALUES (7000, 'red again', '')"])
        mirror(shop.data, into=lake)
        following.wait_for(lambda: Index(into).search("again").total == 1)
    done = run("index", lake, "--exclude", "shop.loose", "--into", into)
    assert (done.status, done.out[:14]) == (0, "0 rows indexed")
    for source in (lake, shop.data):
        wrong = tmp_path / "wrong"
        other = shop.data if source == lake else lake
        on_spark(source, wrong, tables="shop.things")
        with pytest.raises(UsageError, match="the index is of a l"):
            on_spark(other, wrong, tables="shop.things")
        shutil.rmtree(wrong)
