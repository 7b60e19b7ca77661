"""Our statements on real servers: the same data again, and what was there before."""

from __future__ import annotations

import pytest

from tailrace.errors import StatementChange
from tests.recorded import case_of
from tests.sql import campaign, corpus_again
from tools.campaign.workload import Workload
from tools.servers import ONE_OF_EACH

SEED = 20261121
SCHEMAS = 4

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
    return [case for case in corpus_again.cases(server.name) if case_of(case) in names]


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_random_schemas(fresh_server, name):
    server = fresh_server(name)
    workload = Workload(server)
    done = []
    for number in range(SCHEMAS):
        with workload.record(SEED, number) as recorded:
            try:
                way = campaign.check(
                    server, recorded, f"random_{number}", by_client=number % 2 == 0
                )
            except Exception as error:
                raise AssertionError(f"{recorded.label}: {recorded.settings}") from error
            done.append(way)
    assert "sql and undo" in done


def test_corpus(flavour_server, subtests):
    for number, case in enumerate(of(flavour_server, NAMES.split())):
        with subtests.test(case.name):
            assert not corpus_again.again(flavour_server, case, by_client=number % 2 == 0)
        corpus_again.forget(flavour_server, case)


def test_corpus_by_kernels(flavour_server, subtests):
    """With a row a statement they write what `test_corpus` feeds (tests/cli/test_kernels.py)."""
    for case in of(flavour_server, BY_KERNELS):
        corpus_again.forget(flavour_server, case)
        with subtests.test(case.name):
            corpus_again.feed(flavour_server, corpus_again.by_kernels(case, rows=5))
            assert not corpus_again.differences(flavour_server, case)
        corpus_again.forget(flavour_server, case)


def test_triggers_do_not_fire_for_rows_that_they_made(flavour_server):
    """What the trigger did is in the log; afterwards it is there, on the table's last name."""
    server = flavour_server
    case = next(iter(corpus_again.cases(f"{server.name}.ddl")))
    try:
        assert not corpus_again.again(server, case)
        found = server.query(
            "SELECT trigger_name, event_object_table FROM information_schema.triggers "
            "WHERE trigger_schema = 'corpus'"
        )
    finally:
        corpus_again.forget(server, case)
    made = [sql for sql in corpus_again.logged(case) if "TRIGGER" in sql.upper()]
    assert made
    drops = sum(sql.upper().startswith("DROP TRIGGER") for sql in made)
    assert len(found) == len(made) - 2 * drops


def test_load_data_is_refused_or_left_out(flavour_server):
    server = flavour_server
    case = next(iter(corpus_again.cases(f"{server.name}.load-data")))
    try:
        with pytest.raises(StatementChange, match=r"EXECUTE_LOAD_QUERY.*--statements skip"):
            corpus_again.again(server, case)
        corpus_again.again(server, case, skip="skip")
    finally:
        corpus_again.forget(server, case)
