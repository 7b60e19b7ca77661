"""What tests of the feed share: a copy made of what it gives, and the files it has to equal."""

from __future__ import annotations

import struct
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tailrace.constants import MAGIC
from tailrace.gtid import GtidList, GtidSet
from tailrace.live.chunks import END, PADDING, Chunk, FileBegin
from tailrace.live.feed import Feed
from tailrace.live.session import Identity, Session
from tailrace.live.url import Source
from tests.waiting import DEADLINE

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tailrace.errors import TailraceError
    from tools.servers import Server

HEARTBEAT = 1.0


def source_of(server: Server | int, **options: Any) -> Source:
    port = server if isinstance(server, int) else server.port
    settings = {"heartbeat": HEARTBEAT, "ssl_mode": "DISABLED", **options}
    return Source.parse(f"mysql://root@127.0.0.1:{port}/", **settings)


def plain(content: bytes) -> bytes:
    """A log's bytes with IN_USE cleared, as a source sends it."""
    clear = bytearray(content)
    clear[4 + 17] &= 0xFE
    return bytes(clear)


def files_of(server: Server, last: int = 0) -> dict[str, bytes]:
    """The server's files, or so many of the last ones."""
    return {path.name: plain(path.read_bytes()) for path in server.binlogs()[-last:]}


def events_of(content: bytes, offset: int = 4) -> list[tuple[int, int, bytes]]:
    """Offset, type and bytes of each event."""
    events = []
    while offset < len(content):
        size = struct.unpack_from("<I", content, offset + 9)[0]
        events.append((offset, content[offset + 4], content[offset : offset + size]))
        offset += size
    return events


def _behind(data: memoryview) -> int:
    """Bytes of the buffer behind a part of it."""
    whole = np.frombuffer(data.obj, np.uint8)
    part = np.frombuffer(data, np.uint8)
    end = part.ctypes.data + len(part)
    return whole.ctypes.data + len(whole) - end


class Copy:
    """Files made of what a feed gives; each item is checked against what its type promises."""

    def __init__(self) -> None:
        self.files: dict[str, bytearray] = {}
        self.start: dict[str, int] = {}
        self.begins: list[FileBegin] = []
        self.chunks = 0

    def add(self, item: FileBegin | Chunk) -> None:
        if isinstance(item, FileBegin):
            assert item.file not in self.files, "a file was begun twice"
            assert item.description[4] == 15
            self.begins.append(item)
            self.files[item.file] = bytearray()
            if item.artificial:
                self.start[item.file] = item.offset
            else:
                self.start[item.file] = 0
                self.files[item.file] += MAGIC + item.description
                assert len(self.files[item.file]) == item.offset
            return
        self.chunks += 1
        file = self.files[item.file]
        assert item.offset == self.start[item.file] + len(file), "bytes are missing, or doubled"
        assert not item.data.readonly
        starts = list(item.starts)
        assert starts[0] == 0
        ends = [*starts[1:], len(item.data)]
        for start, end in zip(starts, ends, strict=True):
            assert struct.unpack_from("<I", item.data, start + 9)[0] == end - start
        assert _behind(item.data) >= PADDING
        file += item.data
        assert item.end == self.start[item.file] + len(file)

    def is_as(self, files: dict[str, bytes]) -> bool:
        """Whether it is the same as the server's files, from where it begins on."""
        return (
            bool(self.files)
            and list(self.files) == list(files)[-len(self.files) :]
            and all(
                bytes(content) == files[name][self.start[name] :]
                for name, content in self.files.items()
            )
        )

    def equals(self, files: dict[str, bytes]) -> None:
        assert list(self.files) == list(files)[len(files) - len(self.files) :]
        for name, content in self.files.items():
            assert bytes(content) == files[name][self.start[name] :], name


def drain(feed: Feed, copy: Copy | None = None) -> Copy:
    """All that a feed that does not follow gives."""
    copy = copy or Copy()
    until = monotonic() + DEADLINE
    while (item := feed.take(DEADLINE)) is not END:
        assert item is not None, "nothing came"
        assert monotonic() < until
        copy.add(item)
    return copy


def take_until(feed: Feed, copy: Copy, done: Callable[[], bool]) -> Copy:
    """Take from a feed that follows until a condition holds."""
    until = monotonic() + DEADLINE
    while not done():
        assert monotonic() < until, f"it stands at {feed.position}"
        item = feed.take(0.2)
        assert item is not END
        if item is not None:
            copy.add(item)
    return copy


def fill(server: Server, rows: int = 20, size: int = 200) -> None:
    """DDL, small transactions, one of several statements, a rollback; the log rests then."""
    server.execute("CREATE DATABASE IF NOT EXISTS feed")
    server.execute(
        "CREATE TABLE IF NOT EXISTS feed.t (a INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB)"
    )
    for _ in range(rows):
        server.execute("INSERT INTO feed.t (b) VALUES (REPEAT('x', %s))", (size,))
    server.execute("BEGIN")
    for _ in range(rows):
        server.execute("INSERT INTO feed.t (b) VALUES (REPEAT('y', %s)), ('z')", (size,))
    server.execute("COMMIT")
    server.execute("BEGIN")
    server.execute("DELETE FROM feed.t")
    server.execute("ROLLBACK")
    server.settle()


def end_of(server: Server) -> tuple[str, int]:
    """Where its log ends, once it rests."""
    server.settle()
    return server.end()


def empty(server: Server) -> GtidSet | GtidList:
    """No GTIDs, in the form of the server's flavour."""
    return GtidSet() if server.flavour == "mysql" else GtidList()


def executed(server: Server) -> GtidSet | GtidList:
    """All that is in its log."""
    if server.flavour == "mysql":
        return GtidSet.parse(server.query("SELECT @@gtid_executed")[0][0].replace("\n", ""))
    return GtidList.parse(server.query("SELECT @@gtid_binlog_state")[0][0])


def catch_up(feed: Feed, copy: Copy, server: Server) -> Copy:
    """Take until the copy is as the server's files, which rest."""
    server.settle()

    def there() -> bool:
        log = server.binlogs()[-1]  # first: all of what tests wrote to a shared server is much
        if log.name not in copy.files:
            return False
        end = copy.start[log.name] + len(copy.files[log.name])
        return end == log.stat().st_size and copy.is_as(files_of(server, len(copy.files)))

    return take_until(feed, copy, there)


def refused(source: Source, kind: type[TailraceError], told: str, **given: Any) -> TailraceError:
    """The error of this type with which a feed ends, each time that it is read on."""
    with Feed(source, **given) as feed:
        with pytest.raises(kind, match=told) as caught:
            drain(feed)
        assert type(caught.value) is kind
        with pytest.raises(kind) as again:
            feed.take(DEADLINE)
        assert again.value is caught.value
    return caught.value


def opened(source: Source, identity: Identity | None = None) -> Session:
    """A session on a connection of its own."""
    return Session.open(source, identity=identity)
