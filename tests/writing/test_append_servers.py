"""`append` and `tailrace reset` with logs of servers."""

import shutil
from functools import partial

import pytest

import tailrace
from tailrace.cli.reset import reset
from tailrace.errors import LogError, StorageError, UsageError
from tailrace.storage.purge import purge
from tests.cases import each_case
from tests.recorded import CORPUS
from tests.writing.made import (
    append,
    fill,
    log,
)


@each_case(
    "case",
    [
        *("mysql-9.7.in-use", "mysql-9.7.torn", "mysql-9.7.clean-shutdown", "mysql-9.7.gtids"),
        *("mariadb-11.8.in-use", "mariadb-11.8.torn", "mariadb-11.8.clean-shutdown"),
        *("mariadb-10.11.in-use", "mariadb-10.11.torn", "mariadb-11.8.domains"),
    ],
)
def test_logs_of_servers_are_rejected(tmp_path, case):
    """`append` and `tailrace reset` leave every byte of them."""
    folder = tmp_path / case
    folder.mkdir()
    for path in sorted((CORPUS / case).glob("binlog.0*")):
        shutil.copy(path, folder)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for rejected in (append, partial(reset, yes=True)):
        with pytest.raises(StorageError, match="has no mark of Tailrace"):
            rejected(str(folder))
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@each_case("name", ["mysql-9.7", "mariadb-11.8"])
def test_relay_logs_and_encrypted_logs_are_refused(tmp_path, name):
    for case in ("relay-log", "encrypted"):
        folder = tmp_path / case
        shutil.copytree(CORPUS / f"{name}.{case}", folder)
        files = sorted(path for path in folder.iterdir() if path.suffix[1:].isdigit())
        held = files[-1].read_bytes()
        with pytest.raises((LogError, StorageError), match=r"relay log|encrypted"):
            append(files[-1])
        assert files[-1].read_bytes() == held


def test_the_log_of_a_running_server(flavour_server, tmp_path):
    """No command writes to it; a log of ours is known whatever version it records, and servers'
    own programs read it.
    """
    server, folder = flavour_server, flavour_server.data
    server.rotate()
    before = {path: path.read_bytes() for path in server.binlogs()}
    url = f"mysql://root@127.0.0.1:{server.port}/"
    linked = tmp_path / "linked"  # its files, in a folder that is not known as a server's
    linked.mkdir()
    for path in server.binlogs():
        (linked / path.name).hardlink_to(path)
    for use, error, said in (
        (partial(append, folder), StorageError, "has no mark of Tailrace"),
        (partial(reset, str(folder), yes=True), StorageError, "has no mark of Tailrace"),
        (
            partial(tailrace.create, folder / "new.000001", flavour="mysql", server_id=5),
            UsageError,
            "a server's data folder",
        ),
        (partial(tailrace.receive, url, folder), UsageError, "a server's data folder"),
        (partial(tailrace.receive, url, linked), StorageError, "writes to it"),
        (partial(purge, folder, to=server.binlogs()[-1].name), StorageError, "writes to it"),
    ):
        with pytest.raises(error, match=said):
            use()
    for path, content in before.items():  # MariaDB adds a checkpoint after a rotation
        assert path.read_bytes()[: len(content)] == content
    assert not [*folder.glob("receiver.*")]

    ours = tmp_path / "binlog.000001"
    out = log(ours, server.flavour, server_version=server.version)
    fill(out, 1)
    with pytest.raises(StorageError, match="marked as in use"):
        reset(str(tmp_path), yes=True)
    out.close()
    append(ours).close()
    assert server.mysqlbinlog(ours).stdout.count(server.version.encode()) == 1
    (tmp_path / "binlog.000001").rename(tmp_path / "binlog.000002")
    (tmp_path / "binlog.index").write_text("./binlog.000001\n./binlog.000002\n")
    theirs = shutil.copy(server.binlogs()[0], tmp_path / "binlog.000001")
    with pytest.raises(StorageError, match="000001: this log has no mark of Tailrace"):
        reset(str(tmp_path), yes=True)
    theirs.unlink()
    assert reset(str(tmp_path), yes=True) == 0
