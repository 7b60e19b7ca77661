"""A batch that is prepared: who finishes it, who rolls it back, and that its files stay until then."""

import pytest
from deltalake import DeltaTable

from tailrace.errors import LakeTakenOver, PipelineError
from tailrace.spark.lake import claim
from tailrace.spark.lake import lake as lakes
from tailrace.spark.lake.delta.tables import DeltaTables
from tailrace.spark.lake.lake import Lake, open_store
from tailrace.spark.manifest.journal import Journal
from tests.spark.history.landing import FORMATS, READERS
from tests.spark.lake.making import COLUMNS, batch, begun, changes, made, row, state
from tests.spark.lake.test_making import data_files


class KilledError(BaseException):
    """Stands for the end of the process."""


def kill(*_, **__):
    raise KilledError


def placed(lake):
    """The data files in the tables' folders."""
    return {each for each in data_files(lake) if "staging" not in each.parts}


def others_first(lake, patch):
    """Others write to a table right before the next step of a batch."""
    commit = DeltaTables.commit

    def first(tables, step, number, *, overrule=False):
        patch.setattr(DeltaTables, "commit", commit)
        DeltaTable(str(lake / "shop.orders")).delete("id = 3")
        return commit(tables, step, number, overrule=overrule)

    patch.setattr(DeltaTables, "commit", first)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "place", [(Lake, "_take_sources"), (Journal, "read"), (lakes, "check_format")]
)
def test_an_open_that_fails_early_removes_no_file(tmp_path, name, place, monkeypatch):
    """It does not know yet which batch is prepared, the first one here."""
    lake = tmp_path / "lake"
    with monkeypatch.context() as patch:
        patch.setattr(Lake, "_finish", kill)
        store = open_store(lake, name).__enter__()
        with pytest.raises(KilledError):
            store.commit(batch(store, 0))
    claim._OPEN.clear()
    files = placed(lake)
    with monkeypatch.context() as patch:
        patch.setattr(*place, kill)
        with pytest.raises(KilledError):
            open_store(lake, name).__enter__()
    assert placed(lake) == files
    with open_store(lake, name) as store:
        assert store.manifest.version == 1
        assert store.manifest.tables["shop.orders"].set_aside is None


def two(store, number):
    """Batch ``number`` of two tables."""
    rows = [row(each) for each in range((number + 1) * 5)]
    names = ("shop.a", "shop.b")
    built = {each: state(store.staging / each, rows, COLUMNS) for each in names}
    files = {
        each: [changes(store.staging / "c", rows[-5:], COLUMNS, number * 5 + 1, name=each)]
        for each in names
    }
    return made(store, files, built, 100 * (number + 1))


def test_a_batch_that_a_table_has_is_not_rolled_back(tmp_path, monkeypatch):
    """One table could not take it, another one has it, and others write to the first one."""
    lake = tmp_path / "lake"
    with open_store(lake, "delta") as store:
        store.commit(two(store, 0))
    take = Lake._take

    def fails(lake, step, number, *, overrule):
        if step.table.startswith("shop.a"):
            raise PipelineError("it cannot be written now")
        return take(lake, step, number, overrule=overrule)

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "_take", fails)
        patch.setattr(Journal, "done", kill)
        store = open_store(lake, "delta").__enter__()
        with pytest.raises(KilledError):
            store.commit(two(store, 1))
    claim._OPEN.clear()
    DeltaTable(str(lake / "shop.a")).delete("id = 1")
    with pytest.raises(PipelineError, match="has overruled"):
        open_store(lake, "delta").__enter__()
    with open_store(lake, "delta") as store:
        assert store.manifest.version == 2
    for name in ("shop.a", "shop.b"):
        assert READERS["delta"](lake, name).num_rows == 10


def test_a_stopped_process_rolls_back_nothing_that_another_one_finishes(tmp_path, monkeypatch):
    """It found that others were first, and is stopped before it rolls its batch back."""
    lake = begun(tmp_path, "delta")
    stopped = open_store(lake, "delta").__enter__()
    monkeypatch.setattr(claim, "_runs", lambda *_, **__: None)
    decide, done = Journal.decide, Journal.done
    said = []

    def pause(journal, what):
        monkeypatch.setattr(Journal, "decide", decide)

        def before(other, manifest):
            monkeypatch.setattr(Journal, "done", done)
            with pytest.raises(LakeTakenOver):
                decide(journal, what)
            said.append(what)
            return done(other, manifest)

        monkeypatch.setattr(Journal, "done", before)
        with pytest.raises(PipelineError, match="has overruled"):
            open_store(lake, "delta").__enter__()
        raise LakeTakenOver("it stops")

    others_first(lake, monkeypatch)
    monkeypatch.setattr(Journal, "decide", pause)
    with pytest.raises(LakeTakenOver):
        stopped.commit(batch(stopped, 1))
    assert said == ["withdraw"]
    with open_store(lake, "delta") as store:
        assert store.manifest.version == 2
    for name in ("shop.orders", "shop.orders_changelog"):
        assert READERS["delta"](lake, name).num_rows == 20


def test_what_a_stopped_process_decided_to_roll_back_is_rolled_back(tmp_path, monkeypatch):
    """The other one finds the decision, and no outcome."""
    lake = begun(tmp_path, "delta")
    stopped = open_store(lake, "delta").__enter__()
    monkeypatch.setattr(claim, "_runs", lambda *_, **__: None)
    with monkeypatch.context() as patch:
        others_first(lake, patch)
        patch.setattr(Journal, "withdraw", kill)
        with pytest.raises(KilledError):
            stopped.commit(batch(stopped, 1))
    with open_store(lake, "delta") as store:
        assert (store.manifest.version, store.manifest.withdrawn) == (1, 2)
    assert READERS["delta"](lake, "shop.orders").num_rows == 9
