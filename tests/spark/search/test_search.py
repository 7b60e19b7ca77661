"""The reference application of WL#3283 on Spark: shards that tasks make equal one process's index."""

import subprocess
import sys
import threading

import pytest

from tailrace.errors import StorageError, UsageError
from tailrace.search import Index, Manifest, index
from tailrace.spark.input import growing_log
from tailrace.spark.search import build
from tailrace.spark.search import index as on_spark
from tests.spark.following import url_of
from tests.spark.search.shop import Following, begin, change, hits_of, rows_of
from tests.spark.streaming import kill
from tests.waiting import wait_for

SHARDS = 3


@pytest.fixture
def shop(fresh_server, request):
    """A fresh server that had rows before anything reads its log."""
    name = getattr(request, "param", "mysql-9.7")
    made = fresh_server(name, ["--binlog-row-metadata=FULL"])
    begin(made)
    made.execute("CREATE TABLE shop.loose (name VARCHAR(99), about JSON)")
    for _ in range(3):
        made.execute("""INSERT INTO shop.loose VALUES ('red car', '{"colour": "blue"}')""")
    return made


CHANGES = [
    "BEGIN",
    "UPDATE shop.things SET name = 'blue bus' WHERE id % 5 = 0",
    "DELETE FROM shop.things WHERE id % 7 = 3",
    "UPDATE shop.things SET id = id + 1000 WHERE id % 3 = 0",
    "DELETE FROM shop.loose LIMIT 1",
    "INSERT INTO shop.loose SELECT * FROM shop.loose",
    "COMMIT",
    "BEGIN",
    "INSERT INTO shop.things VALUES (5000, 'red ghost', '')",
    "ROLLBACK",
    "ALTER TABLE shop.things DROP COLUMN more",
    "CREATE TABLE shop.gone (id INT PRIMARY KEY, name TEXT)",
    "INSERT INTO shop.gone VALUES (1, 'red herring')",
    "RENAME TABLE shop.gone TO shop.kept",
    "CREATE TABLE shop.emptied (id INT PRIMARY KEY, name TEXT)",
    "INSERT INTO shop.emptied VALUES (1, 'red rag')",
    "TRUNCATE TABLE shop.emptied",
    "INSERT INTO shop.emptied VALUES (2, 'blue rag')",
]
"""Updates, deletes, changed keys, rows without a key, rollbacks and statements."""


def check_equal(into, one):
    """An index in shards has the rows and the hits of one that one process has made."""
    rows, hits = rows_of(one), hits_of(one)
    assert rows_of(into) == rows
    assert hits_of(into) == hits
    assert any(total for total, *_ in hits.values())
    assert len({str(state.position) for state in Index(into).states}) == 1


@pytest.mark.parametrize("shop", ["mysql-9.7", "mariadb-11.8"], indirect=True)
def test_an_index_on_spark_equals_that_of_one_process(spark, shop, tmp_path):
    """Rows from before, live changes and statements; when it is continued, nothing is double."""
    url, into, one = url_of(shop), tmp_path / "index", tmp_path / "one"
    index(url, one, tables="shop.*")  # both have the same rows by SELECT, and the same by the log
    with Following(url, into, shards=SHARDS, tables="shop.*", spark=spark) as following:
        following.wait_for((into / "index.json").exists)
        assert sum(hit.copies for hit in Index(into).rows("shop.loose")) == 3
        change(shop, CHANGES)
        reader = Index(into)
        following.wait_for(lambda: reader.refresh().search("+blue +rag").total)
    assert Index(into).search("herring").tables == {"shop.kept": 1}
    assert not Index(into).search("ghost").total
    index(url, one, tables="shop.*")
    check_equal(into, one)
    assert len(Manifest.load(into).shards) == SHARDS

    shop.execute("INSERT INTO shop.things (id, name) VALUES (7000, 'red again')")
    on_spark(url, into, shards=SHARDS, tables="shop.*", spark=spark)
    on_spark(url, into, shards=SHARDS, tables="shop.*", spark=spark)
    index(url, one, tables="shop.*")
    check_equal(into, one)
    with pytest.raises(UsageError, match="3 shards"):
        index(url, into, tables="shop.*")
    with pytest.raises(UsageError, match="other tables"):
        on_spark(url, into, tables="shop.things", spark=spark)


