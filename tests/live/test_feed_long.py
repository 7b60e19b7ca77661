"""A log of more than 4 GiB: COM_BINLOG_DUMP has 32 bits for a place, headers have 32 for theirs.

The file is a server's own, stopped, made longer by events that no server knows a meaning of; most
of their bytes are a hole on the disk.
"""

import struct
from zlib import crc32

import pytest

from tailrace.live.chunks import END, Chunk
from tailrace.live.feed import Feed
from tailrace.position import Position
from tests.live.feeding import DEADLINE, events_of, source_of
from tools.proxy import Proxy
from tools.servers import ONE_OF_EACH

WRAP = 1 << 32
LARGE = 64 << 20
IGNORABLE = 28

pytestmark = pytest.mark.usefixtures("patient")


def header(kind, size, end):
    return struct.pack("<IBIIIH", 1, kind, 1, size, end % WRAP, 0x80)


@pytest.fixture(params=ONE_OF_EACH)
def long(request, fresh_server):
    """A server, the name of its long log, and where its events begin."""
    server = fresh_server(request.param)
    path = server.rotate()
    server.stop(keep=True)
    content = path.read_bytes()
    events = events_of(content)
    starts = [offset for offset, _, _ in events[:-1]]
    rotate = events[-1][2]
    hole = memoryview(bytes(LARGE))
    with path.open("r+b") as file:
        at = events[-1][0]
        while at < WRAP + LARGE:
            size = LARGE if at < WRAP else 100_000
            starts.append(at)
            file.seek(at)
            head = header(IGNORABLE, size, at + size)
            file.write(head)
            file.seek(at + size - 4)
            file.write(struct.pack("<I", crc32(hole[: size - 4 - len(head)], crc32(head))))
            at += size
        starts.append(at)
        file.seek(at)
        end = at + len(rotate)
        last = rotate[:13] + struct.pack("<I", end % WRAP) + rotate[17:-4]
        file.write(last + struct.pack("<I", crc32(last)))
    assert path.stat().st_size == end
    server.start()
    return server, path.name, starts


def places(feed, limit=None):
    """Where the events that a feed gives begin, up to a limit in a file, or the file's end."""
    found, begun = [], feed.position.file
    while (item := feed.take(DEADLINE)) is not END:
        assert item is not None
        if isinstance(item, Chunk):
            found += [(item.file, item.offset + start) for start in item.starts]
        if limit is not None and (feed.position.offset >= limit or feed.position.file != begun):
            break
    return found


@pytest.mark.slow
def test_breaks_past_4_gib(long):
    server, name, starts = long
    past = [start for start in starts if start >= WRAP]
    with Proxy(server.port) as proxy:
        low = max(start for start in starts if start < WRAP)
        feed = Feed(source_of(proxy.port), start=Position(name, low - 2 * LARGE))
        found = []
        with feed:
            for limit in (past[3], past[300]):
                found += places(feed, limit)
                before = proxy.counts.from_server
                proxy.cut()
                reconnects = feed.reconnects
                while feed.reconnects == reconnects:
                    found += places(feed, feed.position.offset + 1)
                assert proxy.counts.from_server - before < 4 * LARGE, "it began far before"
            while feed.position.file == name:
                found += places(feed, feed.position.offset + 1)
        assert [at for file, at in found if file == name] == [
            start for start in starts if start >= low - 2 * LARGE
        ]
