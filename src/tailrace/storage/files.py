"""Finding logs: a file, an index, a folder of logs, a folder of such folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import CannotOpen, StorageError
from tailrace.storage.file import LogFile, LogSeries, begins_as_log, local_path, ordered
from tailrace.storage.index import INDEX_SUFFIX, read_index
from tailrace.storage.memory_logs import is_memory, memory_logs
from tailrace.storage.objects.url import names_object
from tailrace.storage.output import DRAFT_SUFFIX, LocalFolder
from tailrace.storage.pipe import STANDARD_INPUT, piped, standard_input

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tailrace.storage.keyring.base import Keyring


def find(source: str | Path, keyring: Keyring | str | Path | None = None) -> list[LogSeries]:
    """The series of logs that a source holds: a path, or a URL.

    ``keyring`` has the keys of encrypted logs: a path or a specification, as
    `tailrace.storage.keyring.open` takes it. ``memory:name`` is a log in memory, ``-`` is standard
    input, a series that can be read once; URLs like ``s3://bucket/logs`` are object stores.

    A file is a separate series; an ``*.index`` file is the series that it lists. A folder with logs
    holds a series for each base name (``binlog``, ``relay``, …), in the order of their numbers; the
    index adds files that are in other folders. In a folder without logs, each sub-folder with logs
    is searched in the same way, and its series are named after it. Raises StorageError if there is
    no log, or one is missing between two others.
    """
    keys = None if keyring is None else keyring_of(keyring)
    elsewhere = _elsewhere(source, keys) if isinstance(source, str) else None
    if elsewhere is not None:
        return elsewhere
    path = local_path(source)
    try:
        if path.is_dir():
            found = _in_folder(path, keys)
            if not found:
                for folder in sorted(entry for entry in path.iterdir() if entry.is_dir()):
                    found += _in_folder(folder, keys)
            if not found:
                raise StorageError(
                    f"{path}: no log in this folder, nor in its sub-folders (a log begins with"
                    " the bytes FE 62 69 6E)"
                )
            return found
        if not path.exists():
            raise CannotOpen("no such file or folder", file=str(path))
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from None
    if not path.is_file():
        return [piped(path, keys)]
    if path.suffix == INDEX_SUFFIX and not begins_as_log(path):
        base = path.name.removesuffix(INDEX_SUFFIX)
        listed = _listed(path, keys)
        if not listed:
            raise StorageError(f"{path}: none of the logs that this index lists exists")
        return [_series(base, listed)]
    file = LogFile.at(path, keys)
    return [LogSeries(file.base, (file,))]


def keyring_of(source: Keyring | str | Path) -> Keyring:
    """The keyring that a path or a specification means. Raises StorageError, UsageError."""
    from tailrace.storage.keyring import open as find_keyring  # noqa: PLC0415 - rarely needed

    return find_keyring(source)


def _elsewhere(source: str, keyring: Keyring | None) -> list[LogSeries] | None:
    """The series of a source that is no path; None for a path and a ``file:`` URL."""
    if source == STANDARD_INPUT:
        return [standard_input(keyring)]
    if is_memory(source):
        return memory_logs(source, keyring)
    if not names_object(source):
        return None
    from tailrace.storage.objects import find_objects  # noqa: PLC0415 - rarely needed

    return find_objects(source, keyring=keyring)


def find_all(
    sources: Iterable[str | Path], keyring: Keyring | str | Path | None = None
) -> list[LogSeries]:
    """The series of several sources, each once; files of one folder and base name are one series.

    Raises StorageError as `find`, and if a file between the given ones is missing.
    """
    names: dict[tuple[str, str], str] = {}
    files: dict[tuple[str, str], dict[tuple[str, str], LogFile]] = {}
    keys = None if keyring is None else keyring_of(keyring)
    for source in sources:
        for one in find(source, keys):
            key = (one.files[0].place, one.files[0].base)
            names.setdefault(key, one.name)
            known = files.setdefault(key, {})
            known.update(((file.place, file.name), file) for file in one.files)
    return [_series(name, files[key].values()) for key, name in names.items()]


def successor(file: LogFile) -> LogFile | None:
    """The log that follows this one in its folder; None as long as there is none.

    Raises StorageError if a later one exists but this one's successor does not.
    """
    if file.number is None:
        return None
    later = [
        (number, name)
        for name in file.names_beside()
        if (number := LogFile("", name, 0).number) is not None
        and number > file.number
        and LogFile("", name, 0).base == file.base
    ]
    if not later:
        return None
    following = file.beside(min(later)[1])
    if following is None:
        return None  # it is just being created
    return ordered((file, following))[1]


def _in_folder(folder: Path, keyring: Keyring | None) -> list[LogSeries]:
    """The series in a folder, by base name; a single one is named after the folder."""
    files: dict[str, LogFile] = {}
    for path in sorted(folder.iterdir()):
        if not path.is_file() or path.suffix == DRAFT_SUFFIX:
            continue
        if path.suffix == INDEX_SUFFIX:
            for file in _listed(path, keyring):
                files.setdefault(file.name, file)
        elif begins_as_log(path):
            files[path.name] = LogFile.at(path, keyring)
    groups: dict[str, list[LogFile]] = {}
    for file in files.values():
        groups.setdefault(file.base, []).append(file)
    name = folder.resolve().name
    return [
        _series(name if len(groups) == 1 else f"{name}/{base}", group)
        for base, group in sorted(groups.items())
    ]


def _listed(index: Path, keyring: Keyring | None) -> list[LogFile]:
    """The existing logs that an index lists: next to it, or where its entry says.

    An entry must lead to a regular file that has a log's name and begins like one; the file is only
    read. Files that are missing at the beginning of the index were purged. Gaps between others are
    checked with the whole series.
    """
    files: list[LogFile] = []
    for entry in read_index(LocalFolder(index.parent), index.name):
        elsewhere = index.parent / entry.folder / entry.name
        path = index.parent / entry.name
        if not path.is_file() and elsewhere.is_file() and begins_as_log(elsewhere):
            path = elsewhere
        if path.is_file():
            files.append(LogFile.at(path, keyring))
        elif files:
            raise StorageError(
                f"{index}: it lists {entry.line.strip()}, which is missing after {files[-1].name}"
            )
    return files


def _series(name: str, files: Iterable[LogFile]) -> LogSeries:
    return LogSeries(name, ordered(files))
