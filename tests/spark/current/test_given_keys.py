"""Keys that a user gave, on real servers and where they are wrong; and tables without any."""

from __future__ import annotations

from itertools import product

import tailrace.spark.current.plan as planning
from tailrace.columns import plan_splits
from tailrace.spark.current.build import SourceChanges, build
from tailrace.storage import find
from tests.spark.history.making import Histories
from tests.spark.replay import change_files, differences, rows_of, run, tell
from tools.dumps import dump_databases

DATABASE = "given"
NAME = f"{DATABASE}.t"


def batches(source, folder, keys=None, shard=None, every=True, patches=None):
    """Current states of a log in batches, one a split; all splits together unless ``every``.

    With ``patches`` changes may be put beside files.
    """
    (series,) = find(source)
    splits = plan_splits(series, **({"target_bytes": 1} if every else {}))
    built = {}
    for number, some in enumerate([[each] for each in splits] if every else [splits]):
        place = folder / str(number)
        place.mkdir(parents=True)
        files = change_files(some, place / "changelog")
        committed = {name: (each.current, each.paths) for name, each in built.items()}
        changes = SourceChanges(some, files, committed, shard=shard)
        built = build([changes], lambda _name: True, run, place, keys or {}, patches)
    return built


CHANGES = """
    CREATE TABLE t (a INT, b VARCHAR(9), c INT);
    INSERT INTO t VALUES (1, 'x', 1), (1, 'y', 2), (2, 'x', 3);
    UPDATE t SET c = c + 10 WHERE a = 1;
    UPDATE t SET a = 7 WHERE a = 2;
    DELETE FROM t WHERE b = 'y';
    INSERT INTO t VALUES (2, 'x', 5), (1, 'y', 6)
"""


def test_a_key_given_for_a_table_without_one(server, tmp_path, monkeypatch):
    logs = tell(server, DATABASE, CHANGES, tmp_path / "logs")
    wanted = dump_databases(server, DATABASE)[NAME] | {"key": ["a", "b"]}
    keys = {NAME: ("A", "b")}
    for bucket_bytes in (1 << 27, 64):
        monkeypatch.setattr(planning, "BUCKET_BYTES", bucket_bytes)
        built = batches(logs, tmp_path / str(bucket_bytes), keys)[NAME]
        assert built.current.key == ("a", "b")
        assert built.current.refused is None
        assert differences(rows_of(built), wanted) == []
        assert built.current.unseen == 0
    made = Histories(tmp_path / "history", keys).take_log(logs, sizes=[1])
    open_ones = [row for row in made.versions(NAME).to_pylist() if row["_is_current"]]
    assert {(row["a"], row["b"], row["c"]) for row in open_ones} == {
        (int(a), b, int(c)) for a, b, c in wanted["rows"]
    }
    assert len(made.versions(NAME)) == 8


WRONG = {
    None: "it has no primary key",
    ("a", "nothing"): "the key given for it has nothing, and its columns are a, b, c",
    ("a",): "the key given for it is not unique: two rows had a = 1",
}


def test_no_key_or_a_wrong_one_is_refused(mysql97, tmp_path):
    logs = tell(mysql97, DATABASE, CHANGES, tmp_path / "logs")
    for (key, reason), every in product(WRONG.items(), (True, False)):
        folder, keys = tmp_path / f"{key} {every}", {} if key is None else {NAME: key}
        built = batches(logs, folder / "one", keys, every=every)[NAME]
        assert built.current.refused == reason
        made = Histories(folder / "history", keys).take_log(logs, sizes=[1] if every else None)
        assert made.built[NAME].history.refused == reason


def test_a_given_key_that_two_batches_break(mysql97, tmp_path):
    story = "CREATE TABLE t (a INT); INSERT INTO t VALUES (5); COMMIT; INSERT INTO t VALUES (5)"
    logs = tell(mysql97, DATABASE, story, tmp_path / "logs")
    reason = "the key given for it is not unique: two rows had a = 5"
    built = batches(logs, tmp_path / "one", {NAME: ("a",)})[NAME]
    assert built.current.refused == reason
    made = Histories(tmp_path / "history", {NAME: ("a",)}).take_log(logs, sizes=[1])
    assert made.built[NAME].history.refused == reason


def test_a_key_with_zero_dates_stays_in_its_bucket(mysql97, tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "BUCKET_BYTES", 16)
    mysql97.execute("SET SESSION sql_mode = ''")
    days = ", ".join(f"('2020-01-{day:02}', 1)" for day in range(1, 20))
    story = f"""CREATE TABLE t (d DATE, n INT, PRIMARY KEY (d, n)); INSERT INTO t VALUES {days};
        COMMIT; INSERT INTO t VALUES ('0000-00-00', 1), ('2021-00-01', 1); COMMIT;
        DELETE FROM t WHERE d BETWEEN '2020-01-05' AND '2020-01-11'; COMMIT;
        DELETE FROM t WHERE d IN ('0000-00-00', '2020-01-03')"""
    logs = tell(mysql97, DATABASE, story, tmp_path / "logs")
    mysql97.execute("SET SESSION sql_mode = DEFAULT")
    built = batches(logs, tmp_path / "one")[NAME]
    assert len(built.paths) > 1
    assert differences(rows_of(built), dump_databases(mysql97, DATABASE)[NAME]) == []


def test_rows_of_a_shard(mysql97, tmp_path):
    story = "CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)"
    logs = tell(mysql97, DATABASE, story, tmp_path / "logs")
    built = batches(logs, tmp_path / "one", shard="west")[NAME]
    rows = rows_of(built)
    assert rows.schema.names == ["a", "_source", "_ts", "_seq", "_raw"]
    assert rows.column("_source").to_pylist() == ["west", "west"]
