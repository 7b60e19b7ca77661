"""`append` to logs that servers left."""

import shutil

import pytest

from tailrace.errors import (
    LogError,
    StorageError,
)
from tests.cases import each_case
from tests.recorded import CORPUS
from tests.writing.made import (
    append,
    fill,
    transactions_of,
)


@each_case(
    "case",
    [
        *("mysql-9.7.in-use", "mysql-9.7.torn", "mysql-9.7.clean-shutdown", "mysql-9.7.gtids"),
        *("mariadb-11.8.in-use", "mariadb-11.8.torn", "mariadb-11.8.clean-shutdown"),
        *("mariadb-10.11.in-use", "mariadb-10.11.torn", "mariadb-11.8.domains"),
    ],
)
def test_logs_of_servers(tmp_path, case):
    """What servers left, crashed ones too, is gone on with."""
    folder = tmp_path / case
    folder.mkdir()
    for path in sorted((CORPUS / case).glob("binlog.0*")):
        shutil.copy(path, folder)
    last = max(folder.iterdir())
    before = [each for each in transactions_of(folder) if each.complete]
    said = []
    with append(folder, recovered=said.append) as out:
        assert bool(said) == ("torn" in case)
        fill(out, 2)
    after = transactions_of(folder)
    assert [each.gtid for each in after[: len(before)]] == [each.gtid for each in before]
    assert len(after) == len(before) + 2
    assert len({str(each.gtid) for each in after}) == len(after)
    if "clean" in case:
        assert out.files[-1] != last.name


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
