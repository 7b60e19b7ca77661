"""The feed by position, on a connection that holds: against the servers' files."""

import re
from time import monotonic, sleep

import pytest

from tailrace.errors import (
    ConnectionLost,
    DuplicateServerId,
    LogReset,
    ServerError,
    UsageError,
)
from tailrace.gtid import GtidSet
from tailrace.live.chunks import END, Expected, FileBegin
from tailrace.live.feed import Feed
from tailrace.live.session import Identity, Session
from tailrace.live.url import Host, Source
from tailrace.position import Position
from tests.cases import each_case
from tests.live.feeding import (
    DEADLINE,
    Copy,
    drain,
    end_of,
    events_of,
    files_of,
    fill,
    refused,
    source_of,
    take_until,
)
from tests.waiting import ended, in_thread

pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture(scope="module")
def filled(server):
    """A server with several files, one with events of 17 and 40 MB, and one of just 16 MiB - 1."""
    fill(server)
    server.rotate()
    fill(server, 5)
    for size in (17 << 20, 40 << 20, 1):
        server.execute("INSERT INTO feed.t (b) VALUES (REPEAT('l', %s))", (size,))
    server.rotate()
    fill(server, 5)
    server.settle()
    return server


@each_case("mode", ["DISABLED", "PREFERRED"])
def test_whole_files_from_the_oldest_on(filled, mode):
    with Feed(source_of(filled, ssl_mode=mode), follow=False) as feed:
        copy = drain(feed)
        assert (feed.position.file, feed.position.offset) == end_of(filled)
        assert feed.take() is END
        assert feed.reconnects == 0
        assert feed.gtids is None
    copy.equals(files_of(filled))
    assert not any(begin.artificial for begin in copy.begins)


def test_from_the_end(filled):
    end = Position(*end_of(filled))
    identity = Identity()
    with Feed(source_of(filled), start="now", follow=False, identity=identity) as feed:
        copy = drain(feed)
        assert feed.position == end
        assert feed.session is not None
        assert feed.session.server_id == filled.server_id
        assert feed.identity is identity
    assert identity.server_id
    assert [(begin.file, begin.offset, begin.artificial) for begin in copy.begins] == [
        (end.file, end.offset, True)
    ]
    assert copy.chunks == 0


def test_the_end_of_a_file_that_was_rotated_leads_to_the_next(filled):
    files = files_of(filled)
    first, second = list(files)[-2:]
    with Feed(source_of(filled), start=Position(first, len(files[first])), follow=False) as feed:
        copy = drain(feed)
    assert [(begin.file, begin.artificial) for begin in copy.begins] == [
        (first, True),
        (second, False),
    ]
    assert bytes(copy.files[second]) == files[second]


@each_case("size", [0xFFFFFF, 0xFFFFFF - 1, 0xFFFFFF + 1, 2 * 0xFFFFFF])
def test_packets_that_fill_16_mib_to_the_byte(mysql97, size):
    """The packet is the event and its 00; the event holds the row and 8 + 2 + 2 + … other bytes."""
    mysql97.execute("CREATE DATABASE IF NOT EXISTS feed")
    mysql97.execute("CREATE TABLE IF NOT EXISTS feed.e (b LONGBLOB)")
    file, start = end_of(mysql97)
    mysql97.execute("INSERT INTO feed.e VALUES (REPEAT('e', 1000))")
    content = mysql97.binlogs()[-1].read_bytes()
    row = next(raw for at, code, raw in events_of(content) if at > start and code == 30)
    mysql97.execute("INSERT INTO feed.e VALUES (REPEAT('e', %s))", (size - 1 - len(row) + 1000,))
    with Feed(source_of(mysql97), start=Position(file, start), follow=False) as feed:
        copy = drain(feed)
    rows = [raw for _, code, raw in events_of(bytes(copy.files[file]), 0) if code == 30]
    assert len(rows[1]) + 1 == size
    copy.equals(files_of(mysql97))


def test_a_heartbeat_says_where_the_source_stands(server):
    end = Position(*end_of(server))
    with Feed(source_of(server, heartbeat=0.2), start="now") as feed:
        assert isinstance(feed.take(DEADLINE), FileBegin)
        first = feed.heard_at
        until = monotonic() + DEADLINE
        while feed.heard_at <= first + 0.3 or feed.heard is None:
            assert monotonic() < until
            assert feed.take(0.1) is None
        assert feed.heard == end
        assert feed.reconnects == 0