def test_a_batch_that_failed_after_it_was_published_changes_nothing_again(spark, tmp_path):
    """The next call begins after it: its position is the shards' already."""

    def fail(_done):
        raise OSError("after it was published")

    logs, into = "examples/shop/mysql", tmp_path / "index"
    with pytest.raises(OSError, match="after it"):
        on_spark(logs, into, shards=SHARDS, tables="shop.*", spark=spark, on_progress=fail)
    made = Manifest.load(into).shards
    on_spark(logs, into, shards=SHARDS, tables="shop.*", spark=spark)
    assert Manifest.load(into).shards == made
    index(logs, tmp_path / "one", tables="shop.*")
    assert rows_of(into) == rows_of(tmp_path / "one")


def test_an_index_follows_one_log(spark, tmp_path):
    with pytest.raises(UsageError, match="several logs"):
        on_spark("examples/shop", tmp_path / "index", tables="shop.*", spark=spark)


@pytest.mark.parametrize(
    ("shop", "of"), [("mysql-9.7", "server"), ("mariadb-11.8", "files")], indirect=["shop"]
)
def test_an_xa_transaction_may_be_prepared_in_one_batch_and_end_in_another(
    spark, shop, of, tmp_path, monkeypatch
):
    """What waits for its commit is read again; nothing is found before, or twice, or lost."""
    monkeypatch.setattr(build, "_BATCH_BYTES", 1)  # a transaction in each batch
    log = url_of(shop) if of == "server" else str(shop.binlogs()[0].parent)
    into, one, seen = tmp_path / "index", tmp_path / "one", []
    on_spark(log, into, shards=2, tables="shop.*", spark=spark)
    with shop.connect(autocommit=True) as other, other.cursor() as cursor:
        for number, end in enumerate(["COMMIT", "ROLLBACK"], 7000):
            cursor.execute("XA START 'x'")
            cursor.execute(f"INSERT INTO shop.things VALUES ({number}, 'waiting {end}', '')")
            cursor.execute("INSERT INTO shop.loose VALUES ('waiting', NULL)")
            cursor.execute("XA END 'x'")
            cursor.execute("XA PREPARE 'x'")
            shop.execute(f"INSERT INTO shop.things VALUES ({number + 10}, 'meanwhile', '')")
            cursor.execute(f"XA {end} 'x'")
    shop.execute("INSERT INTO shop.things VALUES (7020, 'last', '')")

    def progress(_done):
        opened = Index(into)
        seen.append(tuple(opened.search(each).total for each in ("meanwhile", "waiting", "last")))

    with Following(
        log, into, shards=2, tables="shop.*", spark=spark, on_progress=progress
    ) as following:
        following.wait_for(lambda: Index(into).search("last").total)
    assert {(1, 0, 0), (1, 2, 0), (2, 2, 0), (2, 2, 1)} <= {*seen}
    index(log, one, tables="shop.*")
    check_equal(into, one)


def test_a_backlog_is_published_batch_by_batch_and_a_signal_ends_it(spark, tmp_path, monkeypatch):
    """Without ``follow``, too: a kill loses one batch at most. WL#3283, "Motivation"."""
    monkeypatch.setattr(build, "_BATCH_BYTES", 9_000)
    logs, into, heads, stop = "examples/shop/mysql", tmp_path / "index", [], threading.Event()

    def progress(_done):
        heads.append(Manifest.load(into).shards)
        if len(heads) == 2:
            stop.set()

    options = {"shards": 1, "tables": "shop.*", "spark": spark}
    on_spark(logs, into, stop=stop, on_progress=progress, **options)
    index(logs, tmp_path / "one", tables="shop.*")
    one = rows_of(tmp_path / "one")
    assert Index(into).states[0].position < Index(tmp_path / "one").states[0].position
    on_spark(logs, into, on_progress=progress, **options)
    assert len({*heads}) == len(heads) > 3
    assert rows_of(into) == one


