"""``tailrace mirror``: what it prints, and how it fails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tailrace.cli import main
from tailrace.cli.mirror.command import mirror
from tailrace.errors import PipelineError, StorageError, UsageError
from tests.cli.test_errors import one_error

SHOP = Path(__file__).resolve().parents[2] / "examples" / "shop"


def test_summary(spark, tmp_path, capsys):
    assert mirror(str(SHOP / "mysql"), into=tmp_path / "lake", tables=("shop.reviews,orders",)) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith(f"{tmp_path / 'lake'}: 1,352 changes from 728.6 kB of logs, ")
    assert lines[1].split() == ["table", "inserts", "updates", "deletes", "rows", "size", "s"]
    assert lines[2].split()[:4] == ["shop.orders", "560", "537", "560"]
    assert lines[3].split()[:4] == ["shop.reviews", "230", "25", "205"]
    assert "tailrace: reading logs: " in err
    assert re.findall("^tailrace: (.*): column names from the CREATE TABLE", err, re.MULTILINE) == [
        "2 tables (shop.orders, shop.reviews)"
    ]
    mirror(str(SHOP / "mysql"), into=tmp_path / "lake", tables=("shop.reviews", "orders"))
    out, _ = capsys.readouterr()
    assert "nothing new" in out.splitlines()[0]
    assert out.splitlines()[2].split()[:2] == ["shop.orders", "560"]


def test_what_does_not_fit(tmp_path):
    with pytest.raises(StorageError, match="no such file"):
        mirror(str(tmp_path / "nothing"), into=tmp_path / "lake")
    with pytest.raises(UsageError, match="give a log"):
        mirror(into=tmp_path / "lake")
    with pytest.raises(UsageError, match="--cores 0"):
        mirror(str(SHOP), into=tmp_path / "lake", cores=0)
    with pytest.raises(UsageError, match="no 'rows'"):
        mirror(str(SHOP), into=tmp_path / "lake", keep="rows")
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match="no lake"):
        mirror(str(SHOP), into=tmp_path)


def test_an_error_is_a_line_and_status_2(tmp_path, monkeypatch, capsys):
    (tmp_path / "binlog.000001").write_bytes(b"this is no log")
    for log, more, said in (
        (tmp_path / "binlog.000001", (), f"{tmp_path / 'binlog.000001'} at 0: not a binary log"),
        (SHOP / "mysql", ("--tables", "shop.nope"), "no table fits shop.nope in the logs"),
    ):
        command = ["tailrace", "mirror", str(log), "--into", str(tmp_path / "lake"), *more]
        monkeypatch.setattr("sys.argv", command)
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert (ended.value.code, out) == (2, "")
        last = err[err.index(f"tailrace: {said[:20]}") :]  # after what it was doing
        assert one_error(last).startswith(f"tailrace: {said}")
    assert not list((tmp_path / "lake").glob("*.*"))
