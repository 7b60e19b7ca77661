"""The place of a log to write: the folder, and its file's name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from tailrace.errors import StorageError, UsageError
from tailrace.log_name import LogName
from tailrace.storage.file import local_path
from tailrace.storage.index import INDEX_SUFFIX
from tailrace.storage.layered import check_layers, layered_folder
from tailrace.storage.local import DRAFT_SUFFIX, LocalFolder
from tailrace.storage.memory import MEMORY, is_memory, memory_folder
from tailrace.storage.pipe import STANDARD_INPUT
from tailrace.storage.store import WritableStore
from tailrace.storage.streams.layer import layers_of, of_name

if TYPE_CHECKING:
    from tailrace.storage.streams.layer import Layers

Target: TypeAlias = str | Path | WritableStore
"""Where a log is written: a path, a URL, or a store, which has the log in it."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_DEFAULT_BASE: Final = "binlog"


def place(target: Target) -> tuple[WritableStore, str]:
    """The folder that a path or a URL names, and the name in it: on disk, in memory (``memory:``),
    or in an object store; or the store that is given.

    The name is empty where the target is the folder itself. Raises StorageError for other URLs,
    UsageError for other objects.
    """
    if isinstance(target, WritableStore) and not isinstance(target, type):
        return target, ""
    if not isinstance(target, (str, Path)):
        raise UsageError(f"a {type(target).__name__} is neither a path nor a URL, nor a store")
    text = str(target)
    if text == STANDARD_INPUT:
        raise UsageError("-: a log is written to files, and not to standard output")
    if (scheme := _SCHEME.match(text)) and scheme[1].lower() != "file":
        from tailrace.storage.objects.folder import object_place  # noqa: PLC0415 - rarely needed

        return object_place(text)
    if is_memory(text):
        folder, _, name = text[len(MEMORY) :].lstrip("/").partition("/")
        if not folder:
            raise StorageError(f"{text}: a log in memory has a name, as in memory:name")
        return memory_folder(folder), name
    path = local_path(target)
    if path.is_dir():
        return LocalFolder(path), ""
    return LocalFolder(path.parent), path.name


def logs_of(folder: WritableStore, base: str) -> list[LogName]:
    """The log files of that base name in the folder, in the order of their numbers."""
    names = (LogName.parse(name) for name in folder.names())
    return sorted((name for name in names if name and name.base == base), key=lambda n: n.number)


def remove_drafts(folder: WritableStore, base: str) -> None:
    """Remove the drafts of log files of that base name that a killed writer left."""
    for draft in folder.names():
        if draft.startswith(f"{base}.") and draft.endswith(DRAFT_SUFFIX):
            folder.remove(draft)


def first_name(target: Target, layers: Layers | None = None) -> tuple[WritableStore, LogName]:
    """Where a new log begins. Raises StorageError if its folder holds files of that name."""
    folder, name = place(target)
    if isinstance(folder, LocalFolder):
        folder.check_no_server()
    folder = layered_folder(folder, layers_of(layers))
    first = LogName.parse(name) or LogName.of(name or _DEFAULT_BASE, 1)
    if name.endswith(INDEX_SUFFIX):
        raise UsageError(f"{target}: the name of a log's first file is asked for, not its index")
    there = [*map(str, logs_of(folder, first.base))]
    index = first.base + INDEX_SUFFIX
    if index in folder.names():
        there.append(index)
    if there:
        raise StorageError(
            f"{folder.path(there[0])} exists: choose another name, or continue that log with"
            " tailrace.append"
        )
    return folder, first


def last_name(target: Target, layers: Layers | None = None) -> tuple[WritableStore, LogName]:
    """The file in which an existing log continues. Raises StorageError, UsageError.

    Without ``layers`` they are those that the suffix of one of its files says (`layered_folder`);
    others than the log has are a UsageError.
    """
    folder, name = place(target)
    given = None if layers is None else layers_of(layers)
    if given is not None:
        check_layers(folder, given)
    folder = layered_folder(folder, given)
    if layers is None and (layer := of_name(name)) is not None:
        name = name.removesuffix(layer.suffix)
    if name.endswith(INDEX_SUFFIX):
        base = name.removesuffix(INDEX_SUFFIX)
    elif name:
        known = LogName.parse(name)
        if known is None:
            raise StorageError(f"{target}: no number ends the name of this log file")
        base = known.base
    else:
        base = _only_base(folder)
    logs = logs_of(folder, base)
    if not logs:
        raise StorageError(f"{target}: no log of that name is there")
    if name and not name.endswith(INDEX_SUFFIX) and name != str(logs[-1]):
        raise UsageError(f"{target}: {logs[-1]} comes after it; a log grows at its end only")
    return folder, logs[-1]


def check_unused(target: Target, folder: WritableStore, base: str) -> None:
    """Raise StorageError if another process has a file of a log open for writing, also an old one.

    ``folder`` is that of ``target``, with its layers.
    """
    below, _ = place(target)
    if isinstance(below, LocalFolder):
        below.check_unused(logs_of(folder, base))


def _only_base(folder: WritableStore) -> str:
    names = folder.names()
    bases = {name.removesuffix(INDEX_SUFFIX) for name in names if name.endswith(INDEX_SUFFIX)}
    bases = bases or {log.base for log in map(LogName.parse, names) if log}
    if not bases:
        raise StorageError(f"{folder.path('')}: no log is in this folder")
    if len(bases) > 1:
        known = ", ".join(sorted(bases))
        raise UsageError(f"{folder.path('')}: it holds several logs ({known}); name a file of one")
    return bases.pop()