def test_what_a_server_has_by_now_is_not_copied_whole_first(spark, shop, tmp_path, monkeypatch):
    """The copy keeps to its limit, ``stop`` ends the call, and the next one comes to the end."""
    url, into, one = url_of(shop), tmp_path / "index", tmp_path / "one"
    options = {"shards": 2, "tables": "shop.*", "spark": spark}
    on_spark(url, into, **options)
    for number in range(8):
        shop.execute(f"INSERT INTO shop.things VALUES ({7000 + number}, 'big', '{'x' * 50_000}')")
        shop.rotate()
    monkeypatch.setattr(build, "_BATCH_BYTES", 1)
    monkeypatch.setattr(growing_log, "SPOOL_LIMIT", 100_000)
    sizes, stop = [], threading.Event()

    def progress(_done):
        sizes.append(sum(path.stat().st_size for path in (into / "work/log").glob("binlog.0*")))
        stop.set()

    on_spark(url, into, stop=stop, on_progress=progress, **options)
    assert Index(into).search("big").total == len(sizes) == 1
    on_spark(url, into, on_progress=progress, **options)
    assert 8 <= len(sizes) < 20
    assert 0 < max(sizes) < 250_000
    index(url, one, tables="shop.*")
    check_equal(into, one)


def test_a_driver_that_is_killed_loses_and_doubles_nothing(spark, shop, tmp_path):
    """SIGKILL in the middle of batches; readers saw whole transactions all the time."""
    url, into, one = url_of(shop), tmp_path / "index", tmp_path / "one"
    index(url, one, tables="shop.*")
    command = [sys.executable, "-m", "tailrace", "index", url, "--tables", "shop.*"]
    command += ["--into", str(into), "--shards", "2", "--follow"]
    stop = threading.Event()

    def write():
        number = 10_000
        while not stop.wait(0.5):
            shop.execute("BEGIN")
            # two rows in each transaction, and one more of those without a key
            for each in (number, number + 1):
                shop.execute(f"INSERT INTO shop.things VALUES ({each}, 'pair {number}', '')")
            shop.execute("INSERT INTO shop.loose VALUES ('same', NULL)")
            shop.execute("COMMIT")
            number += 2

    def position():
        if not (into / "index.json").exists():
            return None
        opened = Index(into)
        assert opened.search("pair", limit=1).total % 2 == 0
        positions = {state.position for state in opened.states}
        assert len(positions) == 1
        return positions.pop()

    writer = threading.Thread(target=write)
    driver = subprocess.Popen(command)
    try:
        wait_for((into / "index.json").exists)
        writer.start()
        before = position()
        wait_for(lambda: position() != before, every=0.1)
        versions = {path.name for path in (into / "shards").iterdir()}
        wait_for(lambda: {path.name for path in (into / "shards").iterdir()} != versions)
    finally:
        kill(driver)
        stop.set()
    writer.join()
    on_spark(url, into, shards=2, tables="shop.*", spark=spark)
    index(url, one, tables="shop.*")
    check_equal(into, one)
    assert len(list((into / "shards").iterdir())) <= 2 * 2
    left = list((into / "work").glob("run/*"))
    assert not left, "what killed drivers left is gone"


def test_an_index_in_an_object_store(spark, bucket, shop, tmp_path, monkeypatch):
    """Its shards are objects; a reader copies them, and another driver has only these objects."""
    monkeypatch.setenv("TAILRACE_CACHE", str(tmp_path / "cache"))
    url, into, one = url_of(shop), f"{bucket.url}/text/index", tmp_path / "one"
    with pytest.raises(StorageError, match=r"bucket.*there is no index"):
        Index(into)
    on_spark(url, into, shards=2, tables="shop.*", spark=spark)
    before = Index(into)
    change(shop, CHANGES)
    on_spark(url, into, shards=2, tables="shop.*", spark=spark)
    shop.execute("INSERT INTO shop.things (id, name) VALUES (7000, 'red again')")
    on_spark(url, into, shards=2, tables="shop.*", spark=spark)
    index(url, one, tables="shop.*")
    check_equal(into, one)
    assert before.refresh().search("again").total == 1
    heads = [name for name in bucket.names("text/index") if name.startswith("index.json.")]
    assert len(heads) == 2
