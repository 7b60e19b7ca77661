"""docs/design/architecture.md names files: they exist."""

import re

from tests.recorded import ROOT


def test_what_it_names_exists():
    text = (ROOT / "docs/design/architecture.md").read_text(encoding="utf-8")
    named = {name for name in re.findall(r"`([\w./-]+)`", text) if "/" in name or ".py" in name}
    assert len(named) > 40
    missing = [
        name
        for name in sorted(named)
        if not (ROOT / "src/tailrace" / name).exists() and not (ROOT / name).exists()
    ]
    assert not missing
