"""Finding logs: a file, an index, a folder of logs, a folder of such folders, in any store."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Final, TypeVar

from tailrace.errors import BadLogName, CannotOpen, StorageError, UsageError
from tailrace.log_name import base_and_number, file_number
from tailrace.storage.file import LogFile, LogSeries, local_path, ordered
from tailrace.storage.index import INDEX_SUFFIX, SAVED_SUFFIX, read_index
from tailrace.storage.layered import LayeredStore, layered_store, with_suffix
from tailrace.storage.local import DRAFT_SUFFIX, LocalStore
from tailrace.storage.memory import is_memory, memory_folder
from tailrace.storage.objects.url import ObjectUrl, names_object
from tailrace.storage.pipe import STANDARD_INPUT, Pipe, piped, standard_input
from tailrace.storage.streams.base import told
from tailrace.storage.streams.layer import layers_of, of_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.store import Store
    from tailrace.storage.streams.layer import Layer, Layers

_Found = TypeVar("_Found")
_LOOKS: Final = 50
"""How often a folder is looked at again when each look misses the same."""
_PAUSE: Final = 0.01
"""Seconds between two looks."""


def find(
    source: str | Path,
    keyring: Keyring | str | Path | None = None,
    layers: Layers | None = None,
) -> list[LogSeries]:
    """The series of logs that a source holds: a path, or a URL.

    ``keyring`` has the keys of encrypted logs: a path or a specification, as
    `tailrace.storage.keyring.open` takes it. ``memory:name`` is a log in memory, ``-`` is standard
    input, a series that can be read once; URLs like ``s3://bucket/logs`` are object stores.

    ``layers`` are on the files, the lowest first (`tailrace.storage.streams.layer`): by name, as
    ``zstd``, or as objects. Without them a file whose name ends in a suffix of ours, as
    ``binlog.000001.zst``, is read through that layer, alone or in a folder. Its name in events and
    positions has no suffix.

    A file is a separate series; an ``*.index`` file is the series that it lists. A folder with logs
    holds a series for each base name (``binlog``, ``relay``, …), in the order of their numbers; the
    index adds files that are in other folders. In a folder without logs, each sub-folder with logs
    is searched in the same way, and its series are named after it. Raises StorageError if there is
    no log, or one is missing between two others.
    """
    keys = None if keyring is None else keyring_of(keyring)
    put = layers_of(layers)
    if isinstance(source, str):
        if source == STANDARD_INPUT:
            return [_piped(standard_input(), STANDARD_INPUT, keys, put)]
        if is_memory(source):
            return _in_memory(source, keys, put)
        if names_object(source):
            return _in_objects(source, keys, put)
    return _steady(partial(_on_disk, local_path(source), keys, put))


def _steady(look: Callable[[], _Found]) -> _Found:
    """What is found in a folder. If a file vanishes meanwhile, look again.

    A server deletes its index before it renames the new one, and deletes logs: all that the index
    listed may be gone. MariaDB moves the lines of its index up in the file. Raises StorageError if
    many looks fail in the same way; while each misses another file, the server is deleting them.
    """
    failed = Counter[str]()
    while True:
        try:
            return look()
        except StorageError as error:
            vanished = isinstance(error.__cause__, FileNotFoundError)
            failed[str(error)] += 1
            if not (vanished or isinstance(error, BadLogName)) or failed[str(error)] > _LOOKS:
                raise
        sleep(_PAUSE)


def _on_disk(path: Path, keyring: Keyring | None, layers: tuple[Layer, ...]) -> list[LogSeries]:
    """The series at a path. Raises StorageError, UsageError."""
    store = LocalStore(path.parent)
    with told(path):
        if path.is_dir():
            return _in_store(LocalStore(path), keyring, layers) or _missing(
                f"{path}: no log in this folder or directly in its sub-folders (a log begins with"
                " the bytes FE 62 69 6E): give the folder that holds the logs"
            )
        saved = path.with_name(path.name + SAVED_SUFFIX)
        is_index = path.suffix == INDEX_SUFFIX
        # A server deletes its index and then renames the new one: asked once, both may be missed.
        if not (path.exists() or (is_index and (saved.exists() or path.exists()))):
            raise CannotOpen("no such file or folder", file=str(path))
        if not is_index and not path.is_file():
            return [_piped(piped(path), path.name, keyring, layers)]
    if is_index and LogFile.found(store, path.name) is None:
        return [_indexed(store, path.name, keyring, layers)]
    return [_alone(LogFile.there(*_one(store, path.name, layers), keyring))]


def keyring_of(source: Keyring | str | Path) -> Keyring:
    """The keyring that a path or a specification means. Raises StorageError, UsageError."""
    from tailrace.storage.keyring import open as find_keyring  # noqa: PLC0415 - rarely needed

    return find_keyring(source)


def find_one(
    source: str | Path,
    keyring: Keyring | str | Path | None = None,
    layers: Layers | None = None,
    *,
    why: str,
) -> LogSeries:
    """The one series of a source that can be read more than once; arguments are those of `find`.

    Raises UsageError for several, which says ``why`` that is wrong, and for a pipe; and as `find`.
    """
    one, *more = find(source, keyring, layers)
    if more:
        names = ", ".join(each.name for each in (one, *more))
        raise UsageError(f"{source}: it holds several logs ({names}): {why}")
    if one.files[0].joined:
        raise UsageError(f"{source}: a pipe can be read once: copy its log into a file first")
    return one


def find_all(
    sources: Iterable[str | Path],
    keyring: Keyring | str | Path | None = None,
    layers: Layers | None = None,
) -> list[LogSeries]:
    """The series of several sources, each once; files of one folder and base name are one series.

    What can be read only once (``-`` and other pipes) keeps its place among the sources: files
    before it and files after it are not one series. Arguments are those of `find`. Raises
    StorageError as `find`, and if a file between the given ones is missing.
    """
    names: dict[tuple[str, str, int], str] = {}
    files: dict[tuple[str, str, int], dict[tuple[str, str], LogFile]] = {}
    keys = None if keyring is None else keyring_of(keyring)
    pipes = 0
    for source in sources:
        for one in find(source, keys, layers):
            first = one.files[0]
            key = (first.place, first.base, -1 if first.joined else pipes)
            if first.joined and key not in names:
                pipes += 1
            names.setdefault(key, one.name)
            known = files.setdefault(key, {})
            known.update(((file.place, file.name), file) for file in one.files)
    return [_series(name, files[key].values()) for key, name in names.items()]


def successor(file: LogFile) -> LogFile | None:
    """The log that follows this one in its folder; None as long as there is none.

    Raises StorageError if a later one exists but this one's successor does not.
    """
    return None if file.number is None else _steady(partial(_successor, file, file.number))


def _successor(file: LogFile, before: int) -> LogFile | None:
    store, listing = _listing(file.store, ())  # a file of it may have been compressed meanwhile
    later = [
        (number, name)
        for name in listing
        for base, number in [base_and_number(name)]
        if base == file.base and number is not None and number > before
    ]
    if not later:
        return None
    following = LogFile.found(store, min(later)[1], file.keyring)
    if following is None:
        return None  # it is just being created
    return ordered((file, following))[1]


def _piped(pipe: Pipe, name: str, keyring: Keyring | None, layers: tuple[Layer, ...]) -> LogSeries:
    store = LayeredStore(pipe, layers, bare=True) if layers else pipe
    return LogSeries(name, (LogFile(store, name, 0, keyring=keyring),))


def _one(store: Store, name: str, layers: tuple[Layer, ...]) -> tuple[Store, str]:
    """The store with the layers of a file in it, and the file's name there."""
    found = layered_store(store, layers, [name])
    return found, found.plain(name) if isinstance(found, LayeredStore) else name


