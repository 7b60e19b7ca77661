"""A DataFrame as a log: what comes back of it, and what real servers make of it."""

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.functions import expr

import tailrace
from tailrace.constants import Flavour
from tailrace.errors import StorageError, UsageError
from tailrace.spark import register
from tailrace.spark.writer import BinlogWriter
from tailrace.storage import find
from tailrace.storage.local import LocalFolder
from tailrace.writing.parts.log import FOLDER, Part, assemble
from tailrace.writing.parts.rows import write_rows
from tests.recorded import ROOT
from tests.spark.following import FLAVOURS
from tests.spark.replay import differences
from tools.applied import by_tool
from tools.dumps import dump_databases

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
CREATE = "CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(40), total DECIMAL(10,2))"


@pytest.fixture(scope="module")
def orders(spark):
    register(spark)
    return spark.range(0, 1000, 1, 3).selectExpr(
        "cast(id as int) id", "concat('n', id) note", "cast(id * 1.5 as decimal(10,2)) total"
    )


def save(rows, path, mode="append", **options):
    made = rows.write.format("binlog").mode(mode)
    for name, value in options.items():
        made = made.option(name, value)
    made.save(str(path))


def read(path):
    """All rows of a log, in its order, and what they were."""
    return [
        (row["_op"], row["before"], row["after"])
        for batch in tailrace.changes(path)
        for row in batch.select(["_op", "before", "after"]).to_pylist()
    ]


def transactions(path):
    """The GTIDs and how many rows each transaction has."""
    found = []
    for batch in tailrace.changes(path):
        for gtid in batch.column("_gtid").to_pylist():
            if not found or found[-1][0] != gtid:
                found.append([gtid, 0])
            found[-1][1] += 1
    return found


def files(path):
    (series,) = find(path)
    return [file.name for file in series.files]


@pytest.mark.parametrize("flavour", list(Flavour))
def test_rows_gtids_and_files(orders, tmp_path, flavour):
    identity = {"uuid": UUID} if flavour is Flavour.MYSQL else {"domain": 7}
    options = {"flavour": flavour, "create": CREATE, "server_id": 9, **identity}
    save(orders, tmp_path / "log", transactionRows=100, fileSize=4096, **options)
    log = tmp_path / "log"
    rows = read(log)
    assert [row["id"] for _, _, row in rows] == list(range(1000))
    assert {kind for kind, _, _ in rows} == {"insert"}
    assert rows[10][2]["note"] == "n10"
    assert str(rows[10][2]["total"]) == "15.00"
    first = transactions(log)
    sizes = [100, 100, 100, 33, 100, 100, 100, 33, 100, 100, 100, 34]
    assert [count for _, count in first] == sizes
    expected = (lambda n: f"{UUID}:{n}") if flavour is Flavour.MYSQL else (lambda n: f"7-9-{n}")
    assert [gtid for gtid, _ in first] == [expected(n) for n in range(1, 13)]
    assert len(files(log)) > 2
    assert not list((log / FOLDER).glob("*/*"))
    before = files(log)
    save(orders.where("id < 5").selectExpr("id + 1000 id", "note", "total"), log, **options)
    assert files(log)[: len(before)] == before
    assert len(files(log)) == len(before) + 1
    assert transactions(log)[12:] == [[expected(13), 5]]
    assert [row["id"] for _, _, row in read(log)] == list(range(1005))


def test_operations(spark, orders, tmp_path):
    rows = spark.createDataFrame(
        [
            (1, "a", None, "insert"),
            (2, "b", None, "snapshot"),
            (1, "c", None, "update"),
            (2, None, None, "delete"),
            (3, None, None, "insert"),
        ],
        "id int, note string, total decimal(10,2), _op string",
    ).coalesce(1)
    save(rows, tmp_path / "log", create=CREATE)
    found = [
        (kind, (old or row)["id"], (row or {}).get("note"))
        for kind, old, row in read(tmp_path / "log")
    ]
    assert found == [
        ("insert", 1, "a"),
        ("insert", 2, "b"),
        ("update", 1, "c"),
        ("delete", 2, None),
        ("insert", 3, None),
    ]
    assert len(transactions(tmp_path / "log")) == 1


