"""Formats whose tables others write to, too."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["delta", "iceberg"])
def name(request):
    return request.param
