"""What the tests of SQL share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def corpus():
    return Path(__file__).resolve().parents[1] / "corpus"
