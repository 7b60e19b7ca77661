"""Every store keeps the contract of stores."""

import pytest

from tailrace.storage.encryption import EncryptedFolder
from tailrace.storage.layered import LayeredStore, growing, layered_folder, suffix_of
from tailrace.storage.local import LocalFolder, LocalStore
from tailrace.storage.memory import MemoryFolder, forget_memory, memory_folder
from tailrace.storage.objects import ObjectFolder, ObjectStore, ObjectUrl
from tailrace.storage.objects.bucket import bucket_of
from tailrace.storage.streams.layer import layer, layers_of
from tailrace.testing import BrokenContract, check_store, check_writable_store
from tests.cases import each_case
from tests.storage.layers import MASKED

LAYERS = [
    ("counting",),
    ("buffer",),
    (MASKED,),
    ("zstd",),
    (MASKED, "zstd"),
    ("zstd", "counting"),
]


@each_case("kind", ["disk", "memory"])
@each_case("layers", LAYERS, ids=str)
def test_reading_through_layers(layers, kind, tmp_path):
    """WL#10956: a layer is added to any source; the store keeps the contract."""
    (tmp_path / "log").mkdir()
    lower = LocalFolder(tmp_path / "log")
    forget_memory("stores")
    if kind == "memory":
        lower = memory_folder("stores")
    put = layers_of(layers)
    folder = layered_folder(lower, put)

    def write(name, content):
        if name == "notes":
            lower.create(name + suffix_of(growing(put)), content).close()
        else:
            folder.create(name, content).close()
            stored = name + "".join(layer.suffix for layer in put)
            changes = {MASKED, layer("zstd")} & set(put)
            assert (lower.read(stored, 0, 4) == content[:4]) == (not changes)

    check_store(LayeredStore(lower, put), write)


@each_case("layers", LAYERS, ids=str)
@each_case("kind", ["disk", "memory"])
def test_writing_through_layers(layers, kind, tmp_path):
    """WL#10956: a layer is added to any target; the store keeps the contract."""
    lower = LocalFolder(tmp_path / "made" / "here") if kind == "disk" else MemoryFolder("stores")
    check_writable_store(layered_folder(lower, layers_of(layers)))
    assert lower.names() == []


@each_case("kind", ["disk", "memory", "objects", "growing"])
def test_reading(kind, tmp_path):
    (tmp_path / "log").mkdir()
    forget_memory("stores")
    url = ObjectUrl.parse("memory://stores/log")
    stores = {
        "disk": (LocalStore(tmp_path / "log"), LocalFolder(tmp_path / "log")),
        "memory": (memory_folder("stores"), memory_folder("stores")),
        "objects": (ObjectStore(url), ObjectFolder(url)),
        "growing": (ObjectStore(url), ObjectFolder(url).spool),
    }
    for name in bucket_of(url).list(url.key).objects:
        bucket_of(url).remove((url / name).key)
    store, written = stores[kind]
    check_store(store, lambda name, content: written.create(name, content).close())


@each_case("wrapped", [False, True])
@each_case("kind", ["disk", "memory"])
def test_writing(kind, wrapped, tmp_path):
    store = LocalFolder(tmp_path / "made" / "here")
    if kind == "memory":
        store = MemoryFolder("stores")
    check_writable_store(EncryptedFolder(store, None, encrypting=False) if wrapped else store)


def test_writing_by_segments():
    url = ObjectUrl.parse("memory://stores/written")
    check_writable_store(ObjectFolder(url))
    assert not bucket_of(url).list(url.key).objects


def test_a_store_that_breaks_it():
    class Forgetful(MemoryFolder):
        def replace(self, name, content):
            super().replace(name, content[:-1])

    with pytest.raises(BrokenContract, match="replaced"):
        check_writable_store(Forgetful("broken"))

    class Lenient(MemoryFolder):
        def remove(self, name):
            if name in self.names():
                super().remove(name)

    with pytest.raises(BrokenContract, match="a file that does not exist was not rejected"):
        check_writable_store(Lenient("lenient"))
