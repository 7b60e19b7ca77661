"""Two speeds, one truth: the kernels give what the object path gives, on every recorded log."""

import pytest

from tailrace.columns.batches import changes
from tailrace.errors import TailraceError
from tailrace.storage import find
from tests.cases import each_case
from tests.columns.oracle import assert_equal_paths
from tests.recorded import folders, has

FOLDERS = folders(shop=True)


UNREADABLE = ("unreadable", "unknown-documents")
"""What neither path can decode: both say so."""


@pytest.mark.slow
@each_case("folder", FOLDERS, ids=lambda path: path.name)
def test_corpus(folder):
    for series in find(folder):
        if has(folder, *UNREADABLE):
            with pytest.raises(TailraceError):
                list(changes(series))
        else:
            assert_equal_paths(series)
