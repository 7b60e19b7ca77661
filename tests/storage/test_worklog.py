"""WL#10956: what no other test of the storage shows."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import tailrace
from tailrace.errors import TruncatedEvent
from tailrace.storage.binlog_file import BinlogFile
from tailrace.storage.local import LocalFolder

if TYPE_CHECKING:
    from pathlib import Path


def test_sync_hands_everything_to_the_disk_and_flush_to_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "binlog.000001"
    file = BinlogFile(LocalFolder(tmp_path), path.name)
    file.create(b"head")
    synced: list[bytes] = []
    fsync = os.fsync

    def noting(handle: int) -> None:
        fsync(handle)
        synced.append(path.read_bytes())

    monkeypatch.setattr(os, "fsync", noting)
    file.write(b"one")
    assert (path.read_bytes(), file.position) == (b"head", 7)
    file.flush()
    assert (path.read_bytes(), synced) == (b"headone", [])
    file.write(b"two")
    file.sync()
    assert synced == [b"headonetwo"]
    file.close()


@pytest.mark.parametrize("read", [tailrace.open, tailrace.changes])
def test_a_file_of_only_the_magic_is_truncated(tmp_path: Path, read) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(b"\xfebin")
    with pytest.raises(TruncatedEvent, match="nothing but its magic") as caught:
        list(read(path))
    assert caught.value.offset == 4
