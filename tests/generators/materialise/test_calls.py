"""Consumers see the same calls from a log and from the stream that was materialised of it."""

import copy
import functools
import pickle
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings

import tailrace
from tailrace import generators
from tailrace.errors import LogError, SchemaError, UsageError
from tests.cases import each_case
from tests.columns.random_log import logs
from tests.generators.conftest import run
from tests.recorded import ROOT, folders

LEVELS = ("transaction", "statement", "row")
SMALL = ROOT / "tests/corpus/mysql-9.7.several-tables"
ONE_OF_EACH = [each for each in folders("encrypted") if not each.name.startswith("mariadb-10.11")]
"""The recorded logs of one release of each flavour."""


def exact(value):
    """A value with the classes of all its parts: 1 and True are equal, and differ here."""
    if isinstance(value, dict):
        return type(value), [(key, exact(each)) for key, each in value.items()]
    if isinstance(value, (tuple, list)):
        return type(value), [exact(each) for each in value]
    return type(value), repr(value)


def called(calls):
    return lambda _, event, /: calls.append((event.name, exact(event.values())))


ALL = tuple(
    (level, more)
    for level in LEVELS
    for more in ((), ("trx_rollback",), ("row_batch",), ("row_batch", "trx_rollback"))
    if "row_batch" not in more or level == "row"
)
"""For each level those that want single events, batches, and what was rolled back."""


def register(stream, calls, wanted):
    for level, more in wanted:
        found = calls[level, more] = []
        generator = stream.stack[level]
        methods = dict.fromkeys(("event", *more), called(found))
        generator.register(type("Calls", (generator.interface,), methods)())


def compare(path, level="row", rollbacks=True, wanted=ALL):
    """Run a log, materialise what a level gives, read that; the calls of both, and the bytes."""
    stream, told, again = bytearray(), {}, {}
    with generators.EventStream(path) as log, generators.Materialiser(stream) as written:
        register(log, told, wanted)
        written.register(log.stack[level], rollbacks=rollbacks)
        try:
            log.run()
        except (LogError, SchemaError) as error:
            failed = error
        else:
            failed = None
    with generators.MaterialisedStream(stream) as read:
        register(read, again, wanted)
        read.run()
        assert not read.stack.unclaimed
    return told, again, stream, failed


def materialised(source, name="native"):
    """A source's stream of rows in a format."""
    out = bytearray()
    with source, generators.Materialiser(out, format=name) as written:
        written.register(source.row)
        source.run()
    return bytes(out)


def below(level):
    return LEVELS[: LEVELS.index(level) + 1]


@pytest.mark.slow
def test_a_consumer_sees_the_same_calls_from_the_log_and_from_the_materialised_stream():
    """MWL#120, Default materialisation format: the same consumer code on a log of events."""
    for folder in ONE_OF_EACH:
        if folder.name.endswith("-min"):
            continue  # the twin of a log with the names of columns
        of_types = folder.name.endswith("-full")  # there, values are of interest, and not calls
        wanted = [ALL[6]] if of_types else [ALL[2], ALL[4], ALL[6]]
        told, again, _, failed = compare(folder, wanted=wanted)
        if failed is None:
            assert any(told.values()), folder.name
            assert again == told, folder.name
        else:  # the log's consumers had been told of a part of what failed, one after the other
            for key, calls in again.items():
                assert calls == told[key][: len(calls)], folder.name
                assert len(calls) >= len(told[key]) - 1, folder.name


def test_the_stream_of_a_level_has_the_calls_of_that_level():
    """A materialiser registers with any generator: what is below its level is all there."""
    for level in LEVELS:
        told, again, _, _ = compare(ROOT / "tests/corpus/mariadb-11.8.several-tables", level)
        for (of, more), calls in told.items():
            if of in below(level):
                assert again[of, more] == calls
            else:
                assert again[of, more] == again[level, tuple(m for m in more if m != "row_batch")]


def test_a_stream_without_rollbacks_has_what_counts_only():
    """Who did not ask for what was rolled back has none of it in the stream."""
    folder = ROOT / "tests/corpus/mysql-9.7.savepoints"
    told, again, _, _ = compare(folder, rollbacks=False)
    for (level, more), calls in again.items():
        assert calls == told[level, tuple(each for each in more if each != "trx_rollback")]


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=logs())
@pytest.mark.slow
def test_random_logs_give_the_same_calls(data, tmp_path_factory):
    """The property over logs that nobody chose."""
    path = tmp_path_factory.mktemp("log") / "binlog.000001"
    path.write_bytes(data)
    told, again, _, failed = compare(path)
    assert failed is None
    assert again == told


@pytest.mark.parametrize("rollbacks", [True, False])
def test_local_transactions_that_interleave_give_the_same_calls(rollbacks):
    """Who wants rollbacks is told of changes when they are made, others when they are committed."""
    table = tailrace.Table("d.t", "id INT PRIMARY KEY, v VARCHAR(9)")
    stream, told, again = bytearray(), {}, {}
    written = generators.Materialiser(stream)
    with tailrace.local() as server:
        register(server, told, ALL)
        written.register(server.row, rollbacks=rollbacks)
        with server.transaction() as first:
            first.insert(table, [(1, "a"), (2, "b")])
            with suppress(KeyError), server.transaction() as second:
                second.insert(table, [(3, "c")])
                raise KeyError
            first.delete(table, [(1, "a")])
        server.insert(table, [(4, "d")])
    written.close()
    with generators.MaterialisedStream(stream) as read:
        register(read, again, ALL)
        read.run()
    for key, calls in told.items():
        wants = "trx_rollback" in key[1]
        if rollbacks or not wants:
            assert again[key] == calls
    assert any("trx_rollback" in [name for name, _ in calls] for calls in told.values())


