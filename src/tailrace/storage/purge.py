"""Deletes old files of a log that is not open for writing."""

from __future__ import annotations

from contextlib import closing, nullcontext
from typing import TYPE_CHECKING

from tailrace.storage.encryption.folder import EncryptedFolder
from tailrace.storage.index import LogIndex
from tailrace.storage.keyring import open as open_keyring
from tailrace.storage.store import CompletingStore
from tailrace.storage.target import check_unused, last_name

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.target import Target


def purge(
    target: Target,
    *,
    to: str | None = None,
    before: int | None = None,
    keyring: Keyring | str | Path | None = None,
) -> list[str]:
    """Delete old files of a log, as PURGE BINARY LOGS TO and BEFORE do; gives their names.

    ``target`` is the log's folder, index or last file, also in an object store, or a store object.
    ``to`` and ``before`` (microseconds UTC) are those of `LogIndex.purge`; for a time, MySQL's
    encrypted logs need their ``keyring``. Do not use it for the logs of a running server, which
    reads its index only when it starts. Raises as `LogIndex.purge`, and StorageError if a
    `LogWriter` has the log open: use `LogWriter.purge` then.
    """
    folder, name = last_name(target)
    check_unused(target, folder, name.base)
    written = folder.spool if isinstance(folder, CompletingStore) else folder
    whole = written is not folder and name not in written.names()  # then nobody writes to it
    with nullcontext() if whole else closing(written.reopen(name)):
        if keyring is not None:
            folder = EncryptedFolder(folder, open_keyring(keyring), encrypting=False)
        return LogIndex(folder, name.base).purge(to=to, before=before)
