"""MWL#120 `rpl_event_base::materialise`, and the facility for streams."""

from __future__ import annotations

import io
import socket
import subprocess
import sys
from typing import ClassVar

import pytest

from tailrace import generators
from tailrace.errors import UsageError
from tailrace.generators.event import Place, put_in
from tailrace.storage.streams.memory import MemoryOutput
from tests.generators.conftest import run
from tests.generators.materialise.test_calls import ALL, compare, exact, register
from tests.generators.materialise.test_values import TABLE, Given, event
from tests.recorded import ROOT
from tests.waiting import DEADLINE

SHOP = ROOT / "examples/shop/mysql"
SMALL = ROOT / "tests/corpus/mariadb-11.8.xa"


class Some(generators.RowConsumer):
    """Materialises the first event of each name while it is valid."""

    def __init__(self):
        self.found = {}

    def event(self, event):
        if event.name not in self.found:
            self.found[event.name] = event.materialise(), event.keep()


def test_each_event_of_a_log_comes_back_with_the_same_accessors():
    """`de_materialise` constructs an event from a buffer; it lasts."""
    some = Some()
    run(generators.EventStream(SHOP), some)
    assert len(some.found) >= 8
    for data, kept in some.found.values():
        again = generators.de_materialise(data)
        assert type(again) is type(kept)
        assert again.is_valid
        assert exact(again.values()) == exact(kept.values())


REAL = TABLE._replace(
    columns=(
        generators.TableColumn("id", "int", nullable=False),
        generators.TableColumn("note", "varchar(20)", nullable=True, charset="utf8mb4"),
    )
)
ROW = event(
    local_transaction_id=5,
    table=REAL,
    modified_tables=(REAL,),
    write_set=("id", "note"),
    after_image={"id": 1, "note": "x"},
)
FORMATS = ["native", "arrow"]
"""Those that hold an event by itself."""


@pytest.mark.parametrize("name", FORMATS)
def test_materialise_into_a_buffer_that_the_caller_gives(name):
    """`int materialise(uchar *buffer, size_t buflen)`: -2 on out-of-buffer, nothing written."""
    data = ROW.materialise(format=name)
    buffer = bytearray(len(data) + 5)
    assert ROW.materialise(buffer, format=name) == len(data)
    assert buffer == data + bytes(5)
    with memoryview(bytearray(len(data))) as view:
        assert ROW.materialise(view, format=name) == len(data)
        assert view == data
    for size in (len(data) - 1, 1, 0):
        small = bytearray(b"." * size)
        assert ROW.materialise(small, format=name) == generators.OUT_OF_BUFFER == -2
        assert small == b"." * size


@pytest.mark.parametrize("name", FORMATS)
def test_materialise_to_each_place_gives_the_same_event(name):
    """`uchar *materialise()`, `(mem_root)`, `(writer)`: the same bytes, from which it comes back."""
    data, pieces, stream, file = ROW.materialise(format=name), [], MemoryOutput(), io.BytesIO()
    for place in (pieces.append, stream, file):
        assert ROW.materialise(place, format=name) == len(data)
    assert b"".join(pieces) == stream.data == file.getvalue() == data
    for source in (data, stream.input()):
        again = generators.de_materialise(source, format=name)
        assert type(again) is type(ROW)
        assert {name: again.values().get(name) for name in ROW.values()} == ROW.values()


def test_what_a_format_cannot_hold_is_an_error_and_writes_nothing():
    """`-1 on error`, which is an exception here. A binary log holds transactions, Arrow rows."""
    told = set()

    class Each(generators.RowConsumer):
        def event(self, event):
            kept = event.keep()
            for name in ("binlog",) if event.name.startswith("row_") else ("binlog", "arrow"):
                pieces, buffer = [], bytearray(1 << 16)
                for one in (event, kept):
                    for place in (None, buffer, pieces.append):
                        with pytest.raises(UsageError, match=event.name):
                            one.materialise(place, format=name)
                assert not pieces
                assert not any(buffer)
                told.add(event.name)

    for source in (SHOP, ROOT / "tests/corpus/mysql-9.7.load-data"):
        with generators.EventStream(source) as stream:
            stream.row.register(Each())
            for _ in range(12):
                next(stream, None)
    assert told >= {"trx_start", "trx_commit", "stmt_query", "stmt_load_query", "row_write"}


def test_materialise_through_a_writer_function():
    """`int materialise(int (*writer)(uchar *data, size_t len, void *context))`: in pieces."""
    made = event(value=bytes(3 << 20))
    pieces = []
    assert made.materialise(pieces.append) == sum(map(len, pieces))
    assert len(pieces) > 3
    assert max(map(len, pieces)) <= 1 << 20
    assert b"".join(pieces) == made.materialise()


