"""Triggers of the target do not fire for rows of the log: the script stops before them."""

import re
import subprocess

import pytest

from tailrace.sql import commands, script, statements, undo
from tests.sql.campaign import changes, client, definitions, execute, feed
from tests.sql.test_scenarios import DATABASE, database, logged

__all__ = ["database"]

ODD = "o'dd, \\ ü"
SETUP = [
    "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
    f"CREATE TABLE `{ODD}` (id INT PRIMARY KEY)",
    "CREATE TABLE total (n INT)",
    "INSERT INTO total VALUES (0)",
    "INSERT INTO t VALUES (1, 1)",
]
TRIGGER = "CREATE TRIGGER {} AFTER {} ON {} FOR EACH ROW UPDATE {}.total SET n = n + 1"
WORK = ["INSERT INTO t VALUES (2, 2)", "UPDATE t SET v = 3", f"INSERT INTO `{ODD}` VALUES (1)"]
NOBODY = "nobody"


def trigger(table, event="INSERT", name="fires"):
    return TRIGGER.format(f"{DATABASE}.{name}", event, f"{DATABASE}.`{table}`", DATABASE)


def as_before(server):
    """The tables as they were when the work began."""
    server.execute(f"DELETE FROM {DATABASE}.`{ODD}`")
    server.execute(f"DELETE FROM {DATABASE}.t WHERE id = 2")
    server.execute(f"UPDATE {DATABASE}.t SET v = 1")


def contents(server):
    return [server.query(f"SELECT * FROM {DATABASE}.`{name}`") for name in ("t", "total")]


def run(server, lines, *options):
    """A script by the server's own client: its exit status, and what it complains of."""
    text = "\n".join([*lines, ""]).encode()
    done = subprocess.run(client(server, *options), input=text, capture_output=True, check=False)
    return done.returncode, done.stderr.decode()


@pytest.mark.parametrize("make", [statements, undo])
@pytest.mark.parametrize("by_client", [True, False])
def test_it_stops_before_a_trigger_fires(database, make, by_client):
    logged(database, SETUP)
    series, schema = logged(database, WORK), definitions(database, DATABASE)
    if make is statements:
        as_before(database)
    for event in ("INSERT", "UPDATE", "DELETE"):
        database.execute(trigger("t", event, event.lower()))
    before = contents(database)
    found = make(changes(series, schema))
    if by_client:
        status, message = run(database, script(found))
        assert status == 1
    else:
        with pytest.raises(Exception, match="drop the triggers") as failed:
            execute(database, commands(found))
        message = str(failed.value)
    assert f"drop the triggers of {DATABASE}.t first: what they did is in the log" in message
    assert contents(database) == before


def test_names_that_have_to_be_quoted(database):
    """A trigger of the second table stops the second transaction; the first was committed."""
    logged(database, SETUP)
    series, schema = logged(database, WORK), definitions(database, DATABASE)
    as_before(database)
    database.execute(trigger(ODD))
    status, message = run(database, script(statements(changes(series, schema))))
    assert status == 1
    assert re.search(r"triggers of undone\.o'dd", message)
    assert contents(database)[0] == [(1, 3), (2, 3)]


def test_triggers_of_other_tables_do_not_matter(database):
    logged(database, SETUP)
    series, schema = logged(database, WORK), definitions(database, DATABASE)
    database.execute(trigger("total", "DELETE"))
    feed(database, script(undo(changes(series, schema))))
    assert contents(database) == [[(1, 1)], [(0,)]]


def test_a_trigger_that_the_log_makes_is_no_trouble(database):
    """It is made at the end, and the table is looked at again after each definition."""
    work = [
        *SETUP,
        trigger("t"),
        "INSERT INTO t VALUES (2, 2)",
        "CREATE TABLE u (id INT)",
        *WORK[1:],
    ]
    series = logged(database, work)
    after = contents(database)
    feed(database, [f"DROP DATABASE {DATABASE};", f"CREATE DATABASE {DATABASE};"])
    feed(database, script(statements(changes(series, ""))))
    assert contents(database) == after


@pytest.fixture
def account(database):
    """An account that may change rows, and no more."""
    database.execute(f"CREATE USER {NOBODY}@localhost")
    database.execute(
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON `{DATABASE}`.* TO {NOBODY}@localhost"
    )
    yield ("--user=nobody", "--init-command=SET autocommit = 1")
    database.execute(f"DROP USER {NOBODY}@localhost")


def test_an_account_that_cannot_see_triggers(database, account):
    """MySQL shows triggers to those with the privilege TRIGGER only; MariaDB to all."""
    logged(database, SETUP)
    series, schema = logged(database, WORK), definitions(database, DATABASE)
    back = list(script(undo(changes(series, schema))))
    database.execute(trigger("t", "UPDATE"))
    before = contents(database)
    status, message = run(database, back, *account)
    assert status == 1
    assert contents(database) == before
    hidden = "no privilege to see triggers of undone.t: GRANT TRIGGER or SET @tailrace_without"
    assert (hidden if database.flavour == "mysql" else "drop the triggers of undone.t") in message
    database.execute(f"DROP TRIGGER {DATABASE}.fires")
    if database.flavour == "mysql":
        assert run(database, back, *account)[0] == 1
        database.execute(f"GRANT TRIGGER ON `undon_`.* TO {NOBODY}@localhost")
    assert run(database, back, *account) == (0, "")
    assert contents(database)[0] == [(1, 1)]


@pytest.mark.parametrize("flavour_server", ["mysql-9.7"], indirect=True)
def test_who_knows_better_may_say_so(database, account):
    logged(database, SETUP)
    series, schema = logged(database, WORK), definitions(database, DATABASE)
    back = ["SET @tailrace_without_triggers = 1;", *script(undo(changes(series, schema)))]
    assert run(database, back, *account) == (0, "")
    assert contents(database)[0] == [(1, 1)]