def test_close_ends_a_take_that_waits(server):
    server.settle()
    feed = Feed(source_of(server), start="now")
    assert isinstance(feed.take(DEADLINE), FileBegin)
    taking = in_thread(feed.take)
    sleep(0.3)
    assert not taking.done()
    feed.close()
    assert ended(taking) == [END]
    assert feed.take() is END
    feed.close()


def test_small_buffers_give_the_same(filled, monkeypatch):
    monkeypatch.setattr("tailrace.live.dump.SIZE", 1 << 10)
    monkeypatch.setattr("tailrace.live.dump.EVENTS", 3)
    with Feed(source_of(filled), follow=False) as feed:
        copy = drain(feed)
    copy.equals(files_of(filled))


def test_another_file_than_expected_is_refused(filled):
    files = files_of(filled)
    file = list(files)[-1]
    description = events_of(files[file])[0][2]
    given = {"start": Position(file, len(files[file])), "follow": False}
    with Feed(source_of(filled), expected=Expected(None, description), **given) as feed:
        drain(feed)
        assert feed.expected.description is not None
        assert feed.expected.description[:13] == description[:13]
    other = Expected(None, bytes((description[0] ^ 1,)) + description[1:])  # another second
    told = "not the log that was read before"
    refused(source_of(filled), LogReset, told, expected=other, **given)


def test_another_server_than_expected_is_refused(mysql97):
    uuid = mysql97.query("SELECT @@server_uuid")[0][0]
    with Feed(source_of(mysql97), start="now", follow=False, expected=Expected(uuid)) as feed:
        drain(feed)
        assert feed.expected.uuid == uuid
    other = Expected("11111111-2222-3333-4444-555555555555")
    told = "another server answers"
    refused(source_of(mysql97), LogReset, told, start="now", follow=False, expected=other)


def test_a_position_that_is_none(server):
    file, end = end_of(server)
    for start in (
        Position(file, end + 1000),
        Position(file, end + 1),
        Position("binlog.999999", 4),
        Position("bimlog.000000", 4),  # by its number alone it could have been purged
    ):
        told = re.escape(f"{start} was requested")
        refused(source_of(server), ServerError, told, start=start)  # nothing was read before
        refused(source_of(server), LogReset, told, start=start, expected=Expected())


def test_a_position_is_of_one_host():
    hosts = (Host("a", 1), Host("b", 2))
    source = Source(hosts=hosts, user="root", start=Position("binlog.000001", 4))
    with pytest.raises(UsageError, match="a position belongs to one server"):
        Feed(source)
    Feed(Source(hosts=hosts, user="root", start=GtidSet())).close()


def test_another_replica_takes_our_identity(server):
    identity = Identity()
    with Feed(source_of(server), start="now", identity=identity) as feed:
        assert isinstance(feed.take(DEADLINE), FileBegin)
        with Feed(source_of(server), start="now", identity=identity) as other:
            assert isinstance(other.take(DEADLINE), FileBegin)
            with pytest.raises(DuplicateServerId, match="of its own") as caught:
                take_until(feed, Copy(), lambda: False)
        assert caught.value.code == (1236 if server.flavour == "mysql" else 4052)
        assert feed.reconnects == 0


def test_a_dump_that_a_shutdown_ends_early_is_not_at_its_end(server, monkeypatch):
    """The server says EOF in both cases; the end that it had before tells them apart."""
    starts = [Position(*end_of(server))]
    if server.flavour == "mysql":
        executed = GtidSet.parse(server.query("SELECT @@gtid_executed")[0][0])
        starts.append(executed)
        more = GtidSet.parse(f"{server.query('SELECT @@server_uuid')[0][0]}:1-99999999")
        monkeypatch.setattr(Session, "executed", lambda _: executed | more)
        monkeypatch.setattr(Session, "lacking", lambda *_: GtidSet())
    fill(server, 2)
    monkeypatch.setattr(Session, "end", lambda _: Position("binlog.999999", 4))
    for start in starts:
        with Feed(source_of(server, retry=1), start=start, follow=False) as feed:
            with pytest.raises(ConnectionLost, match="ended the dump early"):
                list(iter(lambda feed=feed: feed.take(DEADLINE), END))
            assert feed.reconnects
