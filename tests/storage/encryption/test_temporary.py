"""Spill files: encrypted with keys in memory, read back, cut, written anew."""

import random

import pytest

from tailrace.errors import UsageError
from tailrace.storage.encryption import temporary
from tailrace.storage.streams.file import FileInput, FileOutput
from tailrace.storage.streams.memory import MemoryInput, MemoryOutput


class Spill(MemoryOutput):
    """A spill file whose stored bytes can be looked at."""

    def input(self):
        return MemoryInput(self.data)


def test_random_cuts_and_updates():
    chance = random.Random(4)
    for _ in range(30):
        store = Spill()
        out = temporary(store)
        wanted = bytearray()
        for _ in range(25):
            what = chance.random()
            if what < 0.6:
                piece = chance.randbytes(chance.choice([0, 1, 15, 16, 17, 400]))
                out.write(piece)
                wanted += piece
            elif what < 0.8:
                size = chance.randint(0, len(wanted))
                out.truncate(size)
                del wanted[size:]
            elif wanted:
                at = chance.randrange(len(wanted))
                piece = chance.randbytes(min(20, len(wanted) - at))
                out.update(at, piece)
                wanted[at : at + len(piece)] = piece
            source = out.input()
            start = chance.randint(0, len(wanted))
            source.seek(start)
            made = b"".join(iter(lambda source=source: source.read(37), b""))
            assert made == wanted[start:]
        with pytest.raises(UsageError):
            out.truncate(len(wanted) + 1)


def test_what_is_written_behind_a_cut_has_another_keystream():
    store = Spill()
    out = temporary(store)
    seen = set()
    for _ in range(5):
        out.write(bytes(64))
        seen.add(bytes(store.data[100:164]) or bytes(store.data[:64]))
        out.truncate(0)
    assert len(seen) == 5


def test_it_needs_what_can_be_read_back(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"")
    with path.open("r+b") as file, pytest.raises(UsageError, match="input"):
        temporary(FileOutput(path, file.fileno()))
    with pytest.raises(UsageError, match="write"):
        temporary(FileInput(path))
