"""Statements whose names may be those of a session's temporary tables, or of no table: what is in
the log, and what servers do.
"""

import pytest

from tailrace import open as events_of
from tailrace.constants import EventFlag, Flavour
from tailrace.events import QueryEvent
from tailrace.schema.catalogue import Catalogue
from tailrace.schema.catalogue_json import from_json, to_json
from tailrace.schema.ddl import Truncate

TABLES = ("t", "r", "o")
TEMPORARY = "CREATE TEMPORARY TABLE t (x INT PRIMARY KEY)"
BOTH = [
    [TEMPORARY, "TRUNCATE t"],
    [TEMPORARY, "ALTER TABLE t RENAME TO tt", "ALTER TABLE tt RENAME TO u", "TRUNCATE u"],
    [TEMPORARY, "ALTER TABLE t ADD COLUMN y INT", "DROP TABLE t", "TRUNCATE t"],
    [TEMPORARY, "DROP TABLE t, r"],
    ["CREATE TEMPORARY TABLE t LIKE o", "TRUNCATE t", "ALTER TABLE t ADD COLUMN y INT"],
    [TEMPORARY, "CREATE TABLE u LIKE t"],
    [TEMPORARY, "RENAME TABLE t TO tt"],
    [TEMPORARY, "RENAME TABLE r TO t2, t2 TO r2"],
    ["CALL p()"],
]
MARIADB = [
    [TEMPORARY, "RENAME TABLE t TO tt, t TO u"],
    [TEMPORARY, "RENAME TABLE r TO t2, t TO r", "TRUNCATE r"],
    ["RENAME TABLE IF EXISTS nix TO t"],
    ["RENAME TABLE IF EXISTS nix TO u"],
    ["RENAME TABLE IF EXISTS nix TO t, o TO o2"],
    ["RENAME TABLE IF EXISTS nix TO t, t TO t2"],
    ["RENAME TABLE IF EXISTS r TO r2, nix TO t, t TO t2, t TO r"],
    ["RENAME TABLE IF EXISTS nix TO t2, t TO nix, nix TO t2"],
    ["ALTER TABLE IF EXISTS nix RENAME TO t"],
]


@pytest.mark.parametrize("format", ["STATEMENT", "MIXED", "ROW"])
def test_tables_are_those_of_the_server(own_server, format):  # noqa: A002 - binlog_format
    """Other sessions have a temporary table of the same name, and the log's begin and end are cut.

    In ROW format MariaDB logs no CREATE of a temporary table, but its RENAME: no log reader can
    tell that.
    """
    server, flavour = own_server, own_server.flavour
    mariadb = flavour is Flavour.MARIADB or flavour == "mariadb"
    for statements in [*BOTH, *(MARIADB if mariadb else [])]:
        renames = any(each.startswith("RENAME") for each in statements[1:])
        if format == "ROW" and mariadb and statements[0] == TEMPORARY and renames:
            continue
        server.execute("DROP DATABASE IF EXISTS d")
        server.execute("RESET MASTER" if mariadb else "RESET BINARY LOGS AND GTIDS")
        server.execute("CREATE DATABASE d")
        for table in TABLES:
            server.execute(f"CREATE TABLE d.{table} (id INT PRIMARY KEY)")
            server.execute(f"INSERT INTO d.{table} VALUES (1)")
        server.execute(
            "CREATE PROCEDURE d.p() BEGIN CREATE TEMPORARY TABLE z (x INT); INSERT INTO z VALUES"
            " (1); TRUNCATE TABLE t; ALTER TABLE r RENAME TO r2; DROP TEMPORARY TABLE z; END"
        )
        with server.connect(database="d") as other, other.cursor() as also:
            also.execute("SET SESSION binlog_format = STATEMENT")
            also.execute("CREATE TEMPORARY TABLE r (x INT)")
            also.execute("CREATE TEMPORARY TABLE t (x INT)")
            also.execute("DROP TEMPORARY TABLE t")
            with server.connect(database="d") as client, client.cursor() as cursor:
                cursor.execute(f"SET SESSION binlog_format = {format}")
                for sql in statements:
                    cursor.execute(sql)
                known, emptied = read(server, flavour)
            found = server.query(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = 'd'"
            )
            there = {name for (name,) in found}
            empty = {name for name in there if not server.query(f"SELECT * FROM d.{name}")}
        made = {"u"} & empty
        assert {each.table for each in known.names()} == there, statements
        assert emptied | made == empty, statements
        for name in there:
            columns = [column for (column, *_) in server.query(f"SHOW COLUMNS FROM d.{name}")]
            table = known.lookup("d", name)
            if table is not None:
                assert [each.name for each in table.columns] == columns, statements
        lost = {table for _, table in known.unknown()}
        assert lost <= {"u"} if statements[1:] == ["CREATE TABLE u LIKE t"] else not lost


def read(server, flavour):
    """The schema history of a server's log, and the tables that TRUNCATE emptied by it."""
    known, emptied = Catalogue(), set()
    for path in server.binlogs():
        for event in events_of(str(path)):
            if isinstance(event, QueryEvent):
                for effect in known.effects_of(event, event.form.flavour):
                    if isinstance(effect, Truncate):
                        emptied.add(effect.name.table)
                known.apply_event(event, event.form.flavour)
                known = from_json(to_json(known))  # as between two runs
    return known, emptied


def run(known, sql, thread, *, used=True, flavour=Flavour.MARIADB):
    event = QueryEvent.make(sql=sql, database="d", thread_id=thread)
    flags = int(EventFlag.THREAD_SPECIFIC) if used else 0
    event.header = event.header._replace(flags=flags)
    effects = known.effects_of(event, flavour)
    known.apply_event(event, flavour)
    return [type(each).__name__ for each in effects]


def test_a_temporary_table_is_of_one_session():
    known = Catalogue()
    run(known, "CREATE TEMPORARY TABLE t (x INT)", 5)
    run(known, "CREATE TEMPORARY TABLE t (x INT)", 6)
    assert run(known, "TRUNCATE t", 5) == []
    run(known, "DROP TEMPORARY TABLE t", 5)
    assert run(known, "TRUNCATE t", 5) == ["Truncate"]
    assert run(known, "TRUNCATE t", 6) == []
    assert run(known, "TRUNCATE t", 6, used=False) == ["Truncate"]


def test_a_restart_ends_all_sessions():
    known = Catalogue()
    run(known, "CREATE TEMPORARY TABLE t (x INT)", 5)
    known.restarted()
    assert run(known, "RENAME TABLE t TO u", 5, used=False) == ["RenameTo"]


def test_rename_if_exists_where_the_tables_are_not_known():
    """Their CREATE is not in the log: both are set aside."""
    known = Catalogue()
    assert run(known, "RENAME TABLE IF EXISTS a TO b", 5, used=False) == ["Unclear"] * 2
    run(known, "CREATE TABLE a (x INT)", 5, used=False)
    assert run(known, "RENAME TABLE IF EXISTS a TO b", 5, used=False) == ["RenameTo"]
    assert run(known, "RENAME TABLE IF EXISTS c TO b", 5, used=False) == []
