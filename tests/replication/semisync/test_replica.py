"""The semi-synchronous replica on real sources: who waits for what, and what is acknowledged."""

import logging

import pytest

from tailrace.errors import SemisyncError
from tailrace.live.net import NetService
from tailrace.observers import RelayFlag
from tailrace.position import Position
from tailrace.replication.receiver import Receiver
from tailrace.replication.semisync.replica import SemisyncReplica, _offers
from tests.replication.semisync.conftest import variable
from tests.replication.semisync.loop import Commit, Reader, counters
from tests.waiting import wait_for


def _waits(server):
    """Whether a session waits for an acknowledgement, by the server's own word."""
    return any("semi-sync ACK" in str(row[6]) for row in server.query("SHOW PROCESSLIST"))


def _acknowledged_all(observer, server):
    """A commit may return before the acknowledging thread has counted it."""
    end = Position(*server.end())
    wait_for(lambda: observer.acknowledged == end, f"the acknowledgement of {end}")


def _has_read(reader, observer, count):
    """So many events are to be acknowledged, and have been read."""
    wait_for(
        lambda: (
            observer.waiting == count
            and reader.read
            and reader.read[-1][1] >= observer._wanted[-1].offset
        ),
        f"{count} events that are to be acknowledged",
    )


def _rows(server):
    return {number for (number,) in server.query("SELECT id FROM d.t")}


@pytest.mark.parametrize("point", ["AFTER_SYNC", "AFTER_COMMIT"])
def test_a_commit_returns_behind_the_acknowledgement_only(source, point):
    variable(source, "wait_point", point)
    observer = SemisyncReplica()
    with Reader(source, observer, hold=True) as reader:
        wait_for(lambda: counters(source)["clients"] == "1", "the source knows of us")
        before = int(counters(source)["yes_tx"])
        commit = Commit(source, "INSERT INTO d.t (id) VALUES (1)")
        _has_read(reader, observer, 1)
        wait_for(lambda: _waits(source), "the session waits")
        assert _rows(source) == ({1} if point == "AFTER_COMMIT" else set())
        assert not commit.returned(0)
        end = Position(*source.end())
        reader.queue(RelayFlag.NONE)  # written, not synced
        assert (observer.acknowledgements, observer.acknowledged, observer.waiting) == (0, None, 1)
        assert _waits(source)
        second = Commit(source, "INSERT INTO d.t (id) VALUES (2)")
        _has_read(reader, observer, 2)
        assert not commit.returned(0)
        assert not second.returned(0)
        reader.queue(last_only=True)  # cumulative: one acknowledgement for both
        assert commit.returned()
        assert second.returned()
        assert observer.acknowledgements == 1
        assert observer.waiting == 0
        assert observer.acknowledged == Position(*source.end()) > end
        assert int(counters(source)["yes_tx"]) == before + 2
        assert counters(source)["no_tx"] == "0"
        assert counters(source)["status"] == "ON"
    assert not observer.enabled
    assert reader.error is None or "connection" in str(reader.error)


def test_transactions_of_every_kind_are_acknowledged_and_are_the_files_bytes(source):
    observer = SemisyncReplica()
    with Reader(source, observer) as reader:
        place = reader.feed.position
        statements = [
            ("CREATE TABLE d.other (a INT)",),
            ("BEGIN", "INSERT INTO d.t (id) VALUES (1), (2)", "DELETE FROM d.t", "COMMIT"),
            (f"INSERT INTO d.t VALUES (7, REPEAT('x', {17 << 20}))",),
            ("XA START 'a'", "INSERT INTO d.t (id) VALUES (8)", "XA END 'a'", "XA PREPARE 'a'", "XA COMMIT 'a'"),
            ("DROP TABLE d.other",),
        ]  # fmt: skip
        for each in statements:
            assert Commit(source, *each).returned(), each
        _acknowledged_all(observer, source)
        assert observer.acknowledgements >= len(statements)
        assert b"".join(reader.events) == (source.data / place.file).read_bytes()[place.offset :]
        assert Commit(source, "FLUSH BINARY LOGS").returned()
        source.settle()  # what comes after the last commit is not acknowledged
        assert Commit(source, "INSERT INTO d.t (id) VALUES (9)").returned()
        _acknowledged_all(observer, source)
        assert observer.acknowledged.number == place.number + 1


def test_a_source_that_has_it_and_is_not_enabled(source):
    """The two bytes are there, nobody waits; enabled while we read, it is semi-synchronous."""
    variable(source, "enabled", 0)
    observer = SemisyncReplica()
    with Reader(source, observer) as reader:
        start = reader.feed.position
        assert observer.enabled
        assert Commit(source, "INSERT INTO d.t (id) VALUES (1)").returned()
        wait_for(lambda: reader.feed.position == Position(*source.end()) > start, "the event")
        assert observer.acknowledgements == 0
        variable(source, "enabled", 1)
        assert Commit(source, "INSERT INTO d.t (id) VALUES (2)").returned()
        _acknowledged_all(observer, source)
        assert observer.acknowledgements == 1


