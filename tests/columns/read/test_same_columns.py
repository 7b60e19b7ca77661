"""Tables of the same columns share how they are decoded, and what was learned of their sizes."""

import tailrace
from tailrace.columns.read.pool import Pool

TABLE = "create table d.{name} (id bigint primary key, e enum({members}), t varchar(2000))"


def _log(path, tables, rows):
    with tailrace.create(path, flavour="mysql", server_id=7) as out:
        for name, members in tables.items():
            sql = TABLE.format(name=name, members=", ".join(f"'{each}'" for each in members))
            table = tailrace.Table.parse(sql, flavour="mysql")
            with out.transaction() as transaction:
                transaction.insert(table, rows(members))
    return path


def test_members_are_those_of_each_table(tmp_path):
    tables = {"a": ("x", "y"), "b": ("y", "x"), "c": ("x", "y"), "d": ("long" * 20, "y")}
    path = _log(
        tmp_path / "binlog.000001",
        tables,
        lambda members: [{"id": n, "e": each, "t": each * n} for n, each in enumerate(members)],
    )
    found = {
        batch["_table"][0].as_py(): [(row["e"], row["t"]) for row in batch["after"].to_pylist()]
        for batch in tailrace.changes(path)
    }
    expected = {name: [(a, ""), (b, b)] for name, (a, b) in tables.items()}
    assert found == expected


def test_a_table_reserves_what_tables_like_it_needed(tmp_path, monkeypatch):
    """The first guess is that a text has some bytes only, or all that there are."""
    asked = []
    take = Pool.take

    def noted(pool, size):
        asked.append(size)
        return take(pool, size)

    monkeypatch.setattr(Pool, "take", noted)
    path = _log(
        tmp_path / "binlog.000001",
        {"a": ("x",), "b": ("x",), "c": ("x",)},
        lambda _: [{"id": n, "e": "x", "t": "t" * 1000} for n in range(2000)],
    )
    batches = list(tailrace.changes(path))
    assert [batch.num_rows for batch in batches] == [2000] * 3
    first, second, third = asked
    assert first > 3 * batches[0].nbytes
    assert second == third < 2 * batches[1].nbytes
