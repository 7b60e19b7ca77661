"""`tailrace log --follow`: transactions as they commit, of a server and of the files it writes."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from io import StringIO

import pymysql
import pytest

from tailrace.cli.output import LineOutput
from tests.cases import each_case
from tests.cli.test_errors import assert_refused
from tests.waiting import DEADLINE, wait_for
from tools.servers import ONE_OF_EACH


@pytest.fixture(scope="module", params=ONE_OF_EACH)
def busy(request, fresh_server):
    """A server of our own: its log is followed from its begin."""
    server = fresh_server(request.param, {"binlog_row_metadata": "FULL"})
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (a INT PRIMARY KEY, b VARCHAR(50))")
    server.execute("CREATE TABLE d.m (a INT) ENGINE=MyISAM")
    return server


@pytest.fixture(params=["server", "folder"])
def place(request, busy):
    return place_of(busy, request.param)


def place_of(server, where):
    return url(server) if where == "server" else str(server.data)


def url(server, options=""):
    return f"mysql://root@127.0.0.1:{server.port}/{options}"


class Follower:
    """A `tailrace log --follow` that runs, and its lines."""

    def __init__(self, process):
        self.process, self.errors = process, ""

    def until(self, test):
        """The lines up to the first for which the test holds."""
        lines = []
        for line in iter(self.process.stdout.readline, ""):
            lines.append(line.rstrip("\n"))
            if test(lines[-1]):
                return lines
        raise AssertionError(f"it ended; before: {lines}; {self.process.stderr.read()}")

    def end(self, number=signal.SIGTERM):
        """Its status once it was sent a signal, and the lines that were not asked for."""
        self.process.send_signal(number)
        left = self.process.stdout.read().splitlines()
        self.errors = self.process.stderr.read()
        return self.process.wait(DEADLINE), left


@contextmanager
def following(*arguments):
    process = subprocess.Popen(
        [sys.executable, "-m", "tailrace", "log", "--follow", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Follower(process)
        finally:
            process.kill()


def row(number, text):
    return f"REPLACE INTO d.t VALUES ({number}, '{text}')"


def holds(text):
    return lambda line: text in line


@each_case(("where", "how"), [("server", "json"), ("server", "sql"), ("folder", "text")])
def test_a_commit_comes_by_itself(busy, where, how):
    """All of the transaction does, its end too, and not only when the next one comes."""
    place = place_of(busy, where)
    busy.execute("DELETE FROM d.t")
    busy.execute(row(1, f"first-{how}"))
    with following("--as", how, place) as follower:
        follower.until(holds(f"first-{how}"))
        for number in range(2, 6):
            text = f"{how}-{number}-{time.monotonic_ns()}"
            busy.execute(row(number, text))
            lines = follower.until(lambda line, text=text: text in line and " --" not in line)
            if how == "sql":
                follower.until(holds("COMMIT;"))
            elif how == "json":
                assert json.loads(lines[-1])["after"] == {"a": number, "b": text}
            busy.execute("FLUSH BINARY LOGS") if number == 3 else None
        status, left = follower.end()
        assert (status, follower.errors) == (0, "")
        assert not any(f"{how}-" in line for line in left)


def test_what_is_followed_is_what_the_files_hold(busy, place, run):
    """Large and small, over rotations; XA transactions when they are committed."""
    with following("--as", "json", "--tables", "d.*", place) as follower:
        for number in range(20):
            if number % 7 == 0:
                busy.execute("FLUSH BINARY LOGS")
            busy.execute(
                "REPLACE INTO d.t VALUES "
                + ",".join(f"({100 + each}, '{number}')" for each in range(1 + 40 * number))
            )
        mark = f"last-{time.monotonic_ns()}"
        busy.execute(row(0, mark))
        lines = follower.until(holds(mark))
        follower.end()
    files = run("log", "--as", "json", "--tables", "d.*", busy.data)
    assert sorted(lines, key=sequence) == files.lines
    assert len(lines) > 7000


def sequence(line):
    return int(json.loads(line)["_seq"])


def test_what_is_taken_back_is_not_printed(busy, place):
    with (
        following("--as", "json", place) as follower,
        busy.connect() as other,
        other.cursor() as xa,
    ):
        mark = str(time.monotonic_ns())
        for sql in (
            "XA START 'one'", f"INSERT INTO d.t VALUES (-1, 'one-{mark}')", "XA END 'one'", "XA PREPARE 'one'",
            "XA ROLLBACK 'one'",
            "XA START 'two'", f"INSERT INTO d.t VALUES (-2, 'two-{mark}')", "XA END 'two'", "XA PREPARE 'two'",
        ):  # fmt: skip
            xa.execute(sql)
        if busy.flavour == "mariadb":
            for sql in ("BEGIN", f"INSERT INTO d.t VALUES (-3, 'kept-{mark}')", "SAVEPOINT s", f"INSERT INTO d.t VALUES (-4, 'gone-{mark}')", "INSERT INTO d.m VALUES (1)", "ROLLBACK TO s", "COMMIT"):  # fmt: skip
                busy.execute(sql)
        busy.execute(row(0, f"after-{mark}"))
        lines = follower.until(holds(f"after-{mark}"))
        told = [line for line in lines if mark in line]
        assert not any(f"{word}-{mark}" in line for word in ("one", "two", "gone") for line in told)
        assert any("kept" in line for line in told) is (busy.flavour == "mariadb")
        xa.execute("XA COMMIT 'two'")
        follower.until(holds(f"two-{mark}"))
        follower.end()
    busy.execute("DELETE FROM d.t")


def test_compressed_xa_that_is_committed_at_once(busy):
    if busy.flavour == "mariadb":
        pytest.skip("MariaDB has no transaction payloads")
    mark = str(time.monotonic_ns())
    with following_from_now(busy, "--as", "json") as follower, busy.connect() as other:
        with other.cursor() as xa:
            for sql in (
                "SET SESSION binlog_transaction_compression = ON",
                "XA START 'three'", f"INSERT INTO d.t VALUES (-6, 'three-{mark}')", "XA END 'three'",
                "XA COMMIT 'three' ONE PHASE",
            ):  # fmt: skip
                xa.execute(sql)
        lines = follower.until(holds(f"three-{mark}"))
        assert sum(mark in line for line in lines) == 1
        assert follower.end()[0] == 0
        assert "have not ended" not in follower.errors
    busy.execute("DELETE FROM d.t")


def test_prepared_and_not_ended(busy):
    """What is not printed is said when it ends; and a commit whose rows stand before the start."""
    with busy.connect() as other, other.cursor() as xa:
        for sql in (
            "XA START 'x'",
            "INSERT INTO d.t VALUES (-5, '')",
            "XA END 'x'",
            "XA PREPARE 'x'",
        ):
            xa.execute(sql)
        busy.execute(row(0, "prepared"))
        with following("--as", "json", url(busy)) as follower:
            follower.until(holds('"prepared"'))
            assert follower.end()[0] == 0
            assert (
                "1 XA transactions are prepared and have not ended: their rows are left out"
                in follower.errors
            )
        with following_from_now(busy, "--as", "json") as follower:
            xa.execute("XA COMMIT 'x'")
            busy.execute(row(0, "behind"))
            follower.until(holds('"behind"'))
            follower.end()
            assert (
                "come before the part of the log that is read: they are left out" in follower.errors
            )
    busy.execute("DELETE FROM d.t")


def dumps(server):
    """The connections that read the log from this server."""
    return {each[0] for each in server.query("SHOW PROCESSLIST") if "Binlog Dump" in str(each[4])}


@contextmanager
def following_from_now(server, *arguments):
    """A follower, once the server sends to it."""
    before = dumps(server)
    with following(*arguments, url(server, "?start=now")) as follower:
        wait_for(lambda: dumps(server) - before)
        yield follower


def test_a_connection_that_breaks(busy):
    """It is said, and goes on: nothing twice, nothing left out."""
    with following_from_now(busy, "--as", "json") as follower:
        marks = []
        for number in range(6):
            marks.append(f"mark-{number}-{time.monotonic_ns()}")
            busy.execute(row(number, marks[-1]))
            for each in dumps(busy):
                with suppress(pymysql.err.OperationalError):  # the last kill's, just gone
                    busy.execute(f"KILL {each}")
        lines = follower.until(holds(marks[-1]))
        assert follower.end()[0] == 0
        found = [json.loads(line)["after"]["b"] for line in lines]
        assert found == marks
        assert f"tailrace: mysql://root@127.0.0.1:{busy.port}" in follower.errors
        assert "Traceback" not in follower.errors


@each_case(
    ("where", "number", "status"),
    [("server", signal.SIGINT, 130), ("server", signal.SIGTERM, 0), ("folder", signal.SIGINT, 130)],
)
def test_signals_end_it_quietly(busy, where, number, status):
    busy.execute(row(1, "there"))
    place = place_of(busy, where)
    if where == "server":
        place = url(busy, f"?heartbeat={2 * DEADLINE}")  # nothing comes that would wake it
    with following("--as", "sql", place) as follower:
        follower.until(holds("'there'"))
        ended, left = follower.end(number)
        assert ended == status
        assert follower.errors == ""
        assert left[-1].endswith(";")


def test_until(busy, place):
    """It ends by itself where it is told to."""
    one, two = (f"{word}-{time.monotonic_ns()}" for word in ("one", "two"))
    busy.execute(row(1, one))
    last = busy.binlogs()[-1]
    end = f"{last.name}:{last.stat().st_size}"
    with following("--as", "json", "--until", end, place) as follower:
        follower.until(holds(one))
        busy.execute(row(1, two))
        assert follower.process.wait(DEADLINE) == 0
        _, left = follower.end()
        assert not any(two in line for line in left)
        assert follower.errors == ""


def test_through_a_pipe(busy):
    """The reader behind it has each line at once, and may go away."""
    place = url(busy)
    mark = f"piped-{time.monotonic_ns()}"
    busy.execute(row(1, mark))
    follower = f"{sys.executable} -m tailrace log --follow --as json '{place}'"
    shell = subprocess.Popen(
        ["sh", "-c", f"{follower} | grep -m1 --line-buffered {mark}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )

    def ended():
        busy.execute(row(2, str(time.monotonic_ns())))  # who writes into a closed pipe learns of it
        return shell.poll() is not None

    try:
        wait_for(ended, every=0.05)
        out, err = shell.communicate(timeout=DEADLINE)
        assert mark in out
        assert err == ""
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)


def test_one_log_is_followed(run, shop):
    assert_refused(
        run("log", "--follow", shop),
        "one log is followed, and there are several (mariadb, mysql): give one",
    )
    piped = subprocess.run(
        [sys.executable, "-m", "tailrace", "log", "--follow", "-"],
        input=(shop / "mysql" / "binlog.000001").read_bytes(),
        capture_output=True,
        check=False,
    )
    assert (piped.returncode, piped.stdout) == (2, b"")
    assert b"a pipe has an end" in piped.stderr


def test_lines_in_pieces_are_flushed():
    """Lines of large events are written at once, without a block; a flush is for them, too."""
    told = []

    class Out(StringIO):
        def write(self, text):
            told.append(text)

        def flush(self):
            told.append("flushed")

    lines = LineOutput(Out())
    lines.take([iter(["a", "b"])])
    lines.flush()
    assert told == ["a", "b", "\n", "flushed"]
