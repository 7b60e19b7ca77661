"""What is acknowledged: the event's end in 64 bits, in the order of the files."""

import pytest

from tailrace.errors import ConnectionLost, SemisyncError, ServerError
from tailrace.observers import RelayFlag, RelayIo
from tailrace.position import Position
from tailrace.replication.semisync.replica import SemisyncReplica
from tailrace.wire.semisync import Acknowledgement, wrap
from tests.cases import each_case

GIB = 1 << 30
XID = 31


class Notes:
    """A connection service that keeps what is written to it; the answers are those of a MySQL."""

    def __init__(self, error=None):
        self.sent, self.buffer, self.error = [], [], error

    def query(self, sql):
        return [("9.7.0",)]

    def write(self, packet, sequence=0):
        assert sequence == 0
        self.buffer.append(Acknowledgement.decode(packet))

    def flush(self):
        if self.error:
            raise self.error
        self.sent += self.buffer
        self.buffer.clear()


def _replica(**settings):
    observer, io = SemisyncReplica(), RelayIo(host="h", user="u", port=1)
    io.connection = Notes(**settings)
    assert observer.before_request_transmit(io, 6) == 6
    assert observer.enabled
    return observer, io


def _event(end):
    """An XID event as it is sent, its log_pos in 32 bits; 0 for what a group of MariaDB has."""
    return (
        bytes(9) + XID.to_bytes(4, "little") + (end % (1 << 32)).to_bytes(4, "little") + bytes(14)
    )


def _read(observer, io, name, start, end, *, wanted=True):
    io.log_name, io.log_pos = name, start
    event = _event(end)
    assert bytes(observer.after_read_event(io, memoryview(wrap(event, wanted)))) == event


def _queue(observer, io, name, end, flags=RelayFlag.SYNCED):
    io.log_name, io.log_pos = name, end
    observer.after_queue_event(io, memoryview(b"event"), flags)


@each_case(
    ("start", "header", "end"),
    [
        (1000, 1031, 1031),
        (5 * GIB, 5 * GIB + XID, 5 * GIB + XID),  # the header says 1 GiB and 31
        (4 * GIB - 10, 4 * GIB - 10 + XID, 4 * GIB + 21),  # the header's has begun anew
        (4 * GIB - XID, 4 * GIB, 4 * GIB),  # the header says 0, which says nothing
        (5 * GIB, 0, 5 * GIB + XID),  # inside a group of MariaDB's
        (1000, 1131, 1131),  # events between were left out: the header is right
        (4 * GIB - 1000, 4 * GIB + 100, 4 * GIB + 100),
    ],
)
def test_the_end_of_an_event(start, header, end):
    observer, io = _replica()
    _read(observer, io, "b.000001", start, header)
    _queue(observer, io, "b.000001", end - 1)
    assert observer.acknowledgements == 0
    _queue(observer, io, "b.000001", end)
    assert io.connection.sent == [Acknowledgement("b.000001", end)]
    assert observer.acknowledged == Position("b.000001", end)


def test_acknowledgements_are_cumulative_and_go_by_files():
    observer, io = _replica()
    for name, start in [("b.999999", 100), ("b.999999", 200), ("b.1000000", 4), ("b.1000000", 50)]:
        _read(observer, io, name, start, start + XID)
    _read(observer, io, "b.1000000", 81, 112, wanted=False)
    assert observer.waiting == 4
    _queue(observer, io, "b.999999", 131, RelayFlag.NONE)
    assert io.connection.sent == []
    _queue(observer, io, "b.999999", 131)
    _queue(observer, io, "b.999999", 131)  # once
    _queue(observer, io, "b.1000000", 35)
    _queue(observer, io, "b.1000000", 112)
    assert io.connection.sent == [
        Acknowledgement("b.999999", 131),
        Acknowledgement("b.1000000", 35),
        Acknowledgement("b.1000000", 81),
    ]
    assert (observer.acknowledgements, observer.waiting) == (3, 0)
    observer.after_reset_replica(io)
    assert (observer.acknowledgements, observer.acknowledged) == (0, None)


def test_another_connection_makes_void_what_was_wanted_on_the_last():
    observer, io = _replica()
    _read(observer, io, "b.000001", 100, 131)
    observer.before_request_transmit(io, 0)
    _queue(observer, io, "b.000001", 131)
    assert io.connection.sent == []


def test_a_connection_that_is_gone_is_the_readers_to_find_out(caplog):
    observer, io = _replica(error=ConnectionLost("gone"))
    _read(observer, io, "b.000001", 100, 131)
    _queue(observer, io, "b.000001", 131)
    assert caplog.messages == ["b.000001:131 was not acknowledged: gone"]
    assert observer.acknowledgements == 0


def test_a_server_that_refuses_the_question_is_an_error():
    class Refuses(Notes):
        def query(self, sql):
            if "VERSION" in sql:
                return super().query(sql)
            raise ServerError("no", code=1227)

    io = RelayIo(host="h", user="u", port=1, connection=Refuses())
    with pytest.raises(ServerError, match="1227"):
        SemisyncReplica().before_request_transmit(io, 0)


def test_without_a_connection_there_is_nobody_to_ask():
    with pytest.raises(SemisyncError, match="u@h:1: there is no connection to ask on"):
        SemisyncReplica().before_request_transmit(RelayIo(host="h", user="u", port=1), 0)
