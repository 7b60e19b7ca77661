"""Lakes of servers with ``lower_case_table_names=1``: statements and rows are of one table."""

from unittest import mock

import pytest

import tailrace
from tailrace.errors import PipelineError, UsageError
from tailrace.live import tables
from tailrace.live.url import Source
from tailrace.schema.catalogue import Catalogue
from tailrace.schema.user_schema import parse
from tailrace.search import index
from tailrace.spark import mirror
from tailrace.spark.input.server_facts import ServerFacts
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.search import index as index_on_spark
from tailrace.spark.stream.datasource import BinlogDataSource
from tailrace.spark.verify import verify
from tailrace.table_filter import TableFilter
from tests.spark.following import url_of
from tests.spark.history.landing import FORMATS
from tests.spark.streaming import read_range

FIRST = (
    "CREATE DATABASE {0}",
    "CREATE TABLE {0}.Emptied (id INT PRIMARY KEY, t TEXT)",
    "INSERT INTO {0}.Emptied VALUES (1, 'a'), (2, 'b')",
    "CREATE TABLE {0}.OldName (id INT PRIMARY KEY)",
    "INSERT INTO {0}.OldName VALUES (1)",
    "CREATE TABLE {0}.`ÄΣİ` (id INT PRIMARY KEY)",
    "INSERT INTO {0}.`ÄΣİ` VALUES (1), (2)",
    "CREATE TABLE {0}.Gone (id INT PRIMARY KEY)",
    "INSERT INTO {0}.Gone VALUES (1)",
)
THEN = (
    "TRUNCATE TABLE {0}.EMPTIED",
    "RENAME TABLE {0}.oldNAME TO {0}.NewName",
    "INSERT INTO {0}.NewName VALUES (2)",
    "ALTER TABLE {0}.NEWNAME ADD more INT",
    "INSERT INTO {0}.NewName VALUES (3, 4)",
    "TRUNCATE TABLE {0}.`äΣİ`",
    "INSERT INTO {0}.`ÄΣİ` VALUES (5)",
    "DROP TABLE {0}.GONE",
)


@pytest.fixture(params=["mysql-9.7", "mariadb-11.8"])
def lowering(request, fresh_server):
    option = {"lower_case_table_names": 1}
    options = {"binlog_row_metadata": "FULL", **option}
    server = fresh_server(request.param, options, init_options=option)
    yield server
    server.discard()


def run(server, database, statements):
    for sql in statements:
        server.execute(sql.format(database))


def test_statements_reach_the_tables(lowering, tmp_path):
    """Of the server, which is asked, and of its log, which shows it or is told."""
    run(lowering, "Shop", FIRST)
    run(lowering, "plain", FIRST)
    url, first = url_of(lowering), FORMATS[0]
    told = {"lower_case_table_names": 1, "tables": ["Shop.*", "Plain.*"]}
    for kind in FORMATS:
        mirror(url, tmp_path / kind, format=kind, keep=["changelog", "current", "history"])
    mirror(lowering.data, tmp_path / "told", **told)
    mirror(lowering.data, tmp_path / "shown", tables="shop.*")
    for database in ("Shop", "plain"):
        run(lowering, database, THEN)
    for kind in FORMATS:
        mirror(url, tmp_path / kind, format=kind)
        report = verify(url, tmp_path / kind)
        assert (report.verdict, len(report.tables)) == ("equal", 6), kind
    rows = {"emptied": 0, "newname": 3, "ä\u03c3i": 1}
    for lake, databases in (("told", ("shop", "plain")), ("shown", ("shop",))):
        report = mirror(lowering.data, tmp_path / lake)
        found = {each.name: each.rows for each in report.tables if not each.dropped}
        assert found == {f"{one}.{name}": n for one in databases for name, n in rows.items()}, lake
    states = LakeView.open(tmp_path / first).manifest.sources.values()
    assert [each.tables["lowers_names"] for each in states] == [True]
    with pytest.raises(PipelineError, match="and 0 is given"):
        mirror(lowering.data, tmp_path / "told", lower_case_table_names=0)
    assert verify(url, tmp_path / first, tables="Shop.NewName").verdict == "equal"


def test_the_statements_after_the_one_that_shows_it(lowering, tmp_path):
    """In the same part of the log: an ALTER TABLE there is of the table, too."""
    parts = "PARTITION BY RANGE(id) (PARTITION p0 VALUES LESS THAN (2), PARTITION p1 VALUES LESS THAN (9))"
    made = ["CREATE DATABASE {0}", f"CREATE TABLE {{0}}.Parts (id INT PRIMARY KEY) {parts}"]
    run(lowering, "Shown", [*made, "INSERT INTO {0}.Parts VALUES (1), (3)"])
    run(lowering, "Shown", ["ALTER TABLE {0}.Parts TRUNCATE PARTITION p0"])
    report = mirror(lowering.data, tmp_path / "lake", keep=["current", "history"])
    (table,) = report.tables
    assert "TRUNCATE PARTITION" in table.set_aside.reason
    assert table.rows == 2


