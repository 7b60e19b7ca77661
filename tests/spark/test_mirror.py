"""`mirror` on Spark, against what the servers' own SELECT said when the logs were recorded."""

import re
import shutil

import pytest

from tailrace.cli.mirror.command import mirror as command
from tailrace.columns import plan_splits
from tailrace.errors import BadMagic, ChecksumMismatch, PipelineError, TailraceError, UsageError
from tailrace.spark import mirror
from tailrace.spark.lake.folder import format_of
from tailrace.spark.lake.lake import open_store
from tailrace.storage import find
from tests.cli.damaged import damaged, sound
from tests.spark.replay import differences
from tools.shop import SHOP, SHOP_TABLES


def check(spark, lake):
    """All tables are what SELECT gave, as plain Spark reads them, and no change is twice."""
    for name, table in SHOP_TABLES.items():
        current = spark.read.parquet(str(lake / name / "current"))
        assert differences(current.toArrow(), table) == [], name
    changes = spark.read.parquet(str(lake / "shop.orders" / "changelog"))
    assert changes.count() == changes.select("_seq").distinct().count() == 1097


def copied(logs, folder, name="mysql"):
    """A copy of a shop's logs."""
    shutil.copytree(SHOP / logs, folder / name)
    return folder / name


@pytest.fixture(scope="module")
def shop(spark, tmp_path_factory):
    """A lake of the whole shop, and the report of its first run."""
    lake = tmp_path_factory.mktemp("shop") / "lake"
    told = []
    report = mirror(SHOP, lake, spark=spark, progress=lambda *each: told.append(each))
    return lake, report, told


def test_the_shop(spark, shop):
    lake, report, told = shop
    check(spark, lake)
    assert report.version == 1
    assert report.changes == 6232
    assert {table.name: table.rows for table in report.tables} == {
        name: len(table["rows"]) for name, table in SHOP_TABLES.items()
    }
    assert all(not table.notes and table.refused is None for table in report.tables)
    assert told[0][0] == "start"
    read = [(done, total) for phase, done, total in told if phase == "read"]
    assert read == sorted(read)
    assert read[-1] == (report.log_bytes, report.log_bytes)
    assert told[-1] == ("commit", len(SHOP_TABLES), len(SHOP_TABLES))


def test_running_again_changes_nothing(spark, shop):
    """But the number of the process that had the lake."""
    lake, first, _ = shop
    before = modified(lake)

    def no_spark():
        raise AssertionError("Spark is not needed")

    report = mirror(SHOP, lake, spark=no_spark)
    assert modified(lake) == before
    assert (report.version, report.changes, report.positions) == (1, 0, first.positions)


def modified(lake):
    files = (path for path in lake.rglob("*") if path.is_file() and path.parent.name != "claims")
    return {path: path.stat().st_mtime_ns for path in files}


def test_types_as_spark_reads_them(spark, shop):
    lake, _, _ = shop
    orders = spark.read.parquet(str(lake / "shop.orders" / "current"))
    kinds = dict(orders.dtypes)
    assert kinds["_seq"] == "decimal(38,0)"
    assert kinds["_ts"] == "timestamp"
    deliveries = spark.read.parquet(str(lake / "warehouse.deliveries" / "changelog"))
    image = deliveries.schema["after"].dataType
    assert "interval day to second" in image.simpleString()
    assert deliveries.where("after.id is not null").count() == 205
    products = spark.read.parquet(str(lake / "shop.products" / "changelog"))
    assert "weight_grams" in products.schema["after"].dataType.names  # a column that came later
    assert products.count() == 241
    assert products.where("after.weight_grams is not null").count() > 0


def test_a_log_that_grows_is_gone_on_with(spark, lake, tmp_path):
    mysql, mariadb = copied("mysql", tmp_path), copied("mariadb", tmp_path, "mariadb")
    (series,) = find(mysql)
    bounds = [s for s in plan_splits(series, target_bytes=30_000) if s.file == "binlog.000003"]
    whole = {path.name: path.read_bytes() for path in mysql.glob("binlog.*")}
    (mysql / "binlog.000004").unlink()
    (mysql / "binlog.index").unlink()
    part = bytearray(whole["binlog.000003"][: bounds[2].start + 100])
    part[4 + 17] |= 1  # it is being written, and ends inside an event
    (mysql / "binlog.000003").write_bytes(part)
    first = mirror([mysql, mariadb], lake, spark=spark)
    assert first.positions["mysql"] == f"binlog.000003:{bounds[2].start}"
    # The rest comes, and what was read is purged.
    for name, data in whole.items():
        (mysql / name).write_bytes(data)
    for path in (mysql / "binlog.index", mysql / "binlog.000001", mysql / "binlog.000002"):
        path.unlink()
    second = mirror(mysql, lake, spark=spark)
    assert first.changes + second.changes == 6232
    assert second.version == 2
    check(spark, lake)