def _in_memory(url: str, keyring: Keyring | None, layers: tuple[Layer, ...]) -> list[LogSeries]:
    """The series of a ``memory:`` URL. Raises StorageError, UsageError."""
    rest = url.partition(":")[2].strip("/")
    name, _, wanted = rest.partition("/")
    if not name:
        raise UsageError("a log in memory needs a name: memory:name or memory:name/binlog.000001")
    store: Store = memory_folder(name)
    names = [each for each in store.listing() if wanted in {"", each}]
    store = layered_store(store, layers, names)
    if isinstance(store, LayeredStore):
        names = [*dict.fromkeys(map(store.plain, names))]
    found = (_found(store, each, keyring) for each in names)
    return _grouped(store.name, [file for file in found if file is not None]) or _missing(
        f"memory:{rest}: no log of that name in this process"
    )


def _in_objects(url: str, keyring: Keyring | None, layers: tuple[Layer, ...]) -> list[LogSeries]:
    """The series at the URL of an object store: of one log, an index, or a folder.

    A folder takes a request to list it, one for each index in it, and one for each series; with a
    keyring one for each file, since its plain size depends on whether it is encrypted.
    """
    from tailrace.storage.objects.store import ObjectStore  # noqa: PLC0415 - rarely needed

    asked = ObjectUrl.parse(url)
    store = ObjectStore(asked.parent)
    if asked.key and not url.endswith("/") and store.holds(asked.name):
        if asked.name.endswith(INDEX_SUFFIX):
            return [_indexed(store, asked.name, keyring, layers)]
        file = LogFile.found(*_one(store, asked.name, layers), keyring)
        if file is None:
            raise StorageError(f"{asked}: not a binary log (one begins with the bytes FE 62 69 6E)")
        return [_alone(file)]
    return _in_store(ObjectStore(asked), keyring, layers) or _missing(
        f"{asked}: there is no log of that name, nor in a folder of it (a log's name ends in a"
        " number: binlog.000001)"
    )


