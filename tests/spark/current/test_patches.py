"""Changes put beside a table's files, against doing them one after another in a dict."""

import random
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tailrace.spark.state.current.plan as planning
from tailrace.spark.manifest.manifest import DataFile
from tailrace.spark.parquet.deleted import NO_ROWS
from tailrace.spark.state.current.build import build
from tailrace.spark.state.current.patching import Patches, swallowed
from tests.spark.batches import batch, changelog
from tests.spark.replay import by_name, deleted_in, rows_of, run, source_changes, with_deleted

COLUMNS = pa.schema([("a", pa.int32()), ("b", pa.string()), ("n", pa.int64()), ("t", pa.string())])
KEY = ("b", "a")
NAME = "shop.orders"
LIMITS = Patches(least=0, share=1, together=2, small=0)


class Table:
    """A table that a server changes, and its current state in a lake, batch by batch."""

    def __init__(self, patches, rng, folder):
        self.patches = patches
        self.rng = rng
        self.folder = folder
        self.rows = {}
        self.committed, self.built = {}, {}
        self.batches = 0

    def key(self):
        return self.rng.choice("xyz"), self.rng.randrange(30)

    def change(self):
        """A change at a random key that the table may have."""
        rng = self.rng
        b, a = self.key()
        new = {"a": a, "b": b, "n": rng.randrange(1000), "t": rng.choice(["", "é", None])}
        if (b, a) not in self.rows:
            self.rows[b, a] = new
            return "insert", None, new
        old = self.rows.pop((b, a))
        kind = rng.choice(["update", "update", "move", "delete"])
        if kind == "delete":
            return "delete", old, None
        to = self.key() if kind == "move" else (b, a)
        if to not in self.rows:
            new |= {"b": to[0], "a": to[1]}
        self.rows[new["b"], new["a"]] = new
        return "update", old, new

    def take(self, changes):
        """A batch of changes; the state behind it."""
        self.batches += 1
        place = self.folder / str(self.batches)
        key = self.rng.choice([KEY, KEY[::-1]])  # ALTER TABLE: the primary key in another order
        rows = batch(changes, COLUMNS, key=key, start=self.batches * 100)
        files = {NAME: changelog(place / "log", rows, group_rows=4)}
        source = source_changes([], files, self.committed, place, deleted=deleted_in(self.built))
        made = by_name(build([source], run, place, patches=self.patches))
        self.built = with_deleted(self.built, made)
        built = self.built[NAME]
        assert built.rows.refused is None, built.rows.refused
        self.committed = {NAME: (built.rows, built.paths)}
        return built

    def begun(self, count):
        """The state of so many rows, none of which was changed yet."""
        keys = [(b, a) for b in "xyz" for a in range(30)]
        for b, a in self.rng.sample(keys, count):
            self.rows[b, a] = {"a": a, "b": b, "n": 0, "t": "first"}
        return self.take([("insert", None, row) for row in self.rows.values()])

    def check(self, built):
        """All rows are there once, and nothing else counts."""
        found = rows_of(built).to_pylist() if any(built.paths) else []
        assert len(found) == built.rows.rows == len(self.rows)
        left = {(row["b"], row["a"]): {name: row[name] for name in COLUMNS.names} for row in found}
        assert left == self.rows
        for file, path in zip(built.rows.places, built.paths, strict=True):
            if file is not None:
                assert pq.read_metadata(path).num_rows == file.rows
                deleted = built.deleted.get(path, NO_ROWS).tolist()
                assert all(0 <= each < file.rows for each in deleted)


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 1 << 32),
    st.sampled_from([1 << 30, 2000, 300]),
    st.sampled_from(
        [
            LIMITS,
            Patches(0, 3, 3),
            Patches(0, 1, 2, 0, changes=1, worn=0.001),
            Patches(0, 2, 9, 0, worn=0.02),
        ]
    ),
)
@example(1, 2000, Patches(0, 1, 2, 0, changes=1, worn=0.001))  # a part has tails and no change
def test_random_batches(seed, bucket_bytes, patches):
    folder, before = Path(tempfile.mkdtemp()), planning.BUCKET_BYTES
    planning.BUCKET_BYTES = bucket_bytes
    try:
        rng = random.Random(seed)
        table = Table(patches, rng, folder)
        table.check(table.begun(60))
        for _ in range(rng.randrange(1, 9)):
            built = table.take([table.change() for _ in range(rng.randrange(1, 12))])
            table.check(built)
            assert built.rows.unseen == 0
    finally:
        planning.BUCKET_BYTES = before
        shutil.rmtree(folder)


