"""A lake is not begun for tables that are not there, and nothing is left of it then."""

import pytest

from tailrace.errors import AccessDenied, ConnectionLost, UsageError
from tailrace.spark import mirror
from tailrace.spark.manifest.lake_options import FORMATS
from tests.spark.following import FLAVOURS, Follow, url_of
from tests.waiting import DEADLINE
from tools import shop

SHOP = shop.SHOP / "mysql"


def tables(report):
    return [table.name for table in report.tables]


def test_of_files(tmp_path):
    for kind in FORMATS:
        lake = tmp_path / kind
        with pytest.raises(UsageError, match=r"fits shop\.order in the logs \(did you mean"):
            mirror(SHOP, lake, tables="shop.order", format=kind)
        assert not lake.exists()
        lake.mkdir()
        with pytest.raises(UsageError, match=r"no table fits none\.\* in the logs: there are "):
            mirror(SHOP, lake, tables="none.*", format=kind)
        assert list(lake.iterdir()) == []
    told = []
    wanted = {"tables": ["shop.orders", "none.*"], "exclude": "shop.nope", "notice": told.append}
    assert tables(mirror(SHOP, lake, format=kind, **wanted)) == ["shop.orders"]
    assert [text.partition(" in ")[0] for text in told] == [
        "nothing is excluded by shop.nope",
        "no table fits none.*",
    ]


@pytest.mark.parametrize("name", FLAVOURS)
def test_of_a_server(name, fresh_server, tmp_path):
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
        mirror(url, lake, tables="shop.order")
    assert not lake.exists()
    with Follow(url, lake, tables="shop.order") as follow:
        follow._thread.join(DEADLINE)
        assert isinstance(follow.error, UsageError)
        follow.error = None
    assert not lake.exists()
    # nothing is logged of shop.lines, but it is there
    assert tables(mirror(url, lake, tables=["shop.orders", "shop.lines"])) == ["shop.orders"]
    blind = url.replace("root@", "sees_nothing@")
    with pytest.raises(UsageError, match=r"no table fits shop\.order in the logs"):
        mirror(blind, tmp_path / "blind", tables="shop.order")
    assert tables(mirror(blind, tmp_path / "blind", tables="shop.orders")) == ["shop.orders"]


def test_one_that_may_be_created_later(fresh_server, tmp_path):
    server = fresh_server("mariadb-11.8")
    server.execute("CREATE DATABASE shop")
    server.execute("CREATE TABLE shop.orders (a INT PRIMARY KEY)")
    server.execute("INSERT INTO shop.orders VALUES (1)")
    told = []
    with Follow(
        url_of(server), tmp_path / "lake", tables=["shop.orders", "shop.later"], notice=told.append
    ) as follow:
        follow.wait_for((tmp_path / "lake" / "shop.orders").exists)
        server.execute("CREATE TABLE shop.later (a INT PRIMARY KEY)")
        server.execute("INSERT INTO shop.later VALUES (1)")
        follow.wait_for((tmp_path / "lake" / "shop.later").exists)
    assert len(told) == 1
    assert told[0].startswith("not yet there: no table fits shop.later on the server")


def test_a_server_that_is_not_there_or_an_empty_path_leaves_nothing(
    tmp_path, mariadb118, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    lake, url = tmp_path / "new" / "lake", url_of(mariadb118)
    for kind in FORMATS:
        options = {"format": kind}
        with pytest.raises(ConnectionLost):
            mirror("mysql://root@127.0.0.1:1/?retry=0", lake, **options)
        with pytest.raises(AccessDenied):
            mirror(url.replace("root@", "nobody@"), lake, **options)
        for paths in ((SHOP, ""), ("", "lake")):
            with pytest.raises(UsageError, match="the path is empty"):
                mirror(*paths, **options)
    with pytest.raises(UsageError, match="the path is empty"):
        mirror(SHOP, "")
    assert list(tmp_path.iterdir()) == []