def _missing(message: str) -> list[LogSeries]:
    raise StorageError(message)


def _alone(file: LogFile) -> LogSeries:
    return LogSeries(file.base, (file,))


def _in_store(store: Store, keyring: Keyring | None, layers: tuple[Layer, ...]) -> list[LogSeries]:
    """The series in a store; if it has none, those in its folders."""
    return _in_folder(store, keyring, layers) or [
        series for folder in store.folders() for series in _in_folder(folder, keyring, layers)
    ]


def _listing(store: Store, layers: tuple[Layer, ...]) -> tuple[Store, Mapping[str, int | None]]:
    """A folder with the layers of its logs, and what is in it."""
    listing = store.listing()
    if isinstance(store, LayeredStore):
        return store, listing
    names = listing if layers else filter(_is_layered_log, listing)
    found = layered_store(store, layers, names)
    return found, listing if found is store else found.listing()


def _is_layered_log(name: str) -> bool:
    layer = of_name(name)
    return layer is None or file_number(name.removesuffix(layer.suffix)) is not None


def _in_folder(store: Store, keyring: Keyring | None, layers: tuple[Layer, ...]) -> list[LogSeries]:
    store, listing = _listing(store, layers)
    files: dict[str, LogFile] = {}
    for name in sorted(listing):
        size = listing[name]
        if name.endswith(DRAFT_SUFFIX):
            continue
        index = name.removesuffix(SAVED_SUFFIX)
        if index.endswith(INDEX_SUFFIX):
            for file in _listed(store, index, listing, keyring):
                files[file.name] = file  # an index may list a file that began since the listing
        elif size is None or (file_number(name) is None and _is_layered(store, name)):
            found = _found(store, name, keyring)
            if found is not None:
                files[name] = found
        elif file_number(name) is not None:
            files.setdefault(name, LogFile(store, name, size, keyring=keyring))
    return _grouped(store.name, files.values(), listing)


