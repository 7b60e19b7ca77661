"""Logs in object stores: found, read and written in place, by URL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.lazy import lazy

if TYPE_CHECKING:
    from tailrace.storage.objects.folder import ObjectFolder, object_place
    from tailrace.storage.objects.store import ObjectStore
    from tailrace.storage.objects.url import SCHEMES, ObjectUrl, names_object

__all__ = [
    "SCHEMES",
    "ObjectFolder",
    "ObjectStore",
    "ObjectUrl",
    "names_object",
    "object_place",
]

_MODULES: Final = {
    "ObjectFolder": "folder",
    "ObjectStore": "store",
    "ObjectUrl": "url",
    "SCHEMES": "url",
    "names_object": "url",
    "object_place": "folder",
}

if not TYPE_CHECKING:  # else any name would do
    __getattr__ = lazy(__name__, _MODULES)
