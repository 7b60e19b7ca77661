"""``tailrace reset``: WL#4398's after_reset_master and after_reset_slave by a command."""

import importlib.metadata

import pytest

import tailrace
from tailrace.observers import RelayIoObserver, TransmitObserver
from tailrace.replication.receiver import Receiver
from tests.cases import each_case
from tests.writing.made import FLAVOURS, check_files, fill, log

calls = []


class Told(RelayIoObserver, TransmitObserver):
    """An observer of both kinds that have a hook for a reset."""

    def after_reset_replica(self, io):
        calls.append(("after_reset_replica", io.server_id))

    def after_reset_source(self, io):
        calls.append(("after_reset_source", io.server_id))


@pytest.fixture(autouse=True)
def _plugin(monkeypatch):
    calls.clear()
    point = importlib.metadata.EntryPoint("told", f"{__name__}:Told", "tailrace.observers")
    semisync = importlib.metadata.EntryPoint(
        "semisync.replica",
        "tailrace.replication.semisync.replica:SemisyncReplica",
        "tailrace.observers",
    )
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point, semisync])


@each_case("flavour", FLAVOURS)
def test_after_reset_master_by_the_command(run, tmp_path, flavour):
    calls.clear()
    with log(tmp_path / "binlog.000002", flavour) as out:
        fill(out, 3)
        out.rotate()
        fill(out, 3, first=4)
    before = sorted(tmp_path.iterdir())
    asked = run("reset", str(tmp_path), "--plugin", "told")
    assert asked.status == 2
    assert "2 log files would be removed (binlog.000002 to binlog.000003)" in asked.err
    assert sorted(tmp_path.iterdir()) == before
    assert not calls
    done = run("reset", str(tmp_path), "--yes", "--plugin", "told")
    assert (done.status, done.err) == (0, "")
    assert done.out == (
        f"{tmp_path}: 3 log files removed; the log begins again with binlog.000001\n"
    )
    assert calls == [("after_reset_source", 7)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["binlog.000001", "binlog.index"]
    check_files(tmp_path / "binlog.000001")
    assert not [*tailrace.transactions(tmp_path)]


def test_after_reset_slave_by_the_command(run, tmp_path, mysql97):
    url = f"mysql://root@127.0.0.1:{mysql97.port}/?server_id=4711"
    Receiver(url, tmp_path / "copy").run()
    done = run("reset", str(tmp_path / "copy"), "--yes", "--plugin", "told")
    assert done.status == 0
    assert "log files removed; the next receive begins a copy" in done.out
    assert calls == [("after_reset_replica", 4711)]
    assert [path.name for path in (tmp_path / "copy").iterdir()] in ([], ["receiver.lock"])


def test_a_plugin_of_no_kind_that_fits(run, tmp_path):
    log(tmp_path / "binlog.000001", "mysql").close()
    done = run("reset", str(tmp_path), "--yes", "--plugin", "semisync.replica")
    assert done.status == 2
    assert "a log that is written calls transaction and log storage and transmit" in done.err
    assert (tmp_path / "binlog.000001").exists()


def test_a_folder_without_a_log(run, tmp_path):
    done = run("reset", str(tmp_path), "--yes")
    assert (done.status, done.out) == (2, "")
    assert "no log is in this folder" in done.err
