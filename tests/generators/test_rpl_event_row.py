"""MWL#120 `rpl_event_row_base` and its events, of logs that real servers recorded."""

import pytest

from tailrace import generators
from tests.generators.conftest import run
from tests.recorded import CORPUS


class Tables(generators.RowConsumer):
    """Applies the rows to dictionaries by primary key."""

    def __init__(self):
        self.rows = {}

    def row_write(self, event):
        row = event.after_image
        assert event.write_set == tuple(row)
        self.rows[event.table.name, row["id"]] = dict(row)

    def row_update(self, event):
        self.row_delete(event)
        self.row_write(event)

    def row_delete(self, event):
        row = event.before_image
        assert event.read_set == tuple(row)
        assert self.rows.pop((event.table.name, row["id"])) == row


class Batches(Tables):
    """The same with batches."""

    def row_batch(self, event):
        before = event.before_images or []
        after = event.after_images or []
        assert len(before) == len(after) or not before or not after
        for row in before:
            assert self.rows.pop((event.table.name, row["id"])) == row
        for row in after:
            self.rows[event.table.name, row["id"]] = dict(row)


@pytest.mark.parametrize("kind", [Tables, Batches])
def test_before_and_after_images_make_the_tables(rows, kind):
    """`rpl_event_row_write`, `_update` and `_delete`, once per row: the server has the same rows."""
    tables = kind()
    run(generators.EventStream(rows.log), tables)
    for name, selected in rows.tables.items():
        found = [list(row.values()) for (table, _), row in tables.rows.items() if table == name]
        expected = [list(row) for row in selected]
        if name == "b":  # a column was added after the last of its changes
            expected = [row[:3] for row in expected]
        assert sorted(found, key=str) == sorted(expected, key=str)


def test_rpl_event_row_write_get_write_set_and_after_image(rows):
    (write,) = [e for e in rows.transaction("plain") if e.name == "row_write"]
    assert write.write_set == ("id", "v", "n", "at")
    assert write.after_image["v"] == "plain"
    assert not hasattr(write, "before_image")


def test_rpl_event_row_update_get_read_set_and_both_images(rows):
    found = [
        e
        for e in rows.named("row_update")
        if e.table.name == "t" and e.after_image["v"] == "updated"
    ]
    assert (found[0].before_image["id"], found[0].before_image["v"]) == (1, "replaced")
    assert {e.read_set for e in found} == {e.write_set for e in found} == {("id", "v", "n", "at")}


def test_rpl_event_row_delete_get_read_set_and_before_image(rows):
    (delete,) = [e for e in rows.named("row_delete") if e.table.name == "t"][-1:]
    assert delete.before_image["id"] == 2
    assert not hasattr(delete, "after_image")


@pytest.mark.parametrize("server", ["mysql-9.7", "mariadb-11.8"])
def test_read_and_write_sets_of_minimal_images(server):
    """Columns that are not in an image are not in its set: binlog_row_image=MINIMAL."""
    found = set()

    class Sets(generators.RowConsumer):
        def row_update(self, event):
            assert tuple(event.before_image) == event.read_set
            assert tuple(event.after_image) == event.write_set
            found.add(len(event.read_set) < len(event.table.columns))

    run(generators.EventStream(CORPUS / f"{server}.image-minimal-full"), Sets())
    assert True in found


def test_get_flags_of_rows(rows):
    """Foreign keys and unique checks are in the log, the three of the handler are not: None."""
    events = rows.named("row_write", "row_update", "row_delete")
    relaxed = [e for e in events if e.disable_foreign_key_checks]
    assert [e.after_image["v"][:3] for e in relaxed] == ["Mai"]  # of the session that set it so
    assert [e.disable_unique_checks for e in relaxed] == [True]
    for event in events:
        assert event.write_can_replace is None
        assert event.ignore_dup_key is None
        assert event.ignore_no_key is None


def test_get_modified_tables(rows):
    """A multi-table UPDATE: each event has its table, the statement has both."""
    found = [e for e in rows.transaction("multi") if e.name == "row_update"]
    assert {e.table.name for e in found} == {"a", "b"}
    for event in found:
        assert event.modified_tables == (event.table,)
        assert event.table.database == "g"
        names = [column.name for column in event.table.columns]
        assert names == (["id", "v"] if event.table.name == "a" else ["id", "a_id", "v"])
        assert event.table.primary_key in (("id",), ())


def test_once_per_row_and_registration(rows):
    """The same rows, one by one, or as batches: nobody gets both."""
    count = {"row": 0, "batch": 0}

    class Ones(generators.RowConsumer):
        def event(self, event):
            count["row"] += event.name.startswith("row_")
            assert event.name != "row_batch"

        trx_rollback = event

    class Lots(generators.RowConsumer):
        def row_batch(self, event):
            count["batch"] += len(event.after_images or event.before_images)

        def row_write(self, event):
            raise AssertionError

        def trx_rollback(self, event):
            pass

    run(generators.EventStream(rows.log), Ones(), Lots())
    assert count["row"] == count["batch"] == len(rows.shown(r"(?m)^### (?:INSERT|UPDATE|DELETE)"))
