"""A lake is not begun for tables that are not there, and nothing is left of it then."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.errors import AccessDenied, ConnectionLost, UsageError
from tailrace.spark import mirror
from tests.spark.following import FLAVOURS, Follow, url_of
from tests.waiting import DEADLINE

SHOP = Path(__file__).resolve().parents[2] / "examples" / "shop" / "mysql"
FORMATS = ("parquet", "delta", "iceberg")


def tables(report):
    return [table.name for table in report.tables]


@pytest.mark.parametrize("kind", FORMATS)
def test_of_files(kind, spark, tmp_path):
    lake = tmp_path / "lake"
    with pytest.raises(UsageError, match=r"no table fits shop\.order in the logs \(did you mean"):
        mirror(SHOP, lake, spark=spark, tables="shop.order", format=kind)
    assert not lake.exists()
    lake.mkdir()
    with pytest.raises(UsageError, match=r"no table fits none\.\* in the logs: there are "):
        mirror(SHOP, lake, spark=spark, tables="none.*", format=kind)
    assert list(lake.iterdir()) == []
    told = []
    report = mirror(
        SHOP,
        lake,
        spark=spark,
        tables=["shop.orders", "none.*"],
        exclude="shop.nope",
        format=kind,
        notice=told.append,
    )
    assert tables(report) == ["shop.orders"]
    assert [text.partition(" in ")[0] for text in told] == [
        "nothing is excluded by shop.nope",
        "no table fits none.*",
    ]


@pytest.mark.parametrize("name", FLAVOURS)
def test_of_a_server(name, spark, fresh_server, tmp_path):
    server = fresh_server(name, {"binlog_row_metadata": "FULL"} if "97" in name else None)
    for sql in (
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (a INT PRIMARY KEY)",
        "CREATE TABLE shop.lines (a INT PRIMARY KEY)",
        "INSERT INTO shop.orders VALUES (1)",
        "CREATE USER sees_nothing IDENTIFIED BY ''",
        "GRANT REPLICATION SLAVE ON *.* TO sees_nothing",
    ):
        server.execute(sql)
    url, lake = url_of(server), tmp_path / "lake"
    with pytest.raises(UsageError, match=r"fits shop\.order on the server .*mean shop\.orders\?"):
        mirror(url, lake, spark=spark, tables="shop.order")
    assert not lake.exists()
    with Follow(url, lake, spark=spark, tables="shop.order") as follow:
        follow._thread.join(DEADLINE)
        assert isinstance(follow.error, UsageError)
        follow.error = None
    assert not lake.exists()
    # nothing is logged of shop.lines, but it is there
    assert tables(mirror(url, lake, spark=spark, tables=["shop.orders", "shop.lines"])) == [
        "shop.orders"
    ]
    blind = url.replace("root@", "sees_nothing@")
    with pytest.raises(UsageError, match=r"no table fits shop\.order in the logs"):
        mirror(blind, tmp_path / "blind", spark=spark, tables="shop.order")
    assert tables(mirror(blind, tmp_path / "blind", spark=spark, tables="shop.orders")) == [
        "shop.orders"
    ]


def test_one_that_may_be_created_later(fresh_server, spark, tmp_path):
    server = fresh_server("mariadb-11.8")
    server.execute("CREATE DATABASE shop")
    server.execute("CREATE TABLE shop.orders (a INT PRIMARY KEY)")
    server.execute("INSERT INTO shop.orders VALUES (1)")
    told = []
    with Follow(
        url_of(server),
        tmp_path / "lake",
        spark=spark,
        tables=["shop.orders", "shop.later"],
        notice=told.append,
    ) as follow:
        follow.wait_for((tmp_path / "lake" / "shop.orders").exists)
        server.execute("CREATE TABLE shop.later (a INT PRIMARY KEY)")
        server.execute("INSERT INTO shop.later VALUES (1)")
        follow.wait_for((tmp_path / "lake" / "shop.later").exists)
    assert len(told) == 1
    assert told[0].startswith("not yet there: no table fits shop.later on the server")


@pytest.mark.parametrize("kind", FORMATS)
def test_a_server_that_is_not_there_leaves_nothing(kind, spark, tmp_path, mariadb118):
    lake = tmp_path / "new" / "lake"
    with pytest.raises(ConnectionLost):
        mirror("mysql://root@127.0.0.1:1/?retry=0", lake, spark=spark, format=kind)
    with pytest.raises(AccessDenied):
        mirror(url_of(mariadb118).replace("root@", "nobody@"), lake, spark=spark, format=kind)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [None, *FORMATS])
def test_an_empty_path_is_no_lake(kind, spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call in (
        lambda: mirror(SHOP, "", spark=spark, format=kind),
        lambda: mirror("", "lake", spark=spark, format=kind),
    ):
        with pytest.raises(UsageError, match="the path is empty"):
            call()
    assert list(tmp_path.iterdir()) == []


def test_command(tmp_path):
    command = [sys.executable, "-m", "tailrace", "mirror", str(SHOP)]
    done = subprocess.run(
        [*command, "--into", str(tmp_path / "lake"), "--tables", "shop.nope"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 2
    assert "no table fits shop.nope in the logs" in done.stderr
    assert not (tmp_path / "lake").exists()