def test_a_reader_that_comes_again_frees_who_waited(source):
    """It asks from behind what it has synced: the source takes that for acknowledged."""
    observer = SemisyncReplica()
    with Reader(source, observer, hold=True) as reader:
        commit = Commit(source, "INSERT INTO d.t (id) VALUES (1)")
        _has_read(reader, observer, 1)
    assert observer.waiting == 0
    assert not commit.returned(0)
    with Reader(source, observer, start=reader.feed.position):
        assert commit.returned()
        assert Commit(source, "INSERT INTO d.t (id) VALUES (2)").returned()


@pytest.mark.parametrize("way", ["zlib", "zstd"])
def test_over_a_compressed_connection(source, receiving, tmp_path, way):
    """Each acknowledgement is a command of its own, numbered from 0 on both layers."""
    if way == "zstd" and source.flavour == "mariadb":
        pytest.skip("MariaDB has no zstd")
    observer = SemisyncReplica()
    options = f"?ssl_mode=DISABLED&start=now&heartbeat=1&compress={way}"
    run = receiving(source, tmp_path, options=options, observers=[observer])
    wait_for(lambda: counters(source)["clients"] == "1", "the source knows of us")
    for number in range(10):
        insert = f"INSERT INTO d.t VALUES ({number}, REPEAT('x', {100 * number**3}))"
        assert Commit(source, insert).returned(), number
    _acknowledged_all(observer, source)
    run.stop()
    file = source.binlogs()[-1].name
    assert (tmp_path / file).read_bytes()[100:] == (source.data / file).read_bytes()[100:]
    wait_for(lambda: counters(source)["clients"] == "0", "the source has forgotten us")


def test_a_receiver_that_ends_with_the_source_s_end(source, tmp_path):
    """The dump has ended when what came last is synced, and the commit still waits for it."""
    if source.flavour == "mariadb":
        pytest.skip("MariaDB's source takes no acknowledgement after the end of a dump")
    commit = Commit(source, "INSERT INTO d.t (id) VALUES (1)")
    wait_for(lambda: _waits(source))
    observer = SemisyncReplica()
    url = f"mysql://root@127.0.0.1:{source.port}/?ssl_mode=DISABLED"
    Receiver(url, tmp_path, observers=[observer], follow=False).run()
    assert observer.acknowledged == Position(*source.end())
    if not commit.returned(10):  # a busy source forgets a dump that ended before it has read this
        Receiver(url, tmp_path, observers=[SemisyncReplica()], follow=False).run()
    assert commit.returned()


def test_over_tls(source):
    observer = SemisyncReplica()
    with Reader(source, observer, ssl_mode="REQUIRED") as reader:
        assert reader.feed.session.connection.is_tls
        for number in range(20):
            assert Commit(source, f"INSERT INTO d.t (id) VALUES ({number})").returned()
        _acknowledged_all(observer, source)
        assert observer.acknowledgements == 20


def test_packets_without_the_two_bytes_are_an_error(source):
    """Two of them: the first takes the bytes, the second misses them."""
    with Reader(source, SemisyncReplica(), SemisyncReplica()) as reader:
        error = wait_for(lambda: reader.error, "an error")
    assert isinstance(error, SemisyncError)
    assert f"root@127.0.0.1:{source.port}" in str(error)
    assert "the source ended semi-synchronous" in str(error)
    assert "EF 00 or EF 01" in str(error)


def test_detection_goes_by_the_old_name_where_the_new_one_is_not_known(source):
    """MariaDB answers MySQL's questions as a MySQL with the plugins of the old name does."""
    with source.connect() as connection:
        service = NetService(connection, "the test's source")
        assert _offers(service, mariadb=False)
        assert _offers(service, mariadb=True) == (source.flavour == "mariadb")


def test_without_the_plugin_it_is_asynchronous_and_said_once(mysql97, caplog):
    caplog.set_level(logging.WARNING, "tailrace.semisync")
    observer = SemisyncReplica()
    for number in range(2):
        with Reader(mysql97, observer) as reader:
            assert not observer.enabled
            mysql97.execute(f"CREATE DATABASE asynchronous{number}")
            wait_for(lambda r=reader: r.events, "the event")
            mysql97.execute(f"DROP DATABASE asynchronous{number}")
    (message,) = caplog.messages
    assert message == (
        f"root@127.0.0.1:{mysql97.port} has no semi-synchronous replication: it is read"
        " asynchronously, its commits do not wait for this replica"
    )
    assert observer.acknowledgements == 0
