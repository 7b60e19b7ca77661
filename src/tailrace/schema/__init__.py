"""Names and types of columns where the log does not say them: from the user, or from its DDL."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tailrace.schema.classify import StatementKind, classify

if TYPE_CHECKING:
    from tailrace.schema.catalogue import Catalogue
    from tailrace.schema.given import load, parse

__all__ = ["Catalogue", "StatementKind", "classify", "load", "parse"]

_MODULES: Final = {
    "Catalogue": "catalogue",
    "load": "given",
    "parse": "given",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is asked for: who classifies statements parses no DDL."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