def test_a_stream_that_failed_cannot_be_run_again():
    """As a log: the rest of it cannot be read, and an empty end would look like its end."""
    stream = compare(SMALL, wanted=())[2]
    with generators.MaterialisedStream(stream[:-20]) as cut:
        with pytest.raises(LogError):
            cut.run()
        with pytest.raises(UsageError, match="ended with an error: open its source again"):
            cut.run()


def test_every_source_has_the_same_base():
    """What registers consumers asks the source, whatever it is."""
    log = generators.EventStream("examples/shop/mysql")
    with log, generators.MaterialisedStream(b"") as read, tailrace.local() as local:
        assert isinstance(read, generators.EventReader)
        assert isinstance(log, generators.EventReader)
        for source in (log, read, local):
            assert isinstance(source, generators.EventSource)
            assert source.row is source.stack["row"]
            assert source.is_local is (source is local)


@functools.cache
def all_events():
    """The events of a log, lasting."""
    found = []

    class All(generators.RowConsumer):
        def event(self, event):
            found.append(event.keep())

    run(generators.EventStream(SMALL), All())
    return found


def some_events(count):
    """The first events of a log, lasting."""
    return all_events()[:count]


def test_a_stream_whose_writer_failed_has_no_end():
    """A reader does not take what was written before for all of it."""
    stream = bytearray()
    with suppress(KeyError), generators.Materialiser(stream) as written:
        for event in some_events(9):
            written.write(event)
        written.flush()
        raise KeyError
    with generators.MaterialisedStream(stream) as read, pytest.raises(LogError):
        read.run()
    with pytest.raises(UsageError, match="trx_start: the materialiser is closed"):
        written.write(some_events(1)[0])


@each_case(
    ("part", "message"),
    [
        (slice(3), "ends inside a transaction"),
        (slice(1, 9), "of transaction 1 without its start"),
    ],
)
def test_a_stream_with_a_part_of_a_transaction(part, message):
    """The transaction's consumers never heard of its end, or its start: that is an error."""
    stream = bytearray()
    with generators.Materialiser(stream) as written:
        for event in all_events()[part]:
            written.write(event)
    with generators.MaterialisedStream(stream) as read, pytest.raises(LogError, match=message):
        read.run()


def test_local_transactions_of_which_a_stream_has_each_change_once():
    """A reader that wants rollbacks is told of them too: there was nothing to tell before."""
    table = tailrace.Table("d.t", "id INT PRIMARY KEY")
    stream, told = bytearray(), {}
    with tailrace.local() as server, generators.Materialiser(stream) as written:
        written.register(server.row)
        server.insert(table, [(1,)])
    with generators.MaterialisedStream(stream) as read:
        register(read, told, ALL)
        read.run()
    calls = {key[1]: [name for name, _ in found] for key, found in told.items() if key[0] == "row"}
    assert calls[()] == ["trx_start", "stmt_start", "row_write", "stmt_end", "trx_commit"]
    assert calls["trx_rollback",] == calls[()]


@each_case(
    ("images", "message"),
    [
        (
            {"operation": "update", "before_images": [{"id": 1}], "after_images": []},
            "other numbers of rows before and after",
        ),
        ({"operation": "upsert", "after_images": [{"id": 1}]}, "rows with the operation 'upsert'"),
        ({"operation": "insert", "after_images": 5}, "a value that is no list"),
    ],
)
def test_rows_that_are_none(images, message):
    """A filter may have made them."""
    stream, events = bytearray(), some_events(1_000_000)
    update = next(event for event in events if event.name == "row_update")
    number = update.local_transaction_id
    with generators.Materialiser(stream) as written:
        for event in events[: events.index(update)]:
            if event.local_transaction_id == number:
                written.write(event)
        written.write(generators.injected(generators.RowBatch, update, **images))
    with generators.MaterialisedStream(stream) as read:
        register(read, {}, ALL)
        with pytest.raises(LogError, match=message):
            read.run()


def test_a_row_by_itself_is_a_batch_of_one():
    stream, told = bytearray(), {}
    with generators.Materialiser(stream) as written:
        for each in all_events():
            written.write(each)
    with generators.MaterialisedStream(stream) as read:
        register(read, told, ALL)
        read.run()
    rows, batches = (
        [dict(values[1]) for name, values in told["row", more] if name.startswith("row_")]
        for more in ((), ("row_batch",))
    )
    assert rows
    none = exact(None)
    for row, batch in zip(rows, batches, strict=True):
        for side in ("before_image", "after_image"):
            image = row.get(side, none)
            assert batch.get(f"{side}s", none) == (none if image == none else (list, [image]))


def test_events_that_last_are_copied_and_pickled():
    for event in some_events(20):
        for again in (copy.copy(event), copy.deepcopy(event), pickle.loads(pickle.dumps(event))):
            assert type(again) is type(event)
            assert again.values() == event.values()


def test_a_text_file_is_no_source(tmp_path):
    (tmp_path / "stream").write_text("x")
    with (tmp_path / "stream").open() as file, pytest.raises(UsageError, match="text file"):
        generators.MaterialisedStream(file)
