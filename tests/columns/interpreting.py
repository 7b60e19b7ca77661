"""Reading as on a machine where no kernel is compiled yet: Python runs them."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from tailrace.columns import native
from tailrace.columns.read import walk


@contextmanager
def interpreting():
    """Interpret all kernels that can be; those that are loaded nevertheless are in the result."""
    loaded, load = [], native._load

    def watched(name):
        loaded.append(name)
        return load(name)

    with ExitStack() as stack:
        stack.enter_context(patch.object(walk, "is_compiled", lambda *_names: False))
        stack.enter_context(
            patch.multiple(
                native,
                is_compiled=lambda *_names: False,
                _loaded={},
                _load=watched,
                _read=0,
                SMALL=1 << 60,
            )
        )
        yield loaded


@contextmanager
def compiling():
    """Interpret none."""
    with patch.multiple(native, SMALL=-1):
        yield
