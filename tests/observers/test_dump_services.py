"""WL#4398's services on a replica's connection, used by an observer while a dump is sent."""

import socket

import pytest

from tailrace.errors import ConnectionLost, ObserverError
from tailrace.observers import TransmitDelegate, TransmitIo, TransmitObserver
from tailrace.replication.source.connection import ReplicaConnection
from tailrace.wire.packets import frame


@pytest.fixture
def pair():
    """A replica's connection, and the replica's end of it."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(60)
    connection = ReplicaConnection(ours, user="repl", host="127.0.0.1", port=4, thread_id=9)
    yield connection, theirs
    connection.release()
    theirs.close()


def payload_from(sock):
    head = sock.recv(4, socket.MSG_WAITALL)
    return head[3], sock.recv(int.from_bytes(head[:3], "little"), socket.MSG_WAITALL)


class Talks(TransmitObserver):
    """Asks the replica something after each event, and waits for its answer."""

    def __init__(self):
        self.calls = []

    def transmit_start(self, io, file, position):
        variables = io.connection.variables
        self.calls.append(
            (
                "transmit_start",
                (io.server_id, io.flags, file, position),
                (io.connection.user, io.connection.host, io.connection.port),
                variables.get_user_var_int("talk"),
                variables.get_user_var_real("talk", 1),
                variables.get_user_var_str("talk", 3, 2),
            )
        )
        return "talk" in variables

    def after_send_event(self, io, event):
        io.connection.write(b"ask")
        io.connection.flush()
        self.calls.append(("after_send_event", bytes(event), io.connection.read()))

    def transmit_stop(self, io):
        self.calls.append(("transmit_stop", io.server_id))


def test_thd_net_read_write_and_flush_in_after_send_event(pair):
    connection, replica = pair
    service = connection  # the protocol is what the connection has
    connection.variables["TALK"] = "2.75 x"
    observer = Talks()
    delegate = TransmitDelegate([observer])
    io = TransmitIo(7, 2, service)
    delegate.transmit_start(io, "b.000001", 4)
    with delegate.packets(io) as packets:
        for number in (1, 2):
            replica.sendall(frame(b"answer %d" % number, 0))
            packets.send(b"event %d" % number, "b.000001", 99, connection.write)
    delegate.transmit_stop(io)
    assert observer.calls == [
        (
            "transmit_start",
            (7, 2, "b.000001", 4),
            ("repl", "127.0.0.1", 4),
            2,
            2.8,
            "2.7",
        ),
        ("after_send_event", b"event 1", b"answer 1"),
        ("after_send_event", b"event 2", b"answer 2"),
        ("transmit_stop", 7),
    ]
    assert [payload_from(replica) for _ in range(4)] == [
        (0, b"\0event 1"),
        (1, b"ask"),
        (2, b"\0event 2"),
        (3, b"ask"),
    ]


def test_thd_net_write_waits_for_thd_net_flush(pair):
    connection, replica = pair
    connection.write(b"one")
    replica.setblocking(False)
    with pytest.raises(BlockingIOError):
        replica.recv(1)
    connection.flush()
    replica.setblocking(True)
    assert payload_from(replica) == (0, b"one")


def test_thd_net_read_of_a_lost_connection_ends_the_dump(pair):
    connection, replica = pair
    connection.variables["talk"] = None
    observer = Talks()
    delegate, io = TransmitDelegate([observer]), TransmitIo(7, 0, connection)
    delegate.transmit_start(io, "", 4)
    assert observer.calls[0][3:] == (None, None, None)
    replica.close()
    with delegate.packets(io) as packets, pytest.raises(ConnectionLost):
        packets.send(b"event", "b.000001", 99, connection.write)


def test_get_user_var_int_of_a_variable_that_was_not_set_rejects_the_dump(pair):
    connection, _ = pair
    delegate = TransmitDelegate([Talks()])
    with pytest.raises(ObserverError, match="failed in transmit_start: KeyError: 'talk'"):
        delegate.transmit_start(TransmitIo(8, 0, connection), "", 4)
