"""A running server is followed with workers, and its changes are applied until it is ended."""

import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pymysql
import pytest

import tailrace
from tailrace.errors import TailraceError, UsageError
from tests.applier.conftest import empty
from tests.waiting import DEADLINE, wait_for
from tools.applied import gtid_mode

COMMAND = [sys.executable, "-m", "tailrace", "apply", "--follow", "--workers", "4"]
IDS = 16


@contextmanager
def load(server):
    """Clients that move amounts between rows: the sum of all rows stays the same."""
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, n INT NOT NULL) ENGINE=InnoDB")
    server.execute(f"INSERT INTO d.t VALUES {', '.join(f'({number}, 0)' for number in range(IDS))}")
    ended = threading.Event()

    def run(client):
        with server.connect() as connection, connection.cursor() as cursor:
            while not ended.is_set():
                for one in range(client * 4, client * 4 + 4, 2):
                    cursor.execute("BEGIN")
                    cursor.execute("UPDATE d.t SET n = n - 1 WHERE id = %s", (one,))
                    cursor.execute("UPDATE d.t SET n = n + 1 WHERE id = %s", (one + 1,))
                    cursor.execute("COMMIT")

    threads = [threading.Thread(target=run, args=(client,)) for client in range(IDS // 4)]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        ended.set()
        for each in threads:
            each.join()


@contextmanager
def command(pair, start="oldest"):
    """The command, which ends with the block."""
    source = f"mysql://root@127.0.0.1:{pair.source.port}/"
    argv = [*COMMAND, source, "--to", pair.url, *(["--start", start] if start else [])]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(argv, **pipes, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def following(pair):
    """The command, once it has applied some of the load."""
    continues = pair.target.query("SHOW DATABASES LIKE 'tailrace'")
    with command(pair, None if continues else "oldest") as process:
        before = applied(pair.target)
        wait_for(lambda: process.poll() is not None or applied(pair.target) > before + 20)
        assert process.poll() is None, process.communicate()
        yield process


def applied(server):
    try:
        return server.query("SELECT -SUM(LEAST(n, 0)) FROM d.t")[0][0] or 0
    except pymysql.err.Error:
        return 0


def test_a_signal_ends_it_after_a_transaction(pair):
    """Under load, within seconds; nothing is half done, and a later call has all."""
    with load(pair.source), following(pair) as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE)
        assert process.returncode == 130, err
        assert "transactions applied; up to binlog." in out
        assert pair.target.query("SELECT SUM(n) FROM d.t") == [(0,)]
    tailrace.apply(pair.log(), pair.url, workers=4)
    pair.check("d")


def test_a_target_that_crashes_ends_it_with_an_error_and_nothing_is_lost(pair):
    """MWL#120, the applier after a failure: the next call continues."""
    with load(pair.source), following(pair) as process:
        name = pair.url.rstrip("/")
        pair.target.kill()
        try:
            _, err = process.communicate(timeout=DEADLINE)
        finally:
            pair.target.start()
        assert process.returncode == 2
        first, *lines = (line.removeprefix("tailrace:").strip() for line in err.splitlines())
        assert first == f"applying to {name}"
        assert name in " ".join(lines), err  # a long error has several lines
        assert pair.target.query("SELECT SUM(n) FROM d.t") == [(0,)]
        with following(pair):
            pass
    tailrace.apply(pair.log(), pair.url, workers=4)
    pair.check("d")


def test_a_target_that_is_gone_ends_an_applier_that_has_nothing_to_apply(pair):
    """Within seconds, with the error that it would have at the next transaction."""
    pair.source.execute("CREATE DATABASE d")
    with command(pair) as process:
        wait_for(lambda: pair.target.query("SHOW DATABASES LIKE 'd'"))
        name = pair.url.rstrip("/")
        pair.target.kill()
        try:
            _, err = process.communicate(timeout=DEADLINE)
        finally:
            pair.target.start()
        assert process.returncode == 2
        assert err.splitlines()[-1].startswith(f"tailrace: {name}")


def resumes(server):
    """Whether the target has noted where to resume."""
    try:
        return server.query("SELECT 1 FROM tailrace.applied WHERE resume_file <> ''")
    except pymysql.err.Error:
        return ()


def test_where_a_follower_starts_is_noted_though_nothing_was_applied(pair):
    """It may be killed before the first transaction: the next call continues there."""
    pair.source.execute("CREATE DATABASE before_it")
    with command(pair, "now"):
        wait_for(lambda: resumes(pair.target))
    pair.source.execute("CREATE DATABASE after_it")
    tailrace.apply(pair.log(), pair.url)
    assert pair.target.query("SHOW DATABASES LIKE '%\\_it'") == [("after_it",)]


def test_a_server_is_no_target_of_its_own_log(pair):
    own = f"mysql://root@localhost:{pair.target.port}/"
    for source in (own, str(pair.target.data)):
        with pytest.raises(UsageError, match="is the server of the log"):
            tailrace.apply(source, pair.url, start="oldest")


def test_two_appliers_in_a_ring_are_an_error_and_do_not_answer_each_other(pair):
    """What they note is no change: idle, they write nothing. A change ends the second."""
    urls = [f"mysql://root@127.0.0.1:{each.port}/" for each in (pair.source, pair.target)]
    streams, ended = [], []

    def run(source, to):
        given = {"start": "oldest", "follow": True, "on_start": streams.append}
        try:
            tailrace.apply(source, to, **given)
        except TailraceError as error:
            ended.append(error)

    threads = [threading.Thread(target=run, args=way) for way in (urls, urls[::-1])]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: len(streams) == 2)
        time.sleep(7)  # longer than it takes to note a start

        def sizes():
            return [each.query("SHOW BINARY LOGS")[-1][1] for each in (pair.source, pair.target)]

        before = sizes()
        time.sleep(2)
        assert sizes() == before
        pair.source.execute("CREATE DATABASE d")
        pair.source.execute("CREATE TABLE d.t (id INT)")
        pair.source.execute("INSERT INTO d.t VALUES (1)")
        wait_for(lambda: ended, seconds=60)
        assert "a ring" in str(ended[0])
        there = "SELECT 1 FROM information_schema.tables WHERE table_schema = 'd'"
        wait_for(lambda: pair.target.query(there) and pair.target.query("SELECT * FROM d.t"))
        assert pair.source.query("SELECT * FROM d.t") == [(1,)]
    finally:
        for stream in streams:
            stream.stop()
        for thread in threads:
            thread.join()


@contextmanager
def without_gtids(servers, *databases, image="FULL"):
    for each in servers:
        gtid_mode(each, "OFF")
        for name in databases:
            each.execute(f"CREATE DATABASE {name}")
            each.execute(f"CREATE TABLE {name}.t (n INT)")
        each.execute(f"SET GLOBAL binlog_row_image = {image}")
        each.disconnect()
    try:
        yield [f"mysql://root@127.0.0.1:{each.port}/" for each in servers]
    finally:
        for each in servers:
            each.execute("SET GLOBAL binlog_row_image = FULL")
            gtid_mode(each, "ON")


@contextmanager
def followed(source, target, **given):
    """An applier that follows until the block's end; what it returned."""
    streams, done = [], []

    def run():
        done.append(tailrace.apply(source, target, follow=True, on_start=streams.append, **given))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield done
    finally:
        streams[0].stop()
        thread.join()


@pytest.mark.parametrize(
    ("length", "image", "tables", "change"),
    [
        (2, "FULL", None, "INSERT INTO d.t VALUES (1)"),
        (2, "MINIMAL", "d.*", "INSERT INTO d.t VALUES (1)"),
        (2, "MINIMAL", None, "CREATE TABLE d.u (n INT)"),
        (2, "FULL", "d.*", "CREATE TABLE d.u (n INT)"),
        (3, "FULL", None, "INSERT INTO d.t VALUES (1)"),
        (3, "FULL", None, "CREATE TABLE d.u (n INT)"),
    ],
)
def test_a_ring_without_gtids(pair, fresh_server, length, image, tables, change):
    """An applier's changes have its target's server id there: what it notes says where they began.
    No change comes back to where it began.
    """
    first = pair.source
    if first.flavour != "mysql":
        pytest.skip("MariaDB always has GTIDs")
    ring = [first, pair.target]
    if length == 3:
        ring.append(fresh_server("mysql-9.7", server_id=3))
        empty(ring[2])
    with without_gtids(ring, "d", image=image) as urls:
        hops = list(zip(urls, [*urls[1:], urls[0]], strict=True))
        for source, target in hops:
            tailrace.apply(source, target, start="now")
        first.execute(change)
        position = first.query("SHOW BINARY LOGS")[-1]
        for source, target in hops[:-1]:
            assert tailrace.apply(source, target, tables=tables).transactions == 1
        ends = []

        def started(stream):
            ends.append(threading.Timer(DEADLINE, stream.stop))
            ends[-1].start()

        with pytest.raises(UsageError, match="a ring"):
            tailrace.apply(*hops[-1], tables=tables, follow=True, on_start=started)
        ends[0].cancel()
        assert first.query("SHOW BINARY LOGS")[-1] == position


def test_two_appliers_of_different_tables_are_no_ring(pair):
    """Each takes its tables to the other server, and neither answers what the other notes."""
    if pair.source.flavour != "mysql":
        pytest.skip("MariaDB always has GTIDs")
    both = (pair.source, pair.target)
    with without_gtids(both, "d", "e") as urls:
        ways = [(*urls, "d.*"), (*urls[::-1], "e.*")]
        for source, target, tables in ways:
            tailrace.apply(source, target, start="now", tables=tables)
        both[0].execute("INSERT INTO d.t VALUES (1)")
        both[0].execute("CREATE TABLE d.u (n INT)")
        both[1].execute("INSERT INTO e.t VALUES (2)")
        both[1].execute("CREATE TABLE e.u (n INT)")
        for (source, target, tables), server in zip(ways, both[::-1], strict=True):
            with followed(source, target, tables=tables) as done:
                wait_for(lambda s=server, n=tables[0]: s.query(f"SHOW TABLES IN {n} LIKE 'u'"))
            assert done[0].transactions == 2
        sizes = [each.query("SHOW BINARY LOGS")[-1] for each in both]
        for source, target, tables in ways:
            assert tailrace.apply(source, target, tables=tables).transactions == 0
        assert [each.query("SHOW BINARY LOGS")[-1] for each in both] == sizes
