"""MWL#120: "there can still be other formats alongside": Arrow IPC is one, for rows."""

import io
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tailrace
from tailrace import generators
from tailrace.errors import LogError, UsageError
from tailrace.writing.materialised import arrow
from tests.generators.conftest import run
from tests.generators.materialise.test_calls import ONE_OF_EACH, exact, materialised
from tests.recorded import CORPUS, ROOT

SHOPS = ["examples/shop/mysql", "examples/shop/mariadb"]
TYPES = [
    each
    for each in ONE_OF_EACH
    if each.name.endswith(("-full", "-minimal") + ("-min",) * each.name.startswith("mysql"))
    and "json-partial-min" not in each.name
]


FULL = [each for each in TYPES if each.name.endswith("-full")]
"""Their logs have the names and types of all columns."""


class Rows(generators.RowConsumer):
    """Rows, and the transactions that they are in: a transaction without rows is none of Arrow."""

    def __init__(self):
        self.calls = []

    def event(self, event):
        if event.name.startswith("row_"):
            self.calls.append((event.name, exact(event.values())))

    def trx_start(self, event):
        self.calls.append(("trx_start", event.local_transaction_id))

    def trx_commit(self, event):
        number = event.local_transaction_id
        if self.calls[-1] == ("trx_start", number):
            del self.calls[-1]
        else:
            self.calls.append(("trx_commit", number, event.global_transaction_id))


def calls(source):
    found = Rows()
    run(source, found)
    return found.calls


@pytest.mark.slow
def test_a_consumer_sees_the_same_rows_from_the_log_and_from_arrow():
    """With their transactions and GTIDs, and the classes of all values."""
    for folder in (*map(ROOT.joinpath, SHOPS), *TYPES):
        stream = materialised(generators.EventStream(folder), "arrow")
        wanted = calls(generators.EventStream(folder))
        assert any(each[0].startswith("row_") for each in wanted), folder
        assert calls(generators.MaterialisedStream(stream, format="arrow")) == wanted, folder


@pytest.mark.slow
@pytest.mark.parametrize("folder", SHOPS)
def test_it_is_what_arrow_reads_and_has_the_change_record(folder):
    """The images of `tailrace.changes`, which the kernels decode."""
    file = io.BytesIO(materialised(generators.EventStream(ROOT / folder), "arrow"))
    found = {}
    while file.tell() < len(file.getbuffer()):
        with pa.ipc.open_stream(file) as stream:
            _collect(found, stream)
    wanted = _collect({}, tailrace.changes(ROOT / folder))
    assert found == wanted
    assert len(found) > 1000


def _collect(found, batches):
    """Each row by its ``_seq``, with all that a record has but the time of its transaction."""
    for batch in batches:
        for row in batch.to_pylist():
            names = [each for each in row if each[0] == "_" or each in ("before", "after")]
            names = [each for each in names if each not in ("_seq", "_ts", "_transaction")]
            found[row["_seq"]] = {name: row[name] for name in names}
    return found


@pytest.mark.slow
def test_the_native_format_is_converted_to_arrow_and_back():
    """The types of the columns are then those that the events say."""
    for folder in FULL:
        native = materialised(generators.EventStream(folder), "native")
        stream = materialised(generators.MaterialisedStream(native), "arrow")
        again = calls(generators.MaterialisedStream(stream, format="arrow"))
        assert again == calls(generators.MaterialisedStream(native)), folder


def test_rows_of_a_program_have_the_flags_that_no_log_has():
    orders = tailrace.Table("shop.orders", "id INT PRIMARY KEY, total DECIMAL(10,2)")
    out, kept = bytearray(), []

    class Keeps(generators.RowConsumer):
        def row_batch(self, event):
            kept.append(exact(event.values()))

    with tailrace.local() as server, generators.Materialiser(out, format="arrow") as written:
        written.register(server.row)
        server.row.register(Keeps())
        with server.transaction() as transaction:
            transaction.insert(orders, [(1, "9.50"), (2, None)], write_can_replace=True)
            transaction.update(orders, [(2, None)], [(2, "1.00")])
        with server.transaction() as transaction:
            transaction.delete(orders, [(1, "9.50")], ignore_no_key=True)
        wanted, kept = kept, []
    run(generators.MaterialisedStream(out, format="arrow"), Keeps())
    assert kept == wanted
    assert len(kept) == 3


