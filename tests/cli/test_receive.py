"""``tailrace receive`` as a process, against the real servers."""

import os
import pty
import random
import signal
import threading
from contextlib import contextmanager
from functools import partial

import pytest

from tests.cases import each_case
from tests.cli.test_errors import assert_refused
from tests.replication.conftest import end_of, insert, same, url_of
from tests.waiting import DEADLINE, wait_for
from tools.proxy import Proxy


@pytest.fixture(scope="module")
def source(fresh_server):
    made = fresh_server("mariadb-11.8")
    made.execute("CREATE DATABASE d CHARACTER SET utf8mb4")
    made.execute("CREATE TABLE d.t (a INT PRIMARY KEY AUTO_INCREMENT, b LONGBLOB) ENGINE=InnoDB")
    return made


@pytest.fixture
def start(begin):
    return partial(begin, "receive")


def has(server, folder):
    """Whether the copy is as long as the source's log."""
    name, size = end_of(server)
    path = folder / name
    return path.exists() and path.stat().st_size == size


def finish(process):
    out, err = process.communicate(timeout=DEADLINE)
    return process.returncode, out, err


@contextmanager
def writing(server, seed):
    """A client that writes rows, and goes on in new files now and then."""
    chance, ending = random.Random(seed), threading.Event()

    def run():
        with server.connect() as connection, connection.cursor() as cursor:
            while not ending.wait(0.02):
                for _ in range(chance.randrange(1, 20)):
                    size = chance.choice((10, 200, 5000, 200_000))
                    cursor.execute("INSERT INTO d.t (b) VALUES (%s)", (b"y" * size,))
                if chance.random() < 0.1:
                    cursor.execute("FLUSH BINARY LOGS")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def test_it_ends_at_the_present_end(source, run, tmp_path):
    insert(source, [10, 2000])
    ran = run("receive", url_of(source), "--into", tmp_path / "copy")
    assert ran.status == 0, ran.err
    assert f"up to {':'.join(map(str, end_of(source)))}" in ran.out
    assert "received in" in ran.out
    same(source, tmp_path / "copy")


def test_a_source_that_is_not_there_yet(source, start, tmp_path):
    folder = tmp_path / "copy"
    with Proxy(source.port) as proxy:
        proxy.refuse()
        url = f"mysql://root@127.0.0.1:{proxy.port}/?ssl_mode=DISABLED&retry=300"
        process = start("--follow", url, "--into", folder)
        assert "trying again" in next(iter(process.stderr.readline, ""))
        proxy.go_on()
        wait_for(lambda: has(source, folder))
        process.send_signal(signal.SIGTERM)
        assert finish(process)[0] == 0


def test_sigterm_under_load(source, start, tmp_path):
    folder = tmp_path / "copy"
    with writing(source, 1):
        for _ in range(2):
            process = start("--follow", url_of(source), "--into", folder, "--progress", "200ms")
            assert next(iter(process.stderr.readline, ""))  # it handles signals by now
            wait_for(lambda: has(source, folder))
            process.send_signal(signal.SIGTERM)
            status, out, err = finish(process)
            assert status == 0, err
            assert "up to binlog.0" in out
    source.settle()
    process = start("--follow", url_of(source), "--into", folder, "--progress", "200ms")
    assert next(iter(process.stderr.readline, ""))  # it handles signals by now
    wait_for(lambda: has(source, folder))
    process.send_signal(signal.SIGINT)
    status, _, err = finish(process)
    assert status == 130
    assert "Traceback" not in err
    same(source, folder)


def test_a_signal_while_nothing_comes(source, start, tmp_path):
    folder = tmp_path / "copy"
    url = url_of(source, f"?heartbeat={2 * DEADLINE}")  # nothing comes that would wake it
    process = start("--follow", url, "--into", folder, "--progress", "100ms")
    wait_for(lambda: has(source, folder))
    lines = iter(process.stderr.readline, "")
    line = next(line for line in lines if "up to date" in line)
    assert ":".join(map(str, end_of(source))) in line
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE) == 0


def test_on_a_terminal(source, start, tmp_path):
    """One line that changes."""
    folder = tmp_path / "copy"
    ours, theirs = pty.openpty()
    settings = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    process = start("--follow", url_of(source), "--into", folder, stderr=theirs, env=settings)
    os.close(theirs)
    shown = b""
    while b"up to date" not in shown:
        shown += os.read(ours, 65536)  # an error (EIO) where the process has ended
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE) == 0
    os.close(ours)
    assert f"127.0.0.1_{source.port}".encode() in shown


def test_several_sources(source, start, tmp_path):
    """A folder each; one that fails does not stop the others, and the status tells."""
    folder = tmp_path / "copies"
    bad = "mysql://root@127.0.0.1:1/"
    process = start(url_of(source), f"there={url_of(source)}", f"bad={bad}", "--into", folder)
    status, out, err = finish(process)
    assert status == 2
    assert "bad: mysql://root@127.0.0.1:1" in err
    assert "Traceback" not in err
    assert "there: " in out
    same(source, folder / "there")
    same(source, folder / f"127.0.0.1_{source.port}")


@each_case("given", ["mysql://root:s3cret@127.0.0.1:1/", "one=mysql://root:s3cret@127.0.0.1:1/"])
def test_what_receives_nothing_leaves_nothing(run, given, tmp_path):
    (tmp_path / "there").mkdir()
    for folder in ("there", "new/copy"):
        ran = run("receive", given, "--into", tmp_path / folder)
        assert_refused(ran, "Connection refused")
        assert "127.0.0.1:1" in ran.err
        assert "s3cret" not in ran.err
    assert list(tmp_path.rglob("*")) == [tmp_path / "there"]


@each_case("count", [1, 2])
def test_an_empty_path_is_no_folder(run, count, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    urls = [f"mysql://root@127.0.0.1:{1 + number}/" for number in range(count)]
    assert_refused(run("receive", *urls, "--into", ""), "--into is empty: give a folder")
    assert list(tmp_path.iterdir()) == []
