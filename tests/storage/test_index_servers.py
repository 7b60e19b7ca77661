"""Indexes and purging as real servers have them, and servers on the indexes that we leave."""

import shutil
import threading
import time
from pathlib import Path

import pytest

from tailrace.storage.files import find
from tailrace.storage.index import LogIndex
from tailrace.storage.local import LocalFolder
from tailrace.storage.purge import purge
from tests.cases import each_case
from tests.conftest import _require
from tests.storage.test_index_purge import Dying, Killed
from tests.waiting import next_second, wait_for
from tools.servers import ONE_OF_EACH, Server

SECOND = 1_000_000


@pytest.fixture(scope="module", params=ONE_OF_EACH)
def own(request):
    """A server of each flavour that nobody else uses."""
    _require(request.param)
    with Server(request.param, ["--innodb-flush-log-at-trx-commit=1"]) as server:
        server.execute("CREATE DATABASE purged")
        for name, _ in server.query("SHOW VARIABLES LIKE 'slave_connections_needed_for_purge'"):
            server.execute(f"SET GLOBAL {name} = 0")  # else MariaDB keeps all without a replica
        yield server


def logs(server):
    return [str(row[0]) for row in server.query("SHOW BINARY LOGS")]


def some_files(server, count, *, apart=False):
    """More log files of the server, with something in each; ``apart``: one a second."""
    for _ in range(count):
        server.execute("CREATE TABLE IF NOT EXISTS purged.t (id INT AUTO_INCREMENT PRIMARY KEY)")
        server.execute("INSERT INTO purged.t VALUES ()")
        if apart:
            next_second()
        server.execute("FLUSH BINARY LOGS")
    server.settle()
    return logs(server)


def there(folder):
    """The log files in a folder, what belongs to them, and the register."""
    kept = (path.name for path in folder.glob("binlog.*"))
    return sorted(name for name in kept if name != "binlog.state")


def copied(server, target):
    target.mkdir()
    for name in there(server.data):
        shutil.copy(server.data / name, target)
    return target


def test_ours_and_the_servers_purge_alike(own, tmp_path):
    files = some_files(own, 4)
    copy = copied(own, tmp_path / "to")
    own.execute(f"PURGE BINARY LOGS TO '{files[2]}'")
    assert purge(copy, to=files[2]) == files[:2]
    assert there(copy) == there(own.data)
    assert (copy / "binlog.index").read_bytes() == (own.data / "binlog.index").read_bytes()


def test_times_are_the_servers(own, tmp_path):
    """A server goes by when a file was changed last, we by when the next was begun."""
    folder = LocalFolder(own.data)

    def made():
        own.execute(f"PURGE BINARY LOGS TO '{logs(own)[-1]}'")
        files = some_files(own, 4, apart=True)
        begun = [int.from_bytes(folder.read(name, 4, 4), "little") for name in files]
        changed = [int((own.data / name).stat().st_mtime) for name in files]
        return (files, begun) if changed[:-1] == begun[1:] else None  # else a second ended between

    files, seconds = wait_for(made)
    for number, second in enumerate([seconds[0], seconds[1], seconds[2] + 1, seconds[4] + 1]):
        copy = copied(own, tmp_path / str(number))
        own.execute(f"PURGE BINARY LOGS BEFORE FROM_UNIXTIME({second})")
        purge(copy, before=second * SECOND)
        assert there(copy) == there(own.data)
    assert logs(own) == files[-1:]


def test_servers_take_what_we_leave(own):
    files = some_files(own, 3)
    own.stop(keep=True)
    assert purge(own.data, to=files[1]) == files[:1]
    listed = LogIndex(LocalFolder(own.data), "binlog").names
    own.start()
    assert logs(own)[:-1] == listed == files[1:]
    sizes = {str(row[0]): int(row[1]) for row in own.query("SHOW BINARY LOGS")}
    assert sizes == {name: (own.data / name).stat().st_size for name in logs(own)}
    for name in files[1:]:
        assert own.query(f"SHOW BINLOG EVENTS IN '{name}'")


@each_case("step", [1, 3, 5])
def test_servers_finish_the_purge_in_which_we_were_killed(own, step):
    files = some_files(own, 3)[-4:]
    own.execute(f"PURGE BINARY LOGS TO '{files[0]}'")
    own.stop(keep=True)
    with pytest.raises(Killed):
        LogIndex(Dying(own.data, step), "binlog").purge(to=files[3])
    own.start()
    assert logs(own)[:-1] == (files if step < 2 else files[3:])
    wanted = [name for name in there(own.data) if name.rpartition(".")[2].isdigit()]
    assert wanted == logs(own)
    assert "binlog.~rec~" not in there(own.data)


def test_we_finish_what_a_server_would(own):
    """Its register names files as its index does; so it is made for a file that is being made."""
    files = some_files(own, 1)
    own.stop(keep=True)
    made = own.data / "binlog.999998"
    made.write_bytes(b"\xfebin")
    register = own.data / "binlog.~rec~"
    register.write_text(f"./{made.name}\n./{files[0]}\n")
    index = LogIndex(LocalFolder(own.data), "binlog")
    assert index.recover() == [made.name]
    assert not register.exists()
    assert (own.data / files[0]).exists()
    made.write_bytes(b"\xfebin")
    register.write_text(f"./{made.name}\n./{files[0]}\n")
    own.start()
    assert not made.exists()
    assert (own.data / files[0]).exists()
    assert not register.exists()


def test_absolute_entries(tmp_path):
    """A log that lies outside the data folder, as its server lists it."""
    for name in ONE_OF_EACH:
        _require(name)
        place = tmp_path / name
        place.mkdir()
        with Server(name, [f"--log-bin={place}/binlog"]) as server:
            server.execute("CREATE DATABASE purged")
            files = [Path(line).name for line in some_files(server, 3)]
            server.stop(keep=True)
            lines = (place / "binlog.index").read_text().splitlines()
            assert lines == [f"{place}/{file}" for file in files]
            assert purge(place, to=files[2]) == files[:2]
            assert (place / "binlog.index").read_text().splitlines() == lines[2:]
            server.start()
            assert [Path(each).name for each in logs(server)][:-1] == files[2:]
            assert there(place)[0] == files[2]


def test_reading_while_a_server_replaces_its_index(own):
    """MySQL deletes it and renames the new one, MariaDB moves its lines up; both delete logs."""
    some_files(own, 1)
    stopped = threading.Event()

    def churn():
        with own.connect() as connection, connection.cursor() as cursor:
            while not stopped.is_set():
                for _ in range(3):
                    cursor.execute("FLUSH BINARY LOGS")
                cursor.execute("SHOW BINARY LOGS")
                cursor.execute(f"PURGE BINARY LOGS TO '{cursor.fetchall()[-2][0]}'")

    churning = threading.Thread(target=churn)
    churning.start()
    try:
        until = time.monotonic() + 2
        while time.monotonic() < until:
            for source in (own.data, own.data / "binlog.index"):
                (series,) = find(source)
                numbers = [file.number for file in series.files]
                assert numbers == [*range(numbers[0], numbers[-1] + 1)]
    finally:
        stopped.set()
        churning.join()
