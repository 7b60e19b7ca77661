"""Random work on a real server, made again and taken back by our statements.

``python -m tests.sql.campaign SERVER [--schemas N] [--seed N] [--first N]`` runs a larger one and
prints its seed. Of each random schema (`tools.campaign.workload`) the log becomes SQL, which is
fed to the server's own client, or run command by command through PyMySQL:

- all of it on a copy of the empty schema must give the tables as they are;
- its first part, up to a transaction in the middle, gives the tables as they were then;
- the undo of the rest, on the tables as they are, must give the same.

Tables are compared by CHECKSUM TABLE and by their rows as SELECT gives them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from pymysql.constants import CLIENT

from tailrace.log.reader import Reader
from tailrace.sql import commands, script, statements, undo
from tools.campaign.second import NOT_LOGGED, changes, client, definitions, feed
from tools.campaign.workload import Workload
from tools.dumps import dump_databases, quoted
from tools.servers import Server

__all__ = ["changes", "client", "definitions", "feed"]


def execute(server, found):
    """Run commands one by one through PyMySQL."""
    settings = {"init_command": NOT_LOGGED, "client_flag": CLIENT.FOUND_ROWS}
    with server.connect(**settings) as connection, connection.cursor() as cursor:
        for sql in found:
            count = cursor.execute(sql)
            if sql.startswith((b"UPDATE `", b"DELETE FROM `")) and count != 1:
                raise AssertionError(f"{count} rows found: {sql[:2000]!r}")


def checksums(server, database):
    """CHECKSUM TABLE of a database's tables, and their rows."""
    dumps = dump_databases(server, database)
    found = {}
    for table, dump in dumps.items():
        name = ".".join(map(quoted, table.split(".", 1)))
        total = server.query(f"CHECKSUM TABLE {name} EXTENDED")[0][1]
        shown = str(server.query(f"SHOW CREATE TABLE {name}")[0][1])
        if server.flavour == "mariadb" and ") VIRTUAL" in shown:
            total = (
                None  # it counts what a virtual column happens to hold: a server's own copy differs
            )
        found[table] = total, sorted(dump["rows"], key=repr)
    return found


def drop_twins(server, database):
    """The workload's own copies of the tables, of which no log knows."""
    names = [
        str(row[0]) for row in server.query(f"SHOW TABLES FROM {quoted(database)} LIKE '%twin'")
    ]
    feed(server, [f"DROP TABLE {quoted(database)}.{quoted(table)};" for table in names])


def empty_copy(server, database, schema):
    """The database made anew: with the tables of ``schema``, or not at all where that is empty."""
    lines = [f"DROP DATABASE IF EXISTS {quoted(database)};"]
    if schema:
        lines += [
            "SET sql_mode='ALLOW_INVALID_DATES';",
            f"CREATE DATABASE {quoted(database)} CHARACTER SET utf8mb4;",
            schema,
        ]
    feed(server, lines)


def starts(series):
    """Where the log's transactions begin."""
    return [
        step.group.start
        for step in Reader(series)
        if step.group is not None and step.boundary in {"begin", "end"}
    ]


def differences(one, other):
    """What tables and rows differ, for an error's text."""
    parts = []
    for table in sorted({*one, *other}):
        if one.get(table) != other.get(table):
            here, there = one.get(table, (0, []))[1], other.get(table, (0, []))[1]
            missing = [row for row in here if row not in there][:2]
            surplus = [row for row in there if row not in here][:2]
            parts.append(
                f"{table}: sums {one.get(table, (0,))[0]} {other.get(table, (0,))[0]}, missing {missing!r:.1500}, surplus {surplus!r:.1500}"
            )
    return "\n".join(parts)


def check(server, recorded, database, *, by_client):
    """One recorded schema: made again, made again in part, and taken back in part."""
    run = feed if by_client else execute
    render = script if by_client else commands
    logged = recorded.settings.names == "ddl"
    drop_twins(server, database)
    schema = definitions(server, database)
    known = "" if logged else schema
    end = checksums(server, database)
    empty_copy(server, database, known)
    run(server, render(statements(changes(recorded.series, known))))
    again = checksums(server, database)
    if again != end:
        raise AssertionError(f"made again, the tables differ:\n{differences(end, again)}")
    altered = any(sql.startswith("ALTER") for sql in recorded.statements)
    found = sorted(set(starts(recorded.series)))
    if altered or len(found) < 4:
        return "sql"
    middle = found[len(found) * 2 // 3]
    if logged:  # not before the tables were made
        middle = max(middle, found[len(recorded.tables) + 1])
    empty_copy(server, database, known)
    run(server, render(statements(changes(recorded.series, known, end=middle))))
    before = checksums(server, database)
    run(server, render(statements(changes(recorded.series, known, start=middle))))
    if checksums(server, database) != end:
        raise AssertionError("made again in two parts, the tables differ")
    back = undo(changes(recorded.series, known, start=middle))
    if recorded.settings.image != "FULL":
        try:
            run(server, render(back))
        except Exception as error:
            if "row image lacks" in str(error):
                return "sql, undo refused"
            raise
    else:
        run(server, render(back))
    undone = checksums(server, database)
    if undone != before:
        raise AssertionError(f"taken back, the tables differ:\n{differences(before, undone)}")
    return "sql and undo"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("--schemas", type=int, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    print(f"seed {given.seed}")
    failed, folder = 0, None
    with Server(given.server) as server:
        workload = Workload(server)
        for number in range(given.first, given.first + given.schemas):
            with workload.record(given.seed, number) as recorded:
                try:
                    done = check(server, recorded, f"random_{number}", by_client=number % 2 == 0)
                except Exception as error:  # noqa: BLE001 - whatever it is, it is looked for
                    failed += 1
                    print(
                        f"{number}: {recorded.settings}: {type(error).__name__}: {str(error)[:3000]}"
                    )
                    folder = folder or Path(tempfile.mkdtemp(prefix="tailrace-sql-"))
                    written = folder / f"failed-{given.server}-{number}.sql"
                    written.write_text("\n".join(recorded.statements), errors="replace")
                    print(f"{number}: its statements are in {written}")
                else:
                    print(f"{number}: {done}")
    print(f"{failed} of {given.schemas} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
