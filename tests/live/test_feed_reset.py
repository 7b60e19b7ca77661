"""A source that is reset while it is read: the error is that which reading on after it gets."""

from time import monotonic

import pytest

from tailrace.constants import EventType
from tailrace.errors import LogReset, TailraceError
from tailrace.live import feed as feeds
from tailrace.live.chunks import END
from tailrace.live.feed import Feed
from tailrace.observers import RelayIoDelegate, RelayIoObserver
from tests.cases import each_case
from tests.live.feeding import DEADLINE, Copy, catch_up, end_of, fill, source_of

pytestmark = pytest.mark.usefixtures("patient")

RESET = {"mysql": "RESET BINARY LOGS AND GTIDS", "mariadb": "RESET MASTER"}


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def own(request, fresh_server):
    server = fresh_server(request.param, {"binlog_checksum": "CRC32"})
    server.execute("CREATE DATABASE other")
    return server


def message(feed):
    until = monotonic() + DEADLINE
    with pytest.raises(TailraceError) as caught:  # noqa: PT012 - what may come before it
        while (item := feed.take(DEADLINE)) is not END:
            assert item is not None
            assert monotonic() < until
    assert type(caught.value) is LogReset
    return str(caught.value)


def reset(server):
    """In another second than that in which the log was begun: nothing else tells files apart."""
    (now,) = server.query("SELECT UNIX_TIMESTAMP()")
    while server.query("SELECT UNIX_TIMESTAMP()")[0] == now:
        pass
    server.execute(RESET[server.flavour])


@each_case("files", [1, 3])
@each_case("then", ["nothing", "less", "more"])
def test_the_error_is_that_of_reading_on(own, files, then, monkeypatch):
    monkeypatch.setattr(feeds, "_LOOK_SECONDS", 0.0)
    reset(own)
    for _ in range(files - 1):
        own.rotate()
    fill(own, 3)
    with Feed(source_of(own, heartbeat=0.5)) as feed:
        catch_up(feed, Copy(), own)
        reset(own)
        if then == "less":
            own.execute("CREATE DATABASE IF NOT EXISTS other")
        elif then == "more":
            while end_of(own) <= (feed.position.file, feed.position.offset):
                for _ in range(files):
                    fill(own, 3)
                    own.rotate()
                fill(own, 20)
        said = message(feed)
        expected, position = feed.expected, feed.position
    with Feed(source_of(own), start=position, expected=expected) as again:
        assert message(again) == said


class Heartbeats(RelayIoObserver):
    def __init__(self):
        self.came = 0

    def after_read_event(self, io, packet):
        self.came += packet[4] in {EventType.HEARTBEAT, EventType.HEARTBEAT_V2}
        return packet


def test_a_quiet_log_that_is_reset_is_noticed_within_two_heartbeats(own, monkeypatch):
    monkeypatch.setattr(feeds, "_LOOK_SECONDS", 0.0)  # heartbeats may arrive late and together
    reset(own)
    fill(own, 1)
    heartbeats = Heartbeats()
    delegate = RelayIoDelegate([heartbeats])
    with Feed(source_of(own, heartbeat=0.5), delegate=delegate) as feed:
        catch_up(feed, Copy(), own)
        reset(own)
        before = heartbeats.came
        message(feed)
    assert heartbeats.came - before <= 2


def test_a_log_that_is_quiet_is_not_taken_for_one(own, monkeypatch):
    """Who may not ask where the log ends reads on as well."""
    monkeypatch.setattr(feeds, "_LOOK_SECONDS", 0.0)  # it asks at each heartbeat
    fill(own, 3)
    own.execute("CREATE USER IF NOT EXISTS reader@'127.0.0.1'")
    own.execute("GRANT REPLICATION SLAVE ON *.* TO reader@'127.0.0.1'")
    for user in ("root", "reader"):
        with Feed(source_of(own, heartbeat=0.1, user=user), start="oldest") as feed:
            copy = catch_up(feed, Copy(), own)
            assert feed.take(0.8) is None  # eight heartbeats
            fill(own, 2)
            catch_up(feed, copy, own)