PAYMENTS = """CREATE TABLE shop.payments (
  order_id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
  method ENUM('card','transfer','voucher') NOT NULL,
  amount DECIMAL(12,2) NOT NULL,
  fee DOUBLE NOT NULL,
  paid_at DATETIME(3) NOT NULL,
  receipt VARBINARY(32) NULL
)"""


def test_a_log_through_a_dataframe(spark, orders, tmp_path):
    source = ROOT / "examples" / "shop" / "mysql"
    changes = spark.read.format("binlog").option("tables", "shop.payments").option("images", "both")
    frame = changes.load(str(source))
    save(frame, tmp_path / "log", create=PAYMENTS, transactionRows=77)
    wanted = [
        (row["_op"], row["before"], row["after"])
        for batch in tailrace.changes(source, tables=["shop.payments"])
        for row in batch.select(["_op", "before", "after"]).to_pylist()
    ]
    assert len(wanted) == 322
    assert read(tmp_path / "log") == wanted


def test_nothing_is_lost_in_silence(spark, orders, tmp_path):
    rows = spark.createDataFrame(
        [(1, "a", None, {"after.note": "x"})],
        "id int, note string, total decimal(10,2), _raw map<string,string>",
    )
    with pytest.raises(PySparkException, match="row 1 of the partition has a value that its typed"):
        save(rows, tmp_path / "log", create=CREATE)
    rows = spark.createDataFrame(
        [(1, "a", None, "replace")], "id int, note string, total decimal(10,2), _op string"
    )
    with pytest.raises(PySparkException, match="_op is 'replace'"):
        save(rows, tmp_path / "log", create=CREATE)
    with pytest.raises(PySparkException, match=r"shop.orders.note, row 500"):
        save(
            orders.selectExpr("id", "repeat(note, if(id < 500, 1, 20)) note", "total").coalesce(1),
            tmp_path / "log",
            create=CREATE,
        )
    assert list((tmp_path / "log").iterdir()) == [tmp_path / "log" / FOLDER]
    assert [each.name for each in (tmp_path / "log" / FOLDER).iterdir()] in ([], ["lock"])


WRONG = (
    ({}, "say what the table is"),
    ({"create": CREATE, "colour": "red"}, "no option 'colour'"),
    ({"create": CREATE, "table": "shop.other"}, "option create makes shop.orders"),
    ({"create": CREATE, "domain": "1"}, "domain is of MariaDB"),
    ({"create": CREATE, "flavour": "mariadb", "uuid": UUID}, "uuid is of MySQL"),
    ({"create": CREATE, "transactionRows": "0"}, "transactionRows is a number from 1"),
    ({"create": CREATE, "name": "a/b"}, "base name"),
    ({"create": "CREATE TABLE shop.orders (id INT PRIMARY KEY)"}, "no column 'note'"),
    ({"create": CREATE.replace(")", ", more INT)", 1)}, "expected"),
    ({"create": CREATE.replace("note", "more INT, note")}, "'more' of shop.orders is missing"),
)


def test_options_that_do_not_fit(orders, tmp_path):
    for options, message in WRONG:
        given = {"path": str(tmp_path / "log"), **options}
        with pytest.raises((UsageError, tailrace.errors.SchemaError), match=message):
            BinlogWriter(given, orders.schema, overwrite=False)
        with pytest.raises(UsageError, match="not overwritten"):
            BinlogWriter(given, orders.schema, overwrite=True)
    assert not (tmp_path / "log").exists()


def made(tmp_path, rows, **options):
    """A writer, and the part that a task of it would have written."""
    given = {"path": str(tmp_path), "create": CREATE, **options}
    made = BinlogWriter(given, rows.schema, overwrite=False)
    path = made._log.job(made._job) / "part-000000-0"
    return made, Part(0, str(path), write_rows(made._log, rows.toArrow().to_batches(), path))


def test_killed_before_the_index_names_the_files(orders, tmp_path, monkeypatch):
    one, part = made(tmp_path, orders)
    whole = LocalFolder.replace

    def die(folder, name, content):
        if folder.folder == tmp_path:
            raise KeyboardInterrupt
        whole(folder, name, content)

    monkeypatch.setattr(LocalFolder, "replace", die)
    with pytest.raises(KeyboardInterrupt):
        assemble(one._log, one._job, [part])
    monkeypatch.undo()
    assert (tmp_path / "binlog.000001").is_file()
    assert not (tmp_path / "binlog.index").exists()
    two, part = made(tmp_path, orders.limit(3))
    assert assemble(two._log, two._job, [part]) == ["binlog.000001"]
    assert len(read(tmp_path)) == 3
    assert files(tmp_path) == ["binlog.000001"]


