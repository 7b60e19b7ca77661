"""The reference has each public name."""

from __future__ import annotations

import re

import tailrace
from tests.recorded import ROOT


def test_each_name_of_tailrace_is_in_the_reference() -> None:
    page = (ROOT / "docs/reference/api.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^(?:::: |`)tailrace\.(\w+)(?=$|`)", page, re.MULTILINE))
    assert shown == set(tailrace.__all__)
