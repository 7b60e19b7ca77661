"""Versions of a Parquet lake: tables that are left out of one, and what no version has any more."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tailrace.errors import PipelineError
from tailrace.spark.lake import plan
from tailrace.spark.lake.asides import Asides
from tailrace.spark.lake.lake import Lake, open_store
from tailrace.spark.lake.parquet.tables import ParquetTables
from tailrace.spark.lake.plan import Made
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.manifest.journal import Journal
from tailrace.spark.state.built import Built
from tests.spark.lake.making import COLUMNS, changes, made, row, state
from tests.spark.lake.test_killed import CrashError
from tests.spark.replay import run

A, B = "shop.a", "shop.b"


def batch(store, number, *names, rows=10, count=2):
    """Batch ``number`` of tables: ten new rows in each changelog; the current state is all so far."""
    files, built = {}, {}
    for name in names:
        new = [row(each) for each in range(number * rows, (number + 1) * rows)]
        every = [row(each) for each in range((number + 1) * rows)]
        first = number * rows + 1
        files[name] = [changes(store.staging / "c" / name, new, COLUMNS, first, name=name)]
        built[name] = state(store.staging / "s" / name, every, COLUMNS, count)
    return made(store, files, built, 100 * (number + 1), touched=frozenset(names))


@pytest.fixture
def lake(lake):
    """A lake of two tables that has a first batch."""
    with open_store(lake) as store:
        store.commit(batch(store, 0, A, B))
    return lake


def seen(lake, name):
    """What a reader sees of a table: its changes, and its rows."""
    parts = ((lake / name / part).glob("*.parquet") for part in ("changelog", "current"))
    return tuple(sum(pq.read_metadata(each).num_rows for each in files) for files in parts)


def batches(lake):
    """How many batches readers see in both tables."""
    return [seen(lake, name) for name in (A, B)]


def crash(*_arguments, **_options):
    raise CrashError


def ends(lake, work, owner, step, before=lambda: None):
    """A batch whose process ends at a step, after something else was done before it is prepared."""
    prepare = Journal.prepare
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Journal,
            "prepare",
            lambda *given: (prepare(*given), before()),  # and nothing else
        )
        patch.setattr(owner, step, crash)
        with pytest.raises(CrashError), open_store(lake) as store:
            store.commit(work(store))


def taken_up(store, name):
    """The batch that takes a table up again when its log has nothing more for it."""
    before, keys = store.manifest, frozenset([name])
    built = {name: Built(before.tables[name].current, store.paths(name, "current"))}
    asides = Asides(before, before.options.keep, keys)
    return Made({}, built, {}, before.options, asides, keys)


def retry(lake, name, end=None):
    """Take a table up again; with ``end`` the process ends at that step of `Lake` or its tables."""
    with open_store(lake) as store:
        assert store.refresh(run, [name]) == {}
        assert store.take_rest([name]) == {}
        with pytest.MonkeyPatch.context() as patch:
            if end is not None:
                patch.setattr(*end, crash)
            store.commit(taken_up(store, name))


def aside(lake):
    """Why tables are set aside, by name; if one waits for a batch, that is the second."""
    with open_store(lake) as store:
        found = {name: table.set_aside for name, table in store.manifest.tables.items()}
    assert {each.batch for each in found.values() if each} <= {0, 2}
    return {name: each.reason for name, each in found.items() if each}


def in_the_way(lake):
    (lake / A).unlink()
    (lake / A).mkdir()


def out_of_the_way(lake):
    (lake / A).rmdir()
    (lake / A).symlink_to(f"_tailrace/now/{A}")


@pytest.mark.parametrize("end", [None, (ParquetTables, "show"), (Journal, "done")])
@pytest.mark.parametrize("shown", [True, False])
def test_a_table_that_is_left_out_of_a_batch(lake, shown, end):
    """It is set aside, whoever finishes the batch, and has all of it once it is taken up again."""
    step = (Journal, "done") if shown else (ParquetTables, "show")
    ends(lake, lambda store: batch(store, 1, A, B), *step, lambda: in_the_way(lake))
    if not shown:
        assert "is in the way" in aside(lake)[A]
    out_of_the_way(lake)
    if shown:
        assert aside(lake) == {A: f"{lake / A} was left out of batch 2"}
    assert batches(lake) == [(10, 10), (20, 20)]
    with open_store(lake) as store:
        store.commit(batch(store, 2, B))
    if end is None:
        retry(lake, A)
    else:
        with pytest.raises(CrashError):
            retry(lake, A, end)
    assert aside(lake) == {}
    assert batches(lake) == [(20, 20), (30, 30)]


@pytest.mark.parametrize("target", ["changelog", "current", "000002"])
def test_a_table_whose_folder_cannot_be_made(lake, target, monkeypatch):
    """No part of its batch is in the lake; the other table has it."""
    real = Path.replace

    def replace_(self, to):
        if Path(to).name == target and Path(to).parent.name == A:
            raise PermissionError(13, "not here", str(to))
        return real(self, to)

    symlink = Path.symlink_to

    def symlink_to(self, to):
        if self.parent.name == target and self.parent.parent.name == A:
            raise PermissionError(13, "not here", str(self))
        symlink(self, to)

    monkeypatch.setattr(Path, "replace", replace_)
    monkeypatch.setattr(Path, "symlink_to", symlink_to)
    with open_store(lake) as store:
        store.commit(batch(store, 1, A, B))
        store.commit(batch(store, 2, B))
    assert "not here" in aside(lake)[A]
    assert batches(lake) == [(10, 10), (30, 30)]
    monkeypatch.undo()
    retry(lake, A)
    assert batches(lake) == [(20, 20), (30, 30)]


@pytest.mark.parametrize("part", ["changelog", "current", ""])
def test_files_that_are_gone_after_a_batch_was_prepared(lake, part):
    """As after a power failure: no version links to a file that does not exist."""
    ends(lake, lambda store: batch(store, 1, A, B, "shop.c"), Lake, "_finish")
    shutil.rmtree(lake / "_tailrace" / "tables" / "shop.c" / part)
    reason = aside(lake)["shop.c"]
    assert "_tailrace/tables/shop.c" in reason
    assert reason.endswith("is gone: bring it back")
    assert batches(lake) == [(20, 20), (20, 20)]
    assert not (lake / "shop.c").exists()


def test_a_link_of_a_table_that_was_removed_comes_back(lake):
    """With the next batch, whichever table that is of."""
    (lake / B).unlink()
    with open_store(lake) as store:
        assert store.refresh(run) == {}
        store.commit(batch(store, 1, A))
    assert batches(lake) == [(20, 20), (10, 10)]


def test_entries_of_new_folders_are_on_disk_before_a_batch_is_prepared(tmp_path, monkeypatch):
    """Else a power failure leaves a prepared batch without its files."""
    lake, synced = tmp_path / "lake", set()
    fsync, prepare = os.fsync, Journal.prepare

    def sync(handle):
        synced.add(Path(f"/proc/self/fd/{handle}").readlink())
        fsync(handle)

    def prepared(self, *given):
        files = list((lake / "_tailrace" / "tables").rglob("*"))
        assert len(files) > 5
        assert {*files, *(each.parent for each in files)} <= synced
        prepare(self, *given)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Journal, "prepare", prepared)
    with open_store(lake) as store:
        store.commit(batch(store, 0, A))
        assert store.manifest.version == 1


def test_a_data_file_that_was_removed(lake):
    """Its table is set aside, and its version stays: the link to the file leads nowhere."""
    file = next((lake / A / "changelog").iterdir())
    file.resolve().unlink()
    with open_store(lake) as store:
        assert list(store.refresh(run)) == [A]
        store.commit(batch(store, 1, A, B))
    assert aside(lake).keys() == {A}
    assert file.is_symlink()
    assert not file.exists()
    assert seen(lake, B) == (20, 20)


def test_a_table_that_fails_again_as_before(lake):
    """Nothing of it changes, and the batch has no step of it."""
    next((lake / "_tailrace" / "tables" / A / "changelog").iterdir()).unlink()
    for number in (1, 2):
        with open_store(lake) as store:
            before, keys = store.manifest, frozenset([A])
            (failed,) = store.refresh(run, keys).values()
            asides = Asides(before, before.options.keep, keys)
            asides.fail_state(A, before.tables[A], failed)
            work = batch(store, number, B)
            store.commit(replace(work, asides=asides, touched=frozenset([A, B])))
    assert seen(lake, B) == (30, 30)


def test_folders_and_files_of_removed_versions(lake):
    tables = lake / "_tailrace" / "tables"
    with open_store(lake) as store:
        for number in range(1, 7):
            current = Built(store.manifest.tables[A].current, store.paths(A, "current"))
            work = batch(store, number, A)
            store.commit(work if number == 4 else replace(work, built={A: current}))
            assert seen(lake, A) == (10 * number + 10, 50 if number > 3 else 10)
    assert {each.name for each in (tables / A).glob("[0-9]*")} == {"000006", "000007"}
    assert {each.name[:11] for each in (tables / A / "current").iterdir()} == {"part-000005"}
    assert len(list((tables / A).glob("*.spare"))) == 2
    assert {each.name for each in (tables / B).iterdir()} == {"000001", "changelog", "current"}


def test_files_that_no_version_has_go_away(lake, monkeypatch):
    """Of a batch that a table did not take, or moved there by a process that was taken over."""
    folders = {name: lake / "_tailrace" / "tables" / name for name in (A, B)}
    copy = plan.copy

    def fails(each):
        if each.target.parent == folders[A] / "current":
            raise PipelineError("not this one")
        copy(each)

    with open_store(lake) as store:
        monkeypatch.setattr(plan, "copy", fails)
        store.commit(batch(store, 1, A, B))
        monkeypatch.undo()
    assert not [*(folders[A] / "changelog").glob("*-000002-*")]
    assert [*(folders[B] / "changelog").glob("*-000002-*")]
    for folder in folders.values():
        for name in ("part-000002-000009", "part-000099-000000", "mine"):
            (folder / "current" / f"{name}.parquet").write_bytes(b"")
    with open_store(lake) as store:
        for number in range(2, 5):
            store.commit(batch(store, number, B))
    retry(lake, A)
    with open_store(lake) as store:
        for number in range(5, 7):
            store.commit(batch(store, number, A))
    for folder in folders.values():
        found = {each.name for each in (folder / "current").iterdir()}
        assert "part-000002-000009.parquet" not in found
        assert {"part-000099-000000.parquet", "mine.parquet"} <= found


def test_a_spare_link_that_leads_elsewhere(lake):
    """It is made again when the next folder is made of the spare one."""
    spare = lake / "_tailrace" / "tables" / A / "changelog.spare"
    with open_store(lake) as store:
        for number in range(1, 3):
            store.commit(batch(store, number, A))
        (link,) = spare.iterdir()
        link.unlink()
        link.symlink_to("/etc/passwd")
        (spare / "mine").touch()
        store.commit(batch(store, 3, A))
    assert seen(lake, A) == (40, 40)
    assert len(list((lake / A / "changelog").iterdir())) == 4


def test_a_data_file_that_is_a_link(lake, tmp_path):
    """It leads outside: nobody reads it."""
    view = LakeView.open(lake)
    (file, *_) = (Path(each.path) for each in view.current(view.manifest.tables[A]))
    file.replace(tmp_path / "outside")
    file.symlink_to(tmp_path / "outside")
    with pytest.raises(PipelineError, match="outside of"):
        view.current(view.manifest.tables[A])
    with open_store(lake) as store:
        assert list(store.refresh(run)) == [A]


def outside(tmp_path):
    """Files like a lake's, in a folder that is not the lake's."""
    folder = tmp_path / "outside"
    for name in ("changelog", "current", "000001", "."):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "part-000001-000007.parquet").write_text("mine")
        (folder / name / "_common_metadata").write_text("mine")
    return folder


@pytest.mark.parametrize("to", ["outside", "itself", "another"])
@pytest.mark.parametrize(
    "place",
    [
        *(f"tables/{A}", f"tables/{A}/changelog", f"tables/{A}/000001", f"tables/{A}/000003"),
        *(f"tables/{A}/current.spare", f"tables/{A}/000003/current", f"tables/{A}/000004"),
        *(f"versions/000002/{A}", f"versions/000003/{A}", "versions/000002", "versions/000003"),
        *("versions/000004", "now.0000000001", "now.0000000099"),
    ],
)
def test_a_link_that_leads_elsewhere(lake, tmp_path, place, to):
    """Nothing outside of the lake changes, and nothing of the other table."""
    with open_store(lake) as store:
        for number in range(1, 3):
            store.commit(batch(store, number, A, B))
    link, folder = lake / "_tailrace" / place, outside(tmp_path)
    if link.is_dir() and not link.is_symlink():
        shutil.rmtree(link)
    link.unlink(missing_ok=True)
    link.symlink_to({"outside": folder, "itself": link.name, "another": f"../{B}"}[to])
    for number in range(3, 6):
        try:
            with open_store(lake) as store:
                store.refresh(run)
                store.commit(batch(store, number, A, B))
        except PipelineError as error:
            assert "\n" not in str(error)  # noqa: PT017 - whatever it is
    files = [each for each in folder.rglob("*") if each.is_file()]
    assert len(files) == 8
    assert {each.read_text() for each in files} == {"mine"}
    assert len(list((lake / "_tailrace" / "tables" / B / "changelog").iterdir())) >= 3
    if place != "versions/000003":  # this was what readers see
        log, rows = seen(lake, B)
        assert log == rows >= 30