def test_a_damaged_log_leaves_the_lake_as_it_was(spark, lake, tmp_path):
    mysql = copied("mysql", tmp_path)
    damaged = mysql / "binlog.000004"
    data = damaged.read_bytes()
    damaged.unlink()
    (mysql / "binlog.index").unlink()
    mirror(mysql, lake, spark=spark, tables=["shop.orders"])
    before = sorted(path.name for path in (lake / "shop.orders" / "changelog").iterdir())
    damaged.write_bytes(data[:20_000] + bytes([data[20_000] ^ 1]) + data[20_001:])
    with pytest.raises(ChecksumMismatch, match=r"binlog\.000004 at \d+"):
        mirror(mysql, lake, spark=spark, tables=["shop.orders"])
    assert sorted(path.name for path in (lake / "shop.orders" / "changelog").iterdir()) == before
    damaged.write_bytes(data)
    assert mirror(mysql, lake, spark=spark, tables=["shop.orders"]).version == 2


def test_only_a_changelog(spark, tmp_path):
    report = mirror(
        SHOP / "mysql", tmp_path / "lake", spark=spark, tables=["reviews"], keep=["changelog"]
    )
    (table,) = report.tables
    assert (table.name, table.rows, table.dropped) == ("shop.reviews", None, False)
    assert [each.name for each in (tmp_path / "lake" / "shop.reviews").iterdir()] == ["changelog"]


def test_options_that_make_no_sense_and_what_is_no_log(tmp_path):
    for options in ({"keep": []}, {"keep": ["rows"]}, {"format": "orc"}):
        with pytest.raises(UsageError):
            mirror(SHOP, tmp_path / "lake", **options)
    (tmp_path / "binlog.000001").write_bytes(b"not a log at all" * 10)
    with pytest.raises(BadMagic):
        mirror(tmp_path / "binlog.000001", tmp_path / "lake")


ASKED = {
    "tables": ["shop.orders", "shop.customers"],
    "exclude": "shop.x",
    "keep": ["current", "history"],
    "keys": {"shop.orders": ["id"]},
    "shards": True,
    "update_mode": "copy-on-write",
}


def state(lake, kind):
    with open_store(lake, kind) as store:
        return store.manifest


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_the_options_are_the_lakes(kind, lake):
    assert format_of(lake) is None
    mirror(SHOP / "mysql", lake, format=kind, **ASKED)
    before = state(lake, kind)
    made = before.options
    assert (made.format, made.shards, made.keep) == (kind, True, ("current", "history"))
    assert format_of(lake) == kind
    for again in ({}, {"format": kind}, ASKED, {"tables": ["shop.customers", "shop.orders"]}):
        assert mirror(SHOP / "mysql", lake, **again).log_bytes == 0
    other = "delta" if kind == "parquet" else "parquet"
    for differs, says in (
        ({"format": other}, f"with --format {kind}, and --format {other} is given"),
        ({"keep": ["current"]}, "with --keep current,history, and --keep current is given"),
        (
            {"tables": "shop.*"},
            r"with --tables shop.customers,shop.orders, and --tables shop.\* is given",
        ),
        ({"exclude": "shop.y"}, "with --exclude shop.x, and --exclude shop.y is given"),
        ({"shards": False}, "with --shards, and no --shards is given"),
        (
            {"keys": {"shop.orders": ["id", "n"]}},
            "with --keys shop.orders=id, and --keys shop.orders=id,n is given",
        ),
    ):
        with pytest.raises(PipelineError, match=f"was created {says}: leave that out"):
            mirror(SHOP / "mysql", lake, **differs)
    assert state(lake, kind) == before


def test_a_folder_that_an_earlier_tailrace_left_has_no_format(lake):
    (lake / "_tailrace" / "versions").mkdir(parents=True)
    mirror(SHOP / "mysql", lake, format="delta", tables="shop.orders")
    assert format_of(lake) == "delta"


def test_what_the_command_prints(spark, lake, capsys):
    assert command(str(SHOP / "mysql"), into=lake, tables=("shop.reviews,orders",)) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith(f"{lake}: 1,352 changes from 728.6 kB of logs, ")
    assert lines[1].split() == ["table", "inserts", "updates", "deletes", "rows", "size", "s"]
    assert lines[2].split()[:4] == ["shop.orders", "560", "537", "560"]
    assert lines[3].split()[:4] == ["shop.reviews", "230", "25", "205"]
    assert "tailrace: reading logs: " in err
    assert re.findall("^tailrace: (.*): column names from the CREATE TABLE", err, re.MULTILINE) == [
        "2 tables (shop.orders, shop.reviews)"
    ]
    command(str(SHOP / "mysql"), into=lake, tables=("shop.reviews", "orders"))
    lines = capsys.readouterr().out.splitlines()
    assert "nothing new" in lines[0]
    assert lines[2].split()[:2] == ["shop.orders", "560"]


def test_a_table_that_cannot_be_decoded_is_excluded(spark, lake, tmp_path):
    logs = damaged(tmp_path / "mariadb")
    with pytest.raises(TailraceError):
        mirror(logs, tmp_path / "none", spark=spark)
    report = mirror(logs, lake, spark=spark, exclude="stock")
    assert {table.name: sum(table.changes.values()) for table in report.tables} == sound()
    assert mirror(logs, lake, spark=spark, exclude=["stock"]).log_bytes == 0
    assert mirror(logs, lake, spark=spark).log_bytes == 0
    with pytest.raises(PipelineError, match=r"created without --tables, and --tables \* is given"):
        mirror(logs, lake, spark=spark, tables="*")
