"""Keys that a user gave, on real servers and where they are wrong; and tables without any."""

from itertools import product

import pyarrow as pa

import tailrace.spark.state.current.plan as planning
from tailrace.spark.state.current.keys import buckets, dense
from tailrace.spark.state.current.patching import Patches
from tests.spark.history.making import Histories
from tests.spark.replay import batches, differences, rows_of, tell
from tools.dumps import dump_databases

DATABASE = "given"
NAME = f"{DATABASE}.t"
PATCHES = Patches(least=0, share=1, together=2)


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
        built = batches(logs, tmp_path / str(bucket_bytes), keys=keys)[NAME]
        assert built.rows.key == ("a", "b")
        assert built.rows.refused is None
        assert differences(rows_of(built), wanted) == []
        assert built.rows.unseen == 0
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
        built = batches(logs, folder / "one", keys=keys, every=every)[NAME]
        assert built.rows.refused == reason
        made = Histories(folder / "history", keys).take_log(logs, sizes=[1] if every else None)
        assert made.built[NAME].rows.refused == reason


def test_a_given_key_that_two_batches_break(mysql97, tmp_path):
    values = ", ".join(f"({number})" for number in range(20))
    story = (
        f"CREATE TABLE t (a INT); INSERT INTO t VALUES {values}; COMMIT; INSERT INTO t VALUES (5)"
    )
    logs = tell(mysql97, DATABASE, story, tmp_path / "logs")
    reason = "the key given for it is not unique: two rows had a = 5"
    for patches in (None, PATCHES):
        built = batches(logs, tmp_path / str(patches), keys={NAME: ("a",)}, patches=patches)[NAME]
        assert built.rows.refused == reason
    made = Histories(tmp_path / "history", {NAME: ("a",)}).take_log(logs, sizes=[1])
    assert made.built[NAME].rows.refused == reason


def test_a_key_with_zero_dates_stays_in_its_bucket(mysql97, tmp_path, monkeypatch):
    mysql97.execute("SET SESSION sql_mode = ''")
    days = ", ".join(f"('2020-01-{n % 19 + 1:02}', {n // 19 + 1}, 'a')" for n in range(76))
    story = f"""CREATE TABLE t (d DATE, n INT, v VARCHAR(9), PRIMARY KEY (d, n));
        INSERT INTO t VALUES {days}; COMMIT;
        INSERT INTO t VALUES ('0000-00-00', 1, 'b'), ('2021-00-01', 1, 'c'), ('2020-00-00', 1, 'd');
        COMMIT; UPDATE t SET v = 'e' WHERE d IN ('0000-00-00', '2020-01-02', '2021-00-01'); COMMIT;
        DELETE FROM t WHERE d = '2020-00-00'; UPDATE t SET v = 'f' WHERE d = '2021-00-01'; COMMIT;
        DELETE FROM t WHERE d BETWEEN '2020-01-05' AND '2020-01-11' AND n = 1; COMMIT;
        DELETE FROM t WHERE d IN ('0000-00-00', '2020-01-03')"""
    logs = tell(mysql97, DATABASE, story, tmp_path / "logs")
    mysql97.execute("SET SESSION sql_mode = DEFAULT")
    wanted = dump_databases(mysql97, DATABASE)[NAME]
    for bucket_bytes, patches in ((16, None), (1 << 27, PATCHES)):
        monkeypatch.setattr(planning, "BUCKET_BYTES", bucket_bytes)
        built = batches(logs, tmp_path / str(bucket_bytes), patches=patches)[NAME]
        assert len(built.paths) > 1
        assert differences(rows_of(built), wanted) == []
        assert built.rows.unseen == 0
        assert any(file.deleted for file in built.rows.data) == bool(patches)


DAYS = pa.array([1, None, 2, None, 1], pa.date32())


TEXTS = pa.array([None, "0000-00-00", None, "2026-00-01", None])


def test_nulls_in_several_chunks_are_numbered():
    """As a base and the changes upon it come: in chunks of their own."""
    days = pa.chunked_array([DAYS[:2], DAYS[2:]])
    texts = pa.chunked_array([TEXTS[:2], TEXTS[2:]])
    numbers, count = dense([days, texts])
    assert (
        numbers.tolist() == dense([pa.chunked_array([DAYS]), pa.chunked_array([TEXTS])])[0].tolist()
    )
    assert len(set(numbers.tolist())) == 4
    assert numbers[0] == numbers[4]
    assert count >= 4


def test_a_column_of_texts_without_texts_changes_no_bucket():
    """Only some files have one beside a key's column."""
    days = pa.chunked_array([pa.array(range(1000), pa.date32())])
    nulls = pa.chunked_array([pa.nulls(1000, pa.string())])
    assert buckets([days, nulls], 16).tolist() == buckets([days], 16).tolist()
    assert len(set(buckets([days], 16).tolist())) == 16


EQUAL_TEXTS = {"e": "ENUM('','a')", "s": "SET('','a')", "m": "ENUM('b','a')"}


def test_a_key_whose_values_look_alike_is_refused(server, tmp_path):
    """The server has two rows, whose keys it shows as ''. A key without that member stays."""
    story = "; ".join(
        f"CREATE TABLE {name} (id INT, k {kind}, PRIMARY KEY (k));"
        f" INSERT INTO {name} VALUES (1, 1); INSERT IGNORE INTO {name} VALUES (2, 0)"
        for name, kind in EQUAL_TEXTS.items()
    )
    logs = tell(server, DATABASE, story, tmp_path / "logs")
    wanted = dump_databases(server, DATABASE)
    for every in (True, False):
        built = batches(logs, tmp_path / str(every), every=every)
        made = Histories(tmp_path / f"history {every}").take_log(logs, sizes=[1] if every else None)
        for name in EQUAL_TEXTS:
            full = f"{DATABASE}.{name}"
            assert len(wanted[full]["rows"]) == 2
            refused = {built[full].rows.refused, made.built[full].rows.refused}
            if name == "m":
                assert refused == {None}
                assert differences(rows_of(built[full]), wanted[full]) == []
            else:
                assert all("its key column k is " in each for each in refused)
