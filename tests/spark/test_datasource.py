"""The data source ``binlog`` against `tailrace.changes` and what the real servers' SELECT said."""

import json

import pytest

import tailrace
from tailrace.errors import PipelineError, UsageError
from tailrace.spark import register
from tailrace.spark.stream.datasource import newest_schema
from tailrace.spark.stream.options import Options
from tailrace.table_name import TableName
from tests.cli.damaged import damaged, sound
from tests.spark.streaming import run_all
from tools.shop import SHOP, SHOP_TABLES


@pytest.fixture(scope="module")
def binlog(spark):
    """A function that loads the source with options."""
    register(spark)

    def load(path=SHOP, **options):
        return spark.read.format("binlog").options(path=str(path), **options).load()

    return load


def test_the_record_replayed_by_key_is_the_table(binlog):
    """Every table of the examples has the rows that SELECT gave, by their keys."""
    states = {name: set() for name in SHOP_TABLES}
    for row in binlog().orderBy("_seq").collect():
        name = f"{row._db}.{row._table}"
        for text, change in ((row.before, states[name].remove), (row.after, states[name].add)):
            if text:
                document = json.loads(text)
                change(tuple(str(document[column]) for column in SHOP_TABLES[name]["key"]))
    for name, table in SHOP_TABLES.items():
        places = [table["columns"].index(column) for column in table["key"]]
        assert states[name] == {tuple(row[place] for place in places) for row in table["rows"]}


@pytest.mark.quick
def test_typed_columns_are_those_of_changes(binlog):
    rows = binlog(SHOP / "mysql", tables="shop.orders").orderBy("_seq").collect()
    expected = []
    for batch in tailrace.changes(SHOP / "mysql", tables=["shop.orders"]):
        expected += [
            (change["_seq"], change["_op"], change["after"] or change["before"])
            for change in batch.to_pylist()
        ]
    assert [row._seq for row in rows] == [seq for seq, _, _ in sorted(expected, key=lambda x: x[0])]
    by_seq = {seq: (op, image) for seq, op, image in expected}
    for row in rows:
        op, image = by_seq[row._seq]
        assert (row._op, row.id, row.total, row.status) == (
            op,
            image["id"],
            image["total"],
            image["status"],
        )


def test_only_the_columns_asked_for(binlog):
    frame = binlog(SHOP / "mysql", tables="shop.orders", columns="id,total")
    assert [name for name in frame.columns if not name.startswith("_")] == ["id", "total"]
    assert frame.where("total > 0").count() > 0


CONDITIONS = (
    "_table = 'orders'",
    "_table in ('orders', 'customers') and _op = 'insert'",
    "_op = 'delete'",
    "_ts > timestamp'2020-01-01 00:00:00'",
    "_ts < timestamp'2020-01-01 00:00:00'",
    "_gtid is null",
    "_db = 'shop' or _op = 'update'",
)


def test_pushed_filters_keep_what_spark_would(binlog):
    everything = binlog().cache()
    gtid = everything.where("_table = 'orders'").first()._gtid
    for condition in (*CONDITIONS, f"_gtid = '{gtid}'"):
        expected = everything.where(condition).count()
        assert binlog().where(condition).count() == expected, condition
    everything.unpersist()


def test_small_splits_give_the_same_rows(binlog):
    whole, parts = binlog(), binlog(split="150000")
    assert parts.rdd.getNumPartitions() > whole.rdd.getNumPartitions()
    assert parts.select("_seq", "after").exceptAll(whole.select("_seq", "after")).count() == 0
    assert parts.count() == whole.count()


WRONG = (
    ({"path": "/x", "colour": "red"}, "no option 'colour'"),
    ({}, "give the logs"),
    ({"path": "/x", "images": "none"}, "json or row or both"),
    ({"path": "/x", "tables": "a.b", "exclude": "c"}, "one table"),
    ({"path": "/x", "tables": "a.*", "images": "both"}, "one table"),
    ({"path": "/x", "tables": "a.b,a.c", "columns": "x"}, "one table"),
    ({"path": "/x", "tables": "a.b", "images": "json", "columns": "x"}, "one table"),
    ({"path": "/x", "table": "a.b"}, "no option 'table'"),
    ({"path": "/x", "tables": "[a.b"}, "option tables is no list of names"),
    ({"path": "/x", "Split": "0"}, "option split is a number above 0, and not '0'"),
)


def test_options_that_make_no_sense():
    for options, message in WRONG:
        with pytest.raises(UsageError, match=message):
            Options.of(options)


def test_one_full_name_gives_that_tables_columns():
    """Option ``tables``: one full name is one table, typed; anything else is JSON."""
    assert Options.of({"path": "/x"}).table is None
    for tables in ("orders", "shop.*", "shop.orders,shop.payments"):
        assert Options.of({"path": "/x", "tables": tables}).table is None, tables
    for tables, table in (
        ("shop.orders", "shop.orders"),
        ('["shop.a,b"]', "`shop`.`a,b`"),
        ("shop.100[*]", "`shop`.`100*`"),
    ):
        found = Options.of({"path": "/x", "tables": tables})
        assert found.table == table
        assert found.tables(*TableName.parse(table))
        assert Options.of({"path": "/x", "tables": tables, "images": "json"}).table is None


def test_a_table_that_is_not_there():
    with pytest.raises(PipelineError, match=r"no rows of table shop\.nothing"):
        newest_schema(Options.of({"path": str(SHOP / "mysql"), "tables": "shop.nothing"}))


def test_tables_of_the_catalogue(spark, binlog):
    """CREATE TABLE … USING binlog: Spark tells a Python source the options there, and never again."""
    folder = SHOP / "mysql"
    made = {
        "by_path": f"OPTIONS (path '{folder}')",
        "by_location": f"LOCATION '{folder}'",
        "by_table": f"OPTIONS (path '{folder}', tables 'shop.orders', columns 'id,status')",
    }
    try:
        for name, options in made.items():
            spark.sql(f"CREATE TABLE {name} USING binlog {options}")
        changes = binlog(folder)
        for name in ("by_path", "by_location"):
            assert spark.table(name).count() == changes.count()
        orders = spark.sql("SELECT id, status FROM by_table WHERE _op = 'insert'").collect()
        wanted = binlog(folder, tables="shop.orders").where("_op = 'insert'")
        assert sorted(orders) == sorted(wanted.select("id", "status").collect())
    finally:
        for name in made:
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_a_table_that_cannot_be_decoded_is_excluded(spark, binlog, tmp_path):
    options = {"path": str(damaged(tmp_path / "mariadb")), "exclude": "a.b, stock"}
    stream = spark.readStream.format("binlog").options(**options).load()
    run_all(stream.writeStream.format("memory").queryName("kept"), tmp_path / "state")
    for found in (binlog(**options), spark.table("kept")):
        rows = found.groupBy("_db", "_table").count().collect()
        assert {f"{row._db}.{row._table}": row["count"] for row in rows} == sound()
