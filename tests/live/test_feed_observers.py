"""What the feed tells relay I/O observers, and what it does with their answers."""

import pytest

from tailrace.errors import ObserverError
from tailrace.live.chunks import END, Chunk
from tailrace.live.feed import Feed
from tailrace.observers import RelayIoDelegate, RelayIoObserver
from tailrace.position import Position
from tailrace.wire.commands import DumpFlag
from tests.cases import each_case
from tests.live.feeding import DEADLINE, Copy, drain, empty, events_of, files_of, fill, source_of
from tools.proxy import Proxy

pytestmark = pytest.mark.usefixtures("patient")


class Witness(RelayIoObserver):
    def __init__(self, answer=lambda packet: packet):
        self.calls = []
        self.packets = []
        self.requests = []
        self.answer = answer

    def thread_start(self, io):
        assert io.connection is None
        self.calls.append("start")

    def thread_stop(self, io):
        assert io.connection is not None
        self.calls.append("stop")

    def before_request_transmit(self, io, flags):
        assert list(io.connection.query("SELECT 1 + 1")) == [(2,)]
        assert io.server_id
        self.calls.append("request")
        self.requests.append((io.host, io.port, Position(io.log_name, io.log_pos)))
        return flags

    def after_read_event(self, io, packet):
        self.packets.append((io.log_name, io.log_pos, bytes(packet)))
        return self.answer(packet)


ANSWERS = {
    "as it is": lambda packet: packet,
    "a copy": lambda packet: memoryview(bytes(packet)),
    "a part of a larger one": lambda packet: memoryview(b"12" + bytes(packet))[2:],
}


@pytest.fixture(scope="module")
def filled(server):
    """A server with an event of several packets, and a further file."""
    fill(server, 5)
    server.execute("INSERT INTO feed.t (b) VALUES (REPEAT('o', 17000000))")
    server.rotate()
    fill(server, 3)
    return server


@each_case("answer", ANSWERS)
def test_thread_start_after_read_event_and_thread_stop_have_each_packet_at_its_place(
    filled, answer
):
    server = filled
    witness = Witness(ANSWERS[answer])
    with Feed(
        source_of(server), start="oldest", follow=False, delegate=RelayIoDelegate([witness])
    ) as feed:
        copy = drain(feed)
    files = files_of(server)
    copy.equals(files)
    assert witness.calls == ["start", "request", "stop"]
    assert witness.requests == [("127.0.0.1", server.port, Position("", 4))]
    shown = {(file, at): raw for file, at, raw in witness.packets if not raw[17] & 0x20}
    for name in files:
        for offset, code, raw in events_of(files[name]):
            assert shown[name, offset][19:] == raw[19:], (name, offset, code)


def test_an_observer_may_strip_what_a_plugin_of_the_source_adds(server):
    """Two bytes before each event; here the witness adds and strips them itself."""
    fill(server, 3)
    witness = Witness(lambda packet: memoryview(b"\xef\0" + bytes(packet)))
    stripper = Witness(lambda packet: packet[2:])
    delegate = RelayIoDelegate([witness, stripper])
    with Feed(source_of(server), start="oldest", follow=False, delegate=delegate) as feed:
        drain(feed).equals(files_of(server))
    assert all(raw[:2] == b"\xef\0" for _, _, raw in stripper.packets)


def test_before_request_transmit_at_each_connection(server):
    fill(server, 60, 1000)
    witness = Witness()
    delegate = RelayIoDelegate([witness])
    with Proxy(server.port) as proxy:
        proxy.cut_after_each([20_000, 30_001])
        source = source_of(proxy.port)
        with Feed(source, start="oldest", follow=False, delegate=delegate) as feed:
            drain(feed).equals(files_of(server))
            assert feed.reconnects == 2
    assert witness.calls == ["start", "request", "request", "request", "stop"]
    places = [at for _, _, at in witness.requests]
    assert places == sorted(places)
    assert places[0].offset == 4


def test_by_gtid_too(server):
    fill(server, 3)
    witness = Witness()
    delegate = RelayIoDelegate([witness])
    with Feed(source_of(server), start=empty(server), follow=False, delegate=delegate) as feed:
        given = 0
        while (item := feed.take(DEADLINE)) is not END:
            given += len(item.starts) if isinstance(item, Chunk) else 0
    assert given > 20
    assert len(witness.packets) > given


def test_the_flags_are_the_observers(server):
    """NON_BLOCK from an observer: the dump ends where it would wait."""
    witness = Witness()
    witness.before_request_transmit = lambda io, flags: flags | DumpFlag.NON_BLOCK
    with Feed(source_of(server, retry=0), start="now", delegate=RelayIoDelegate([witness])) as feed:
        with pytest.raises(Exception, match="ended the dump"):
            drain(feed)
        assert feed.io.flags == DumpFlag.NON_BLOCK


@each_case("where", ["thread_start", "before_request_transmit", "after_read_event"])
def test_an_observer_that_fails_ends_the_feed(server, where):
    def fail(*_):
        raise ValueError("no")

    witness = Witness()
    setattr(witness, where, fail)
    stops = []
    witness.thread_stop = stops.append
    feed = Feed(source_of(server), start="oldest", delegate=RelayIoDelegate([witness]))
    copy = Copy()
    for _ in range(2):
        with pytest.raises(ObserverError, match=f"failed in {where}: ValueError: no"):
            drain(feed, copy)
    assert not stops
    for _ in range(2):
        feed.close()
        assert len(stops) == 1


def test_get_user_var_int_real_and_str_of_the_session(server):
    found = []

    class Asks(RelayIoObserver):
        def before_request_transmit(self, io, flags):
            session = io.connection
            session.query("SET @whole = 42, @`odd ``name` = 'text', @part = 1.5e0")
            found.append(session.get_user_var_int("whole"))
            found.append(session.get_user_var_real("part"))
            found.append(session.get_user_var_str("odd `name"))
            found.append(session.get_user_var_int("never_set"))
            found.append(session.get_user_var_real("never_set"))
            found.append(session.get_user_var_str("never_set"))
            return flags

    feed = Feed(source_of(server), start="now", delegate=RelayIoDelegate([Asks()]))
    with feed:
        feed.take(DEADLINE)
    assert found == [42, 1.5, "text", None, None, None]
