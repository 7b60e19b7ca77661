"""A batch is about the tables that its rows and statements name, and looks at no others."""

import shutil

import pytest

import tailrace
from tailrace.spark import mirror
from tailrace.spark.state.current import plan

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


def test_gone(tmp_path):
    for folder in ("made", "logs"):
        (tmp_path / folder).mkdir()
    asides = []
    for number, file in enumerate(made(tmp_path / "made")):
        (tmp_path / "logs" / file.name).hardlink_to(file)
        report = mirror(tmp_path / "logs", tmp_path / "lake", format="delta")
        asides.append(list(report.set_aside))
        if not number:
            shutil.rmtree(tmp_path / "lake" / "bench.t0")
    assert asides == [[], [], [], [], ["bench.t0"]]
    assert "is gone" in report.set_aside["bench.t0"].reason