def test_few_changes_leave_all_files_and_add_one(tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "BUCKET_BYTES", 500)
    table = Table(Patches(least=0, share=2, together=4, small=0), random.Random(1), tmp_path)
    first = table.begun(60)
    assert len(first.paths) > 2
    before = first.paths
    for number in range(1, 4):
        built = table.take([table.change() for _ in range(3)])
        assert built.paths[: len(before)] == before
        assert len(built.rows.tails) == number
        table.check(built)
    built = table.take([table.change() for _ in range(3)])
    assert built.paths[: len(before)] == before
    assert len(built.rows.tails) == 1  # four of a size became one
    table.check(built)


def test_a_small_tail_is_taken_into_the_next(tmp_path):
    table = Table(Patches(least=0, share=2), random.Random(1), tmp_path)
    table.begun(60)
    for _ in range(4):
        built = table.take([table.change() for _ in range(3)])
        assert len(built.rows.tails) == 1
        table.check(built)


def test_a_table_is_folded_when_a_share_of_it_is_beside(tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "BUCKET_BYTES", 500)
    table = Table(Patches(least=0, share=4, together=4), random.Random(2), tmp_path)
    table.begun(60)
    folds = 0
    for _ in range(30):
        built = table.take([table.change() for _ in range(3)])
        table.check(built)
        beside = sum(file.deleted for file in built.rows.data)
        assert beside <= 60 / 4 + 2 * 3
        folds += not built.rows.tails
    assert 3 <= folds <= 10


def test_a_small_table_stays_plain(tmp_path):
    table = Table(Patches(share=1), random.Random(3), tmp_path)
    table.begun(60)
    built = table.take([table.change() for _ in range(3)])
    assert built.rows.tails == ()
    assert not any(file.deleted for file in built.rows.data)


def test_files_of_which_nothing_counts_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "BUCKET_BYTES", 300)
    table = Table(LIMITS, random.Random(4), tmp_path)
    first = table.begun(40)
    there = pq.read_table(first.paths[1]).to_pylist()
    gone = [table.rows.pop((row["b"], row["a"])) for row in there]
    built = table.take([("delete", row, None) for row in gone])
    table.check(built)
    assert built.rows.files[1] is None
    assert built.paths == (first.paths[0], None, *first.paths[2:])
    table.rows[gone[0]["b"], gone[0]["a"]] = gone[0]
    built = table.take([("insert", None, gone[0])])
    table.check(built)
    assert len(built.rows.tails) == 1
    del table.rows[gone[0]["b"], gone[0]["a"]]
    built = table.take([("delete", gone[0], None)])
    table.check(built)
    assert built.rows.tails == ()


def test_rows_that_the_log_does_not_know_are_counted(tmp_path):
    """As where all is written anew: an update of a row that is in no file."""
    row = {"a": 77, "b": "new", "n": 1, "t": None}
    states = {}
    for name, patches in (("beside", LIMITS), ("anew", None)):
        table = Table(patches, random.Random(5), tmp_path / name)
        table.begun(20)
        table.rows["new", 77] = row
        built = states[name] = table.take([("update", row | {"n": 0}, row)])
        table.check(built)
    assert states["beside"].rows.unseen == states["anew"].rows.unseen == 1
    assert states["beside"].rows.tails


def test_tails_are_few_whatever_a_batch_has():
    for rows in (1, 3, 4, 5, 16, 1000):
        tails, written = [], 0
        for _ in range(300):
            taken = swallowed(tails, rows, Patches(small=0))
            total = rows + sum(tail.rows for tail in tails[len(tails) - taken :])
            tails[len(tails) - taken :] = [DataFile("", total, 0, 0)]
            written += total
            assert len(tails) <= 16
        assert written <= rows * 300 * 6


def test_a_file_is_rewritten_once_its_deletion_vectors_took_as_many_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "BUCKET_BYTES", 500)
    table = Table(Patches(least=0, share=2, worn=0.001, spread=0), random.Random(6), tmp_path)
    before = table.begun(60)
    rewritten = 0
    for _ in range(8):
        built = table.take([table.change() for _ in range(2)])
        table.check(built)
        new = [
            file
            for file, path in zip(built.rows.files, built.paths, strict=False)
            if path not in before.paths and file is not None
        ]
        assert len(new) <= 1  # of a batch, so that none takes much longer than others
        assert not any(file.deleted or file.spent for file in new)
        rewritten += len(new)
        before = built
    assert rewritten > 3
    assert any(file.spent for file in built.rows.files if file is not None)
