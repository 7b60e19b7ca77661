"""The semi-synchronous replica on real sources: who waits for what, and what is acknowledged."""

from __future__ import annotations

import logging
import ssl
import threading

import pytest

from tailrace.errors import SemisyncError
from tailrace.live.net import NetService
from tailrace.observers import RelayFlag
from tailrace.position import Position
from tailrace.replication.receiver import Receiver
from tailrace.replication.semisync.replica import SemisyncReplica, _offers
from tests.replication.semisync.conftest import variable
from tests.replication.semisync.loop import Commit, Reader, counters, end_of
from tests.waiting import DEADLINE, wait_for


def _waits(server):
    """Whether a session waits for an acknowledgement, by the server's own word."""
    return any("semi-sync ACK" in str(row[6]) for row in server.query("SHOW PROCESSLIST"))


def _acknowledged_all(observer, server):
    """A commit may return before the acknowledging thread has counted it."""
    end = Position(*end_of(server))
    wait_for(lambda: observer.acknowledged == end, f"the acknowledgement of {end}")


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
        wait_for(lambda: observer.waiting == 1, "an event that is to be acknowledged")
        wait_for(lambda: _waits(source), "the session waits")
        assert _rows(source) == ({1} if point == "AFTER_COMMIT" else set())
        assert not commit.returned(0)
        end = Position(*end_of(source))
        reader.queue(RelayFlag.NONE)  # written, not synced
        assert (observer.acknowledgements, observer.acknowledged, observer.waiting) == (0, None, 1)
        assert _waits(source)
        second = Commit(source, "INSERT INTO d.t (id) VALUES (2)")
        wait_for(lambda: observer.waiting == 2, "the second")
        assert not commit.returned(0)
        assert not second.returned(0)
        reader.queue(last_only=True)  # cumulative: one acknowledgement for both
        assert commit.returned()
        assert second.returned()
        assert observer.acknowledgements == 1
        assert observer.waiting == 0
        assert observer.acknowledged == Position(*end_of(source)) > end
        assert int(counters(source)["yes_tx"]) == before + 2
        assert counters(source)["no_tx"] == "0"
        assert counters(source)["status"] == "ON"
    assert not observer.enabled
    assert reader.error is None or "connection" in str(reader.error)


def test_transactions_of_every_kind_are_acknowledged_and_are_the_files_bytes(source):
    observer = SemisyncReplica()
    with Reader(source, observer) as reader:
        file, start = reader.io.log_name, reader.io.log_pos
        statements = [
            ("CREATE TABLE d.other (a INT)",),
            ("BEGIN", "INSERT INTO d.t (id) VALUES (1), (2)", "DELETE FROM d.t", "COMMIT"),
            ("INSERT INTO d.t VALUES (7, REPEAT('x', 300000))",),
            ("XA START 'a'", "INSERT INTO d.t (id) VALUES (8)", "XA END 'a'", "XA PREPARE 'a'", "XA COMMIT 'a'"),
            ("DROP TABLE d.other",),
        ]  # fmt: skip
        for each in statements:
            assert Commit(source, *each).returned(), each
        _acknowledged_all(observer, source)
        assert observer.acknowledgements >= len(statements)
        assert b"".join(reader.events) == (source.data / file).read_bytes()[start:]
        assert Commit(source, "FLUSH BINARY LOGS").returned()
        source.settle()  # what comes after the last commit is not acknowledged
        assert Commit(source, "INSERT INTO d.t (id) VALUES (9)").returned()
        _acknowledged_all(observer, source)
        assert observer.acknowledged.number == Position(file, 4).number + 1


def test_a_packet_of_several_fragments(source):
    observer = SemisyncReplica()
    with Reader(source, observer) as reader:
        file, start = reader.io.log_name, reader.io.log_pos
        insert = f"INSERT INTO d.t VALUES (1, REPEAT('x', {17 << 20}))"
        assert Commit(source, insert).returned()
        _acknowledged_all(observer, source)
        assert b"".join(reader.events) == (source.data / file).read_bytes()[start:]


def test_a_source_that_has_it_and_is_not_enabled(source):
    """The two bytes are there, nobody waits; enabled while we read, it is semi-synchronous."""
    variable(source, "enabled", 0)
    observer = SemisyncReplica()
    with Reader(source, observer) as reader:
        start = reader.io.log_pos
        assert observer.enabled
        assert Commit(source, "INSERT INTO d.t (id) VALUES (1)").returned()
        wait_for(lambda: reader.io.log_pos == end_of(source)[1] > start, "the event")
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
        wait_for(lambda: observer.waiting == 1, "the event")
    assert observer.waiting == 0
    assert not commit.returned(0)
    with Reader(source, observer, start=(reader.io.log_name, reader.io.log_pos)):
        assert commit.returned()
        assert Commit(source, "INSERT INTO d.t (id) VALUES (2)").returned()


def test_the_source_counts_us_out_when_we_stop(source):
    with Reader(source, SemisyncReplica()):
        wait_for(lambda: counters(source)["clients"] == "1", "the source knows of us")
    wait_for(lambda: counters(source)["clients"] == "0", "the source has forgotten us")


@pytest.mark.parametrize("way", ["zlib", "zstd"])
def test_over_a_compressed_connection(source, tmp_path, way):
    """Each acknowledgement is a command of its own, numbered from 0 on both layers."""
    if way == "zstd" and source.flavour == "mariadb":
        pytest.skip("MariaDB has no zstd")
    observer = SemisyncReplica()
    url = f"mysql://root@127.0.0.1:{source.port}/?ssl_mode=DISABLED&start=now&heartbeat=1&compress={way}"
    receiver = Receiver(url, tmp_path, observers=[observer], follow=True)
    thread = threading.Thread(target=receiver.run, daemon=True)
    thread.start()
    try:
        wait_for(lambda: counters(source)["clients"] == "1", "the source knows of us")
        for number in range(10):
            insert = f"INSERT INTO d.t VALUES ({number}, REPEAT('x', {100 * number**3}))"
            assert Commit(source, insert).returned(), number
        _acknowledged_all(observer, source)
    finally:
        receiver.stop()
        thread.join(DEADLINE)
    assert not thread.is_alive()
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
    assert observer.acknowledged == Position(*end_of(source))
    if not commit.returned(10):  # a busy source forgets a dump that ended before it has read this
        Receiver(url, tmp_path, observers=[SemisyncReplica()], follow=False).run()
    assert commit.returned()


def test_over_tls(source):
    if not source.query("SHOW VARIABLES LIKE 'ssl_cert'")[0][1] and source.flavour == "mysql":
        pytest.skip("the server has no certificate")
    if source.name == "mariadb-10.11":
        pytest.skip("MariaDB before 11.4 makes no certificate of its own")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    observer = SemisyncReplica()
    with Reader(source, observer, ssl=context) as reader:
        assert isinstance(reader.service._socket, ssl.SSLSocket)
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
            end = end_of(mysql97)[1]
            wait_for(lambda r=reader, end=end: r.io.log_pos == end, "the event")
            assert reader.events
            mysql97.execute(f"DROP DATABASE asynchronous{number}")
    (message,) = caplog.messages
    assert message == (
        f"root@127.0.0.1:{mysql97.port} has no semi-synchronous replication: it is read"
        " asynchronously, its commits do not wait for this replica"
    )
    assert observer.acknowledgements == 0
