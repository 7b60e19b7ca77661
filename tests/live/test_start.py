"""A start inside an event is an error, whatever the source sends from there."""

import struct
from zlib import crc32

import pytest

from tailrace.errors import LogReset, ServerError
from tailrace.live.chunks import Expected
from tailrace.live.feed import Feed
from tailrace.position import Position
from tests.live.feeding import drain, events_of, plain, refused, source_of

IGNORABLE = 0x80
QUERY = 2
FORGED = 40


def forged(checksum):
    """Bytes that look like events: of a known type, to be ignored, without ``log_pos``."""
    size = FORGED + 4 * checksum
    event = struct.pack("<IBIIIH", 0, QUERY, 1, size, 0, IGNORABLE).ljust(FORGED, b"\1")
    return event + (struct.pack("<I", crc32(event) ^ 1) if checksum else b"")


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def own(request, fresh_server):
    server = fresh_server(request.param)
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (a INT PRIMARY KEY, b LONGBLOB)")
    return server


@pytest.fixture(scope="module", params=["CRC32", "NONE"])
def log(request, own):
    """A server, its last log's name and bytes, and the offset of forged events in its last row."""
    own.execute(f"SET GLOBAL binlog_checksum = {request.param}")
    own.rotate()
    own.settle()
    own.execute("TRUNCATE d.t")
    own.execute("BEGIN")
    for a in range(2):
        own.execute("INSERT INTO d.t VALUES (%s, 'abc')", (a,))
    row = forged(request.param == "CRC32") * 8
    own.execute("INSERT INTO d.t VALUES (3, %s)", (row,))
    own.execute("COMMIT")
    path = own.binlogs()[-1]
    return own, path.name, path.read_bytes(), path.read_bytes().index(row)


def rejected(server, start, *, follow):
    match = f"no event begins at {start}|position > file size|from impossible position"
    for expected, kind in ((None, ServerError), (Expected(), LogReset)):  # read up to there, or not
        refused(source_of(server), kind, match, start=start, follow=follow, expected=expected)


def test_inside_any_event_and_where_a_row_looks_like_events(log):
    server, name, content, at = log
    begins = {offset for offset, _, _ in events_of(content)}
    inside = {at, 47, *range(5, len(content) + 2, 37), *range(len(content) - 24, len(content))}
    for number, offset in enumerate(sorted(inside - begins - {len(content)})):
        rejected(server, Position(name, offset), follow=number % 2 == 0)
    for follow in (True, False):
        rejected(server, Position(name, at), follow=follow)


def test_at_each_event(log):
    """And so from each that begins one, those of MariaDB without ``log_pos`` among them."""
    server, name, content, _ = log
    for offset, _, _ in events_of(content)[1:]:
        with Feed(source_of(server), start=Position(name, offset), follow=False) as feed:
            copy = drain(feed)
        assert copy.start == {name: offset}
        assert copy.begins[0].artificial
        assert bytes(copy.files[name]) == plain(content)[offset:]
