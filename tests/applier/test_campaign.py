"""The campaign of appliers that are killed, small."""

import pytest

from tools.campaign import applied


@pytest.mark.parametrize("name", applied.SOURCES)
def test_tables_are_equal_though_appliers_were_killed(name):
    """Rows of a random load, on a server with 4 workers and in SQLite, each change once."""
    size = applied.SIZES["small"]
    reports = list(applied.run(name, size, 7))
    assert not [each.failures for each in reports if each.failures]
    assert [each.kills for each in reports] == [size.kills] * len(size.targets)
    assert all(each.tables for each in reports)  # the last applier may have nothing left to do