def _found(store: Store, name: str, keyring: Keyring | None) -> LogFile | None:
    """The log of that name; None for another file.

    Raises StorageError for a log's name with the suffix of layers, which only a log has.
    """
    file = LogFile.found(store, name, keyring)
    if file is None and _is_layered(store, name):
        raise StorageError(
            f"{store.path(name)}: it is no binary log through the layers that are given, or that"
            " its name tells; give those that it has (--layers, layers=), or none for that of its"
            " name"
        )
    return file


def _is_layered(store: Store, name: str) -> bool:
    return isinstance(store, LayeredStore) and store.is_layered(name)


def _grouped(
    name: str, files: Iterable[LogFile], listing: Mapping[str, int | None] | None = None
) -> list[LogSeries]:
    """The series of files, by base name; a single one has the store's name.

    Of those that were found by their names in a ``listing``, one of each series is looked into;
    with a keyring all.
    """
    groups: dict[str, list[LogFile]] = {}
    for file in files:
        groups.setdefault(file.base, []).append(file)
    if listing is not None:
        groups = {
            base: logs for base, group in groups.items() if (logs := _checked(group, listing))
        }
    return [
        _series(name if len(groups) == 1 else f"{name}/{base}", group)
        for base, group in sorted(groups.items())
    ]


def _checked(group: list[LogFile], listing: Mapping[str, int | None]) -> list[LogFile]:
    """The files that are logs, as far as that is to be found out."""
    if listing.get(group[0].name) is None:
        return group
    some = group if group[0].keyring else group[:1]
    found = [LogFile.found(file.store, file.name, file.keyring) for file in some]
    logs = [file for file in found if file is not None]
    return logs if not logs or group[0].keyring else group


def _indexed(
    store: Store, index: str, keyring: Keyring | None, layers: tuple[Layer, ...]
) -> LogSeries:
    """The series that an index lists."""
    store, listing = _listing(store, layers)
    listed = _listed(store, index, listing, keyring)
    if not listed:
        raise StorageError(
            f"{store.path(index)}: none of the logs that this index lists exists"
        ) from FileNotFoundError(index)  # all may have been purged since it was read
    logs = _checked(listed, listing) if keyring else listed
    return _series(index.removesuffix(INDEX_SUFFIX), logs)


def _listed(
    store: Store, index: str, listing: Mapping[str, int | None], keyring: Keyring | None
) -> list[LogFile]:
    """The existing logs that an index lists: next to it, or where its entry says.

    An entry must lead to a file that has a log's name, and elsewhere begins like one; the file is
    only read. Files that are missing at the beginning of the index were purged. Gaps between others
    are checked with the whole series.
    """
    files: list[LogFile] = []
    saved = index + SAVED_SUFFIX
    entries = read_index(store, saved if saved in listing and index not in listing else index)
    if any(entry.name not in listing for entry in entries):  # the index may be newer
        store, listing = _listing(store, ())
    for entry in dict.fromkeys(entries):  # MariaDB moves lines up in the file, and then cuts it
        size = listing.get(entry.name)
        if size is not None:
            files.append(LogFile(store, entry.name, size, keyring=keyring))
        elif entry.name in listing:
            files.append(LogFile.there(store, entry.name, keyring))
        elif file := _elsewhere(store.within(entry.folder), entry.name, keyring):
            files.append(file)
        elif other := with_suffix(entry.name, listing):
            raise StorageError(
                f"{store.path(index)}: it lists {entry.line.strip()}, which is there only as"
                f" {other}: give the layers that this file has"
            )
        elif files:
            raise StorageError(
                f"{store.path(index)}: it lists {entry.line.strip()}, which is missing after"
                f" {files[-1].name}"
            ) from FileNotFoundError(entry.name)
    return files


def _elsewhere(store: Store | None, name: str, keyring: Keyring | None) -> LogFile | None:
    """The log of that name in another folder; None if there is none."""
    if store is None or not Path(store.path(name)).is_file():
        return None
    return LogFile.found(store, name, keyring)


def _series(name: str, files: Iterable[LogFile]) -> LogSeries:
    return LogSeries(name, ordered(files))
