"""Two speeds, one truth: the kernels give what the object path gives, on every recorded log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.columns.batches import changes
from tailrace.errors import TailraceError
from tailrace.storage import find
from tests.columns.oracle import assert_equal_paths

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = sorted({path.parent for path in ROOT.glob("tests/corpus/*/*.0*")})
FOLDERS += sorted({path.parent for path in ROOT.glob("examples/shop/*/*.0*")})


# What neither path can decode: both say so.
REFUSED = ("encrypted", "incident", "json-partial-minimal")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_corpus(folder):
    for series in find(folder):
        if folder.name.endswith(REFUSED):
            with pytest.raises(TailraceError):
                list(changes(series))
        else:
            assert_equal_paths(series, statements="skip")
