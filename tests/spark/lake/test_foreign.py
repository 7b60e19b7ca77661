"""Others write to a lake's tables between batches: it is noticed, kept, and gone on with."""

import shutil
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import EqualTo

from tailrace.errors import LakeChanged, PipelineError
from tailrace.spark.lake.asides import Asides, waiting
from tailrace.spark.lake.delta.tables import DeltaTables
from tailrace.spark.lake.iceberg.catalog import OwnCatalog, own_catalog
from tailrace.spark.lake.iceberg.tables import IcebergTables
from tailrace.spark.lake.iceberg.tidy import AGE
from tailrace.spark.lake.lake import open_store
from tailrace.spark.manifest.journal import FINISH, Journal
from tailrace.spark.parquet.footer import row_groups
from tailrace.spark.state.current.keys import buckets
from tailrace.spark.state.failure import Failure
from tests.spark.history.landing import READERS
from tests.spark.lake.making import COLUMNS, batch, begun, changes, made, reopened, row, state
from tests.spark.lake.test_tables import as_rows, expected
from tests.spark.replay import run, run_twice


def delta_delete(lake, table, key, column="id"):
    DeltaTable(str(lake / table)).delete(f"{column} = {key}")


def iceberg_delete(lake, table, key, column="id"):
    own_catalog(lake).load_table(table).delete(EqualTo(column, key))


def delta_compact(lake, table):
    found = DeltaTable(str(lake / table))
    assert found.optimize.compact()["numFilesRemoved"] > 1


def iceberg_compact(lake, table):
    found = own_catalog(lake).load_table(table)
    found.overwrite(found.scan().to_arrow())


def delta_append(lake, table, rows):
    write_deltalake(str(lake / table), rows, mode="append")


def iceberg_append(lake, table, rows):
    own_catalog(lake).load_table(table).append(rows)


DELETE = {"delta": delta_delete, "iceberg": iceberg_delete}
COMPACT = {"delta": delta_compact, "iceberg": iceberg_compact}
APPEND = {"delta": delta_append, "iceberg": iceberg_append}


def by_bucket(store):
    """The keys in each of the current state's files; each must be in its bucket."""
    found = []
    paths = store.paths("shop.orders", "current")
    for bucket, path in enumerate(paths):
        rows = pa.concat_tables(row_groups(path)) if path else None
        if rows is None:
            continue
        assert rows.schema.field("span").type == pa.duration("us")
        assert set(buckets([rows["id"]], len(paths)).tolist()) <= {bucket}
        assert rows["id"].to_pylist() == sorted(rows["id"].to_pylist())
        found += rows["id"].to_pylist()
    return sorted(found)


def test_rows_that_others_deleted_or_added_stay_so(tmp_path, name):
    lake = begun(tmp_path, name)
    DELETE[name](lake, "shop.orders", 3)
    more = READERS[name](lake, "shop.orders").slice(0, 1)
    more = more.set_column(0, more.schema.field(0), pa.array([77], more.schema.field(0).type))
    APPEND[name](lake, "shop.orders", more)
    with reopened(lake, name) as store:
        assert store.manifest.version == 2
        assert by_bucket(store) == [0, 1, 2, 4, 5, 6, 7, 8, 9, 77]
        current = store.manifest.tables["shop.orders"].current
        assert current.rows == 10
        assert store.manifest.sources["mysql"].offset == 100
        store.refresh(run)
        assert store.manifest.version == 2
    now = as_rows(READERS[name](lake, "shop.orders"))
    assert [each["id"] for each in now] == [0, 1, 2, 4, 5, 6, 7, 8, 9, 77]
    assert now[:9] == expected([0, 1, 2, 4, 5, 6, 7, 8, 9])


