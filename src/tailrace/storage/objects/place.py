"""The place of a log in an object store; files of earlier writers are put into the store first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tailrace.constants import MAGIC, EventFlag
from tailrace.errors import KeyMissing, StorageError
from tailrace.storage.file import base_and_number
from tailrace.storage.index import INDEX_SUFFIX
from tailrace.storage.objects.folder import FLAGS_AT, ObjectFolder
from tailrace.storage.objects.url import ObjectUrl
from tailrace.storage.reader import EventReader

if TYPE_CHECKING:
    from tailrace.storage.streams.file import FileOutput

_FILE: Final = re.compile(rf".+(\.\d+|{re.escape(INDEX_SUFFIX)})", re.ASCII | re.DOTALL)


def object_place(target: str) -> tuple[ObjectFolder, str]:
    """The folder of a URL to write to, and the name in it, empty for the folder itself.

    A name ends in a number or ``.index``: ``s3://bucket/logs/binlog.000001`` is a file,
    ``s3://bucket/logs`` is a folder, and so is any URL that ends with a slash.
    Raises StorageError, UsageError.
    """
    url = ObjectUrl.parse(target)
    named = url.key and not target.endswith("/") and _FILE.fullmatch(url.name)
    name = url.name if named else ""
    folder = ObjectFolder(url.parent if name else url)
    finish(folder)
    return folder, name


def finish(folder: ObjectFolder) -> None:
    """Put complete files in the spool into the store, if their writer could not or was killed.

    A log that is followed by another one is complete, too: the new one is created between two
    transactions, before the old one's last event, which may be torn. Files that another writer has
    open are left alone.
    """
    for name in folder.marked():
        if name not in folder.spooled():  # killed between the last two steps
            folder.mark(name, whole=False)
            continue
        output = _locked(folder, name)
        if output is not None:
            _complete(folder, name, output)
    for name in _followed(folder):
        output = _locked(folder, name)
        if output is not None:
            _end(folder, name, output)
            _complete(folder, name, output)
    folder.list_whole()


def _followed(folder: ObjectFolder) -> list[str]:
    """The logs in the spool that are not the last of their series."""
    logs = {
        name: base_and_number(name) for name in folder.spooled() if not name.endswith(INDEX_SUFFIX)
    }
    last: dict[str, int] = {}
    for base, number in logs.values():
        last[base] = max(last.get(base, 0), number or 0)
    return sorted(name for name, (base, number) in logs.items() if (number or 0) < last[base])


def _locked(folder: ObjectFolder, name: str) -> FileOutput | None:
    try:
        return folder.spool.reopen(name)
    except StorageError:  # another writer's
        return None


def _complete(folder: ObjectFolder, name: str, output: FileOutput) -> None:
    try:
        folder.complete(name, again=True)
    finally:
        output.close()


def _end(folder: ObjectFolder, name: str, output: FileOutput) -> None:
    """Cut a torn event off, and clear the IN_USE flag, unless that needs a key."""
    head = folder.spool.read(name, 0, FLAGS_AT + 2)
    if not head.startswith(MAGIC):
        return
    reader = EventReader(folder.spool.folder / name)
    try:
        for _ in reader:
            pass
    except KeyMissing:
        return
    if reader.torn_tail_offset is not None:
        output.truncate(reader.torn_tail_offset)
    flags = int.from_bytes(head[FLAGS_AT:], "little") & ~EventFlag.IN_USE
    output.update(FLAGS_AT, flags.to_bytes(2, "little"))
    output.sync()
