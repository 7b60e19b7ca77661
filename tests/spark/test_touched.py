"""A batch is about the tables that its rows and statements name, and looks at no others."""

import math
import shutil

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import tailrace
from tailrace.spark import mirror
from tailrace.spark.lake.lake import Lake
from tailrace.spark.mirror import batches
from tailrace.spark.state.current import plan
from tests.spark.following import Follow, caught_up

CREATE = "CREATE TABLE {} (id INT PRIMARY KEY, n INT NOT NULL)"
NAMES = ["bench.t0", "bench.t1", "other.t2"]


def made(folder):
    """A log of three tables: with a first file, and one for each batch after it."""
    tables = [tailrace.Table.parse(CREATE.format(name), flavour="mysql") for name in NAMES]
    with tailrace.create(
        folder / "binlog.000001", flavour="mysql", server_id=1, sync="none"
    ) as log:

        def statement(sql):
            with log.transaction() as trx:
                trx.query(sql, database="bench")

        for name, table in zip(NAMES, tables, strict=True):
            statement(CREATE.format(name))
            with log.transaction() as trx:
                trx.insert(table, [(1, 0), (2, 0)])
        log.rotate()
        with log.transaction() as trx:
            trx.update(tables[1], before=[(1, 0)], after=[(1, 1)])
            trx.insert(tables[1], [(3, 0)])
        log.rotate()
        statement("RENAME TABLE bench.t1 TO other.t9")
        log.rotate()
        statement("DROP DATABASE other")
        log.rotate()
        with log.transaction() as trx:
            trx.insert(tables[0], [(3, 0)])
    return sorted(folder.glob("binlog.0*"))


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_touched(kind, tmp_path, monkeypatch):
    planned = []
    work = plan.plan_table

    def noted(life, *given, **named):
        planned.append(life.segments[-1].table)
        return work(life, *given, **named)

    monkeypatch.setattr("tailrace.spark.state.current.build.plan_table", noted)
    for folder in ("made", "logs"):
        (tmp_path / folder).mkdir()
    found = []
    for file in made(tmp_path / "made"):
        (tmp_path / "logs" / file.name).hardlink_to(file)
        planned.clear()
        report = mirror(
            tmp_path / "logs", tmp_path / "lake", format=kind, keep=("changelog", "current")
        )
        assert report.set_aside == {}
        rows = {each.name: None if each.dropped else each.rows for each in report.tables}
        found.append((sorted(set(planned)), rows))
    one, two, three, four, five = found
    assert one == (NAMES, dict.fromkeys(NAMES, 2))
    assert two == (["bench.t1"], {**one[1], "bench.t1": 3})
    assert three[1] == {**one[1], "bench.t1": None, "other.t9": 3}
    assert three[0] == ["bench.t1", "other.t9"]
    assert four[1] == {"bench.t0": 2, "bench.t1": None, "other.t2": None, "other.t9": None}
    assert "bench.t0" not in four[0]
    assert five == (["bench.t0"], {**four[1], "bench.t0": 3})


def run(folder, logs, **options):
    """Batches of one log's files, or of several logs', by name: the rows that each has told."""
    found = []
    for name, file in logs:
        (folder / name).mkdir(exist_ok=True)
        (folder / name / file.name).hardlink_to(file)
        sources = sorted({folder / each for each, _ in logs if (folder / each).exists()})
        report = mirror(sources, folder / "lake", **options)
        assert report.set_aside == {}
        found.append({each.name: None if each.dropped else each.rows for each in report.tables})
    return found


def logged(folder, *files):
    """A log: each file has statements, and rows of `bench.a`."""
    folder.mkdir()
    with tailrace.create(
        folder / "binlog.000001", flavour="mysql", server_id=1, sync="none"
    ) as log:
        for number, each in enumerate(files):
            if number:
                log.rotate()
            for sql in each:
                with log.transaction() as trx:
                    if isinstance(sql, str):
                        trx.query(sql, database="bench")
                    else:
                        definition, rows = sql
                        trx.insert(tailrace.Table.parse(definition, flavour="mysql"), rows)
    return sorted(folder.glob("binlog.0*"))


