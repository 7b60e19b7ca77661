"""Logs in object stores: found, read and written in place, by URL."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tailrace.storage.objects.file import ObjectFile, object_file
    from tailrace.storage.objects.find import find_objects
    from tailrace.storage.objects.folder import ObjectFolder
    from tailrace.storage.objects.place import object_place
    from tailrace.storage.objects.url import SCHEMES, ObjectUrl, names_object

__all__ = [
    "SCHEMES",
    "ObjectFile",
    "ObjectFolder",
    "ObjectUrl",
    "find_objects",
    "names_object",
    "object_file",
    "object_place",
]

_MODULES: Final = {
    "ObjectFile": "file",
    "ObjectFolder": "folder",
    "ObjectUrl": "url",
    "SCHEMES": "url",
    "find_objects": "find",
    "names_object": "url",
    "object_file": "file",
    "object_place": "place",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is asked for: files of this machine need none of them."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
