"""Logs that servers encrypted, against what the same servers send of them."""

import random

import pytest

from tailrace.constants import ENCRYPTED_MAGIC
from tailrace.errors import BadEventLength
from tailrace.storage import keyring
from tailrace.storage.encryption import opened
from tailrace.storage.encryption.mariadb import batch as mariadb_batch
from tailrace.storage.encryption.mariadb.streams import MariadbInput
from tailrace.storage.streams.file import FileInput
from tailrace.storage.streams.memory import MemoryInput
from tests.cases import each_case
from tests.storage.encryption.conftest import ONLY_MARIADB


def stream(recorded, path):
    return opened(FileInput(path), keyring.open(recorded.keyring), path=str(path))


def read_all(source, count=1 << 20):
    return b"".join(iter(lambda: source.read(count), b""))


@each_case("numpy", [True, False])
def test_the_plain_bytes_are_those_that_the_server_sends(recorded, numpy, monkeypatch):
    if not numpy:
        monkeypatch.setattr(mariadb_batch, "_numpy", lambda: None)
    for encrypted, clear in recorded.pairs:
        wanted = clear.read_bytes()
        source = stream(recorded, encrypted)
        assert encrypted.read_bytes()[-200:] != wanted[-200:]
        assert source.size() == len(wanted)
        assert read_all(source) == wanted


def test_any_seek_reads_the_same(recorded):
    chance = random.Random(5)
    for encrypted, clear in recorded.pairs:
        wanted = clear.read_bytes()
        for again in range(4):
            source = stream(recorded, encrypted)
            for _ in range(30):
                at = chance.randrange(min(len(wanted), 400_000 * (again + 1)) + 20)
                assert source.seek(at) == at
                got = source.read(chance.choice([1, 19, 777, 70_000]))
                assert got == wanted[at : at + len(got)]
                assert got or at >= len(wanted)
                assert source.tell() == at + len(got)


@each_case("seed", range(4))
def test_a_file_that_grows_is_followed(recorded, tmp_path, seed):
    encrypted, clear = recorded.pairs[0]
    raw, wanted = encrypted.read_bytes()[:60_000], clear.read_bytes()
    path = tmp_path / "binlog.000001"
    begin = 512 if raw.startswith(ENCRYPTED_MAGIC) else 0
    head = 1000
    path.write_bytes(raw[:head])
    source = stream(recorded, path)
    made = bytearray(read_all(source))
    chance = random.Random(seed)
    at = head
    while at < len(raw):
        more = chance.choice([1, 5, 12, 13, 14, 30, 2000])
        with path.open("ab") as file:
            file.write(raw[at : at + more])
        at = min(at + more, len(raw))
        made += read_all(source, chance.choice([7, 4096]))
        assert wanted.startswith(made)
        # CBC gives what ends with a block; nothing is known of an event's first 12 bytes alone
        assert at - begin - len(made) <= 19
    assert source.size() == len(raw) - begin


def test_seeks_behind_the_end_are_forgotten(recorded, tmp_path):
    encrypted, clear = recorded.pairs[0]
    raw, wanted = encrypted.read_bytes()[:40_000], clear.read_bytes()
    begin = 512 if raw.startswith(ENCRYPTED_MAGIC) else 0
    path = tmp_path / "binlog.000001"
    path.write_bytes(raw[:10_000])
    source = stream(recorded, path)
    for at in (10_000 - begin, 10_001, 20_000, 33_333):
        source.seek(at)
        assert source.read(100) == b""
        assert source.tell() == at
    path.write_bytes(raw)
    for at in (10_001, 33_333, 20_000, 10_000 - begin):
        source.seek(at)
        got = source.read(100)
        assert got
        assert got == wanted[at : at + len(got)]


def test_a_plain_log_is_its_own_stream(recorded):
    for _, clear in recorded.pairs:
        lower = FileInput(clear)
        assert opened(lower, None, path=str(clear)) is lower
        assert lower.tell() == 0


@ONLY_MARIADB
def test_a_damaged_length_stops_the_stream_there(recorded):
    encrypted, clear = recorded.pairs[0]
    wanted = clear.read_bytes()
    at = 296
    for _ in range(40):
        at += int.from_bytes(wanted[at + 9 : at + 13], "little")
    raw = bytearray(encrypted.read_bytes())
    raw[at + 9 : at + 13] = bytes(4)
    source = opened(MemoryInput(bytes(raw)), keyring.open(recorded.keyring), path="here")
    assert isinstance(source, MariadbInput)
    made = b""
    while len(made) < at:
        made += source.read(1 << 20)
    with pytest.raises(BadEventLength, match=r"19 to .* bytes, not 0") as caught:
        source.read(1 << 20)
    assert made == wanted[:at]
    assert (caught.value.file, caught.value.offset) == ("here", at)
