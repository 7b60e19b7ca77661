"""`tailrace.changes`: its end, its batches' positions; `tailrace.table`: all versions of a table."""

import json
import pickle
from datetime import datetime

import pandas as pd
import pyarrow as pa
import pytest

import tailrace
from tailrace import GtidSet, Position, Table
from tailrace.columns import batches as reading
from tailrace.columns.read import blocks, walk
from tailrace.errors import UnsupportedType, UsageError
from tests.api.test_follow import sequences
from tests.cases import each_case
from tests.recorded import SHOP, case_of, folders

LOGS = [
    SHOP / "mysql",
    *(
        each
        for each in folders()
        if case_of(each) in ("xa", "savepoints", "payload-full", "anonymous")
        and not each.name.startswith("mariadb-10.11")
    ),
]
IDS = [each.name for each in LOGS]


def by_batches(source, **options):
    """Their rows' sequence numbers, in order."""
    return sequences(tailrace.changes(source, statements="skip", **options))


def by_rows(source, **options):
    return sorted(row.sequence for row in tailrace.rows(source, statements="skip", **options))


@pytest.mark.slow
@each_case("log", LOGS, ids=IDS)
def test_both_paths_end_at_the_same_position(log):
    """Also where the position is inside a transaction, in a later file, or at the start."""
    places = {Position(event.file, event.offset) for event in tailrace.open(log)}
    ordered = sorted(places)
    for until in ordered[:: max(1, len(ordered) // 5)]:
        assert by_batches(log, until=until) == by_rows(log, until=str(until)), until
    middle = ordered[len(ordered) // 3]
    for until in (middle, ordered[-1]):
        start = next(each.position for each in tailrace.transactions(log, statements="skip"))
        given = {"start": start, "until": until}
        assert by_batches(log, **given) == by_rows(log, **given)


@pytest.mark.slow
@each_case("log", LOGS, ids=IDS)
def test_both_paths_end_at_the_same_time_and_gtids(log):
    found = [*tailrace.transactions(log, statements="skip")]
    for each in found[:: max(1, len(found) // 4)]:
        moment = each.timestamp.isoformat()
        assert by_batches(log, until=moment) == by_rows(log, until=moment)
        assert by_batches(log, until=each.timestamp) == by_rows(log, until=moment)
        if each.gtid is not None:
            assert by_batches(log, until=each.gtid) == by_rows(log, until=each.gtid)
            start = found[0].position
            given = {"start": start, "until": each.gtid}
            assert by_batches(log, **given) == by_rows(log, **given)
    assert by_batches(log, until="now") == by_rows(log, until="now") == by_rows(log)


def test_an_end_that_the_log_does_not_have():
    for read in (tailrace.changes, tailrace.open):
        with pytest.raises(UsageError, match="these GTIDs were not read"):
            list(read(SHOP / "mysql", until="b1499b96-e58b-11f1-8132-02fc00000001:7000"))
        with pytest.raises(UsageError, match="is not among the logs"):
            list(read(SHOP / "mysql", until=Position("binlog.000009", 4)))
    with pytest.raises(UsageError, match="a position is one log's"):
        tailrace.changes(SHOP, until="binlog.000002:4")
    with pytest.raises(UsageError, match="oldest is the start"):
        tailrace.changes(SHOP / "mysql", until="oldest")


@pytest.mark.slow
@each_case("log", LOGS, ids=IDS)
def test_reading_resumes_after_any_batch(log):
    """Nothing is lost; what is given again was in transactions after the position."""
    every = by_batches(log)
    batches = tailrace.changes(log, statements="skip")
    taken = set()
    for batch in batches:
        taken |= {int(seq) for seq in batch.column("_seq").to_pylist()}
        state = json.loads(json.dumps(str(batch.position)))
        rest = by_batches(log, start=state)
        assert rest == every[len(every) - len(rest) :]
        assert taken | {*rest} == {*every}
    assert by_batches(log, start=str(batches.position)) == []


def test_positions_advance_while_a_large_log_is_read(tmp_path, monkeypatch):
    """The log is read in blocks; after each, all that was read has been given."""
    monkeypatch.setattr(reading, "BLOCK", 1 << 16)
    monkeypatch.setattr(blocks, "BLOCK", 1 << 16)
    monkeypatch.setattr(walk, "_WORTH_A_BATCH", 0)
    batches = tailrace.changes(SHOP / "mysql")
    gtids = batches.gtids
    places = [batch.position for batch in batches]
    assert places == sorted(places)
    assert len({*places}) > 5
    assert gtids == GtidSet()
    assert batches.gtids.text() == "b1499b96-e58b-11f1-8132-02fc00000001:1-1168"


@pytest.mark.slow
@each_case("log", [SHOP / "mysql", SHOP / "mariadb"], ids=["mysql", "mariadb"])
@each_case("start", [None, "middle"])
def test_every_reading_knows_the_gtids_to_resume_from(log, start):
    """The same ones before the first item, and at the end."""
    found = [*tailrace.transactions(log)]
    begin = None if start is None else found[len(found) // 2].position
    readings = (tailrace.open, tailrace.rows, tailrace.transactions, tailrace.changes)
    states = []
    for read in (*readings, tailrace.redo):
        with read(log, start=begin) as each:
            before = each.gtids
            for _ in each:
                pass
            states.append((before, each.gtids))
    assert states == [states[0]] * len(states)
    assert states[0][0] is not None
    assert states[0][0] != states[0][1]


def test_a_batch_is_a_record_batch_and_more():
    with tailrace.changes(SHOP / "mysql", tables="shop.orders") as batches:
        batch = next(batches)
    assert batch.table == "shop.orders"
    assert len(batch) == batch.num_rows == batch.record_batch.num_rows > 100
    assert batch["_op"] == batch.column("_op")
    assert pa.record_batch(batch) == batch.record_batch
    assert pa.table(batch).num_rows == len(batch)
    again = pickle.loads(pickle.dumps(batch))
    assert (again.record_batch, again.position) == (batch.record_batch, batch.position)
    assert "shop.orders" in repr(batch)
    assert list(batches) == []
    with pytest.raises(AttributeError):
        _ = batch.nothing


def test_a_stream_is_of_one_table():
    reader = pa.RecordBatchReader.from_stream(
        tailrace.changes(SHOP / "mysql", tables="shop.orders")
    )
    assert reader.read_all().num_rows == 1097
    several = pa.RecordBatchReader.from_stream(tailrace.changes(SHOP / "mysql"))
    with pytest.raises((UsageError, pa.ArrowInvalid), match="select one, as tables="):
        several.read_all()
    none = tailrace.changes(SHOP / "mysql", tables="shop.orders", start="now")
    assert pa.RecordBatchReader.from_stream(none).read_all().num_rows == 0


def test_a_stream_that_is_asked_for_its_schema_alone_takes_no_batch():
    """DuckDB asks for one stream to see the schema, and for another to read."""
    changes = tailrace.changes(SHOP / "mysql", tables="shop.orders")
    begin = changes.position
    schema = pa.RecordBatchReader.from_stream(changes).schema
    assert changes.position == begin
    read = pa.RecordBatchReader.from_stream(changes).read_all()
    assert read.schema == schema
    assert read.num_rows == 1097


# --- table ---------------------------------------------------------------------------------------


def altered(folder, *versions):
    """A log of a table whose columns change: each version is a CREATE TABLE and its rows."""
    with tailrace.create(folder / "binlog.000001", flavour="mysql", server_id=7) as log:
        for sql, rows in versions:
            made = Table.parse(f"create table shop.t ({sql})")
            with log.transaction() as trx:
                trx.insert(made, rows)
    return folder


def images(found):
    return [row["after"] for row in found.to_pylist()]


def test_a_table_has_the_columns_of_all_versions(tmp_path):
    log = altered(
        tmp_path,
        (
            "id int primary key, old varchar(9), n smallint, d decimal(5,2), day date",
            [(1, "x", 7, "1.25", "2026-01-02")],
        ),
        (
            "id bigint primary key, n int, d decimal(10,4), day datetime, e enum('a','b')",
            [(2**40, 70000, "3.1415", "2026-01-02 03:04:05", "b")],
        ),
        (
            "id bigint primary key, e varchar(3), f double, n decimal(12,1)",
            [(3, "zzz", 0.5, "9.5")],
        ),
    )
    found = tailrace.table(log, "shop.t")
    first, second, third = images(found)
    assert list(first) == ["id", "e", "f", "n", "old", "d", "day"]
    assert [first["id"], second["id"], third["id"]] == [1, 2**40, 3]
    assert [str(each["n"]) for each in (first, second, third)] == ["7.0", "70000.0", "9.5"]
    assert [first["e"], second["e"], third["e"]] == [None, "b", "zzz"]
    assert (str(first["d"]), str(second["d"]), third["d"]) == ("1.2500", "3.1415", None)
    assert second["day"] == datetime(2026, 1, 2, 3, 4, 5)  # noqa: DTZ001 - DATETIME has no zone
    assert first["day"] == datetime(2026, 1, 2)  # noqa: DTZ001
    assert (first["old"], second["old"], first["f"], third["f"]) == ("x", None, None, 0.5)
    assert isinstance(found.to_pandas(), pd.DataFrame)
    assert tailrace.table(log, "t").num_rows == 3


def test_types_that_none_holds_together(tmp_path):
    log = altered(
        tmp_path,
        ("id int primary key, v date", [(1, "2026-01-02")]),
        ("id int primary key, v blob", [(2, b"x")]),
    )
    with pytest.raises(UnsupportedType, match=r"column shop\.t\.v was changed .*until=.*columns="):
        tailrace.table(log, "shop.t")
    assert tailrace.table(log, "shop.t", columns="id").num_rows == 2


def test_images_that_are_not_full_keep_their_bits(tmp_path):
    """A bit stands for a column of the joined table, also for rows of an older version."""
    with tailrace.create(
        tmp_path / "binlog.000001", flavour="mysql", server_id=7, image="minimal"
    ) as log:
        old = Table.parse("create table shop.t (gone int, id int primary key, a int)")
        new = Table.parse("create table shop.t (id int primary key, a int)")
        with log.transaction() as trx:
            trx.update(old, before=[(1, 2, 3)], after=[(1, 2, 4)])
        with log.transaction() as trx:
            trx.update(new, before=[(2, 3)], after=[(2, 4)])
    found = tailrace.table(tmp_path, "shop.t").to_pylist()
    names = ["id", "a", "gone"]
    for row in found:
        for image in ("before", "after"):
            bits = row["_present"][image][0]
            there = {name for number, name in enumerate(names) if bits >> number & 1}
            assert there == ({"id"} if image == "before" else {"a"})


@each_case("name", ["", "shop.*"])
def test_a_table_is_named(name):
    with pytest.raises(UsageError, match="name: one table"):
        tailrace.table(SHOP / "mysql", name)
