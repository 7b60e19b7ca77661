"""MWL#120: binary log events are another materialisation of the same stream; either converts."""

import pytest

import tailrace
from tailrace import generators
from tailrace.constants import EventFlag
from tailrace.errors import EventDecodeError, UsageError
from tailrace.events import GtidEvent
from tailrace.writing.foreign import OF_THE_FILE
from tests.cases import each_case
from tests.generators.conftest import run
from tests.generators.materialise.test_calls import ONE_OF_EACH, exact, materialised
from tests.recorded import ROOT

FOLDERS = [
    "tests/corpus/mysql-9.7.several-tables",
    "tests/corpus/mariadb-11.8.several-tables",
    "tests/corpus/mysql-9.7.load-data",
    "tests/corpus/mariadb-11.8.load-data",
]
OTHER = {"position", "timestamp", "last_committed", "sequence_number", "group_commit_id"}
"""What is another log's own; all of a transaction has the time at which it begins in that."""
OTHER |= {"transactional_tables", "non_transactional_tables", "immediate_commit_timestamp", "xa"}
EDGES = {"stmt_start", "stmt_end"}
"""A log that is written has one statement for each batch of rows."""


def calls(stream):
    found = []

    class Calls(generators.RowConsumer):
        def event(self, event):
            if event.name in EDGES:
                return
            values = {key: value for key, value in event.values().items() if key not in OTHER}
            found.append((event.name, exact(values)))

    run(stream, Calls())
    return found


def test_a_stream_is_converted_to_a_binary_log_and_back(tmp_path):
    for number, folder in enumerate(FOLDERS):
        path = ROOT / folder
        native = materialised(generators.EventStream(path), "native")
        binlog = materialised(generators.MaterialisedStream(native), "binlog")
        again = materialised(generators.MaterialisedStream(binlog, format="binlog"), "native")
        log = tmp_path / f"{number}.000001"
        log.write_bytes(binlog)
        wanted = calls(generators.EventStream(path))
        assert calls(generators.EventStream(log)) == wanted, folder
        assert calls(generators.MaterialisedStream(again)) == wanted, folder
        assert any(name.startswith("row_") for name, _ in wanted) or "load-data" in folder
        with tailrace.open(log) as events:
            assert list(events)


@each_case("name", ["binlog", "arrow"])
def test_what_holds_nothing_that_is_rolled_back(name):
    written = generators.Materialiser(bytearray(), format=name)
    with generators.EventStream(ROOT / "tests/corpus/mariadb-11.8.savepoints") as log:
        written.register(log.row, rollbacks=True)
        with pytest.raises(UsageError, match="no event that is rolled back"):
            log.run()


def of_transactions(path):
    """A log's events as bytes, but for position and checksum; those of files are its own.

    Of MySQL's GTID events all but the place: the logical clock, and the length with its checksums.
    """
    found = []
    with tailrace.open(path, verify_checksums=False, expand_payloads=False) as log:
        for event in log:
            header = event.header
            said = (header.type, header.timestamp, header.server_id, header.flags)
            if event.type in OF_THE_FILE or header.flags & EventFlag.ARTIFICIAL:
                continue
            if isinstance(event, GtidEvent):
                names = ("gtid", "flags", "original_commit_timestamp", "immediate_commit_timestamp")
                found.append((said, [getattr(event, name) for name in names]))
            else:
                found.append((said, bytes(event.body)))
    return found


UNLIKE = "xa", "savepoints", "incident", "encrypted", "torn", "-min"
"""Logs that hold more than transactions, and twins of other cases that lack the columns' names."""


@pytest.mark.slow
def test_the_binary_log_of_a_log_has_the_bytes_of_its_events(tmp_path):
    """What was not changed is copied: table maps, statements, BEGIN, XID, payloads too."""
    for folder in ONE_OF_EACH:
        if not folder.name.endswith(UNLIKE):
            log = tmp_path / f"{folder.name}.000001"
            log.write_bytes(materialised(generators.EventStream(folder), "binlog"))
            assert of_transactions(log) == of_transactions(folder), folder.name


def test_the_binary_log_of_a_stream_that_is_a_binary_log_has_its_bytes(tmp_path):
    """Read in this format, a log's own events are there, as they are in a log."""
    folder = ROOT / FOLDERS[1]
    first = materialised(generators.EventStream(folder), "binlog")
    again = materialised(generators.MaterialisedStream(first, format="binlog"), "binlog")
    assert len(again) == len(first)
    for number, data in enumerate((first, again), 1):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "binlog.000001").write_bytes(data)
    assert of_transactions(tmp_path / "2") == of_transactions(tmp_path / "1")


def test_a_binary_log_is_several_events():
    log = materialised(generators.EventStream(ROOT / FOLDERS[2]), "binlog")
    with pytest.raises(EventDecodeError, match="several events"):
        generators.de_materialise(log, format="binlog")
