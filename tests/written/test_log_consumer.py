"""The consumer that writes a log (MWL#120: "the writing of the binlog on a master"): consumers see
in it what they see in the source, and a real server makes the same tables of it.
"""

import shutil

import pytest

import tailrace
from tailrace import generators
from tailrace.errors import GtidError
from tailrace.writing import LogConsumer
from tests.cases import each_case
from tests.generators.conftest import FORMATS, Recording, write_log
from tests.generators.materialise.test_binlog import of_transactions
from tests.recorded import ROOT
from tools.applied import as_relay_log, by_tool, differences, forget, gtid_mode

OF_THE_FILE = {"position", "last_committed", "sequence_number", "immediate_commit_timestamp"}
OF_XA = {"xa", "prepared_transaction_id"}


class Seen(generators.RowConsumer):
    """All that is told, but for where it stands, and where statements with rows start and end."""

    def __init__(self):
        self.events = []
        self.number = 0

    def event(self, event):
        if event.name in ("stmt_start", "stmt_end") and event.current_database is None:
            return
        values = event.values()
        for name in OF_THE_FILE | OF_XA | {"local_transaction_id", "group_commit_id"}:
            values.pop(name, None)
        if event.name not in ("stmt_query", "stmt_load_query"):
            del values["timestamp"]
        if event.name == "trx_start":  # its first event is another
            values = {}
        for name in ("transactional_tables", "non_transactional_tables"):
            values.pop(name, None)  # what has only others ends with XID here
        self.events.append((event.name, values))


def seen(log, tables=None):
    consumer = Seen()
    with generators.EventStream(log, tables=tables) as stream:
        stream.row.register(consumer)
        stream.run()
    events = []
    for name, values in consumer.events:  # of XA PREPARE there is an empty transaction
        if name == "trx_commit" and events and events[-1][0] == "trx_start":
            events.pop()
        else:
            events.append((name, values))
    return events


def copied(source, target, flavour, tables=None, *, anew=False):
    """A log that is written of what a consumer is told of another; ``anew``: of its materialised
    events, so that nothing of the log's own bytes is there to be copied.
    """
    stream = generators.EventStream(source, tables=tables)
    if anew:
        held = bytearray()
        with stream, generators.Materialiser(held) as materialiser:
            materialiser.register(stream.row)
            stream.run()
        stream = generators.MaterialisedStream(held)
    with tailrace.create(target, flavour=flavour, server_id=1) as log, stream:
        stream.row.register(LogConsumer(log))
        stream.run()
    return target


@pytest.mark.parametrize("anew", [True, False], ids=["anew", "copied"])
@pytest.mark.parametrize("format_", FORMATS)
def test_consumers_see_the_same_and_a_server_makes_the_same_tables(
    origin, taker, tmp_path, format_, anew
):
    for server in (origin, taker):
        if server.flavour == "mysql":
            gtid_mode(server, "ON")
        forget(server, "g")
    tmp_path.chmod(0o755)
    origin.execute("CREATE DATABASE g CHARACTER SET utf8mb4")
    recording = Recording(origin.name, format_, tmp_path / "binlog.000001", "")
    write_log(origin, recording)
    shutil.copy(origin.rotate(), recording.log)
    target = copied(recording.log, tmp_path / "copy" / "binlog.000001", origin.flavour, anew=anew)
    assert seen(target) == seen(recording.log)
    with tailrace.open(recording.log) as read, tailrace.open(target) as written:
        list(read), list(written)
    # A replica expects the error of the statement that failed; the tool's client stops at it.
    (by_tool if format_ == "ROW" else as_relay_log)(taker, [target])
    if format_ == "STATEMENT":  # what such a log cannot repeat, and what was not rolled back in it
        for server in (origin, taker):
            server.execute("UPDATE g.t SET v = 'unsafe' WHERE v LIKE '________-____-____-____-%'")
        origin.execute("DELETE FROM g.m WHERE v IN ('to savepoint', 'whole')")
    assert differences(origin, taker, "g") == []
    forget(origin, "g")
    forget(taker, "g")


@pytest.mark.slow
def test_the_shop_of_each_flavour(tmp_path):
    """Of MySQL the tables without JSON, whose text is written with JSON's own types."""
    plain = ["shop.customers", "shop.orders", "shop.order_items", "shop.payments"]
    for flavour, tables in (("mysql", plain), ("mariadb", None)):
        source = f"examples/shop/{flavour}"
        target = copied(source, tmp_path / flavour / "binlog.000001", flavour, tables, anew=True)
        assert seen(target.parent, tables) == seen(source, tables)


def test_gtids_of_the_other_flavour_are_an_error(tmp_path):
    with pytest.raises(GtidError):
        copied("examples/shop/mysql", tmp_path / "binlog.000001", "mariadb")


@pytest.mark.slow
def test_what_a_consumer_leaves_out_or_changes_is_not_copied(tmp_path):
    """A consumer in between: the transaction is then written of what it gave."""

    class Without(LogConsumer):
        def row_batch(self, event):
            if event.table.name == "reviews":
                images = event.after_images
                if images is not None:
                    event = event.replace(after_images=[{**each, "body": "?"} for each in images])
                super().row_batch(event)

    with (
        tailrace.create(tmp_path / "binlog.000001", flavour="mysql", server_id=1) as log,
        generators.EventStream("examples/shop/mysql") as stream,
    ):
        stream.row.register(Without(log))
        stream.run()
    with tailrace.rows(tmp_path) as rows:
        found = [(row.table, (row.after or {}).get("body", "?")) for row in rows]
    assert set(found) == {("reviews", "?")}
    assert len(found) == 255


@each_case("options", [{"compress": True}, {"image": "minimal"}])
@pytest.mark.slow
def test_the_options_of_the_log_hold_for_what_it_is_told(options, tmp_path):
    """Then nothing is copied: the log is smaller than the one that has the source's bytes."""
    sizes, source = [], "tests/corpus/mysql-9.7.image-full-full"
    for number, given in enumerate(({}, options)):
        target = tmp_path / str(number) / "binlog.000001"
        with (
            tailrace.create(target, flavour="mysql", server_id=1, **given) as log,
            generators.EventStream(source) as stream,
        ):
            stream.row.register(LogConsumer(log))
            stream.run()
        sizes.append(target.stat().st_size)
    assert of_transactions(tmp_path / "0") == of_transactions(ROOT / source)
    assert sizes[1] < sizes[0]
