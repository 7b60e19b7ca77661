"""Checks of stores: where logs are read, and where they are written."""

from __future__ import annotations

import pickle
from contextlib import closing
from typing import TYPE_CHECKING

from tailrace.constants import MAGIC
from tailrace.errors import StorageError
from tailrace.storage.file import LogFile
from tailrace.storage.store import CompletingStore
from tailrace.testing.expect import expect, expect_bytes
from tailrace.testing.reading import check_closed, check_far, check_wrong_calls
from tailrace.testing.writing import check_closed_output

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.storage.store import Store, WritableStore

_CONTENT = MAGIC + bytes(40) + bytes(range(256)) * 5  # no flag says that it is in use


def check_store(store: Store, put: Callable[[str, bytes], None]) -> None:
    """An empty store is read; ``put`` puts a file into it. Raises `BrokenContract`."""
    expect(not store.listing(), "an empty store lists files")
    put("binlog.000001", _CONTENT)
    put("notes", b"no log")
    expect(set(store.listing()) == {"binlog.000001", "notes"}, "the listing is another")
    sizes = {name: size for name, size in store.listing().items() if size is not None}
    expect(sizes in ({}, {"binlog.000001": len(_CONTENT), "notes": 6}), "sizes are wrong")
    expect(store.head("binlog.000001") == (MAGIC, len(_CONTENT)), "head() is wrong")
    for offset, count in ((0, 4), (3, 700), (len(_CONTENT) - 1, 9), (len(_CONTENT), 9)):
        found = store.read("binlog.000001", offset, count)
        expect_bytes(found, _CONTENT[offset : offset + count], f"read at {offset}")
    expect(LogFile.found(store, "notes") is None, "a text is taken for a log")
    file = LogFile.found(store, "binlog.000001")
    if file is None:
        expect(False, "a log is not taken for one")
        return
    for each in (file, pickle.loads(pickle.dumps(file))):  # noqa: S301 - our own
        expect(each == file, "a file that was pickled is another")
        with closing(each.open()) as stream:
            expect(stream.size() == len(_CONTENT), "an open file's size is wrong")
            stream.seek(5)
            found = b"".join(iter(lambda stream=stream: stream.read(100), b""))  # type: ignore[misc]
            expect_bytes(found, _CONTENT[5:], "read from an offset on")
            check_wrong_calls(stream)
            check_far(stream)
            expect(stream.is_open, "an open file says that it is not open")
            check_closed(stream)
            expect(not stream.is_open, "a closed file says that it is open")
    _rejects(lambda: store.open("binlog.000009").read(1), "opening a file that does not exist")
    _rejects(lambda: store.head("binlog.000009"), "the head of a file that does not exist")


def check_writable_store(store: WritableStore) -> None:
    """An empty store is written, up to nothing again. Raises `BrokenContract`.

    In a `CompletingStore` a file that was closed is complete, and opening it again is rejected.
    """
    expect(store.names() == [], "an empty store has files")
    out = store.create("log.1", b"head")
    out.write(b" and more")
    out.write(memoryview(bytearray(b"!")))
    out.flush()
    expect_bytes(store.read("log.1", 0, 100), b"head and more!", "written")
    expect_bytes(store.read("log.1", 5, 3), b"and", "read in part")
    out.update(0, b"HEAD")
    out.truncate(8)
    out.write(b".")
    out.sync()
    expect_bytes(store.read("log.1", 0, 100), b"HEAD and.", "changed and cut")
    expect(out.size == store.size("log.1") == len(b"HEAD and."), "the size is wrong")
    _rejects(lambda: store.reopen("log.1"), "a second writer")
    _rejects(lambda: store.create("log.1", b""), "creating a file that exists")
    expect_bytes(store.read("log.1", 0, 100), b"HEAD and.", "after rejected calls")
    out.close()
    out.close()
    check_closed_output(out, len(b"HEAD and."))
    if isinstance(store, CompletingStore):
        expect("log.1" not in store.spool.names(), "a complete file is still in the spool")
        _rejects(lambda: store.reopen("log.1"), "opening a complete file")
        expect_bytes(store.read("log.1", 0, 100), b"HEAD and.", "complete")
        expect(store.size("log.1") == len(b"HEAD and."), "a complete file's size is wrong")
    else:
        again = store.reopen("log.1")
        again.write(b".")
        again.close()
        expect_bytes(store.read("log.1", 0, 100), b"HEAD and..", "appended")
    store.replace("log.1", b"new")
    store.replace("log.2", b"")
    expect(sorted(store.names()) == ["log.1", "log.2"], "the names are wrong")
    expect_bytes(store.read("log.1", 0, 100), b"new", "replaced")
    for act in (store.reopen, store.remove, store.size, lambda name: store.read(name, 0, 1)):
        _rejects(lambda act=act: act("none"), "a file that does not exist")  # type: ignore[misc]
    for name in ("", ".", "..", "a/b", "..\\a", "a\nb"):
        _rejects(lambda name=name: store.create(name, b"x"), f"the name {name!r}")  # type: ignore[misc]
    store.remove("log.1")
    store.remove("log.2")
    expect(store.names() == [], "removed files are still there")


def _rejects(act: Callable[[], object], what: str) -> None:
    try:
        act()
    except StorageError:
        return
    expect(False, f"{what} was not rejected")
