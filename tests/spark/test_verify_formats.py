"""`verify` of lakes of each format, with deleted rows next to their files, and of shards."""

import pyarrow.compute as pc
import pytest

from tailrace.errors import PipelineError
from tailrace.spark import mirror
from tailrace.spark.lake.iceberg.catalog import own_catalog
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.state.current import patching
from tailrace.spark.state.current.patching import Patches
from tailrace.spark.verify import verify
from tests.spark.following import BOTH, FLAVOURS, Follow, no_spark, url_of
from tests.spark.history.landing import READERS
from tests.spark.test_verify import DATABASE, change_unlogged, check, create
from tests.waiting import DEADLINE


@pytest.fixture
def lake(source, tmp_path):
    begin(source)
    return tmp_path / "lake"


def begin(server):
    server.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
    server.execute(f"CREATE DATABASE {DATABASE}")


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_other_formats_and_rows_that_are_deleted_next_to_their_files(
    source, lake, kind, monkeypatch
):
    monkeypatch.setattr(patching, "DEFAULT_PATCHES", Patches(least=0, share=1, together=2))
    table = f"{DATABASE}.t"
    rows = (f"{n}, '{n}:00:01.5', '2024-01-31', {n} / 3, {n}" for n in range(200))
    create(source, "t", "id INT PRIMARY KEY, a TIME(3), b DATE, f FLOAT, v INT", *rows)
    with Follow(url_of(source), lake, tables=[f"{DATABASE}.*"], format=kind):
        report = check(source, lake, wait=DEADLINE)
        assert (report.verdict, report.tables[0].lake_rows) == ("equal", 200)
        source.execute(f"UPDATE {table} SET v = -v WHERE id IN (3, 50, 199)")
        source.execute(f"DELETE FROM {table} WHERE id IN (4, 51)")
        report = check(source, lake, wait=DEADLINE)
    assert (report.verdict, report.tables[0].lake_rows) == ("equal", 198)
    view = LakeView.open(lake)
    files = view.current(view.manifest.tables[table])
    assert sum(file.deleted.count for file in files if file.deleted) == 5
    change_unlogged(
        source,
        f"UPDATE {table} SET v = 3 WHERE id = 3",
        f"UPDATE {table} SET a = '00:00:02' WHERE id = 7",
    )
    (found,) = check(source, lake).tables
    assert (found.changed, found.extra, found.missing, found.doubled) == (2, 0, 0, 0)
    first, second = sorted(found.first, key=lambda each: int(each.key["id"]))
    assert (first.columns, first.server["v"], first.lake["v"]) == (("v",), "3", "-3")
    assert second.columns == ("a",)


def delta_update(lake, table):
    from deltalake import DeltaTable  # noqa: PLC0415 - an extra's

    DeltaTable(str(lake / table)).update(updates={"n": "n + 1"}, predicate="id = 7")


def iceberg_update(lake, table):
    found = own_catalog(lake).load_table(table)
    rows = found.scan().to_arrow()
    more = pc.if_else(pc.equal(rows["id"], 7), pc.add(rows["n"], 1), rows["n"])
    field = rows.schema.field("n")
    place = rows.schema.get_field_index("n")
    found.overwrite(rows.set_column(place, field, more.cast(field.type)))