def test_files_that_others_compacted_are_buckets_again(tmp_path, name):
    lake = begun(tmp_path, name)
    COMPACT[name](lake, "shop.orders")
    COMPACT[name](lake, "shop.orders_changelog") if name == "iceberg" else None
    with reopened(lake, name) as store:
        assert by_bucket(store) == list(range(10))
        store.commit(batch(store, 1))
    assert as_rows(READERS[name](lake, "shop.orders")) == expected(range(20))
    assert READERS[name](lake, "shop.orders_changelog").num_rows == 20


def test_tasks_that_spark_repeats(tmp_path, name):
    lake = begun(tmp_path, name)
    COMPACT[name](lake, "shop.orders")
    with open_store(lake, name) as store:
        assert store.refresh(run_twice) == {}
        assert by_bucket(store) == list(range(10))


def replacing(store):
    """A batch that writes one of two buckets, planned on what the store has now."""
    known = (
        store.manifest.tables["shop.orders"].current.files,
        store.paths("shop.orders", "current"),
    )
    rows = [row(number) for number in range(10)]
    built = state(store.staging / "s", rows, COLUMNS, keep=(0,), known=known)
    files = {"shop.orders": [changes(store.staging / "c", rows, COLUMNS, 11)]}
    return made(store, files, {"shop.orders": built}, 200)


def test_others_while_a_batch_is_made(tmp_path, name):
    """Nothing of the batch comes in; made again, it is upon what they did."""
    lake = begun(tmp_path, name)
    with reopened(lake, name) as store:
        work = replacing(store)
        DELETE[name](lake, "shop.orders", 3)
        with pytest.raises(LakeChanged, match=r"others have written to shop\.orders"):
            store.commit(work)
        assert store.manifest.version == 1
        assert READERS[name](lake, "shop.orders_changelog").num_rows == 10
        store.discard()
        assert list(store.staging.iterdir()) == []
        store.refresh(run)
        assert by_bucket(store) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
        store.commit(batch(store, 1))
    assert as_rows(READERS[name](lake, "shop.orders")) == expected(range(20))


@pytest.mark.parametrize("removed", [(1,), (0, 1)])
def test_others_whose_log_entries_are_gone(tmp_path, removed):
    """A checkpoint has what they did."""
    lake = begun(tmp_path, "delta")
    with reopened(lake, "delta") as store:
        delta_delete(lake, "shop.orders", 3)
        delta_delete(lake, "shop.orders", 4)
        DeltaTable(str(lake / "shop.orders")).create_checkpoint()
        for version in removed:
            (lake / "shop.orders" / "_delta_log" / f"{version:020}.json").unlink()
        store.refresh(run)
        assert by_bucket(store) == [0, 1, 2, 5, 6, 7, 8, 9]


def test_a_folder_that_is_restored_from_a_copy(tmp_path):
    """Its versions are older ones then, also where a copy of a Delta table had been opened."""
    lake, copy = begun(tmp_path, "delta"), tmp_path / "copy"
    shutil.copytree(lake / "shop.orders", copy)
    tables = DeltaTables(lake)
    before = tables.content("shop.orders")
    for key in (3, 4):
        delta_delete(lake, "shop.orders", key)
        assert tables.content("shop.orders") != before
    shutil.rmtree(lake / "shop.orders")
    assert tables.content("shop.orders") is None
    shutil.copytree(copy, lake / "shop.orders")
    assert tables.content("shop.orders") == before
    delta_delete(lake, "shop.orders", 5)
    changed = tables.content("shop.orders")
    shutil.rmtree(lake / "shop.orders")
    shutil.copytree(copy, lake / "shop.orders")
    assert tables.content("shop.orders") == before != changed


