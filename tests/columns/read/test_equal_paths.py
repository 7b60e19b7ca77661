"""Two speeds, one truth: the kernels give what the object path gives, on every recorded log."""

import pytest

from tailrace.storage import find
from tests.cases import each_case
from tests.columns.oracle import assert_equal_paths
from tests.recorded import folders, has
from tools.campaign.verdicts import by_columns, by_objects

FOLDERS = folders(shop=True)


UNREADABLE = ("unreadable", "unknown-documents")
"""What neither path can decode: both say so."""


@pytest.mark.slow
@each_case("folder", FOLDERS, ids=lambda path: path.name)
def test_corpus(folder):
    for series in find(folder):
        if has(folder, *UNREADABLE):
            found, expected = by_columns(series, verify=True), by_objects(series, verify=True)
            assert expected.error is not None
            assert expected.differs(found) is None
        else:
            assert_equal_paths(series)
