"""How far a source is ahead, by what its files are."""

from __future__ import annotations

from tailrace.live.session import Identity
from tailrace.live.url import Source
from tailrace.position import Position
from tailrace.replication.progress import SourceEnd
from tests.replication.conftest import end_of, insert, rotate, url_of
from tests.waiting import wait_for


def test_bytes_ahead(source, monkeypatch):
    monkeypatch.setattr("tailrace.replication.progress._SECONDS", 0.1)  # between two questions
    insert(source, [1000])
    rotate(source)
    insert(source, [100_000])
    rotate(source)
    insert(source, [50])
    sizes = [(log.name, log.stat().st_size) for log in source.binlogs()]
    end = SourceEnd(Source.parse(url_of(source)), Identity())
    first, middle, last = (name for name, _ in sizes[-3:])
    assert end.ahead_of(Position(first, 4), None) is None
    end.want()
    wait_for(lambda: end.ahead_of(Position(last, 4), None) is not None)
    total = sum(size for _, size in sizes[-3:])
    assert end.ahead_of(Position(first, 4), None) == total - 4
    assert end.ahead_of(Position(middle, 500), None) == total - sizes[-3][1] - 500
    assert end.ahead_of(Position(*end_of(source)), None) == 0
    assert end.ahead_of(Position(last, 4), Position(last, 10_000_000)) == 10_000_000 - 4
    assert end.ahead_of(Position("binlog.000000", 4), None) is None
    insert(source, [10_000])
    rotate(source)
    wait_for(lambda: end.want() or end.ahead_of(Position(last, 4), None) == ahead(source, last))
    end.close()


def ahead(server, name):
    return sum(log.stat().st_size for log in server.binlogs() if log.name >= name) - 4


def test_it_is_only_a_convenience(source):
    """Without the privilege, or a server, it does not know; and that is all."""
    source.execute("CREATE USER IF NOT EXISTS mere@'%' IDENTIFIED BY 'x'")
    url = url_of(source).replace("root@", "mere:x@")
    for each in (url, "mysql://root@127.0.0.1:1/"):
        end = SourceEnd(Source.parse(each), Identity())
        end.want()
        wait_for(lambda asked=end: asked._last_error)
        assert end.ahead_of(Position("binlog.000001", 4), None) is None
        end.close()
