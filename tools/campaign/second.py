"""A schema made again, and taken back, by SQL out of its log, on a second server.

The target's tables have what the source's had not: triggers, CHECKs that no row fulfils, foreign
keys that refer to them. The statements are fed to the server's own client.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final, Literal

import pymysql

from tailrace.errors import SchemaError
from tailrace.log.changes import Changes
from tailrace.log.reader import Reader
from tailrace.schema import Catalogue
from tailrace.schema.user_schema import parse
from tailrace.selection import Selection
from tailrace.sql import script, statements, undo
from tools.dumps import definitions, dump_databases, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.position import Position
    from tailrace.storage import LogSeries
    from tools.campaign.workload import Recorded
    from tools.dumps import TableDump
    from tools.servers import Server

NOT_LOGGED: Final = "SET SESSION sql_log_bin = 0"


def client(server: Server, *options: str) -> list[str]:
    """The argv of the server's own client, whose session is not logged."""
    return server.client(f"--init-command={NOT_LOGGED}", *options)


def complaint(server: Server, lines: Iterable[str]) -> str:
    """What the server's own client says of a script; empty where all is well."""
    text = "\n".join([*lines, ""]).encode("utf-8", "surrogateescape")
    done = subprocess.run(client(server), input=text, capture_output=True, check=False)
    if not done.returncode and not done.stderr.strip():
        return ""
    message = done.stderr.decode(errors="replace")
    return f"{message}\n{_place(text, message)}"


def feed(server: Server, lines: Iterable[str]) -> None:
    """Run a script by the server's own client. Raises AssertionError with what it complains of."""
    if found := complaint(server, lines):
        raise AssertionError(found)


def _place(text: bytes, message: str) -> str:
    """The lines of a script that the client complains of."""
    words = message.split()
    if "line" not in words:
        return ""
    number = int(words[words.index("line") + 1].rstrip(":"))
    lines = text.split(b"\n")[max(0, number - 2) : number]
    return b"\n".join(lines).decode(errors="replace")[:2000]


def changes(
    series: LogSeries,
    schema: str,
    start: Position | None = None,
    end: Position | None = None,
    *,
    statements: Literal["error", "skip"] = "error",
) -> Changes:
    """The changes of a part of a log."""
    catalogue = Catalogue()
    if schema:
        catalogue.given(parse(schema))
    selection = Selection(start, end)
    return Changes(Reader(series, selection=selection, catalogue=catalogue), statements=statements)


def check(source: Server, target: Server, recorded: Recorded) -> str:
    """Make a recorded schema again on the target, and take it back; gives what was done.

    Raises AssertionError where SELECT says anything else than on the source.
    """
    database = next(iter(recorded.tables)).partition(".")[0]
    target.execute(f"DROP DATABASE IF EXISTS {database}")
    logged = recorded.settings.names == "ddl"
    every = [name.partition(".")[2] for name in recorded.tables]
    known = "" if logged else definitions(source, database, every)
    tables = [name.partition(".")[2] for name, each in recorded.tables.items() if not each.sequence]
    if not logged:
        feed(
            target,
            [
                "SET sql_mode = 'ALLOW_INVALID_DATES';",
                f"CREATE DATABASE {database} CHARACTER SET utf8mb4;",
                known,
            ],
        )
        _burden(target, database, tables)
        _stops_at_triggers(
            target, database, tables, script(statements(changes(recorded.series, known)))
        )
    feed(target, script(statements(changes(recorded.series, known))))
    wanted, found = _contents(source, database, tables), _contents(target, database, tables)
    if _rows(wanted) != _rows(found):
        raise AssertionError(f"made again: {_difference(wanted, found)}")
    if any(sql.startswith("ALTER") for sql in recorded.statements):
        return "second server: sql"
    if logged:
        _burden(target, database, tables)
    back = undo(changes(recorded.series, known, statements="skip"))
    try:
        lines = list(script(back))
    except SchemaError as error:
        if recorded.settings.image == "FULL" or "row image lacks" not in str(error):
            raise
        return "second server: sql"
    _stops_at_triggers(target, database, tables, lines)
    feed(target, lines)
    left = {name: len(dump["rows"]) for name, dump in _contents(target, database, tables).items()}
    if any(left.values()):
        raise AssertionError(f"taken back, rows are left: {left}")
    return "second server: sql and undo"


def _contents(server: Server, database: str, tables: list[str]) -> dict[str, TableDump]:
    """The rows of now; of a sequence, too."""
    names = {f"{database}.{table}" for table in tables}
    found = dump_databases(server, database)
    return {name: dump for name, dump in found.items() if name in names}


def _rows(dumps: dict[str, TableDump]) -> dict[str, list[str]]:
    """Rows alone, in any order: the source may say more of its columns (``/* mariadb-5.3 */``)."""
    return {name: sorted(map(repr, dump["rows"])) for name, dump in dumps.items()}


def _difference(wanted: dict[str, TableDump], found: dict[str, TableDump]) -> str:
    for name, dump in wanted.items():
        here, there = dump["rows"], found.get(name, {"rows": []})["rows"]
        missing = [row for row in here if row not in there][:2]
        surplus = [row for row in there if row not in here][:2]
        if missing or surplus or len(here) != len(there):
            return (
                f"{name}: {len(here)} rows and {len(there)}, {missing!r:.900} and {surplus!r:.900}"
            )
    return "columns"


def _burden(server: Server, database: str, tables: list[str]) -> None:
    """CHECKs that no row fulfils, not in force; a table whose rows would refer to each."""
    server.execute(f"USE {database}")
    never = "CONSTRAINT never_%d CHECK (1 = 0)"
    for number, table in enumerate(tables):
        clause = never % number
        if server.flavour == "mysql":
            clause += " NOT ENFORCED"
        wanted = [f"ALTER TABLE {quoted(table)} ADD {clause}"]
        keys = server.query(
            "SELECT column_type FROM information_schema.columns WHERE table_schema = %s AND "
            "table_name = %s AND column_name = 'id' AND column_key = 'PRI'",
            (database, table),
        )
        if keys:
            wanted.append(
                f"CREATE TABLE refers_{number} (id INT, FOREIGN KEY (id) REFERENCES "
                f"{quoted(table)} (id) ON DELETE CASCADE ON UPDATE CASCADE)"
            )
        for sql in wanted:
            try:
                server.execute(
                    f"SET STATEMENT check_constraint_checks = 0 FOR {sql}"
                    if server.flavour == "mariadb"
                    else sql
                )
            except pymysql.err.Error:  # partitioned, MyISAM, versioned: it goes without
                continue


def _stops_at_triggers(
    server: Server, database: str, tables: list[str], lines: Iterable[str]
) -> None:
    """With triggers on all tables, a script stops, and nothing has changed."""
    before = _contents(server, database, tables)
    events = ("INSERT", "UPDATE", "DELETE")
    for number, table in enumerate(tables):
        for event in events:
            server.execute(
                f"CREATE TRIGGER {database}.fires_{number}_{event} AFTER {event} ON "
                f"{database}.{quoted(table)} FOR EACH ROW SET @fired = 1"
            )
    lines = list(lines)
    message = complaint(server, lines)
    for number in range(len(tables)):
        for event in events:
            server.execute(f"DROP TRIGGER {database}.fires_{number}_{event}")
    changes_rows = any(line.startswith(("INSERT", "UPDATE", "DELETE")) for line in lines)
    if changes_rows and "drop the triggers of" not in message:
        raise AssertionError(f"triggers did not stop it: {message!r}")
    if _rows(_contents(server, database, tables)) != _rows(before):
        raise AssertionError("it was stopped by triggers, and changed something")
