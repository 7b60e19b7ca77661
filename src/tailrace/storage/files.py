"""Finding logs: a file, an index, a folder of logs, a folder of such folders."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from tailrace.errors import StorageError
from tailrace.storage.file import LogFile, LogSeries, begins_as_log, local_path

if TYPE_CHECKING:
    from collections.abc import Iterable

_INDEX_SUFFIX = ".index"


def find(source: str | Path) -> list[LogSeries]:
    """The series of logs that a source holds.

    A file is a series of its own; an ``*.index`` file the series that it lists. A folder with logs
    holds a series for each base name (``binlog``, ``relay``, …), in the order of their numbers; the
    index completes it where its entries lie elsewhere. Of a folder without logs, each sub-folder
    that has some is searched so, and its series are named by it. Raises StorageError where there
    is no log, or one is missing between two others.
    """
    path = local_path(source)
    try:
        if path.is_dir():
            found = _in_folder(path)
            if not found:
                for folder in sorted(entry for entry in path.iterdir() if entry.is_dir()):
                    found += _in_folder(folder)
            if not found:
                raise StorageError(
                    f"{path}: no log in this folder, nor in its sub-folders (a log begins with"
                    " the bytes FE 62 69 6E)"
                )
            return found
        if not path.exists():
            raise StorageError(f"{path}: no such file or folder")
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from None
    if path.suffix == _INDEX_SUFFIX and not begins_as_log(path):
        base = path.name.removesuffix(_INDEX_SUFFIX)
        listed = _listed(path)
        if not listed:
            raise StorageError(f"{path}: none of the logs that this index lists is there")
        return [_series(base, listed)]
    file = LogFile.at(path)
    return [LogSeries(file.base, (file,))]


def find_all(sources: Iterable[str | Path]) -> list[LogSeries]:
    """The series of several sources, each once; files of one folder and base name are one series.

    Raises StorageError as `find`, and where the files given leave one out.
    """
    series: dict[tuple[str, str], LogSeries] = {}
    for source in sources:
        for one in find(source):
            key = (str(Path(one.files[0].path).parent.resolve()), one.files[0].base)
            known = series.get(key)
            if known is None:
                series[key] = one
                continue
            files = {Path(file.path).resolve(): file for file in (*known.files, *one.files)}
            series[key] = _series(known.name, files.values())
    return list(series.values())


def _in_folder(folder: Path) -> list[LogSeries]:
    """The series in a folder, by base name; one alone is named by the folder."""
    files: dict[str, LogFile] = {}
    for path in sorted(folder.iterdir()):
        if not path.is_file():
            continue
        if path.suffix == _INDEX_SUFFIX:
            for file in _listed(path):
                files.setdefault(file.name, file)
        elif begins_as_log(path):
            files[path.name] = LogFile.at(path)
    groups: dict[str, list[LogFile]] = {}
    for file in files.values():
        groups.setdefault(file.base, []).append(file)
    name = folder.resolve().name
    return [
        _series(name if len(groups) == 1 else f"{name}/{base}", group)
        for base, group in sorted(groups.items())
    ]


def _listed(index: Path) -> list[LogFile]:
    """The logs that an index lists and that are there: beside it, or where its entry says.

    Entries that are missing at the beginning were purged; that none is missing between others is
    checked with the whole series.
    """
    try:
        lines = index.read_text("utf-8", "surrogateescape").splitlines()
    except OSError as error:
        raise StorageError(f"{index}: {error.strerror}") from None
    files: list[LogFile] = []
    for line in lines:
        entry = line.strip()
        if not entry:
            continue
        name = PurePosixPath(entry.replace("\\", "/")).name
        beside = index.parent / name
        elsewhere = index.parent / entry
        path = next((path for path in (beside, elsewhere) if path.is_file()), None)
        if path is not None:
            files.append(LogFile.at(path))
        elif files:
            raise StorageError(
                f"{index}: it lists {entry}, which is missing after {files[-1].name}"
            )
    return files


def _series(name: str, files: Iterable[LogFile]) -> LogSeries:
    """A series in the order of its numbers. Raises StorageError where one is missing between."""
    numbered = sorted(((file.number or 0, file) for file in files), key=lambda pair: pair[0])
    ordered = [file for _, file in numbered]
    for file in ordered[:-1]:
        if file.number is None:
            raise StorageError(
                f"{file.path}: no number says where it stands among {ordered[-1].name} and the"
                " others; open it alone"
            )
    for (number, before), (next_number, after) in pairwise(numbered):
        if next_number == number:
            raise StorageError(f"{before.path} and {after.path} have the same number")
        if next_number != number + 1:
            missing = f"{before.base}.{number + 1:0{len(before.name.rpartition('.')[2])}}"
            raise StorageError(
                f"{Path(before.path).parent}: {missing} is missing between {before.name} and"
                f" {after.name}; give the files before or after it alone, to read them without it"
            )
    return LogSeries(name, tuple(ordered))