def test_facts_that_are_added_are_columns():
    out, seen = bytearray(), []

    class Adds(generators.RowConsumer):
        def event(self, event):
            written.write(event)

        def row_batch(self, event):
            written.write(event.replace(seen_by="a filter"))

    class Sees(generators.RowConsumer):
        def row_write(self, event):
            seen.append(event.values()["seen_by"])

    log = generators.EventStream(ROOT / SHOPS[0], tables="shop.reviews")
    with log, generators.Materialiser(out, format="arrow") as written:
        log.row.register(Adds())
        log.run()
    run(generators.MaterialisedStream(out, format="arrow"), Sees())
    assert seen == ["a filter"] * 230


@pytest.mark.slow
def test_each_event_of_rows_by_itself_and_no_other():
    told = set()

    class Each(generators.RowConsumer):
        def event(self, event):
            if event.name.startswith("row_"):
                found = generators.de_materialise(event.materialise(format="arrow"), format="arrow")
                assert type(found) is type(event)
                assert exact(found.values()) == exact(event.values())
            else:
                with pytest.raises(UsageError, match=event.name):
                    event.materialise(format="arrow")
            told.add(event.name)

    class Batches(Each):
        row_batch = Each.event

    for kind in (Each, Batches):
        run(
            generators.EventStream(ROOT / SHOPS[0], tables=["shop.reviews", "shop.customers"]),
            kind(),
        )
    assert {"row_batch", "row_write", "row_update", "row_delete", "trx_start", "stmt_end"} <= told


def test_statements_that_change_rows_are_no_rows():
    for name in ("mysql-9.7.load-data", "mariadb-11.8.statement-format"):
        with pytest.raises(UsageError, match="Arrow holds rows, and this change was logged as"):
            materialised(generators.EventStream(CORPUS / name), "arrow")


def test_a_transaction_that_has_not_ended_is_left_out():
    out = bytearray()
    with generators.EventStream(ROOT / SHOPS[0], tables="shop.reviews") as log:

        class Stops(generators.RowConsumer):
            def row_batch(self, event):
                raise UsageError("no more")

        with generators.Materialiser(out, format="arrow") as written:
            written.register(log.row)
            log.row.register(Stops())
            with pytest.raises(UsageError, match="no more"):
                log.run()
    assert not out


def test_partial_updates_without_their_document_are_an_error():
    with pytest.raises(LogError, match="a partial JSON update without the document"):
        materialised(generators.EventStream(CORPUS / "mysql-9.7.json-partial-minimal"), "arrow")


@pytest.fixture(scope="module")
def reviews():
    return materialised(generators.EventStream(ROOT / SHOPS[0], tables="shop.reviews"), "arrow")


def test_a_stream_that_was_cut_off_is_an_error(reviews):
    """Also between two batches, where Arrow itself sees an end."""
    for cut in (1, 100, 4000, -30, -8, -1):
        with pytest.raises(LogError):
            calls(generators.MaterialisedStream(reviews[:cut], format="arrow"))


def test_a_large_message_is_read_in_pieces(reviews, monkeypatch):
    monkeypatch.setattr(arrow, "_PIECE", 1000)
    log = generators.EventStream(ROOT / SHOPS[0], tables="shop.reviews")
    assert calls(generators.MaterialisedStream(reviews, format="arrow")) == calls(log)


def test_another_arrow_stream_is_an_error(reviews):
    def stream(schema, *arrays):
        out = io.BytesIO()
        with pa.ipc.new_stream(out, schema) as written:
            written.write_batch(pa.record_batch(list(arrays), schema=schema))
        return out.getvalue()

    with pa.ipc.open_stream(reviews) as read:
        metadata = read.schema.metadata
    plain = pa.schema([("a", pa.int8())])
    for said_by, said in (
        (None, "not one of materialised rows"),
        (metadata, "has not the columns of"),
        ({**metadata, b"tailrace.event": b"other"}, "unknown event other"),
        ({**metadata, b"tailrace.modified_table": b"{"}, "has not the columns of"),
    ):
        data = stream(plain.with_metadata(said_by), pa.array([1], pa.int8()))
        with pytest.raises(LogError, match=said):
            calls(generators.MaterialisedStream(data, format="arrow"))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damage_is_an_error_or_another_value_but_nothing_else(reviews, data):
    """Arrow has no checksums."""
    damaged = bytearray(reviews)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    with suppress(LogError):
        calls(generators.MaterialisedStream(damaged, format="arrow"))
