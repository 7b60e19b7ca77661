"""Rows that are applied as SQL: the account must not use BINLOG, or the target is of the other
flavour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tailrace
from tailrace.errors import ServerError
from tests.applier.conftest import Pair

if TYPE_CHECKING:
    from tests.conftest import FreshServer


class WithoutBinlog(Pair):
    """A target to which rows go as SQL."""

    user = "root"

    @property
    def url(self) -> str:
        return super().url.replace("root@", f"{self.user}@")


@pytest.fixture(scope="module", params=[("mysql-9.7", "mysql-9.7")], ids="-to-".join)
def as_sql(request: pytest.FixtureRequest, fresh_server: FreshServer) -> WithoutBinlog:
    source, target = request.param
    pair = WithoutBinlog(fresh_server(source), fresh_server(target, server_id=2))
    if source == target:
        pair.user = "applier"
        pair.target.execute("CREATE USER applier@'%'")
        pair.target.execute("GRANT ALL ON *.* TO applier@'%'")
        pair.target.execute("REVOKE SUPER, BINLOG_ADMIN, REPLICATION_APPLIER ON *.* FROM applier")
    return pair


@pytest.fixture
def pair(as_sql: WithoutBinlog) -> WithoutBinlog:
    as_sql.empty()
    return as_sql


def rows(server, table):
    return list(map(tuple, server.query(f"SELECT * FROM {table} ORDER BY 1")))


@pytest.fixture
def differing(pair):
    """A target that lacks rows which the source changes, in tables with and without a key."""
    server = pair.source
    for sql in (
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, a INT)",
        "CREATE TABLE d.n (a INT, b INT)",
        "INSERT INTO d.t VALUES (1, 1), (2, 2), (3, 3)",
        "INSERT INTO d.n VALUES (1, 1), (1, 1), (2, 2)",
    ):
        server.execute(sql)
    tailrace.apply(pair.log(), pair.url)
    return pair


@pytest.mark.parametrize(
    ("change", "gone"),
    [
        ("UPDATE d.t SET a = a + 10", "DELETE FROM d.t WHERE id = 2"),
        ("DELETE FROM d.t WHERE id < 3", "DELETE FROM d.t WHERE id = 1"),
        ("UPDATE d.n SET b = 5 WHERE a = 2", "DELETE FROM d.n WHERE a = 2"),
        ("DELETE FROM d.n WHERE a = 2", "UPDATE d.n SET b = 3 WHERE a = 2"),
    ],
)
def test_a_row_that_is_not_there_is_a_conflict(differing, change, gone):
    """``stop`` names it and keeps what was before; ``skip`` leaves it; ``overwrite`` inserts it."""
    source, target = differing.source, differing.target
    before = {name: rows(source, f"d.{name}") for name in "tn"}
    target.execute(gone)
    kept = {name: rows(target, f"d.{name}") for name in "tn"}
    source.execute("INSERT INTO d.t VALUES (4, 4)")
    source.execute(change)
    logs = differing.log()
    what = rf"the row to {change[:6].lower()} in d\.{change.partition('d.')[2][0]} is not there"
    with pytest.raises(ServerError, match=what) as error:
        tailrace.apply(logs, differing.url)
    assert (error.value.code, "--conflicts" in str(error.value)) == (1032, True)
    assert rows(target, "d.t") == [*kept["t"], (4, 4)]
    assert rows(target, "d.n") == kept["n"]
    assert before["t"] != kept["t"] or before["n"] != kept["n"]
    tailrace.apply(logs, differing.url, conflicts="overwrite")
    table = "d.t" if change.partition("d.")[2][0] == "t" else "d.n"
    if table == "d.t" or not change.startswith("DELETE"):
        assert rows(target, table) == rows(source, table)
    else:
        assert rows(target, table) == kept["n"]


def test_conflicts_skip_leaves_a_row_that_is_not_there(differing):
    differing.target.execute("DELETE FROM d.t WHERE id = 2")
    differing.source.execute("UPDATE d.t SET a = a + 10")
    tailrace.apply(differing.log(), differing.url, conflicts="skip")
    assert rows(differing.target, "d.t") == [(1, 11), (3, 13)]


def test_a_trigger_of_the_target_is_named_in_the_error(differing):
    differing.target.execute(
        "CREATE TRIGGER d.tr AFTER INSERT ON d.t FOR EACH ROW INSERT INTO d.n VALUES (0, 0)"
    )
    differing.source.execute("INSERT INTO d.t VALUES (4, 4)")
    with pytest.raises(ServerError, match=r"^[^']*: drop the triggers of d\.t first"):
        tailrace.apply(differing.log(), differing.url)
