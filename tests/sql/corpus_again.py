"""The corpus' logs as SQL, run on the server that wrote them: SELECT gives what it gave then.

``python -m tests.sql.corpus_again [WORD...]`` runs all cases whose names contain a word.
"""

from __future__ import annotations

import json
import sys
from unittest.mock import patch

from tailrace.columns.text import stretches
from tailrace.events import QueryEvent
from tailrace.log.changes import Changes
from tailrace.log.reader import Reader
from tailrace.schema import Catalogue, load
from tailrace.sql import commands, script, statements
from tailrace.storage import find
from tests.cli.both import written
from tests.recorded import folders
from tests.sql.campaign import execute, feed
from tools.dumps import dump_table, quoted
from tools.servers import NAMES, Server


def cases(*words):
    """The folders of the corpus whose logs can be read at all."""
    return [path for path in folders() if not words or any(word in path.name for word in words)]


def expected(case):
    return json.loads((case / "expected.json").read_text())


def server_of(case):
    return next(name for name in NAMES if case.name.startswith(name))


def logged(case):
    """The statements of a case's log."""
    return [
        step.event.sql
        for series in find(case)
        for step in Reader(series)
        if isinstance(step.event, QueryEvent)
    ]


def forget(server, case):
    """Drop the databases of a case."""
    databases = {table.split(".", 1)[0] for table in expected(case)["tables"]} | {"corpus"}
    feed(server, [f"DROP DATABASE IF EXISTS {quoted(name)};" for name in sorted(databases)])


def by_kernels(case, rows=1):
    """The command line's SQL of a case, of which kernels make what they can."""
    schema = case / "schema.sql"
    options = ["--schema", str(schema)] if schema.exists() else []
    with patch.object(stretches, "_LEAST", 1):
        output = written("log", "--as", "sql", "--rows-per-insert", rows, *options, case)
    if output.status != 0:
        raise AssertionError(output)
    return output.out.decode("utf-8", "surrogateescape").split("\n")


def again(server, case, *, by_client=True, skip="error"):
    """Run a case's SQL. Gives the tables that differ from what SELECT gave, with why."""
    forget(server, case)
    schema = case / "schema.sql"
    for series in find(case):
        catalogue = Catalogue()
        if schema.exists():
            catalogue.given(load(schema))
        changes = Changes(Reader(series, catalogue=catalogue), statements=skip)
        (feed if by_client else execute)(
            server, (script if by_client else commands)(statements(changes))
        )
    return differences(server, case)


def differences(server, case):
    """The tables of a case that differ from what SELECT gave, with why."""
    known, found = expected(case), []
    for name, table in known["tables"].items():
        database, _, plain = name.partition(".")
        dump = dump_table(server, database, plain)
        if sorted(map(repr, dump["rows"])) != sorted(map(repr, table["rows"])):
            missing = [row for row in table["rows"] if row not in dump["rows"]][:2]
            surplus = [row for row in dump["rows"] if row not in table["rows"]][:2]
            found.append(f"{name}: missing {missing!r:.700} surplus {surplus!r:.700}")
    return found


def main():
    servers = {}
    for number, case in enumerate(cases(*sys.argv[1:])):
        name = server_of(case)
        if name not in servers:
            servers[name] = Server(name)
            servers[name].start()
        try:
            found = again(servers[name], case, by_client=number % 2 == 0)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is looked for
            found = [f"{type(error).__name__}: {str(error)[:600]}"]
        if found:
            print(case.name, *found, sep="\n    ")
    for server in servers.values():
        server.stop()


if __name__ == "__main__":
    main()
