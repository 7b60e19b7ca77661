"""Names and types of columns that are not in the table maps: from the user, or from the log's
DDL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.lazy import lazy
from tailrace.schema.classify import StatementKind, classify

if TYPE_CHECKING:
    from tailrace.schema.catalogue import Catalogue
    from tailrace.schema.user_schema import load, parse

__all__ = ["Catalogue", "StatementKind", "classify", "load", "parse"]

_MODULES: Final = {
    "Catalogue": "catalogue",
    "load": "user_schema",
    "parse": "user_schema",
}

if not TYPE_CHECKING:  # else any name would do
    __getattr__ = lazy(__name__, _MODULES)
