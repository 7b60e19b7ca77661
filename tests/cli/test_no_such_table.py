"""``--tables`` that fit nothing: which tables there are is said, and it is no success."""

import warnings
from pathlib import Path

import pytest

import tailrace
from tailrace.cli.log.command import log
from tailrace.cli.stat import stat
from tailrace.errors import NoSuchTable, UsageError
from tailrace.table_filter import TableFilter
from tests.cases import each_case

SHOP = str(Path(__file__).resolve().parents[2] / "examples" / "shop" / "mysql")


@each_case("how", ["text", "json", "sql", "undo", "raw"])
@pytest.mark.slow
def test_a_name_is_an_error(how, tmp_path, capsys):
    into = {"into": tmp_path / "binlog.000001"} if how == "raw" else {}
    with pytest.raises(UsageError, match=r"no table fits shop\.order in the log") as failed:
        log(SHOP, as_=how, tables=("shop.order",), **into)
    assert "(did you mean shop.orders" in str(failed.value)
    capsys.readouterr()


def test_a_pattern_is_a_line(capsys):
    assert log(SHOP, tables=("shop.nope*",), exclude=("shop.sale",)) == 0
    out, err = capsys.readouterr()
    assert all(line.startswith("-- binlog.") for line in out.splitlines())
    lines = err.splitlines()
    assert lines[0].startswith("tailrace: nothing is excluded by shop.sale in the log: there are ")
    assert lines[1].startswith("tailrace: no table fits shop.nope* in the log: there are ")


def test_a_part_of_a_log_need_not_have_all_tables(capsys):
    assert log(SHOP, tables=("shop.nope",), until="binlog.000001:4") == 0
    assert "no table fits shop.nope" in capsys.readouterr().err


def test_renamed_tables_go_by_their_new_names(capsys):
    assert stat(SHOP, tables=("shop.orders",)) == 0
    assert log(SHOP, tables=("store.orders",), rewrite_db=("shop=store",)) == 0
    with pytest.raises(UsageError, match=r"no table fits shop\.orders.*did you mean store\.orders"):
        log(SHOP, tables=("shop.orders",), rewrite_db=("shop=store",))
    capsys.readouterr()


def test_batches():
    with pytest.warns(NoSuchTable, match=r"no table fits shop\.order in the log"):
        assert list(tailrace.changes(SHOP, tables="shop.order")) == []
    with pytest.warns(NoSuchTable, match=r"\(a text is one pattern: give several as a list\)"):
        assert list(tailrace.changes(SHOP, tables="shop.orders,shop.customers")) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(tailrace.changes(SHOP, tables=["shop.orders", "shop.c*"]))


@pytest.mark.slow
@each_case(
    ("part", "whole"),
    [
        ({}, True),
        ({"start": "oldest"}, True),
        ({"start": "binlog.000001"}, True),
        ({"until": "now"}, True),
        ({"start": "binlog.000002:4"}, False),
        ({"until": "binlog.000002:4"}, False),
    ],
)
def test_what_reads_the_whole_log_says_so(part, whole, capsys):
    """The command and each function of the library agree on what the whole log is."""
    expected = 1 if whole else 0
    for read in (tailrace.changes, tailrace.rows, tailrace.transactions, tailrace.redo):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            list(read(SHOP, tables="shop.nope", **part))
        assert [each.category for each in found] == [NoSuchTable] * expected, read.__name__
        assert {each.filename for each in found} <= {__file__}, read.__name__
    if whole:
        with pytest.raises(UsageError, match="no table fits"):
            stat(SHOP, tables=("shop.nope",), **part)
    else:
        assert stat(SHOP, tables=("shop.nope",), **part) == 0
    capsys.readouterr()


@each_case("name", ["mysql-9.7", "mariadb-11.8"])
def test_a_server_has_tables_that_its_log_does_not(name, fresh_server, capsys):
    server = fresh_server(name)
    server.execute("CREATE DATABASE quiet")
    server.execute("CREATE TABLE quiet.rows_of_it (a INT PRIMARY KEY)")
    server.execute("FLUSH BINARY LOGS")
    last = server.binlogs()[-1].name
    server.execute(f"PURGE BINARY LOGS TO '{last}'")
    url = f"mysql://root@127.0.0.1:{server.port}/?ssl_mode=DISABLED"
    assert log(url, tables=("quiet.rows_of_it",)) == 0
    capsys.readouterr()
    with pytest.raises(UsageError, match=r"quiet\.row_of_it .*mean quiet\.rows_of_it"):
        log(url, tables=("quiet.row_of_it",))
    for read in (tailrace.changes, tailrace.rows, tailrace.transactions, tailrace.redo):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            list(read(url, tables="quiet.rows_of_it"))
        with pytest.warns(NoSuchTable, match=r"quiet\.row_of_it .*mean quiet\.rows_of_it"):
            list(read(url, tables="quiet.row_of_it"))


def test_which_are_listed():
    tables = [("shop", f"t{number:02}") for number in range(20)]
    missing = TableFilter.of(["shop.T1", "shop.t?"], "shop.x").unmatched(tables)
    assert (missing.names, missing.wildcards, missing.excluded) == (
        ("shop.T1",),
        ("shop.t?",),
        ("shop.x",),
    )
    assert missing.all
    said = missing.missing("here")
    assert said.startswith("no table fits shop.T1, shop.t? here (did you mean shop.t")
    assert said.endswith(" more")
    assert TableFilter.of("a").unmatched([]).missing("in the log") == (
        "no table fits a in the log: there are no tables"
    )
    assert TableFilter.of().unmatched(tables).missing("here") is None
    assert TableFilter.of("t0*").unmatched(tables).missing("here") is None