def test_a_table_that_others_partitioned_does_not_stop_the_rest(tmp_path):
    """It is set aside, and none of its rows is written without its partition's value."""
    lake = tmp_path / "lake"
    with open_store(lake, "delta") as store:
        store.commit(two_tables(store, 0))
    rows = READERS["delta"](lake, "shop.sales")
    shutil.rmtree(lake / "shop.sales")
    write_deltalake(str(lake / "shop.sales"), rows, partition_by=["tiny"])
    with open_store(lake, "delta") as store:
        failed = store.refresh(run)
        assert "partitioned by others" in failed["shop.sales"].reason
        asides = Asides(store.manifest, ("changelog", "current"))
        asides.fail_state("shop.sales", store.manifest.tables["shop.sales"], failed["shop.sales"])
        work = two_tables(store, 1)
        built = {key: each for key, each in work.built.items() if key != "shop.sales"}
        files = {key: each for key, each in work.files.items() if key != "shop.sales"}
        store.commit(replace(work, built=built, files=files, asides=asides))
        assert store.manifest.tables["shop.sales"].set_aside is not None
    assert as_rows(READERS["delta"](lake, "shop.orders")) == expected(range(20))
    there = as_rows(READERS["delta"](lake, "shop.sales"))
    assert sorted(each["id"] for each in there) == list(range(10))


def test_others_while_a_table_is_set_aside(tmp_path):
    """What they deleted stays deleted once the table is retried, and is counted."""
    lake = begun(tmp_path, "delta")
    with open_store(lake, "delta") as store:
        asides = Asides(store.manifest, ("changelog", "current"))
        state = store.manifest.tables["shop.orders"]
        asides.fail_state("shop.orders", state, Failure("no reason"))
        store.commit(made(store, {}, {}, 200, asides=asides))
    delta_delete(lake, "shop.orders", 3)
    with open_store(lake, "delta") as store:
        store.refresh(run)
        assert store.manifest.version == 2
        store.refresh(run, ["shop.orders"])
        assert store.manifest.version == 3
        assert by_bucket(store) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
        assert store.manifest.tables["shop.orders"].set_aside is not None


def test_a_restored_folder_has_the_same_version_again(tmp_path):
    """By what others wrote to it: the number of the last batch tells it from ours."""
    lake, copy = begun(tmp_path, "delta"), tmp_path / "copy"
    shutil.copytree(lake / "shop.orders", copy)
    with open_store(lake, "delta") as store:
        store.commit(batch(store, 1))
    shutil.rmtree(lake / "shop.orders")
    shutil.copytree(copy, lake / "shop.orders")
    delta_delete(lake, "shop.orders", 5)
    with reopened(lake, "delta") as store:
        assert store.manifest.version == 3
        assert by_bucket(store) == [0, 1, 2, 3, 4, 6, 7, 8, 9]


def test_others_to_a_changelog_while_a_batch_is_made(tmp_path, name):
    """They are welcome to: a batch only adds to it."""
    lake = begun(tmp_path, name)
    with reopened(lake, name) as store:
        work = batch(store, 1)
        DELETE[name](lake, "shop.orders_changelog", 3, "_seq")
        store.commit(work)
    assert as_rows(READERS[name](lake, "shop.orders")) == expected(range(20))
    log = READERS[name](lake, "shop.orders_changelog")
    assert sorted(map(int, log["_seq"].to_pylist())) == [1, 2, *range(4, 21)]


def committing(monkeypatch, before):
    """Calls ``before`` with a table's name and how many tables were committed to, at each one."""
    count = 0
    for kind in (DeltaTables, IcebergTables):
        commit = kind.commit

        def step(tables, step, number, *, overrule, commit=commit):
            nonlocal count
            before(step.table, count)
            count += 1
            return commit(tables, step, number, overrule=overrule)

        monkeypatch.setattr(kind, "commit", step)


def test_others_between_the_last_look_and_the_commit(tmp_path, name, monkeypatch):
    """No table has the batch yet: it is taken back."""
    lake = begun(tmp_path, name)
    with reopened(lake, name) as store:
        work = replacing(store)

        def others(table, count):
            assert (table, count) == ("shop.orders", 0)
            DELETE[name](lake, "shop.orders", 3)

        with monkeypatch.context() as patch:
            committing(patch, others)
            with pytest.raises(LakeChanged, match="others have written to"):
                store.commit(work)
        assert store.manifest.version == 1
        assert (store.manifest.withdrawn, store.manifest.next) == (2, 3)
        assert not list(lake.glob("shop.orders*/**/part-000002-*"))
        store.discard()
        store.refresh(run)
        assert by_bucket(store) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
        store.commit(replacing(store))
    assert READERS[name](lake, "shop.orders_changelog").num_rows == 20


