"""Logs in object stores: found, read and written in place, by URL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.lazy import lazy

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

__getattr__: Final = lazy(__name__, _MODULES)
