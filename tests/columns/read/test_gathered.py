"""Tables of few rows each: their batches wait for more, through the blocks of a file."""

import random

import pytest

import tailrace
from tailrace import Table
from tailrace.columns import batches as reading
from tailrace.columns.read import blocks
from tailrace.errors import ChecksumMismatch, StorageError, TailraceError, TruncatedEvent
from tests.cases import each_case

TABLES, ROWS = 40, 30


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A row in each of the tables by turns; some blocks hold no more than a transaction."""
    monkeypatch.setattr(reading, "BLOCK", 1000)
    monkeypatch.setattr(blocks, "BLOCK", 1000)
    tables = [
        Table.parse(
            f"create table shop.t{n:02} (id int primary key, v varchar(99))", flavour="mysql"
        )
        for n in range(TABLES)
    ]
    path = tmp_path / "binlog.000001"
    with tailrace.create(path, flavour="mysql", server_id=7) as out:
        for number in range(ROWS):
            for table in tables:
                with out.transaction() as transaction:
                    transaction.insert(table, [(number, "x" * number)])
    return path


def read(path):
    """The keys of each table, in order, and how many batches they came in; what ended it."""
    found, count = {}, 0
    try:
        for batch in tailrace.changes(path):
            count += 1
            name = batch.column("_table")[0].as_py()
            found.setdefault(name, []).extend(batch.column("after").field("id").to_pylist())
    except TailraceError as error:
        return found, count, error
    return found, count, None


WANTED = {f"t{n:02}": list(range(ROWS)) for n in range(TABLES)}


def test_a_table_has_one_batch(log):
    assert read(log) == (WANTED, TABLES, None)


@pytest.mark.slow
@each_case("most", [0, 1, 5000, 20_000])
def test_no_more_is_kept_than_is_allowed(log, most, monkeypatch):
    monkeypatch.setattr(reading, "_MOST_KEPT", most)
    found, count, _ = read(log)
    assert found == WANTED
    assert count > TABLES


def damaged(path, what, size):
    """Damages a log so many bytes before its end, or cuts these off; gives the error to come."""
    data = bytearray(path.read_bytes())
    if what == "damage":
        data[-size] ^= 1
    else:
        del data[-size:]
    path.write_bytes(data)
    return ChecksumMismatch if what == "damage" else TruncatedEvent


@pytest.mark.parametrize(("what", "size"), [("damage", 40), ("cut", 200)])
def test_rows_before_damage_come_first(log, what, size):
    kind = damaged(log, what, size)
    found, _, error = read(log)
    assert isinstance(error, kind)
    assert found == {**WANTED, "t39": list(range(ROWS - 1))}


@each_case("what", ["damage", "cut"])
def test_rows_before_a_large_payload_come_first(tmp_path, monkeypatch, what):
    monkeypatch.setattr(reading, "BLOCK", 1000)
    monkeypatch.setattr(blocks, "BLOCK", 1000)
    monkeypatch.setattr(blocks, "LARGEST_PAYLOAD", 1000)
    table = Table.parse("create table shop.t (id int primary key, v blob)", flavour="mysql")
    path = tmp_path / "binlog.000001"
    with tailrace.create(path, flavour="mysql", server_id=7, compress=True) as out:
        for number, value in enumerate((b"small", random.Random(1).randbytes(5000))):
            with out.transaction() as transaction:
                transaction.insert(table, [(number, value)])
    assert read(path)[::2] == ({"t": [0, 1]}, None)
    kind = damaged(path, what, 2500)
    found, _, error = read(path)
    assert isinstance(error, kind)
    assert found == {"t": [0]}


def test_rows_before_a_read_error_come_first(log, monkeypatch):
    original = blocks.Blocks.next

    def fails(self, *arguments, **more):
        if self.offset > 50_000:
            raise StorageError("the disk is gone")
        return original(self, *arguments, **more)

    monkeypatch.setattr(blocks.Blocks, "next", fails)
    found, _, error = read(log)
    assert isinstance(error, StorageError)
    assert set(found) == set(WANTED)
    assert all(keys == list(range(len(keys))) and len(keys) > 2 for keys in found.values())
