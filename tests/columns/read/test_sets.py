"""SET as text: the names that the server's SELECT gives, in both paths."""

import shutil

import pytest

import tailrace
from tailrace.storage import find
from tests.columns.oracle import assert_equal_paths

_MANY = ", ".join(f"'{'long name ' * (n % 9)}{n}'" for n in range(64))
COLUMNS = {
    "first": "set('', 'a', 'b', 'c', 'd', 'e')",
    "second": "set('a', '', 'b', 'c', 'd', 'e')",
    "one": "set('', 'x', 'y')",
    "twice": "set('', '', 'c', 'y', '', 'z')",
    "late": "set('a', 'b', 'c', 'd', '', 'e')",
    "many": f"set({_MANY})",
}
"""Empty names at the beginning, within and after the first four; those that are there twice need
an `sql_mode` that is not strict."""


@pytest.fixture(scope="module")
def recorded(flavour_server, tmp_path_factory):
    """The log's folder, and the rows as the server gives them."""
    server = flavour_server
    columns = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
    server.execute("set global binlog_row_metadata = 'FULL'")
    server.disconnect()
    server.execute("create database sets")
    server.execute("set sql_mode = ''")
    server.execute(f"create table sets.t (id int primary key, {columns})")
    server.rotate()
    for n in range(64):
        spread = 0x9E3779B97F4A7C15 * n & (1 << 64) - 1
        values = ", ".join(map(str, [n, n, n, n & 7, n, n, spread]))
        server.execute(f"insert into sets.t values ({values})")
    server.execute("insert into sets.t select id + 100, 0, 0, 0, 0, 0, 1 << (id % 64) from sets.t")
    path = server.rotate()
    folder = tmp_path_factory.mktemp("sets")
    shutil.copy(path, folder / path.name)
    return folder, server.query(f"select id, {', '.join(COLUMNS)} from sets.t order by id")


def test_names_as_selected(recorded):
    folder, expected = recorded
    rows = [row for b in tailrace.changes(folder) for row in b.column("after").to_pylist()]
    assert [tuple(row.values()) for row in rows] == expected
    assert {row["one"] for row in rows} == {"", "x", "y", "x,y"}
    (series,) = find(folder)
    assert assert_equal_paths(series) == len(expected)
