"""The feed by position over breaks: what it gives are the files' bytes all the same."""

import time
from time import monotonic

import pytest

from tailrace.errors import ConnectionLost, LogPurged
from tailrace.live.chunks import END, FileBegin
from tailrace.live.feed import Feed
from tests.cases import each_case
from tests.live.feeding import (
    DEADLINE,
    Copy,
    catch_up,
    drain,
    end_of,
    files_of,
    fill,
    source_of,
    take_until,
)
from tests.waiting import purge
from tools.proxy import Proxy
from tools.servers import ONE_OF_EACH

pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture(scope="module", params=ONE_OF_EACH)
def own(request, fresh_server):
    """A server whose logs may be reset."""
    return fresh_server(request.param)


@pytest.fixture
def proxy(own):
    with Proxy(lambda: own.port) as proxy:
        yield proxy


def test_cut_inside_large_events(own, proxy):
    own.execute("CREATE DATABASE IF NOT EXISTS feed")
    own.execute("CREATE TABLE IF NOT EXISTS feed.big (b LONGBLOB)")
    own.rotate()
    start = end_of(own)[0]
    for size in (17 << 20, 40 << 20):
        own.execute("INSERT INTO feed.big VALUES (REPEAT('b', %s))", (size,))
    own.settle()
    counts = [18 << 20, 20 << 20, 33 << 20]
    done = proxy.cut_after_each(counts)
    with Feed(source_of(proxy.port), start="oldest", follow=False) as feed:
        copy = drain(feed)
        assert done == counts
        assert feed.reconnects == len(counts)
    assert start in copy.files
    copy.equals(files_of(own))


def test_killed_by_the_server(own):
    copy = Copy()
    with Feed(source_of(own), start="now") as feed:
        take_until(feed, copy, lambda: bool(copy.begins))
        for times in range(1, 4):
            fill(own, 2)
            own.execute(f"KILL {feed.session.connection.thread_id()}")
            fill(own, 2)
            catch_up(feed, copy, own)
            assert feed.reconnects == times
    assert len(copy.begins) == 1


def test_a_stall_is_noticed_within_two_periods(own, proxy, monkeypatch, caplog):
    """How exactly, see test_arrivals."""
    monkeypatch.setattr("tailrace.live.open_dump.SILENT_PERIODS", 2)
    copy = Copy()
    with Feed(source_of(proxy.port), start="now") as feed:
        take_until(feed, copy, lambda: bool(copy.begins))
        fill(own, 2)
        catch_up(feed, copy, own)
        proxy.stall()
        before = feed.reconnects  # of a server that its machine held up
        take_until(feed, copy, lambda: feed.reconnects > before)
        assert "said nothing for 2 seconds, two heartbeat periods" in caplog.messages[-1]
        fill(own, 2)
        catch_up(feed, copy, own)


def test_who_does_not_listen_finds_no_silence(own, monkeypatch):
    monkeypatch.setattr("tailrace.live.open_dump.SILENT_PERIODS", 2)
    passed = 0
    for module in ("dump", "feed", "open_dump"):
        monkeypatch.setattr(f"tailrace.live.{module}.monotonic", lambda: time.monotonic() + passed)
    own.settle()
    with Feed(source_of(own, heartbeat=60), start="now") as feed:
        assert isinstance(feed.take(DEADLINE), FileBegin)
        for _ in range(5):
            passed += 1000  # in which nothing is read
            assert feed.take(0.1) is None
        assert feed.reconnects == 0


def test_a_source_that_stays_away(own, proxy):
    with Feed(source_of(proxy.port, retry=1), start="now") as feed:
        assert isinstance(feed.take(DEADLINE), FileBegin)
        proxy.refuse()
        began = monotonic()
        with pytest.raises(ConnectionLost, match="retry allows for 1"):
            feed.take()
        assert monotonic() - began > 0.9
    proxy.go_on()
    with Feed(source_of(proxy.port, retry=0), start="now") as feed:
        assert isinstance(feed.take(DEADLINE), FileBegin)
        proxy.cut()
        with pytest.raises(ConnectionLost):
            feed.take(DEADLINE)


def test_purged_while_we_were_away(own, proxy):
    own.settle()
    with Feed(source_of(proxy.port), start="now") as feed:
        take_until(feed, Copy(), lambda: feed.position.offset > 4)
        proxy.refuse()
        assert feed.take(0.1) is None
        own.rotate()
        own.rotate()
        last = end_of(own)[0]
        purge(own, last)
        proxy.go_on()
        with pytest.raises(LogPurged, match=f"the oldest log is {last}"):
            take_until(feed, Copy(), lambda: False)
        with pytest.raises(LogPurged):
            feed.take()


def test_the_pauses_can_be_waited_for_by_others(own, proxy, monkeypatch):
    """While it waits to reconnect, take keeps its timeout, and close ends it."""
    for name in ("_FIRST_PAUSE", "LONGEST_PAUSE"):
        monkeypatch.setattr(f"tailrace.live.retry.{name}", 1e6)
    own.settle()
    feed = Feed(source_of(proxy.port), start="now")
    assert isinstance(feed.take(DEADLINE), FileBegin)
    proxy.refuse()
    for _ in range(5):
        assert feed.take(0.2) is None
    feed.close()
    assert feed.take() is END


@each_case("start", ["oldest", "now"])
def test_a_server_that_is_not_there_yet(mysql97, caplog, start):
    caplog.clear()
    with Proxy(mysql97.port, listening=False) as proxy:
        with (
            pytest.raises(ConnectionLost, match="cannot be reached"),
            Feed(source_of(proxy.port)) as feed,
        ):
            feed.take(DEADLINE)
        with Feed(source_of(proxy.port, retry=DEADLINE), start=start) as feed:
            assert feed.take(1) is None
            proxy.listen()
            assert isinstance(feed.take(DEADLINE), FileBegin)
    said = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert len(said) == 1
    assert "cannot be reached" in said[0]
    assert "trying again" in said[0]
