"""What a client of a load does: transactions of all kinds, DDL, and mistakes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tools.campaign.values import quoted

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tools.load.client import Client, Plan

    Action = Callable[[Client, random.Random], None]

_MOST_OWN: Final = 3
_WORDS: Final = ("", "water", "Mühle", "日本", "a'b", "x" * 150, "it\\s", "🌊")


def choose(rng: random.Random, plan: Plan) -> Action:
    """An action, by the weights below."""
    actions = list(_WEIGHTS)
    weights = [
        weight
        * (plan.large if action in _LARGE else 1)
        * (0 if action is huge and not plan.huge else 1)
        * (0 if action is flush_logs and not plan.flush else 1)
        * (0 if action is as_statement and not plan.statements else 1)
        * (0 if action in _OWN and not plan.own else 1)
        for action, weight in _WEIGHTS.items()
    ]
    return rng.choices(actions, weights)[0]


# --- statements on tables that all share ---------------------------------------------------------


def _row(c: Client, rng: random.Random, size: int | None = None) -> str:
    data = "NULL" if size is None else f"REPEAT(CHAR({rng.randint(33, 99)}), {size})"
    amount = f"{rng.randint(-(10**9), 10**9)}e-2"
    name = quoted(rng.choice(_WORDS))
    return f"({c.number}, {c.action}, {name}, {amount}, NOW(6), {data})"


def _insert(c: Client, rng: random.Random, table: str) -> None:
    rows = ", ".join(_row(c, rng, rng.randint(0, 900)) for _ in range(rng.choice((1, 1, 2, 9))))
    c.sql(f"INSERT INTO {table} (client, n, name, amount, at, data) VALUES {rows}")


def _change(c: Client, rng: random.Random, table: str) -> None:
    pick = rng.random()
    some = f"WHERE client = {c.number} AND n > {c.action - rng.choice((3, 30, 300))}"
    if pick < 0.5:
        _insert(c, rng, table)
    elif pick < 0.7:
        c.sql(f"UPDATE {table} SET amount = amount + 1, name = 'changed' {some} LIMIT 20")
    elif pick < 0.8:
        c.sql(f"UPDATE {table} SET at = NOW(6), n = n + 1 ORDER BY id DESC LIMIT 3")
    else:
        c.sql(f"DELETE FROM {table} {some} LIMIT {rng.choice((1, 50))}")


def _changes(c: Client, rng: random.Random) -> None:
    for _ in range(rng.randint(1, 4)):
        _change(c, rng, c.shared(rng))


# --- transactions --------------------------------------------------------------------------------


def autocommit(c: Client, rng: random.Random) -> None:
    """One statement."""
    _change(c, rng, c.shared(rng))


def small(c: Client, rng: random.Random) -> None:
    """Some statements, and a mark that tells whether the commit is there."""
    c.sql("BEGIN")
    _changes(c, rng)
    c.sql(f"INSERT INTO marks VALUES ({c.number}, {c.action})")
    c.sql("COMMIT")
    c.acknowledged.append(c.action)


def rollback(c: Client, rng: random.Random) -> None:
    c.sql("BEGIN")
    _changes(c, rng)
    c.sql("ROLLBACK")


def savepoints(c: Client, rng: random.Random) -> None:
    """Some are rolled back to, at times over others, at times with a table that cannot be."""
    c.sql("BEGIN")
    _change(c, rng, c.shared(rng))
    for number in range(rng.randint(1, 3)):
        c.sql(f"SAVEPOINT s{number}")
        if rng.random() < 0.15:
            _insert(c, rng, c.shared(rng, transactional=False))
        _changes(c, rng)
        if rng.random() < 0.5:
            c.sql(f"ROLLBACK TO s{rng.randint(0, number)}")
            break
    _change(c, rng, c.shared(rng))
    c.sql("COMMIT")


def mixed(c: Client, rng: random.Random) -> None:
    """Tables with and without transactions in one."""
    c.sql("BEGIN")
    for _ in range(rng.randint(1, 3)):
        _change(c, rng, c.shared(rng, transactional=rng.random() < 0.5))
    c.sql(rng.choice(("COMMIT", "ROLLBACK")))


def not_transactional(c: Client, rng: random.Random) -> None:
    _change(c, rng, c.shared(rng, transactional=False))


def many_rows(c: Client, rng: random.Random) -> None:
    """Some hundreds of rows by one statement."""
    table, count = c.shared(rng), rng.randint(50, 1500)
    c.sql("BEGIN")
    c.sql(
        f"INSERT INTO {table} (client, n, name, amount) WITH RECURSIVE r (k) AS "
        f"(SELECT 1 UNION ALL SELECT k + 1 FROM r WHERE k < {min(count, 1000)}) "
        f"SELECT {c.number}, {c.action}, CONCAT('row ', k), k FROM r"
    )
    c.sql(rng.choice(("COMMIT", "COMMIT", "ROLLBACK")))


def large(c: Client, rng: random.Random) -> None:
    """Some MB in rows of some hundred KB."""
    c.sql("BEGIN")
    table = c.shared(rng)
    for _ in range(rng.randint(2, 12)):
        row = _row(c, rng, rng.randint(100_000, 700_000))
        c.sql(f"INSERT INTO {table} (client, n, name, amount, at, data) VALUES {row}")
    c.sql(rng.choice(("COMMIT", "COMMIT", "COMMIT", "ROLLBACK")))


def huge(c: Client, rng: random.Random) -> None:
    """A row larger than a packet of 16 MiB can be, where the size allows."""
    table = c.shared(rng, transactional=False)  # InnoDB takes no row that fills its redo log
    row = _row(c, rng, rng.randint(c.plan.huge // 2, c.plan.huge * 3 // 2))
    c.sql(f"INSERT INTO {table} (client, n, name, amount, at, data) VALUES {row}")
    c.sql(f"TRUNCATE TABLE {table}")


# --- XA ------------------------------------------------------------------------------------------


def _prepare(c: Client, rng: random.Random) -> str:
    name = f"'load-{c.number}-{c.action}'"
    c.sql(f"XA START {name}")
    _changes(c, rng)
    c.sql(f"XA END {name}")
    return name


def xa_one_phase(c: Client, rng: random.Random) -> None:
    c.sql(f"XA COMMIT {_prepare(c, rng)} ONE PHASE")


def xa_commit(c: Client, rng: random.Random) -> None:
    name = _prepare(c, rng)
    c.sql(f"XA PREPARE {name}")
    c.sql(f"XA COMMIT {name}")


def xa_rollback(c: Client, rng: random.Random) -> None:
    name = _prepare(c, rng)
    if rng.random() < 0.7:
        c.sql(f"XA PREPARE {name}")
    c.sql(f"XA ROLLBACK {name}")


def xa_left(c: Client, rng: random.Random) -> None:
    """Prepared, and ended by another connection."""
    name = _prepare(c, rng)
    c.sql(f"XA PREPARE {name}")
    c.reconnect()


# --- DDL -----------------------------------------------------------------------------------------


def own_create(c: Client, rng: random.Random) -> None:
    if len(c.own) >= _MOST_OWN:
        own_drop(c, rng)
    c.sql(c.create(rng).insert())


def own_drop(c: Client, rng: random.Random) -> None:
    if c.own:
        name = rng.choice(sorted(c.own))
        c.own.pop(name)
        c.sql(f"DROP TABLE {name}")


def own_change(c: Client, rng: random.Random) -> None:
    """Rows of any types."""
    table = c.own[rng.choice(sorted(c.own))] if c.own else c.create(rng)
    pick = rng.random()
    if pick < 0.6:
        c.sql(table.insert())
    elif pick < 0.85:
        c.sql(table.update(partial_json=False))
    else:
        c.sql(table.delete())


def own_alter(c: Client, rng: random.Random) -> None:
    table = c.own[rng.choice(sorted(c.own))] if c.own else c.create(rng)
    c.sql(table.empty())
    del c.own[table.name]  # what becomes of it is not known until it is done
    c.sql(table.alter())
    c.own[table.name] = table
    c.sql(table.insert())


def own_rename(c: Client, rng: random.Random) -> None:
    if c.own:
        table = c.own.pop(rng.choice(sorted(c.own)))
        name = f"own_{c.number}_r{c.action}"
        c.sql(f"RENAME TABLE {table.name} TO {name}")
        table.name = name
        c.own[name] = table


def own_truncate(c: Client, rng: random.Random) -> None:
    if c.own:
        c.sql(f"TRUNCATE TABLE {rng.choice(sorted(c.own))}")


def shared_truncate(c: Client, rng: random.Random) -> None:
    """Keeps the data small, too."""
    c.sql(f"TRUNCATE TABLE {c.shared(rng, transactional=rng.random() < 0.7)}")


def create_as(c: Client, rng: random.Random) -> None:
    name = f"own_{c.number}_as"
    c.sql(f"DROP TABLE IF EXISTS {name}")
    c.sql(f"CREATE TABLE {name} AS SELECT id, name, amount FROM {c.shared(rng)} LIMIT 20")
    c.sql(f"DROP TABLE {name}")


def temporary(c: Client, rng: random.Random) -> None:
    c.sql("CREATE TEMPORARY TABLE passing (id INT PRIMARY KEY, v TEXT)")
    c.sql(f"INSERT INTO passing VALUES (1, REPEAT('t', {rng.randint(1, 99)}))")
    c.sql("DROP TEMPORARY TABLE passing")


def view(c: Client, rng: random.Random) -> None:
    c.sql(f"CREATE OR REPLACE VIEW seen_{c.number} AS SELECT id, name FROM {c.shared(rng)}")


# --- the rest ------------------------------------------------------------------------------------


def mistake(c: Client, rng: random.Random) -> None:
    """A statement that fails behind its first rows; MyISAM keeps those."""
    table = c.shared(rng, transactional=rng.random() < 0.5)
    rows = f"(4000000000, {c.number}, 1), (4000000001, {c.number}, 2), (4000000000, 0, 0)"
    c.sql(f"DELETE FROM {table} WHERE id >= 4000000000")
    c.sql(f"INSERT INTO {table} (id, client, n) VALUES {rows}")


def as_statement(c: Client, rng: random.Random) -> None:
    c.sql("SET SESSION binlog_format = 'STATEMENT'")
    try:
        table = c.shared(rng)
        c.sql(f"SET @v = {rng.randint(0, 99)}")
        c.sql(
            f"INSERT INTO {table} (client, n, name, amount) "
            f"VALUES ({c.number}, {c.action}, CONCAT('statement', @v), RAND() * 100)"
        )
    finally:
        c.sql("SET SESSION binlog_format = 'ROW'")


def flush_logs(c: Client, rng: random.Random) -> None:  # noqa: ARG001 - one of its siblings
    c.sql("FLUSH BINARY LOGS")


_LARGE: Final = (large, huge)
_OWN: Final = (own_create, own_drop, own_change, own_alter, own_rename, own_truncate, create_as)
_WEIGHTS: Final[dict[Action, float]] = {
    autocommit: 15,
    small: 25,
    rollback: 5,
    savepoints: 6,
    mixed: 3,
    not_transactional: 3,
    many_rows: 3,
    large: 1,
    huge: 0.15,
    xa_one_phase: 2,
    xa_commit: 3,
    xa_rollback: 2,
    xa_left: 1,
    own_create: 2,
    own_drop: 1,
    own_change: 8,
    own_alter: 2,
    own_rename: 1,
    own_truncate: 1,
    shared_truncate: 0.5,
    create_as: 0.7,
    temporary: 0.7,
    view: 0.7,
    mistake: 2,
    as_statement: 3,
    flush_logs: 0.5,
}