def test_others_before_who_comes_next_finishes_a_batch(tmp_path, name, monkeypatch):
    """As above, with the process dead in between."""
    lake = begun(tmp_path, name)
    with open_store(lake, name) as store:
        work = batch(store, 1)
        with monkeypatch.context() as patch:
            patch.setattr(type(store.tables), "commit", interrupted)
            with pytest.raises(KeyboardInterrupt):
                store.commit(work)
    DELETE[name](lake, "shop.orders", 3)
    with open_store(lake, name) as store:
        assert store.manifest.version == 1
        store.refresh(run)
        assert by_bucket(store) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
        store.commit(batch(store, 1))
    assert as_rows(READERS[name](lake, "shop.orders")) == expected(range(20))
    assert READERS[name](lake, "shop.orders_changelog").num_rows == 20


def interrupted(tables, step, number, *, overrule):
    raise KeyboardInterrupt


def two_tables(store, number):
    """A batch of two tables' current states."""
    rows = [row(each) for each in range(10 * (number + 1))]
    built = {
        name: state(store.staging / name, rows, COLUMNS, prefix=str(number))
        for name in ("shop.orders", "shop.sales")
    }
    files = {
        name: [changes(store.staging / "c", rows[10 * number :], COLUMNS, 10 * number + 1, name)]
        for name in built
    }
    return made(store, files, built, 100 * (number + 1))


def test_others_when_some_tables_have_a_batch(lake, name, monkeypatch):
    """It cannot be taken back then: the table is the server's, and that is said. Of Iceberg no
    table has it, as its commits are only gathered, and it is rolled back.
    """
    with open_store(lake, name) as store:
        store.commit(two_tables(store, 0))
        seen = []

        def others(table, count):
            if count == 1:
                seen.append(table)
                DELETE[name](lake, table, 3)

        with monkeypatch.context() as patch:
            committing(patch, others)
            with pytest.raises(PipelineError) as caught:
                store.commit(two_tables(store, 1))
        (table,) = seen
        assert table in str(caught.value)
        gathered = name == "iceberg"
        assert isinstance(caught.value, LakeChanged) is gathered
        assert ("overruled what others committed" in str(caught.value)) is not gathered
        assert store.manifest.version == 2 - gathered
        assert store.tables.settle()  # nothing is gathered any more
    with reopened(lake, name) as store:
        if gathered:
            assert sorted(e.current.rows for e in store.manifest.tables.values()) == [9, 10]
            store.commit(two_tables(store, 1))
    for each in ("shop.orders", "shop.sales"):
        assert as_rows(READERS[name](lake, each)) == expected(range(20))
        assert READERS[name](lake, f"{each}_changelog").num_rows == 20


def publishing(patch, others):
    """Others do something after all tables' commits are gathered, before they are published."""
    publish = OwnCatalog.publish

    def late(catalog):
        if catalog.gathers and catalog.coming:
            patch.setattr(OwnCatalog, "publish", publish)
            others({each for each in catalog._written if each.is_file()})
        return publish(catalog)

    patch.setattr(OwnCatalog, "publish", late)


