"""Reading as on a machine where no kernel is compiled yet: Python runs them."""

from __future__ import annotations

from contextlib import contextmanager
from unittest.mock import patch

from tailrace.columns import native


@contextmanager
def interpreting():
    """Interpret kernels; those that are loaded nevertheless are in the result."""
    loaded, load = [], native._load

    def watched(name):
        loaded.append(name)
        return load(name)

    with patch.multiple(
        native,
        is_compiled=lambda _name: False,
        _loaded={},
        _load=watched,
        _read=0,
        SMALL=1 << 60,
    ):
        yield loaded


@contextmanager
def compiling():
    """Interpret none."""
    with patch.multiple(native, SMALL=-1):
        yield
