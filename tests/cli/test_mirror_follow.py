"""``tailrace mirror --follow`` as a process, and what it shows."""

import os
import pty
import re
import signal
import threading
from dataclasses import replace
from functools import partial

import pytest

from tailrace.cli.mirror.progress import Steps, _line, _Lines, held, notes
from tailrace.cli.options import check_cores, key_columns
from tailrace.errors import UsageError
from tailrace.printable import size
from tailrace.spark.input.lag import SourceMoment
from tailrace.spark.mirror.report import MirrorReport, Moment, TableReport
from tests.live.feeding import end_of
from tests.replication.conftest import DEADLINE, insert, url_of
from tests.waiting import Said, wait_for


@pytest.fixture(scope="module")
def source(fresh_server):
    made = fresh_server("mariadb-11.8", {"binlog_row_metadata": "FULL"})
    made.execute("CREATE DATABASE d CHARACTER SET utf8mb4")
    made.execute("CREATE TABLE d.t (a INT PRIMARY KEY AUTO_INCREMENT, b LONGBLOB) ENGINE=InnoDB")
    made.execute("CREATE TABLE d.keyless (a INT) ENGINE=InnoDB")
    made.execute("INSERT INTO d.keyless VALUES (1)")
    made.connection.commit()
    return made


@pytest.fixture
def start(begin):
    return partial(begin, "mirror")


@pytest.mark.slow
def test_a_signal_ends_it_behind_its_batch(source, start, tmp_path):
    lake = tmp_path / "lake"
    for number, status in ((signal.SIGTERM, 0), (signal.SIGINT, 130)):
        insert(source, [10, 20])
        process = start(url_of(source), "--into", lake, "--follow", "--trigger", "200ms")
        whole = "{}:{}  up to date".format(*end_of(source))
        said = []
        for line in iter(process.stderr.readline, ""):
            said.append(line)
            if whole in line:
                break
        assert process.poll() is None, said
        if status == 0:
            assert any("d.keyless: no current state: it has no primary key" in x for x in said)
        process.send_signal(number)
        out, err = process.communicate(timeout=DEADLINE)
        assert process.returncode == status, err
        assert "Traceback" not in err
        assert "2 changes" in out or "3 changes" in out
    assert source.query("SELECT COUNT(*) FROM d.t")[0][0] == 4


@pytest.mark.slow
def test_another_one_takes_over_from_one_that_is_stopped(source, start, tmp_path):
    """It continues with a copy of the log that the other one received, and holds locked."""
    lake = tmp_path / "lake"
    insert(source, [10])
    first = start(url_of(source), "--into", lake, "--follow", "--trigger", "200ms")
    whole = "{}:{}  up to date".format(*end_of(source))
    assert any(whole in line for line in iter(first.stderr.readline, ""))
    first.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)
    insert(source, [20])
    for changes in ("1 change", "nothing new"):
        out, err = start(url_of(source), "--into", lake).communicate(timeout=DEADLINE)
        assert changes in out, err
        assert ("taking over from another process" in err) == (changes == "1 change")
    first.send_signal(signal.SIGCONT)
    _, err = first.communicate(timeout=DEADLINE)
    assert first.returncode == 2, err
    assert "another process has taken over the lake" in err
    out, err = start(url_of(source), "--into", lake).communicate(timeout=DEADLINE)
    assert "nothing new" in out, err


@pytest.mark.slow
def test_on_a_terminal(source, start, tmp_path):
    insert(source, [10])
    inner, outer = pty.openpty()
    process = start(
        *(url_of(source), "--into", tmp_path / "lake", "--follow", "--trigger", "200ms"),
        stderr=outer,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "120"},
    )
    os.close(outer)
    shown = bytearray()
    there = threading.Event()

    def read():
        try:
            while data := os.read(inner, 4096):
                shown.extend(data)
                if b"up to date" in shown and b"inserts" in shown and b"d.t" in shown:
                    there.set()
        except OSError:
            there.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    assert there.wait(DEADLINE), bytes(shown)
    assert process.poll() is None, bytes(shown)
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE) == 0
    reader.join(DEADLINE)
    os.close(inner)


def moment(batches, *, refused=None, held_at=None):
    table = TableReport("d.t", {"insert": 2}, 2, 100, 0.1, refused)
    report = MirrorReport(batches, (table,), {"s": "binlog.000001:9"}, 1000)
    return Moment(
        batches, report, (SourceMoment("s", "binlog.000001:9", 0, 0.0, held=held_at),), 500.0, 0.1
    )


def test_what_is_said_once(capsys):
    lines = _Lines()
    lines.progress("start", 0, 1)
    lines.moment(Moment(0, None, (), 0.0, 0.0))  # no source is reached yet
    for number in range(1, 4):
        lines.moment(moment(number, refused="it has no primary key", held_at="binlog.000001:400"))
    lines.moment(moment(4))
    lines.moment(moment(5, refused="it has no primary key"))
    _, err = capsys.readouterr()
    assert err.count("d.t: no current state: it has no primary key") == 2
    assert err.count("XA transaction is prepared at binlog.000001:400") == 1
    assert err.count("s: binlog.000001:9  up to date") == 1
    assert "starting Spark" in err


def test_a_long_batch_is_told_again_and_again(monkeypatch):
    """Also where a step takes long of which nothing is heard; a wait between batches is not."""
    steps, said = Steps(every=0.02), Said()
    monkeypatch.setattr("sys.stderr", said)

    def come(text):
        """Wait until a line has come twice, with how long it is by then."""
        line = re.compile(rf"tailrace: {re.escape(text)}, for \d+ s")
        wait_for(lambda: sum(line.fullmatch(each) is not None for each in said.lines) > 1)

    with steps.told():
        steps.tell("start", 0, 1)
        come("starting Spark")
        steps.tell("read", 1 << 20, 3 << 20)
        come(f"reading logs: {size(1 << 20)} of {size(3 << 20)}")
        steps.tell("current", 2, 7)
        come("making current tables: 2 of 7")
        steps.over()
    assert said.lines.count("tailrace: starting Spark") == 1
    quiet = Steps()
    quiet.aloud = False
    before = said.lines
    quiet.tell("read", 0, 5)
    quiet.over()
    assert said.lines == before


def test_a_source_that_is_not_connected_is_not_up_to_date():
    there = SourceMoment("s", "f:9", 0, 0.0)
    assert _line(there) == "s: f:9  up to date"
    assert _line(replace(there, connected=False)) == "s: f:9  not connected"


def test_lines():
    assert notes(TableReport("d.t", {}, 1, 1, 0.0, notes=("a", "b"))) == ["d.t: a", "d.t: b"]
    assert held("s", "f:4").startswith("s: an XA transaction is prepared at f:4")


def test_options():
    assert key_columns(["shop.t=a, b", "shop.u=c"]) == {"shop.t": ["a", "b"], "shop.u": ["c"]}
    for wrong in (["t=a"], ["shop.t"], ["shop.t="], ["shop.t=a,,b"], ["shop.t=a", "shop.t=b"]):
        with pytest.raises(UsageError, match="--keys"):
            key_columns(wrong)
    with pytest.raises(UsageError, match="--cores 0"):
        check_cores(0)