def test_others_before_the_commits_are_published(tmp_path, monkeypatch):
    """No table has the batch: it is rolled back, and leaves no file."""
    lake = begun(tmp_path, "iceberg")
    with reopened(lake, "iceberg") as store:
        work = replacing(store)
        written = set()

        def others(files):
            written.update(files)
            iceberg_delete(lake, "shop.orders", 3)

        with monkeypatch.context() as patch:
            publishing(patch, others)
            with pytest.raises(LakeChanged, match=r"others have written to shop\.orders: "):
                store.commit(work)
        assert (store.manifest.version, store.manifest.withdrawn, store.manifest.next) == (1, 2, 3)
        assert len(written) > 4
        assert not any(each.exists() for each in written)
        assert not list(lake.glob("shop.orders*/**/part-000002-*"))
        store.discard()
        store.refresh(run)
        assert by_bucket(store) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
        store.commit(replacing(store))
    assert READERS["iceberg"](lake, "shop.orders_changelog").num_rows == 20


def test_others_before_commits_are_published_that_are_to_be_finished(tmp_path, monkeypatch):
    """It was decided before that the batch is not rolled back: others are overruled."""
    lake = tmp_path / "lake"
    with open_store(lake, "iceberg") as store:
        store.commit(two_tables(store, 0))
        with monkeypatch.context() as patch:
            publishing(patch, lambda _: iceberg_delete(lake, "shop.sales", 3))
            patch.setattr(Journal, "decide", lambda journal, outcome: FINISH)
            with pytest.raises(PipelineError, match=r"overruled .*written to shop\.sales: "):
                store.commit(two_tables(store, 1))
        assert store.manifest.version == 2
    with reopened(lake, "iceberg") as store:
        assert store.manifest.version == 2
    for each in ("shop.orders", "shop.sales"):
        assert as_rows(READERS["iceberg"](lake, each)) == expected(range(20))
        assert READERS["iceberg"](lake, f"{each}_changelog").num_rows == 20


def give(lake, table, **properties):
    """Others give a table properties."""
    with own_catalog(lake).load_table(table).transaction() as transaction:
        transaction.set_properties(properties)


def test_others_change_nothing_that_a_batch_was_computed_from(tmp_path, monkeypatch):
    """The commits are made again, and nobody is overruled."""
    lake = begun(tmp_path, "iceberg")

    def others(_):
        give(lake, "shop.orders", owner="me")
        iceberg_delete(lake, "shop.orders_changelog", 3, "_seq")

    with reopened(lake, "iceberg") as store, monkeypatch.context() as patch:
        publishing(patch, others)
        store.commit(batch(store, 1))
    assert own_catalog(lake).load_table("shop.orders").properties["owner"] == "me"
    assert as_rows(READERS["iceberg"](lake, "shop.orders")) == expected(range(20))
    assert READERS["iceberg"](lake, "shop.orders_changelog").num_rows == 19


def test_others_while_a_commit_is_gathered(tmp_path, monkeypatch):
    """The files of the first try are gone when the second one's are brought to disk."""
    lake = begun(tmp_path, "iceberg")
    commit = OwnCatalog.commit_table
    with reopened(lake, "iceberg") as store, monkeypatch.context() as patch:

        def late(catalog, table, *arguments):
            if table.name()[-1] == "orders_changelog":
                patch.setattr(OwnCatalog, "commit_table", commit)
                iceberg_delete(lake, "shop.orders_changelog", 3, "_seq")
            return commit(catalog, table, *arguments)

        patch.setattr(OwnCatalog, "commit_table", late)
        store.commit(batch(store, 1))
    assert READERS["iceberg"](lake, "shop.orders_changelog").num_rows == 19


def test_a_reader_that_loses_a_race_is_told(tmp_path, monkeypatch):
    """It gathers nothing: threads that share its catalogue would publish each other's commits."""
    lake = begun(tmp_path, "iceberg")
    write = OwnCatalog._write_metadata

    @staticmethod
    def late(**arguments):
        monkeypatch.setattr(OwnCatalog, "_write_metadata", staticmethod(write))
        give(lake, "shop.orders", owner="me")
        write(**arguments)

    monkeypatch.setattr(OwnCatalog, "_write_metadata", late)
    monkeypatch.setattr(OwnCatalog, "publish", lambda catalog: pytest.fail("gathered"))
    with pytest.raises(CommitFailedException):
        give(lake, "shop.orders", owner="you")
    assert own_catalog(lake).load_table("shop.orders").properties["owner"] == "me"