A = CREATE.format("bench.a")
WIDE = "CREATE TABLE bench.a (id INT PRIMARY KEY, n INT NOT NULL, x INT)"
BEGIN = (A, (A, [(1, 0), (2, 0)]))


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_renamed_where_foreign_keys_are_carried_out(kind, tmp_path):
    files = logged(tmp_path / "made", BEGIN, ["RENAME TABLE bench.a TO bench.b"])
    logs = [("logs", file) for file in files]
    *_, last = run(tmp_path, logs, format=kind, cascades="apply", keep=("changelog", "current"))
    assert last == {"bench.a": None, "bench.b": 2}


def test_a_new_source_of_a_table_that_others_rewrote(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "_LOOK_SECONDS", math.inf)
    one, two = logged(tmp_path / "made", BEGIN, [(A, [(3, 0)])])
    run(tmp_path, [("A", one), ("A", two)], format="delta", shards=True)
    DeltaTable(tmp_path / "lake" / "bench.a").delete("id = 1")
    run(tmp_path, [("B", one)], format="delta", shards=True)
    rows = DeltaTable(tmp_path / "lake" / "bench.a").to_pyarrow_table().to_pylist()
    found = [(each["_source"], each["id"]) for each in rows]
    assert sorted(found) == [("A", 2), ("A", 3), ("B", 1), ("B", 2)]


def test_columns_of_one_source(tmp_path):
    """All sources of a table know them, whichever brought them."""
    wide = ["ALTER TABLE bench.a ADD COLUMN x INT", (WIDE, [(3, 0, 33)])]
    narrow = ["ALTER TABLE bench.a DROP COLUMN x", (A, [(4, 0)])]
    one, two, three = logged(tmp_path / "made", BEGIN, wide, narrow)
    logs = [("B", one), ("A", one), ("A", two), ("A", three)]
    run(tmp_path, logs, shards=True, keep=("changelog", "history"))
    folder = tmp_path / "lake" / "bench.a"
    changes = pq.read_schema(folder / "changelog" / "_common_metadata")
    assert changes.field("after").type.names == ["id", "n", "x"]
    assert pq.read_schema(folder / "history" / "_common_metadata").names[:3] == ["id", "n", "x"]


def test_gone(tmp_path):
    """The first batch of a run looks at all tables, for what others did to them."""
    for folder in ("made", "logs"):
        (tmp_path / folder).mkdir()
    asides = []
    for number, file in enumerate(made(tmp_path / "made")[:3]):
        (tmp_path / "logs" / file.name).hardlink_to(file)
        report = mirror(tmp_path / "logs", tmp_path / "lake", format="delta")
        asides.append(list(report.set_aside))
        if not number:
            shutil.rmtree(tmp_path / "lake" / "bench.t0")
    assert asides == [[], ["bench.t0"], ["bench.t0"]]
    assert "is gone" in report.set_aside["bench.t0"].reason


@pytest.mark.parametrize("seconds", [600, -1])
def test_looked_at(seconds, tmp_path, monkeypatch):
    """A run looks at all tables in its first batch, and again once a time has passed."""
    monkeypatch.setattr(batches, "_LOOK_SECONDS", seconds)
    looked = []
    refresh = Lake.refresh

    def noted(store, run, retried=(), keys=None):
        looked.append(keys is None)
        return refresh(store, run, retried, keys)

    monkeypatch.setattr(Lake, "refresh", noted)
    (tmp_path / "logs").mkdir()
    made(tmp_path / "logs")
    with Follow(tmp_path / "logs", tmp_path / "lake", format="delta", batch_bytes=1) as following:
        following.wait_for(lambda: caught_up(following))
    assert len(looked) > 3
    assert looked == [True, *[seconds < 0] * (len(looked) - 1)]
