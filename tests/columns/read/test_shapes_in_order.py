"""A table whose shape changes to and fro: its rows come in the log's order all the same."""

import json

import pyarrow as pa

import tailrace
from tailrace import Table
from tailrace.columns import batches as reading
from tailrace.columns.arrays import table_of
from tailrace.columns.read import blocks, walk
from tailrace.columns.read.table import TableDecoder
from tailrace.columns.text.record_json import record_lines
from tests.cases import each_case

NARROW = "create table shop.t (id int primary key)"
WIDE = "create table shop.t (id int primary key, v varchar(9))"
OTHER = "create table shop.u (id int primary key)"


def write(folder, rounds, *, statements):
    """One table in two shapes by turns, another in between; gives t's keys in order."""
    narrow, wide, other = (Table.parse(sql, flavour="mysql") for sql in (NARROW, WIDE, OTHER))
    folder.mkdir()
    with tailrace.create(folder / "binlog.000001", flavour="mysql", server_id=7) as log:
        for number in range(rounds):
            table, sql = (wide, WIDE) if number % 2 else (narrow, NARROW)
            if statements:
                for each in ("drop table if exists t", sql.replace("shop.t", "t")):
                    with log.transaction() as trx:
                        trx.query(each, database="shop")
            with log.transaction() as trx:
                trx.insert(table, [(number, "x")] if number % 2 else [(number,)])
                trx.insert(other, [(number,)])
    return list(range(rounds))


@each_case("statements", [False, True])
@each_case("block", [300, 1000, 8 << 20])
def test_rows_stay_in_order(block, statements, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK", block)
    monkeypatch.setattr(blocks, "BLOCK", block)
    wanted = write(tmp_path / "log", 9, statements=statements)
    found = [
        row["id"]
        for batch in tailrace.changes(tmp_path / "log", tables="shop.t")
        for row in batch.column("after").to_pylist()
    ]
    assert found == wanted


def test_the_rows_of_a_shape_are_decoded_at_once(tmp_path, monkeypatch):
    decoded = []
    decode = TableDecoder.decode

    def counted(self, *arguments, **more):
        decoded.append(self.table.table)
        return decode(self, *arguments, **more)

    monkeypatch.setattr(TableDecoder, "decode", counted)
    write(tmp_path / "log", 20, statements=True)
    batches = list(tailrace.changes(tmp_path / "log"))
    assert sorted(decoded) == ["t", "t", "u"]
    assert sum(batch.num_rows for batch in batches) == 40
    for batch in batches:
        schema = table_of(batch.schema)
        lines = bytes(record_lines(batch, schema, "binlog.000001").text).splitlines()
        assert [json.loads(line)["after"] for line in lines if line] == [
            {name: value for name, value in row.items() if value is not None}
            for row in batch.column("after").to_pylist()
        ]


def test_a_slice_as_json(tmp_path):
    """Some rows have a GTID and some have none: it has another bit in a slice."""
    path = tmp_path / "binlog.000001"
    table = Table.parse(WIDE, flavour="mysql")
    with tailrace.create(path, flavour="mysql", server_id=7) as log:
        for number in range(20):
            with log.transaction() as trx:
                trx.insert(table, [(number, f"v{number}")])
    (batch,) = tailrace.changes(path)
    gtids = pa.array([None if number % 3 else f"gtid {number}" for number in range(20)])
    place = batch.schema.get_field_index("_gtid")
    batch = batch.set_column(place, batch.schema.field("_gtid"), gtids.dictionary_encode())
    schema = table_of(batch.schema)

    def lines(part):
        made = record_lines(part, schema, "binlog.000001")
        return bytes(made.text[: made.offsets[-1]]).splitlines()

    whole = lines(batch)
    assert lines(batch.slice(3, 9)) == whole[3:12]
    assert json.loads(whole[3])["_gtid"] == "gtid 3"


@each_case("statements", [False, True])
def test_shapes_that_come_back_hold_no_more(statements, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK", 500)
    monkeypatch.setattr(blocks, "BLOCK", 500)
    write(tmp_path / "log", 60, statements=statements)
    decoders = []
    monkeypatch.setattr(walk.Walker, "begin_file", _kept(walk.Walker.begin_file, decoders))
    rows = sum(batch.num_rows for batch in tailrace.changes(tmp_path / "log"))
    assert rows == 120
    (decoder,) = decoders
    assert len(decoder._tables) == 3


def _kept(begin, found):
    def call(self, *arguments, **more):
        found.append(self)
        return begin(self, *arguments, **more)

    return call
