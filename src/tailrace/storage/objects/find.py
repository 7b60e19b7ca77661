"""Finding logs in object stores."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tailrace.errors import StorageError
from tailrace.storage.file import LogFile, LogSeries, ordered
from tailrace.storage.index import INDEX_SUFFIX, LARGEST, entries
from tailrace.storage.objects.file import ObjectFile, object_file
from tailrace.storage.objects.store import store_of
from tailrace.storage.objects.url import ObjectUrl

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.storage.keyring.base import Keyring

_NUMBERED: Final = re.compile(r".+\.\d+", re.ASCII | re.DOTALL)
_PIECE: Final = 1 << 20


def find_objects(url: str, *, keyring: Keyring | None = None) -> list[LogSeries]:
    """The series of logs at a URL: of one log, an index, or a folder, as in `find`.

    In a folder a log is recognised by its name, ``binlog.000001``, and one file of each series is
    checked for being a log. So a folder takes a request to list it, one for each index in it, and
    one for each series; with a keyring one for each file, since its plain size depends on whether
    it is encrypted. Raises StorageError, UsageError.
    """
    asked = ObjectUrl.parse(url)
    if asked.key and not url.endswith("/") and store_of(asked).size(asked.key) is not None:
        if asked.name.endswith(INDEX_SUFFIX):
            return [_indexed(asked, keyring)]
        file = object_file(asked, keyring)
        return [LogSeries(file.base, (file,))]
    found = _in_folder(asked, keyring)
    if not found:
        for name in sorted(store_of(asked).list(asked.key).folders):
            found += _in_folder(asked / name, keyring)
    if not found:
        raise StorageError(
            f"{asked}: there is no log of that name, nor in a folder of it (a log's name ends"
            " in a number: binlog.000001)"
        )
    return found


def _in_folder(folder: ObjectUrl, keyring: Keyring | None) -> list[LogSeries]:
    """The series in a folder, by base name; a single one is named after the folder."""
    sizes = store_of(folder).list(folder.key).objects
    names = {name for name in sizes if _NUMBERED.fullmatch(name)}
    for name in sizes:
        if name.endswith(INDEX_SUFFIX):
            names.update(_listed(folder / name, sizes))
    groups: dict[str, list[ObjectFile]] = {}
    for name in sorted(names):
        file = ObjectFile(str(folder / name), name, sizes[name], keyring=keyring)
        groups.setdefault(file.base, []).append(file)
    logs: dict[str, list[LogFile]] = {}
    for base, group in groups.items():
        if found := _looked_into(group if keyring else group[:1]):
            logs[base] = found if keyring else list(group)
    return [
        _series(folder.name if len(logs) == 1 else f"{folder.name}/{base}", group)
        for base, group in sorted(logs.items())
    ]


def _indexed(index: ObjectUrl, keyring: Keyring | None) -> LogSeries:
    """The series that an index lists."""
    folder = index.parent
    sizes = store_of(folder).list(folder.key).objects
    files = [
        ObjectFile(str(folder / name), name, sizes[name], keyring=keyring)
        for name in _listed(index, sizes)
    ]
    if not files:
        raise StorageError(f"{index}: none of the logs that this index lists exists")
    logs = _looked_into(files) if keyring else files
    return _series(index.name.removesuffix(INDEX_SUFFIX), logs)


def _listed(index: ObjectUrl, there: Iterable[str]) -> list[str]:
    """The listed names that exist next to the index, whatever folder its server had them in.

    Files that are missing at its beginning were purged.
    """
    store = store_of(index)
    text, size = b"", 1
    while len(text) < size <= LARGEST:
        more, size = store.read(index.key, len(text), _PIECE)
        if not more:
            break
        text += more
    if size > LARGEST:
        raise StorageError(f"{index}: an index of {size} bytes; at most {LARGEST} are allowed")
    found: list[str] = []
    for entry in entries(text, str(index)):
        if entry.name in there:
            found.append(entry.name)
        elif found:
            raise StorageError(
                f"{index}: it lists {entry.line.strip()}, which is missing after {found[-1]}"
            )
    return found


def _looked_into(files: Iterable[ObjectFile]) -> list[LogFile]:
    """The files that are logs, with their plain sizes."""
    return [log for file in files if (log := file.beside(file.name)) is not None]


def _series(name: str, files: Iterable[LogFile]) -> LogSeries:
    return LogSeries(name, ordered(files))
