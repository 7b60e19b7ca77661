"""The campaigns of appliers that are killed, of definitions of several tables, and of statements that
a replica executes too, small.
"""

import pytest

import tailrace.log
from tailrace.events import QueryEvent
from tools.applied import as_relay_log
from tools.campaign import applied, definitions, replicated
from tools.servers import available


@pytest.mark.parametrize("name", applied.SOURCES)
def test_tables_are_equal_though_appliers_were_killed(name):
    """Rows of a random load, on a server with 4 workers and in SQLite, each change once."""
    size = applied.SIZES["small"]
    reports = list(applied.run(name, size, 7))
    assert not [each.failures for each in reports if each.failures]
    assert [each.kills for each in reports] == [size.kills] * len(size.targets)
    assert all(each.tables for each in reports)  # the last applier may have nothing left to do


def test_definitions_that_name_several_tables():
    """Tables that are not selected stay as they are: the campaign's small size."""
    for name in definitions.SERVERS:
        if reason := available(name):
            pytest.skip(reason)
        report = definitions.run(name, definitions.SIZES["small"], seed=1)
        assert not report.failures, "\n".join(map(str, report.failures))
        assert report.outcomes["as on the source"] > 5


def test_statements_and_events_as_a_replica_executes_them(monkeypatch):
    """The campaign's small size, with a seed by which replicas execute ALTER EVENT, too."""
    altered = []

    def executed(server, files):
        as_relay_log(server, files)
        events = (event for file in files for event in tailrace.log.open(file))
        texts = (event.sql for event in events if isinstance(event, QueryEvent))
        altered.extend(sql for sql in texts if "ALTER" in sql)

    monkeypatch.setattr(replicated, "as_relay_log", executed)
    for name in replicated.SERVERS:
        if reason := available(name):
            pytest.skip(reason)
        altered.clear()
        report = replicated.run(name, replicated.SIZES["small"], seed=5)
        assert not report.failures, "\n".join(map(str, report.failures))
        assert report.outcomes["events: as a replica"] > 1
        assert report.outcomes["statements: as a replica"] > 1
        assert len(altered) > 1, altered
