"""Damaged headers, wrong keys, unknown kinds: typed errors with file and offset."""

from __future__ import annotations

import pickle
import zlib
from typing import TYPE_CHECKING

import pytest

from tailrace.errors import EncryptionError, KeyMissing, LogError, WrongKey
from tailrace.storage import keyring
from tailrace.storage.encryption import opened
from tailrace.storage.keyring import Keyring, OwnKeyring
from tailrace.storage.streams.memory import MemoryInput
from tests.cases import each_case
from tests.storage.encryption.conftest import ONLY_MARIADB, ONLY_MYSQL

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.storage.encryption.conftest import Recorded


class OneKey(Keyring):
    """Any key is this one."""

    def __init__(self, key: bytes) -> None:
        self.bytes = key

    def key(self, key_id: str, version: int | None = None) -> bytes:
        return self.bytes


def drain(raw: bytes, keys: Keyring) -> None:
    stream = opened(MemoryInput(raw), keys, path="/logs/binlog.000001")
    while stream.read(1 << 20):
        pass


def refused(raw: bytes, keys: Keyring, kind: type[LogError]) -> LogError:
    with pytest.raises(kind) as caught:
        drain(raw, keys)
    error = caught.value
    assert error.file == "/logs/binlog.000001"
    assert error.offset is not None
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), type(again)) == (str(error), type(error))
    return error


@each_case("size", [16, 24, 32, 5])
def test_another_key_of_that_name(recorded: Recorded, size: int) -> None:
    raw = recorded.pairs[0][0].read_bytes()
    error = refused(raw, OneKey(bytes(range(size))), WrongKey)
    mysql = recorded.kind.startswith("mysql")
    assert error.offset in ({5, 512} if mysql else {296})
    assert ("MySQLReplicationKey_" if mysql else "key 1, version 1") in str(error)


MYSQL_DAMAGE: list[tuple[Callable[[bytearray], None], int, str]] = [
    (lambda raw: raw.__setitem__(4, 2), 4, "version 2"),
    (lambda raw: raw.__setitem__(5, 9), 5, "type 9"),
    (lambda raw: raw.__setitem__(5, 0), 5, "no key id"),
    (lambda raw: raw.__setitem__(6, 255), 262, "type|no password"),
    (lambda raw: raw.__delitem__(slice(300, None)), 300, "ends after 300"),
    (lambda raw: raw.__setitem__(80, raw[80] ^ 1), 512, "does not decrypt"),
]


@ONLY_MYSQL
@each_case(("damage", "offset", "text"), MYSQL_DAMAGE)
def test_a_damaged_header_of_mysql(
    recorded: Recorded, damage: Callable[[bytearray], None], offset: int, text: str
) -> None:
    raw = bytearray(recorded.pairs[0][0].read_bytes())
    damage(raw)
    error = refused(bytes(raw), keyring.open(recorded.keyring), EncryptionError)
    assert error.offset == offset or "no password" in str(error)
    with pytest.raises(EncryptionError, match=text):
        raise error


@ONLY_MARIADB
def test_a_scheme_that_is_not_known(recorded: Recorded) -> None:
    raw = bytearray(recorded.pairs[0][0].read_bytes())
    raw[256 + 19] = 2
    raw[292:296] = _crc(raw[256:292])
    error = refused(bytes(raw), keyring.open(recorded.keyring), EncryptionError)
    assert error.offset == 256
    assert "scheme 2" in str(error)


@ONLY_MARIADB
def test_a_version_of_the_key_that_the_keyring_has_not(recorded: Recorded, tmp_path) -> None:
    raw = bytearray(recorded.pairs[0][0].read_bytes())
    raw[256 + 20] = 7
    raw[292:296] = _crc(raw[256:292])
    with pytest.raises(KeyMissing, match="1, version 7") as caught:
        opened(MemoryInput(bytes(raw)), keyring.open(recorded.keyring), path="f")
    assert (caught.value.key_id, caught.value.version) == ("1", 7)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.key_id, again.version, str(again)) == ("1", 7, str(caught.value))

    ours: OwnKeyring = keyring.make(tmp_path / "ring")
    key = keyring.open(recorded.keyring).key("1")
    for _ in range(7):
        ours.add("1", key)
    opened(MemoryInput(bytes(raw)), ours, path="f").read(1000)


def _crc(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little")