UPDATED = """
    id INT PRIMARY KEY, s VARCHAR(20), t TEXT, u JSON, b VARBINARY(20), c BLOB, e ENUM('x', 'y'),
    f FLOAT, a TIME(3), d DATE, m TIMESTAMP(6) NULL, k BIGINT UNSIGNED, n INT
"""


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_tables_that_others_updated(source, lake, kind):
    """They write files in types of their own, whose rows are as they were but for the change."""
    update = {"delta": delta_update, "iceberg": iceberg_update}[kind]
    source.execute("SET SESSION sql_mode = ''")
    rows = (
        f"{n}, 's{n}', REPEAT('t', {n}), '[{n}]', 'b{n}', x'00ff', 'x', {n} / 3, '-{n}:00:01.5',"
        f" '{'0000-00-00' if n % 2 else '9999-12-31'}', '2038-01-19 03:14:07.999999',"
        f" 18446744073709551615 - {n}, {n}"
        for n in range(50)
    )
    create(source, "t", UPDATED, *rows)
    with Follow(url_of(source), lake, tables=[f"{DATABASE}.*"], format=kind):
        assert check(source, lake, wait=DEADLINE).verdict == "equal"
    update(lake, f"{DATABASE}.t")
    (table,) = check(source, lake).tables
    assert (table.reason, table.changed, table.extra, table.missing) == (None, 1, 0, 0)
    assert table.first[0].columns == ("n",)
    assert (table.first[0].server["n"], table.first[0].lake["n"]) == ("7", "8")
    source.execute(f"INSERT INTO {DATABASE}.t (id) VALUES (1000)")
    with Follow(url_of(source), lake, tables=[f"{DATABASE}.*"], format=kind):
        (table,) = check(source, lake, wait=DEADLINE).tables
    assert (table.reason, table.changed, table.extra, table.missing) == (None, 1, 0, 0)


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_shards(running, tmp_path, kind):
    """Two servers have the same keys, with other values: each is compared with its own rows."""
    servers = [running(name) for name in FLAVOURS]
    for number, server in enumerate(servers):
        begin(server)
        rows = (f"{n}, {n + number}" for n in range(50 + number))
        create(server, "t", "id INT PRIMARY KEY, v INT", *rows)
    urls, lake = [url_of(server) for server in servers], tmp_path / "lake"
    tables = [f"{DATABASE}.*"]

    def begun():
        return LakeView.is_there(lake) and len(LakeView.open(lake).manifest.sources) == 2

    with pytest.raises(PipelineError, match="begin a lake with --shards"):
        mirror(urls, tmp_path / "other", tables=tables, keep=["changelog"], format=kind)
    with Follow(urls, lake, tables=tables, format=kind, shards=True) as following:
        following.wait_for(begun)  # a first batch may be of one of them
        servers[0].execute(f"DELETE FROM {DATABASE}.t WHERE id = 1")
        reports = [verify(url, lake, spark=no_spark, wait=DEADLINE) for url in urls]
    assert [report.verdict for report in reports] == ["equal", "equal"]
    assert [report.tables[0].lake_rows for report in reports] == [49, 51]
    log = READERS[kind](lake, f"{DATABASE}.t", "changelog")
    names = {f"127.0.0.1_{server.port}" for server in servers}
    assert {*log["_source"].to_pylist()} == names
    change_unlogged(servers[1], f"UPDATE {DATABASE}.t SET v = -1 WHERE id = 7")
    reports = [verify(url, lake, spark=no_spark) for url in urls]
    assert [report.verdict for report in reports] == ["equal", "differs"]
    assert [report.tables[0].changed for report in reports] == [0, 1]


@BOTH
def test_an_account_with_the_guides_grants_alone(source, lake):
    create(source, "t", "id INT PRIMARY KEY", 1)
    source.execute("CREATE USER IF NOT EXISTS lander")
    source.execute("GRANT REPLICATION SLAVE ON *.* TO lander")
    client = "REPLICATION CLIENT" if source.flavour == "mysql" else "BINLOG MONITOR"
    source.execute(f"GRANT {client} ON *.* TO lander")
    url = url_of(source).replace("root@", "lander@")
    options = {"spark": no_spark, "tables": [f"{DATABASE}.*"]}
    with Follow(url, lake, **options):
        report = verify(url, lake, wait=DEADLINE, **options)
        assert report.verdict == "unsure"
        assert report.tables[0].reason == "the account lacks the privilege SELECT on it"
        source.execute(f"GRANT SELECT ON {DATABASE}.* TO lander")
        report = verify(url, lake, wait=DEADLINE, **options)
    assert (report.verdict, report.tables[0].lake_rows) == ("equal", 1)


def test_by_tasks_of_spark(mysql97, spark, tmp_path, monkeypatch):
    """Each run is one batch then, and all jobs are Spark's."""
    monkeypatch.setattr(patching, "DEFAULT_PATCHES", Patches(least=0, share=2, together=3))
    lake, url = tmp_path / "lake", url_of(mysql97)
    mysql97.execute("DROP DATABASE IF EXISTS by_tasks")
    mysql97.execute("CREATE DATABASE by_tasks")
    mysql97.execute("CREATE TABLE by_tasks.t (id INT PRIMARY KEY, v VARCHAR(20))")
    rows = ", ".join(f"({number}, 'value {number}')" for number in range(300))
    for statement in (
        f"INSERT INTO by_tasks.t VALUES {rows}",
        "UPDATE by_tasks.t SET v = 'other' WHERE id % 50 = 7",
        "DELETE FROM by_tasks.t WHERE id % 60 = 7",
    ):
        mysql97.execute(statement)
        mirror(url, lake, spark=spark, format="delta", tables=["by_tasks.*"], statements="skip")
    current = LakeView.open(lake).manifest.tables["by_tasks.t"].current
    assert current.rows == 295
    assert len(current.tails) == 1
    assert sum(file.deleted for file in current.data) == 6 + 4  # 7 was in the tail
    monkeypatch.setattr("tailrace.spark.runtime.workers.SMALL_BYTES", 0)
    report = verify(url, lake, spark=spark, tables=["by_tasks.*"], range_rows=100)
    assert (report.verdict, report.tables[0].lake_rows) == ("equal", 295)
