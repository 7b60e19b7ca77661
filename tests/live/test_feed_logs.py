"""The feed of logs that are encrypted, without checksums or with both kinds, and compressed."""

import pytest

from tailrace.live.chunks import Expected
from tailrace.live.feed import Feed
from tailrace.live.stream import BinlogStream
from tailrace.position import Position
from tests.cases import each_case
from tests.live.dumps import ALL, connect
from tests.live.feeding import (
    DEADLINE,
    Copy,
    catch_up,
    drain,
    events_of,
    files_of,
    fill,
    plain,
    source_of,
    take_until,
)
from tests.storage.encryption.conftest import sent_by, start
from tools.proxy import Proxy
from tools.servers import ONE_OF_EACH

START_ENCRYPTION = 164

pytestmark = pytest.mark.usefixtures("patient")


def in_clear(server, folder):
    """Each log as the server's own client gets it, decrypted by the server."""
    sent = sent_by(server, [path.name for path in server.binlogs()], folder)
    return {path.name: plain(path.read_bytes()) for path in sent}


@pytest.fixture(scope="module", params=ONE_OF_EACH)
def encrypting(request, tmp_path_factory):
    server, _ = start(request.param, tmp_path_factory.mktemp(request.param))
    fill(server, 5)
    server.rotate()
    fill(server, 5)
    server.settle()
    yield server
    server.stop()


def test_an_encrypted_log_from_each_event(encrypting, tmp_path):
    encrypting.settle()
    clear = in_clear(encrypting, tmp_path)
    name = list(clear)[-1]
    events = events_of(clear[name])
    expected = Expected(None, events[0][2])  # without it, MariaDB cannot be read from event 2 on
    for offset, _, _ in events[1:]:
        start = Position(name, offset)
        with Feed(source_of(encrypting), start=start, follow=False, expected=expected) as feed:
            copy = drain(feed)
        copy.equals(clear)
        assert [begin.artificial for begin in copy.begins] == [True]


def test_wl7672_fr2_9_fetch_moves_the_position_in_an_encrypted_log(encrypting, tmp_path):
    """Also from inside a file, where MariaDB sends the log's START_ENCRYPTION once more."""
    encrypting.settle()
    name, log = list(in_clear(encrypting, tmp_path).items())[-1]
    offsets = [offset for offset, _, _ in events_of(log)]
    for at in (offsets[0], *offsets[2:]):  # MariaDB cannot begin right after its description
        with (
            connect(encrypting) as connection,
            BinlogStream(connection, name, at, flags=ALL) as stream,
        ):
            reached = {stream.position for _ in stream}
        assert reached == {at, *(offset for offset in offsets if offset > at), len(log)}
        assert stream.filename == name


def test_an_encrypted_log_goes_on_behind_breaks(encrypting, tmp_path):
    copy = Copy()

    def is_all():
        return copy.is_as(in_clear(encrypting, tmp_path))

    with (
        Proxy(encrypting.port) as proxy,
        Feed(source_of(proxy.port), start="oldest") as feed,
    ):
        while len(copy.begins) < len(encrypting.binlogs()):  # one by one, a break behind each
            item = feed.take(DEADLINE)
            assert item is not None
            copy.add(item)
            proxy.cut()
        take_until(feed, copy, is_all)
        for times in range(feed.reconnects + 1, feed.reconnects + 4):
            proxy.cut()
            fill(encrypting, 2)
            take_until(feed, copy, lambda times=times: feed.reconnects == times)
            take_until(feed, copy, is_all)


@each_case("announced", ["NONE", "CRC32"])
def test_checksums_are_switched_while_it_is_read(server, announced):
    other = "CRC32" if announced == "NONE" else "NONE"
    server.execute(f"SET GLOBAL binlog_checksum = {announced}")
    copy = Copy()
    with Feed(source_of(server), start="now") as feed:
        take_until(feed, copy, lambda: bool(copy.begins))
        for algorithm in (announced, other, announced):
            server.execute(f"SET GLOBAL binlog_checksum = {algorithm}")  # begins a file
            fill(server, 2)
            catch_up(feed, copy, server)
        assert feed.reconnects == 0
    with Feed(source_of(server), start="oldest", follow=False) as feed:
        drain(feed).equals(files_of(server))