def test_an_error_of_the_writer_reaches_the_caller():
    def fails(data):
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        event(value=1).materialise(fails)
    with pytest.raises(UsageError, match="written to a function"):
        event(value=1).materialise(3)
    with pytest.raises(UsageError, match="no format of materialised events is called 'x'"):
        event(value=1).materialise(format="x")


def test_materialised_events_after_each_other_are_a_stream():
    data = b"".join(event(value=number).materialise() for number in range(3))
    found = list(generators.materialise.NativeReader(data).events())
    assert [each.values()["value"] for each in found] == [0, 1, 2]


def test_small_events_stay_small():
    """Names, tables and columns are defined once."""
    out = bytearray()
    with generators.Materialiser(out) as written:
        sizes = []
        for number in range(3):
            made = event(
                table=TABLE,
                modified_tables=(TABLE,),
                write_set=("id", "note"),
                after_image={"id": number, "note": "x"},
            )
            written.write(made)
            written.flush()
            sizes.append(len(out))
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0] < 70


def test_a_stream_is_written_to_each_sort_of_target(tmp_path):
    whole, pieces, stream = compare(SMALL, wanted=())[2], [], MemoryOutput()
    with (tmp_path / "stream").open("w+b", buffering=0) as file:
        targets = {"a file": file, "memory": io.BytesIO(), "storage": stream, "call": pieces.append}
        for target in targets.values():
            with generators.EventStream(SMALL) as log, generators.Materialiser(target) as written:
                written.register(log.row, rollbacks=True)
                log.run()
    found = {
        "a file": (tmp_path / "stream").read_bytes(),
        "memory": targets["memory"].getvalue(),
        "storage": stream.data,
        "call": b"".join(pieces),
    }
    assert found == dict.fromkeys(targets, whole)


def test_a_stream_is_sent_over_a_socket_between_two_processes():
    """A generic network transport: the other process sees the same calls."""
    program = """
import socket, sys
from tailrace import generators
with socket.socket() as sender:
    sender.connect(("127.0.0.1", int(sys.argv[1])))
    with generators.EventStream(sys.argv[2]) as log:
        with generators.Materialiser(sender, flush_at_commit=True) as written:
            written.register(log.row, rollbacks=True)
            log.run()
"""
    told, _, _, _ = compare(SMALL)
    again = {}
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        with subprocess.Popen([sys.executable, "-c", program, port, str(SMALL)]) as sender:
            server.settimeout(DEADLINE)
            taken, _ = server.accept()
            with taken, generators.MaterialisedStream(taken) as read:
                register(read, again, ALL)
                read.run()
            assert sender.wait(DEADLINE) == 0
    assert again == told


class PageEvent(generators.ReplicationEvent):
    """An event of an engine's own replication, as PBXT's: in no package but this test."""

    name: ClassVar[str] = "page_write"

    page = generators.accessor("The number of the page.")
    content = generators.accessor("Its bytes.")


def page_stream():
    """A stream with an event that no generator here knows."""
    out = bytearray()
    with generators.Materialiser(out) as written:
        for kind in (generators.TransactionStart, PageEvent, generators.TransactionCommit):
            made = kind(Given({"page": 7, "content": b"\0\1"}))
            put_in(made, Place(12, rolled_back=False))
            written.write(made)
    return bytes(out)


def test_a_reader_that_does_not_know_an_event_counts_it_and_gives_the_others():
    names = []

    class Names(generators.RowConsumer):
        def event(self, event):
            names.append(event.name)

    read = run(generators.MaterialisedStream(page_stream()), Names())
    assert names == ["trx_start", "trx_commit"]
    assert read.stack.unclaimed == 1


def test_an_unknown_event_is_shown_and_passed_on():
    """Self-describing: who does not know an event has its name, its values, and its bytes."""
    program = """
import pickle
import sys
from tailrace import generators
data = sys.stdin.buffer.read()
found = list(generators.materialise.NativeReader(data).events())
page = found[1]
assert type(page) is generators.UndeclaredEvent and page.name == "page_write", page
assert (page.page, page.content) == (7, b"\\0\\1")
again = pickle.loads(pickle.dumps(page.replace(page=8)))
assert (type(again), again.name, again.page) == (type(page), page.name, 8)
assert not hasattr(page, "size")
with generators.Materialiser(sys.stdout.buffer) as written:
    for each in found:
        written.write(each)
"""
    out = page_stream()
    ran = subprocess.run(
        [sys.executable, "-c", program], input=out, capture_output=True, check=True
    )
    before, after = (
        list(generators.materialise.NativeReader(each).events()) for each in (out, ran.stdout)
    )
    assert type(after[1]) is PageEvent
    assert [each.values() for each in after] == [each.values() for each in before]


def test_an_accessor_of_a_later_version_is_passed_on():
    """A reader that does not know an accessor has its value under its name."""
    again = generators.de_materialise(event(value=1, later="x").materialise())
    assert again.values()["later"] == "x"
    assert generators.de_materialise(again.materialise()).values()["later"] == "x"
    assert again.keep().values()["later"] == "x"
