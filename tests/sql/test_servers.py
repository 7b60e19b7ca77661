"""Our statements on real servers: the same data again, and what was there before."""

from unittest.mock import patch

import pytest

from tailrace.columns.text import stretches
from tailrace.errors import StatementChange
from tailrace.events import QueryEvent
from tailrace.log.changes import Changes
from tailrace.log.reader import Reader
from tailrace.schema import Catalogue, load
from tailrace.sql import commands, script, statements
from tailrace.storage import find
from tests.cli.both import written
from tests.recorded import case_of, folders
from tests.sql.campaign import execute, feed
from tools.dumps import dump_table, quoted
from tools.expected import load_expected

NAMES = """\
    binaries-full bits-full blobs-full characters-full compressed-columns-full ddl decimals-full
    displayed enums-sets-full floats-full generated-full geometries-full image-minimal-full
    image-noblob-full integers-full json-full json-partial-minimal json-text-full mixed-format
    mysql-hidden-full names-full network-types-full old-temporal-full payload-statements savepoints
    several-tables switches times-full timestamps-full two-phase-alter vectors-full versioned-full xa
"""
BY_KERNELS = {
    "characters-full",
    "decimals-full",
    "displayed",
    "enums-sets-full",
    "floats-full",
    "image-minimal-full",
    "json-full",
    "several-tables",
}


def of(server, names):
    """The cases of these names that a server wrote."""
    return [
        case for case in folders() if case.name.startswith(server.name) and case_of(case) in names
    ]


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
    databases = {table.split(".", 1)[0] for table in load_expected(case)["tables"]} | {"corpus"}
    feed(server, [f"DROP DATABASE IF EXISTS {quoted(name)};" for name in sorted(databases)])


def by_kernels(case):
    """The command line's SQL of a case, five rows a statement; kernels make what they can."""
    schema = case / "schema.sql"
    options = ["--schema", str(schema)] if schema.exists() else []
    with patch.object(stretches, "_LEAST", 1):
        output = written("log", "--as", "sql", "--rows-per-insert", 5, *options, case)
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
    found = []
    for name, table in load_expected(case)["tables"].items():
        database, _, plain = name.partition(".")
        dump = dump_table(server, database, plain)
        if sorted(map(repr, dump["rows"])) != sorted(map(repr, table["rows"])):
            missing = [row for row in table["rows"] if row not in dump["rows"]][:2]
            surplus = [row for row in dump["rows"] if row not in table["rows"]][:2]
            found.append(f"{name}: missing {missing!r:.700} surplus {surplus!r:.700}")
    return found


def test_corpus(flavour_server, subtests):
    for number, case in enumerate(of(flavour_server, NAMES.split())):
        with subtests.test(case.name):
            assert not again(flavour_server, case, by_client=number % 2 == 0)
        forget(flavour_server, case)


def test_corpus_by_kernels(flavour_server, subtests):
    """With a row a statement they write what `test_corpus` feeds (tests/cli/test_kernels.py)."""
    for case in of(flavour_server, BY_KERNELS):
        forget(flavour_server, case)
        with subtests.test(case.name):
            feed(flavour_server, by_kernels(case))
            assert not differences(flavour_server, case)
        forget(flavour_server, case)


def test_triggers_do_not_fire_for_rows_that_they_made(flavour_server):
    """What the trigger did is in the log; afterwards it is there, on the table's last name."""
    server = flavour_server
    (case,) = of(server, ["ddl"])
    try:
        assert not again(server, case)
        found = server.query(
            "SELECT trigger_name, event_object_table FROM information_schema.triggers "
            "WHERE trigger_schema = 'corpus'"
        )
    finally:
        forget(server, case)
    made = [sql for sql in logged(case) if "TRIGGER" in sql.upper()]
    assert made
    drops = sum(sql.upper().startswith("DROP TRIGGER") for sql in made)
    assert len(found) == len(made) - 2 * drops


def test_load_data_is_refused_or_left_out(flavour_server):
    server = flavour_server
    (case,) = of(server, ["load-data"])
    try:
        with pytest.raises(StatementChange, match=r"EXECUTE_LOAD_QUERY.*--statements skip"):
            again(server, case)
        again(server, case, skip="skip")
    finally:
        forget(server, case)
