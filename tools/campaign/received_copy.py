"""A receiver's copy beside the source's own files: what a kill left, and what is there in the end.

Nothing of Tailrace reads here: plain files are compared as they are, encrypted ones opened by a few
lines of their own (facts sheet 7.1).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tools.campaign.live_files import description
from tools.campaign.process import Wrong

if TYPE_CHECKING:
    from pathlib import Path

MAGIC: Final = b"\xfebin"
BESIDE: Final = frozenset({"binlog.index", "receiver.json", "receiver.lock"})
"""What lies in a copy's folder beside the logs."""
_HEADER: Final = 512
_HEAD: Final = Struct("<4xB4xI6x").unpack_from
"""Of an event's header, the type and the length."""
_HEAD_SIZE: Final = 19
_ROTATE, _STOP = 4, 3
_GTIDS: Final = frozenset({33, 34, 42, 162})
_BETWEEN: Final = frozenset({_ROTATE, _STOP, 35, 161, 163})
"""Events that stand in no transaction: ends of files, and what is behind their begins."""


def plain(raw: bytes, key: bytes) -> bytes:
    """A file's bytes, decrypted where MySQL's form has encrypted them; without its head, none."""
    if not raw.startswith(b"\xfdbin"):
        return raw
    if len(raw) < _HEADER:
        return b""
    at, fields = 5, dict[int, bytes]()
    while raw[at]:
        kind, at = raw[at], at + 1
        size = {2: 32, 3: 16}.get(kind)
        if size is None:
            size, at = raw[at], at + 1
        fields[kind], at = raw[at : at + size], at + size
    decryptor = Cipher(algorithms.AES(key), modes.CBC(fields[3])).decryptor()
    made = hashlib.sha512(decryptor.update(fields[2]) + decryptor.finalize()).digest()
    counter = made[32:40] + bytes(8)
    stream = Cipher(algorithms.AES(made[:32]), modes.CTR(counter)).decryptor()
    return stream.update(raw[_HEADER:]) + stream.finalize()


def without_in_use(raw: bytes) -> bytes:
    """A log's bytes without the flag that says that somebody writes it."""
    return raw[: len(MAGIC)] + description(raw[len(MAGIC) :])


def borders(raw: bytes) -> dict[int, int]:
    """Where the events of a log begin, and of what type each is; the log's end is -1."""
    found, at = dict[int, int](), len(MAGIC)
    while at + _HEAD_SIZE <= len(raw):
        kind, length = _HEAD(raw, at)
        if length < _HEAD_SIZE or at + length > len(raw):
            break
        found[at] = kind
        at += length
    found[at] = -1
    return found


@dataclass
class Copy:
    """A copy in a folder, of the logs in another. ``key`` opens it where it is encrypted."""

    folder: Path
    source: Path
    key: bytes = b""
    encrypted: bool = False
    size: int = 0
    """Bytes of the copy's files when they were looked at last."""
    _same: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Files that were whole and equal, by size and time of change."""

    def names(self) -> list[str]:
        """The copy's log files, oldest first."""
        return _logs(self.folder)

    def source_names(self) -> list[str]:
        """The source's log files, oldest first."""
        return _logs(self.source)

    def listed(self) -> list[str]:
        """The names in its index."""
        return _index(self.folder)

    def after_a_kill(self) -> str:
        """Raise `Wrong` where a kill left what is not the source's; else say where it was met.

        Each file holds the source's bytes from the first on, all but the last file all of them.
        """
        names, theirs = self.names(), self.source_names()
        listed = self.listed()
        if names != theirs[: len(names)]:
            raise Wrong(f"the copy has {names}, the source {theirs}")
        if listed != names[: len(listed)] or len(names) > len(listed) + 1:
            raise Wrong(f"the index lists {listed}, the folder has {names}")
        for name in names[:-1]:
            self._check_whole(name)
        self.size = sum((self.folder / name).stat().st_size for name in names)
        if not names:
            return "a file's begin"
        where = self._check_last(names[-1])
        return where if len(listed) == len(names) else "a file's begin"

    def at_the_end(self) -> None:
        """Raise `Wrong` where any file, name or line of the index is not the source's."""
        names, theirs = self.names(), self.source_names()
        if names != theirs:
            raise Wrong(f"the copy has {names}, the source {theirs}")
        for name in names[:-1]:
            if self._plain(name) != (self.source / name).read_bytes():
                raise Wrong(f"{name}: {self._difference(name)}")
        last = names[-1]
        theirs_last = (self.source / last).read_bytes()
        if without_in_use(self._plain(last)) != without_in_use(theirs_last):
            raise Wrong(f"{last}: {self._difference(last)}")
        if self.listed() != _index(self.source):
            raise Wrong(f"the index lists {self.listed()}, the source's {_index(self.source)}")
        there = {path.name for path in self.folder.iterdir()} - set(names)
        if there != BESIDE:
            raise Wrong(f"beside the logs lie {sorted(there)}")

    def bytes_there(self) -> int:
        """The copy's size by now, in bytes of its files; it may be written meanwhile."""
        found = 0
        for name in self.names():
            try:
                found += (self.folder / name).stat().st_size
            except FileNotFoundError:
                continue
        return found

    def _plain(self, name: str) -> bytes:
        raw = (self.folder / name).read_bytes()
        if self.encrypted and raw.startswith(MAGIC):
            raise Wrong(f"{name} is not encrypted")
        return plain(raw, self.key)

    def _check_whole(self, name: str) -> None:
        stat = (self.folder / name).stat()
        stamp = stat.st_size, stat.st_mtime_ns
        if self._same.get(name) == stamp:
            return
        ours = without_in_use(self._plain(name))
        if ours != without_in_use((self.source / name).read_bytes()):
            raise Wrong(f"{name}, which is not the last: {self._difference(name)}")
        self._same[name] = stamp

    def _check_last(self, name: str) -> str:
        """Where the last file ends."""
        ours = without_in_use(self._plain(name))
        theirs = without_in_use((self.source / name).read_bytes())
        if ours != theirs[: len(ours)]:
            raise Wrong(f"{name}: {self._difference(name)}")
        found = borders(theirs)
        kind = found.get(len(ours))
        if len(ours) <= len(MAGIC):
            return "a file's begin"
        if kind is None:
            return "an event"
        before = list(found.values())[list(found).index(len(ours)) - 1]
        if before in {_ROTATE, _STOP}:
            return "a file's end"
        if kind == -1 or kind in _GTIDS or kind in _BETWEEN:
            return "no transaction"
        return "a transaction"

    def _difference(self, name: str) -> str:
        ours = without_in_use(self._plain(name))
        theirs = without_in_use((self.source / name).read_bytes())
        pairs = zip(ours, theirs, strict=False)
        at = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))
        return f"{len(ours)} bytes here, {len(theirs)} at the source; they differ at {at}"


def _logs(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("binlog.[0-9]*") if path.suffix[1:].isdigit())


def _index(folder: Path) -> list[str]:
    path = folder / "binlog.index"
    if not path.exists():
        return []
    return [line.rpartition("/")[2] for line in path.read_text("utf-8").splitlines()]
