"""WL#3283's reference application, a full-text indexer: it finds what MySQL's own indexes find."""

import pytest

from tools.campaign import indexed, searched


def test_random_queries_find_what_mysql_finds():
    """Boolean mode, by each class of collations, over one column and two: rows that came by SELECT
    and from the log; and what MySQL rejects is rejected.
    """
    reports = list(searched.run(searched.SIZES["small"], 7))
    assert not [each.failures for each in reports if each.failures]
    assert all(each.outcomes["some"] > 20 for each in reports)


@pytest.mark.slow
@pytest.mark.parametrize("name", indexed.SERVERS)
def test_the_index_equals_the_tables_though_indexers_were_killed(name):
    """SIGKILL at any moment leaves each change indexed once: rows with keys and without, changed
    keys, rollbacks, XA, and statements that change, rename, empty, drop and create tables.
    """
    report = indexed.run(name, indexed.SIZES["small"], 7)
    assert not report.failures
    assert report.kills == indexed.SIZES["small"]
    assert report.rows
