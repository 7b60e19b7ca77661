"""The lines that `tools.suite.features` breaks are those of today's code."""

from pathlib import Path

import pytest

from tools.suite.features import BREAKS


@pytest.mark.parametrize("each", BREAKS, ids=[each.feature for each in BREAKS])
def test_the_line_is_there_once(each):
    assert Path("src/tailrace", each.path).read_text("utf-8").count(each.line) == 1