@pytest.mark.parametrize(("first", "later"), [(0, 1), (1, 0), (2, 0)])
def test_a_lake_keeps_what_it_was_told(tmp_path, first, later):
    table = tailrace.Table("shop.orders", "id INT PRIMARY KEY", flavour="mysql")
    with (
        tailrace.create(tmp_path / "logs" / "binlog.000001", flavour="mysql", server_id=7) as log,
        log.transaction() as transaction,
    ):
        transaction.insert(table, [(1,)])
    place = tmp_path / "lake"
    for case in (first, None, first):
        mirror(tmp_path / "logs", place, incomplete="accept", lower_case_table_names=case)
    with pytest.raises(PipelineError, match=f"and {'1 or 2' if later else 0} is given"):
        mirror(tmp_path / "logs", place, incomplete="accept", lower_case_table_names=later)


def test_a_given_definition_may_be_in_any_case():
    catalogue = Catalogue(lowers_names=True)
    catalogue.given(parse("CREATE TABLE Shop.Orders (id INT)"))
    assert catalogue.lookup("shop", "orders") is not None
    assert catalogue.lookup("shop", "other") is None


def test_a_log_that_leaves_it_open(lowering, tmp_path):
    """Nothing is lost in silence, whether the CREATE TABLE is in the log or only a TRUNCATE."""
    run(lowering, "plain", FIRST)
    with pytest.raises(PipelineError, match="--lower-case-table-names 1"):
        mirror(lowering.data, tmp_path / "lake")
    lowering.rotate()
    run(lowering, "plain", ["INSERT INTO {0}.Emptied VALUES (9, '')", "TRUNCATE {0}.Emptied"])
    with pytest.raises(PipelineError, match="a statement names"):
        mirror(lowering.data / "binlog.000002", tmp_path / "later", incomplete="accept")


def test_patterns_select_the_same_tables_everywhere(lowering, tmp_path):
    """The mirror, both indexes and what the mirror asks the server about tables that are hidden."""
    run(lowering, "Shop", FIRST)
    url = url_of(lowering)
    for number, pattern in enumerate(("Shop.Emptied", "Shop.Emp*")):
        report = mirror(url, tmp_path / f"lake{number}", tables=pattern)
        assert {each.name: each.rows for each in report.tables} == {"shop.emptied": 2}
        assert index(url, tmp_path / f"one{number}", tables=pattern).rows == 2
        done = index_on_spark(url, tmp_path / f"spark{number}", shards=2, tables=pattern)
        assert done.rows == 2
    for sql in (
        "CREATE USER sees_little IDENTIFIED BY ''",
        "GRANT SELECT ON shop.* TO sees_little",
        "GRANT REPLICATION SLAVE ON *.* TO sees_little",
    ):
        lowering.execute(sql)
    source = Source.parse(url.replace("root@", "sees_little@"))
    wanted = TableFilter.of("Shop.Emp*")
    assert not ServerFacts.of(source, wanted).hides
    assert not ServerFacts.of(source, wanted, given=True).hides
    assert ServerFacts.of(source, wanted, given=False).hides  # as the mirror then reads the log
    assert ServerFacts.of(source, TableFilter.of("Other.*")).hides


@pytest.mark.parametrize("images", ["row", "json"])
def test_spark_reads_the_tables_that_the_server_means(lowering, tmp_path, images):
    """In a batch and in a stream, and if the server is not asked, as the option is given."""
    run(lowering, "Shop", FIRST)
    given = {"path": url_of(lowering), "tables": "Shop.Emptied", "images": images}
    if images == "json":
        given |= {"tables": "Shop.Emp*,Shop.Gone", "exclude": "Shop.Gone"}
    options = {"spool": str(tmp_path / "spool"), **given}
    asked = BinlogDataSource(options)
    schema = asked.schema()
    reader = asked.reader(schema)
    batches = [batch for each in reader.partitions() for batch in reader.read(each)]
    assert sum(batch.num_rows for batch in batches) == 2
    stream = BinlogDataSource({**given, "spool": str(tmp_path / "stream")}).streamReader(schema)
    try:
        stream.prepareForTriggerAvailableNow()
        first = stream.initialOffset()
        assert len(read_range(stream, first, stream.latestOffset(first))) == 2
    finally:
        stream.stop()
    with mock.patch.object(tables, "connected", side_effect=tailrace.errors.ConnectionLost("away")):
        with pytest.raises(UsageError, match="lower_case_table_names"):
            asked.reader(schema)
        BinlogDataSource({**options, "lower_case_table_names": "1"}).reader(schema)
        lower = {name: each.lower() for name, each in given.items() if name != "path"}
        BinlogDataSource({**options, **lower}).reader(schema)