def test_aborted(orders, tmp_path):
    one, _ = made(tmp_path, orders)
    one.abort([])
    assert not list(tmp_path.glob("binlog*"))
    assert not (tmp_path / FOLDER / one._job).exists()


def test_a_log_that_is_open_is_left_alone(orders, tmp_path):
    with tailrace.create(tmp_path / "binlog.000001", flavour="mysql", server_id=1) as log:
        one, part = made(tmp_path, orders)
        with pytest.raises(StorageError, match="still being written"):
            assemble(one._log, one._job, [part])
        assert log.files == ["binlog.000001"]
    assert assemble(one._log, one._job, [part]) == ["binlog.000002"]
    two, part = made(tmp_path, orders, flavour="mariadb")
    with pytest.raises(StorageError, match="log of mysql"):
        assemble(two._log, two._job, [part])


# --- real servers ----------------------------------------------------------------------------------

OPTIONS = {"mysql": ["--gtid-mode=ON_PERMISSIVE", "--enforce-gtid-consistency=ON"], "mariadb": []}


TYPES = """CREATE TABLE written.t (
    id BIGINT UNSIGNED PRIMARY KEY, a TINYINT, b SMALLINT UNSIGNED, c DOUBLE, d FLOAT,
    e DECIMAL(20,6), f DATE, g DATETIME(6), h TIMESTAMP(3) NULL, i TIME(2), j VARCHAR(30),
    k TEXT CHARACTER SET latin1, l VARBINARY(20), m BLOB, n ENUM('x','y'), o SET('p','q'),
    p BIT(9), q YEAR, r JSON
) DEFAULT CHARACTER SET utf8mb4"""
FRAME = """
    cast(id as decimal(20,0)) * 1000000007 id, cast(id % 100 as byte) a, cast(id as int) b,
    id / 7 c, cast(id / 3 as float) d, cast(id / 9 as decimal(20,6)) e,
    date_add(date'2000-01-01', cast(id as int)) f,
    cast(timestamp_ntz'2020-02-03 04:05:06.123456' + make_dt_interval(0, 0, id) as timestamp_ntz) g,
    timestamp'2020-02-03 04:05:06.123Z' h, make_dt_interval(0, id % 800, 1, 2.25) i,
    concat('ü', id) j, concat('é', id) k, cast(concat('b', id) as binary) l,
    if(id % 5 = 0, null, cast(repeat('x', cast(id % 300 as int)) as binary)) m,
    if(id % 2 = 0, 'x', 'y') n, if(id % 3 = 0, 'p,q', '') o, id % 512 p,
    cast(1901 + id % 200 as smallint) q, concat('{"n": [', id, ', true]}') r
"""


@pytest.mark.parametrize("name", FLAVOURS)
def test_servers_take_it(spark, fresh_server, tmp_path, name):
    """By the flavour's own tool; a replica takes what `tests/written` writes."""
    server = fresh_server(name, OPTIONS[name.partition("-")[0]])
    rows = spark.sql(f"SELECT {FRAME} FROM range(0, 3000, 1, 4)")
    options = {
        "create": TYPES,
        "flavour": server.flavour,
        "server_id": 33,
        **({"uuid": UUID} if server.flavour == "mysql" else {"domain": 5}),
    }
    log = tmp_path / "log"
    save(rows, log, ddl="true", transactionRows=500, fileSize=100_000, **options)
    changed = rows.where("a < 10").selectExpr(
        *[name for name in rows.columns if name != "j"],
        "concat(j, '!') j",
        "if(a < 5, 'delete', 'update') _op",
    )
    save(changed.coalesce(1), log, **options)
    paths = [log / name for name in files(log)]
    assert len(paths) > 3
    wanted = rows.where("a >= 5").withColumn("j", expr("concat(j, if(a < 10, '!', ''))")).toArrow()
    wanted = wanted.append_column(
        "_raw", pa.nulls(wanted.num_rows, pa.map_(pa.string(), pa.string()))
    )
    assert wanted.num_rows == 2850
    by_tool(server, paths)
    assert differences(wanted, dump_databases(server, "written")["written.t"]) == []
