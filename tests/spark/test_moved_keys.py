"""Keys that move to and from values that no typed column holds, in tables with several buckets."""

import datetime as dt

import pytest

import tailrace.spark.state.current.plan as planning
from tailrace.columns import plan_splits
from tailrace.spark.state.current.patching import Patches
from tailrace.storage import find
from tailrace.values.surrogates import escaped
from tests.spark.history.making import EPOCH, Histories
from tests.spark.replay import batches, change_files, check_rows, current_states, rows_of, tell

DATABASE = "moved"
TABLE = f"{DATABASE}.t"
FUTURE = (dt.datetime(2200, 1, 1, tzinfo=dt.UTC) - EPOCH) // dt.timedelta(microseconds=1)
KEYS = {
    "DATE": (
        [f"'20{year:02}-{month:02}-11'" for year in range(30) for month in range(1, 13)],
        ["'0000-00-00'", *(f"'20{year}-00-0{day}'" for year in (20, 21) for day in range(1, 5))],
    ),
    "VARCHAR(9) CHARACTER SET ucs2 COLLATE ucs2_bin": (
        [f"'text {number}'" for number in range(360)],
        [f"_ucs2 x'0041{code:X}'" for code in range(0xD83D, 0xD846)],
    ),
}
"""Of each type values that a typed column holds, and others."""


def told(plain, odd):
    """Rows that move, and are changed or deleted under their new keys, some at once."""
    first = ", ".join(f"({value}, 1, 'v')" for value in (*plain[:300], *odd[:6]))
    moves = [(odd[0], plain[301]), (plain[0], odd[6]), (odd[1], odd[7]), (odd[2], plain[302])]
    yield f"INSERT INTO t VALUES {first}"
    for old, new in moves:
        yield f"UPDATE t SET k = {new} WHERE k = {old}"
    for _, new in moves[:3]:
        yield f"UPDATE t SET a = 77 WHERE k = {new}"
    yield f"DELETE FROM t WHERE k = {moves[3][1]}"
    yield f"UPDATE t SET k = {plain[303]} WHERE k = {odd[3]}"
    yield f"UPDATE t SET k = {odd[3]} WHERE k = {plain[303]}"
    yield f"UPDATE t SET a = 78 WHERE k = {odd[3]}"
    for old, new in ((odd[4], plain[304]), (plain[1], odd[8]), (odd[5], plain[305])):
        yield "BEGIN"
        yield f"UPDATE t SET k = {new} WHERE k = {old}"
        yield f"DELETE FROM t WHERE k = {new}"
        yield "COMMIT"
    yield f"UPDATE t SET a = 79 WHERE k = {plain[2]}"


def shown(server, kind):
    """The table's rows by SELECT. A character set that has surrogates shows those of the keys."""
    rows = server.query(f"SELECT HEX(CONVERT(k USING ucs2)), a, v FROM {TABLE}")
    keys = (bytes.fromhex(key).decode("utf-16-be", "surrogatepass") for key, *_ in rows)
    return {
        "columns": ["k", "a", "v"],
        "types": [kind.lower(), "int", "text"],
        "key": ["k"],
        "rows": [[escaped(key), str(a), v] for key, (_, a, v) in zip(keys, rows, strict=True)],
    }


@pytest.mark.parametrize("image", ["FULL", "NOBLOB", "MINIMAL"])
@pytest.mark.parametrize("kind", list(KEYS), ids=["date", "text"])
def test_rows_are_found_under_their_new_keys(server, tmp_path, monkeypatch, kind, image):
    monkeypatch.setattr(planning, "BUCKET_BYTES", 1024)
    columns = f"k {kind}, a INT, v TEXT, PRIMARY KEY (k)"
    statements = ["SET sql_mode = ''", f"CREATE TABLE t ({columns})", *told(*KEYS[kind])]
    story = "; ".join([*statements, "SET sql_mode = DEFAULT"])
    logs = tell(server, DATABASE, story, tmp_path / "logs", image)
    wanted = shown(server, kind)
    patches = Patches(least=0, share=1, together=2)
    for way, states in {
        "one batch": current_states(logs, tmp_path / "one", "error"),
        "batch by batch": batches(logs, tmp_path / "each"),
        "next to files": batches(logs, tmp_path / "patches", patches=patches),
    }.items():
        built = states[TABLE]
        assert built.rows.refused is None, way
        check_rows(rows_of(built), wanted, way)
        assert built.rows.unseen == 0, way
    assert len(states[TABLE].rows.files) > 1
    for sizes in (None, [1], [2]):
        made = Histories(tmp_path / f"history {sizes}").take_log(logs, sizes=sizes)
        built = made.built[TABLE]
        assert built.rows.refused is None, sizes
        check_rows(made.at(TABLE, FUTURE), wanted, sizes)
        assert built.rows.unseen == 0, sizes


@pytest.mark.parametrize("image", ["NOBLOB", "MINIMAL"])
def test_only_a_change_of_the_key_moves_a_row(server, tmp_path, image):
    """A table whose rows stay keeps its buckets, whatever its keys are, and whatever images lack."""
    begun = """SET sql_mode = ''; CREATE TABLE t (d DATE, id INT, a INT, v TEXT, PRIMARY KEY (d, id));
        INSERT INTO t VALUES ('0000-00-00', 1, 1, 'v'), ('2020-01-01', 1, 1, 'v');
        UPDATE t SET a = 2;"""
    for number, (statement, moves) in enumerate(
        (
            ("UPDATE t SET d = d, a = 3", False),
            ("UPDATE t SET id = 2 WHERE d = 0", True),
            ("UPDATE t SET d = '2020-00-00' WHERE d = 0", True),
            ("UPDATE t SET d = '2020-01-02' WHERE d = 0", True),
            ("UPDATE t SET d = '2020-00-00' WHERE d > 0", True),
        )
    ):
        logs = tell(server, DATABASE, f"{begun} {statement}", tmp_path / f"logs {number}", image)
        (series,) = find(logs)
        (file,) = change_files(plan_splits(series), tmp_path / f"files {number}")[TABLE]
        assert (file.partial, file.moved) == (True, moves), statement
    server.execute("SET sql_mode = DEFAULT")
