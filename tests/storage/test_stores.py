"""Every store keeps the contract of stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tailrace.storage.encryption import EncryptedFolder
from tailrace.storage.local import LocalFolder, LocalStore
from tailrace.storage.memory import MemoryFolder, forget_memory, memory_folder
from tailrace.storage.objects import ObjectFolder, ObjectStore, ObjectUrl
from tailrace.testing import BrokenContract, check_store, check_writable_store

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.storage.store import Store, WritableStore


@pytest.mark.parametrize("kind", ["disk", "memory", "objects"])
def test_reading(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_SPOOL", str(tmp_path / "spool"))
    (tmp_path / "log").mkdir()
    forget_memory("stores")
    url = ObjectUrl.parse("memory://stores/log")
    stores: dict[str, tuple[Store, WritableStore]] = {
        "disk": (LocalStore(tmp_path / "log"), LocalFolder(tmp_path / "log")),
        "memory": (memory_folder("stores"), memory_folder("stores")),
        "objects": (ObjectStore(url), ObjectFolder(url)),
    }
    store, written = stores[kind]
    check_store(store, lambda name, content: written.create(name, content).close())


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_writing(kind: str, wrapped: bool, tmp_path: Path) -> None:
    store: WritableStore = LocalFolder(tmp_path / "made" / "here")
    if kind == "memory":
        store = MemoryFolder("stores")
    check_writable_store(EncryptedFolder(store, None, encrypting=False) if wrapped else store)


def test_a_store_that_breaks_it() -> None:
    class Forgetful(MemoryFolder):
        def replace(self, name: str, content: bytes) -> None:
            super().replace(name, content[:-1])

    with pytest.raises(BrokenContract, match="replaced"):
        check_writable_store(Forgetful("broken"))