def test_a_property_that_cannot_be_read_sets_its_table_aside(lake):
    with open_store(lake, "iceberg") as store:
        store.commit(two_tables(store, 0))
    sales = own_catalog(lake).load_table("shop.sales")
    sales.manage_snapshots().create_tag(sales.current_snapshot().snapshot_id, "mine").commit()
    give(lake, "shop.sales", **{AGE: "1h"})
    with reopened(lake, "iceberg") as store:
        store.commit(two_tables(store, 1))
        assert f"{AGE}=1h" in store.manifest.tables["shop.sales"].set_aside.reason
        assert store.manifest.tables["shop.orders"].set_aside is None
    assert as_rows(READERS["iceberg"](lake, "shop.orders")) == expected(range(20))


def test_steps_that_waited_are_done_whole_or_not_at_all(lake, monkeypatch):
    """One of a table's steps fails again: the others are not gathered for the next batch."""
    commit = IcebergTables.commit

    def fail(patch, *names):
        def failing(tables, step, number, *, overrule):
            if step.table in names:
                raise PipelineError("no reason")
            return commit(tables, step, number, overrule=overrule)

        patch.setattr(IcebergTables, "commit", failing)

    with open_store(lake, "iceberg") as store:
        store.commit(two_tables(store, 0))
        marks = store.manifest.tables["shop.orders"].marks
        with monkeypatch.context() as patch:
            fail(patch, "shop.orders", "shop.orders_changelog")
            store.commit(two_tables(store, 1))
            fail(patch, "shop.orders_changelog")
            assert "no reason" in store.take_rest(["shop.orders"])["shop.orders"].reason
        assert store.tables.settle()
        assert store.manifest.tables["shop.orders"].marks == marks
        assert READERS["iceberg"](lake, "shop.orders").num_rows == 10
        assert store.take_rest(["shop.orders"]) == {}
    for table in ("shop.orders", "shop.orders_changelog"):
        assert READERS["iceberg"](lake, table).num_rows == 20


def test_a_table_that_is_there_already_is_not_taken(lake):
    with open_store(lake, "iceberg") as store:
        own_catalog(lake).create_namespace("shop")
        rows = pa.table({"id": pa.array([1, 2], pa.int32())})
        own_catalog(lake).create_table("shop.orders", rows.schema).append(rows)
        store.commit(batch(store, 0))
        state = store.manifest.tables["shop.orders"].set_aside
        assert state is not None
        assert "is there already" in state.reason
    assert own_catalog(lake).load_table("shop.orders").scan().to_arrow().num_rows == 2


def test_a_column_that_others_dropped(tmp_path):
    lake = begun(tmp_path, "iceberg")
    table = own_catalog(lake).load_table("shop.orders")
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("price")
    table.overwrite(table.scan().to_arrow())
    with (
        open_store(lake, "iceberg") as store,
        pytest.raises(PipelineError, match="lost its column price"),
    ):
        store.refresh(run)


def test_steps_that_wait_of_a_table_that_failed_already(tmp_path):
    """They are kept when the lake's next state, which has them, is looked at."""
    lake = begun(tmp_path, "delta")
    with open_store(lake, "delta") as store:
        state = store.manifest.tables["shop.orders"]
        cause = Failure("no reason")
        asides = Asides(store.manifest, ("changelog", "current"))
        asides.fail_state("shop.orders", state, cause)
        waits = waiting(state, ("changelog", "current"), 7, cause, "")
        asides = replace(asides, before=replace(store.manifest, tables={"shop.orders": waits}))
        found = asides.marked("shop.orders", state).set_aside
        assert (found.batch, found.reason) == (7, "shop.orders: no reason")
