"""``--exclude`` and `changes(exclude=)`: a way around a table that cannot be decoded."""

import json
from collections import Counter

import pytest

import tailrace
from tailrace.errors import LogError, UsageError
from tailrace.table_filter import TableFilter
from tests.cases import each_case
from tests.cli.damaged import BAD, counted, damaged, sound


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    return damaged(tmp_path_factory.mktemp("bad") / "mariadb")


@pytest.fixture(scope="module")
def others():
    return sound()


@each_case(
    "how",
    [("--as", "json"), ("--as", "text"), ("--as", "sql"), ("--as", "undo")],
)
def test_log(run, logs, others, how):
    how = (*how, "--statements", "skip")
    ran = run("log", *how, logs)
    assert ran.status == 2
    assert "_ROWS" in ran.err, "a rows event is what cannot be decoded"
    ran = run("log", *how, "--exclude", "none.*,stock", logs)
    assert ran.status == 0, ran.err
    if "json" in how:
        assert Counter(f"{r['_db']}.{r['_table']}" for r in map(json.loads, ran.lines)) == others
    else:
        assert "movements" in ran.out
        assert "stock" not in "".join(line for line in ran.lines if not line.startswith("--"))


def test_log_raw(run, logs, others, tmp_path):
    into = tmp_path / "cut.000001"
    ran = run("log", "--as", "raw", "--into", into, "--exclude", "stock", logs)
    assert ran.status == 0, ran.err
    assert counted(tailrace.changes(into)) == others


def test_the_names_are_the_new_ones(run, logs, others):
    names = ("--rewrite-db", "warehouse=w")
    ran = run("log", "--as", "json", *names, "--exclude", "w.stock", logs)
    assert ran.status == 0, ran.err
    assert Counter(json.loads(line)["_table"] for line in ran.lines) == {
        name.removeprefix("warehouse."): count for name, count in others.items()
    }
    assert run("log", "--as", "json", *names, "--exclude", BAD, logs).status == 2


def test_exclude_wins_over_tables(run, logs):
    ran = run("log", "--as", "json", "--tables", "warehouse.*", "--exclude", "st?ck", "--exclude", "movements", logs)  # fmt: skip
    assert ran.status == 0, ran.err
    assert {json.loads(line)["_table"] for line in ran.lines} == {"deliveries", "suppliers"}
    assert run("log", "--exclude", "a,,b", logs).err == "tailrace: exclude: a pattern is empty\n"
    assert run("check", "--exclude", "a", logs).status == 2


def test_stat(run, shop):
    ran = run("stat", "--as", "json", "--exclude", "stock", shop / "mariadb")
    assert set(json.loads(ran.out)["tables"]) == {
        "warehouse.deliveries",
        "warehouse.movements",
        "warehouse.suppliers",
    }


def test_changes(logs, others):
    with pytest.raises(LogError):
        counted(tailrace.changes(logs))
    assert counted(tailrace.changes(logs, exclude=[BAD])) == others
    one = counted(tailrace.changes(logs, tables="warehouse.*", exclude="stock"))
    assert one == others, "a text is one pattern"
    assert set(counted(tailrace.changes(logs, tables="*movements"))) == {"warehouse.movements"}


@each_case("pattern", ["", ["shop.*", " "], 5, [5], b"shop.*"])
def test_what_is_no_pattern(pattern):
    """An empty one excluded nothing in silence, and the others ended in a TypeError."""
    with pytest.raises(UsageError, match="exclude: a pattern is"):
        TableFilter.of(exclude=pattern)
