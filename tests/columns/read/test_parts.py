"""Transactions that are cut inside: parts give the batches of the whole, in order, each row once."""

from __future__ import annotations

import shutil
from itertools import pairwise

import pyarrow as pa
import pytest

from tailrace.columns import changes, plan_splits, read_split
from tailrace.columns.read.planner import SplitPlanner
from tailrace.errors import TailraceError
from tailrace.storage import find
from tests.cases import each_case
from tests.recorded import CORPUS

ENCRYPTED = {"mysql-9.7.encrypted", "mariadb-11.8.encrypted", "mariadb-10.11.encrypted"}
CASES = sorted(
    path.name for path in CORPUS.iterdir() if path.is_dir() and path.name not in ENCRYPTED
)
WITH_PARTS = {f"{server}.savepoints" for server in ("mysql-9.7", "mariadb-11.8", "mariadb-10.11")}


def tables(batches):
    """The batches of each table, one behind the other, by schema and table."""
    found = {}
    for batch in batches:
        names = batch.column("_db")[0].as_py(), batch.column("_table")[0].as_py()
        found.setdefault((str(batch.schema), *names), []).append(batch)
    return {key: plain(pa.Table.from_batches(each)) for key, each in found.items()}


def plain(table):
    """The same without dictionaries, which each batch has its own of."""
    kinds = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(kinds)).combine_chunks()


def read_all(splits):
    return tables(batch for split in splits for batch in read_split(split, statements="skip"))


def check_parts(splits):
    """Parts follow each other, and say which transaction they are inside of."""
    for before, after in pairwise(splits):
        if before.file == after.file:
            assert before.end == after.start
        if after.inside is not None:
            assert before.file == after.file
            assert after.inside.began < after.start
            assert before.inside is not None or before.start <= after.inside.began < before.end
    assert splits[0].inside is None


@pytest.mark.slow
@each_case("case", CASES)
def test_each_statement_alone(case):
    for series in find(CORPUS / case):
        splits = plan_splits(series, target_bytes=1)
        check_parts(splits)
        try:
            whole = tables(changes(series, statements="skip").record_batches())
        except TailraceError as error:  # rows that cannot be decoded
            with pytest.raises(type(error)):
                read_all(splits)
            continue
        assert read_all(splits) == whole
        if case in WITH_PARTS:
            assert any(split.inside is not None for split in splits)
        planned = SplitPlanner(hold=False, target_bytes=1).plan(series)
        assert list(map(bounds, planned)) == list(map(bounds, splits))


def bounds(split):
    return split.file, split.start, split.end, split.inside, split.left_out


def fill(server, ignored):
    """Transactions of some 3 MiB a statement: committed, rolled back, and of XA either way."""
    server.execute("create database d")
    server.execute("create table d.n (i int primary key)")
    server.execute("insert into d.n values " + ",".join(f"({number})" for number in range(400)))
    for name in ("a", "b", "c"):
        engine = "engine=InnoDB" if name != "c" else ignored
        server.execute(
            f"create table d.{name} (id int auto_increment primary key, g int, v varchar(8000)) {engine}"
        )


def insert(cursor, table, group):
    cursor.execute(
        f"insert into d.{table} (g, v) select {group}, repeat(char(97 + i % 26), 8000) from d.n"
    )


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def large(request, fresh_server, tmp_path_factory):
    """The log of a server with one transaction of 80 MB and some of 10; what SELECT says."""
    folder = tmp_path_factory.mktemp("large")
    server = fresh_server(request.param, {"binlog_row_metadata": "FULL"})
    fill(server, "engine=MyISAM" if server.flavour == "mariadb" else "")
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("begin")
        for number in range(8):
            insert(cursor, "a", number)
            insert(cursor, "b", number)
            if number == 4:
                cursor.execute("savepoint here")
                insert(cursor, "b", 99)
                cursor.execute("rollback to here")
        cursor.execute("update d.a join d.b using (id) set a.g = 50, b.g = 51 where a.g = 3")
        for group in range(60, 67):
            insert(cursor, "a", group)
        cursor.execute("commit")
        cursor.execute("begin")
        insert(cursor, "a", 70)
        insert(cursor, "c", 71)
        insert(cursor, "b", 72)
        cursor.execute("rollback")
        for name, end in (("kept", "commit"), ("gone", "rollback")):
            cursor.execute(f"xa start '{name}'")
            for table in ("a", "b", "a"):
                insert(cursor, table, 80 + (end == "commit"))
            cursor.execute(f"xa end '{name}'")
            cursor.execute(f"xa prepare '{name}'")
            cursor.execute(f"xa {end} '{name}'")
        cursor.execute("insert into d.a (g, v) values (100, 'last')")
        connection.commit()
    rows = {
        name: sorted(server.query(f"select id, g, length(v) from d.{name}")) for name in ("a", "b")
    }
    file = server.rotate()
    shutil.copy(file, folder / file.name)
    server.stop()
    return folder, rows


def state(found, name):
    """What is in a table after all changes: id, g and the value's length."""
    rows = {}
    for (_, _, table), each in found.items():
        if table == name:
            for change in each.select(["before", "after"]).to_pylist():
                rows.pop((change["before"] or {}).get("id"), None)
                if change["after"] is not None:
                    after = change["after"]
                    rows[after["id"]] = (after["id"], after["g"], len(after["v"]))
    return sorted(rows.values())


@pytest.mark.slow
def test_a_large_transaction_on_a_real_server(large):
    folder, rows = large
    (series,) = find(folder)
    whole = tables(changes(series).record_batches())
    assert {name: state(whole, name) for name in rows} == rows
    for target, least in ((1, 25), (1 << 20, 20), (12 << 20, 4)):
        splits = plan_splits(series, target_bytes=target)
        check_parts(splits)
        inside = [split for split in splits if split.inside is not None]
        assert len(inside) >= least
        assert max(split.end - split.start for split in splits) < 2 * target + (14 << 20)
        assert len({split.inside.began for split in inside}) >= (3 if target < 9 << 20 else 1)
        if target > 1:
            assert read_all(splits) == whole
    assert read_all(SplitPlanner(target_bytes=1).plan(series)) == whole
