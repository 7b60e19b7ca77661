"""Logs in object stores: found, read and written in place, by URL."""

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
