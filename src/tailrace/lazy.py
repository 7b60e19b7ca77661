"""Names that a package imports only when they are first used, so that importing it is cheap."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazy(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Make a package's ``__getattr__``: ``modules`` says which of its modules has each name."""

    def get(name: str) -> Any:
        if name in modules:
            return getattr(import_module(f"{package}.{modules[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get
