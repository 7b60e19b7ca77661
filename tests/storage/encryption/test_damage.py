"""Damaged headers, wrong keys, unknown kinds: typed errors with file and offset."""

import pickle
import zlib

import pytest

from tailrace.errors import EncryptionError, KeyMissing, WrongKey
from tailrace.storage import keyring
from tailrace.storage.encryption import opened
from tailrace.storage.keyring import Keyring
from tailrace.storage.streams.memory import MemoryInput
from tests.cases import each_case
from tests.storage.encryption.conftest import ONLY_MARIADB, ONLY_MYSQL


class OneKey(Keyring):
    """Any key is this one."""

    def __init__(self, key):
        self.bytes = key

    def key(self, key_id, version=None):
        return self.bytes


def drain(raw, keys):
    stream = opened(MemoryInput(raw), keys, path="/logs/binlog.000001")
    while stream.read(1 << 20):
        pass


def refused(raw, keys, kind):
    with pytest.raises(kind) as caught:
        drain(raw, keys)
    error = caught.value
    assert error.file == "/logs/binlog.000001"
    assert error.offset is not None
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), type(again)) == (str(error), type(error))
    return error


@each_case("size", [16, 24, 32, 5])
def test_another_key_of_that_name(recorded, size):
    raw = recorded.pairs[0][0].read_bytes()
    error = refused(raw, OneKey(bytes(range(size))), WrongKey)
    mysql = recorded.kind.startswith("mysql")
    assert error.offset in ({5, 512} if mysql else {296})
    assert ("MySQLReplicationKey_" if mysql else "key 1, version 1") in str(error)


MYSQL_DAMAGE = [
    (lambda raw: raw.__setitem__(4, 2), 4, "version 2"),
    (lambda raw: raw.__setitem__(5, 9), 5, "type 9"),
    (lambda raw: raw.__setitem__(5, 0), 5, "no key id"),
    (lambda raw: raw.__setitem__(6, 255), 262, "type|no password"),
    (lambda raw: raw.__delitem__(slice(300, None)), 300, "ends after 300"),
    (lambda raw: raw.__setitem__(80, raw[80] ^ 1), 512, "does not decrypt"),
]


@ONLY_MYSQL
@each_case(("damage", "offset", "text"), MYSQL_DAMAGE)
def test_a_damaged_header_of_mysql(recorded, damage, offset, text):
    raw = bytearray(recorded.pairs[0][0].read_bytes())
    damage(raw)
    error = refused(bytes(raw), keyring.open(recorded.keyring), EncryptionError)
    assert error.offset == offset or "no password" in str(error)
    with pytest.raises(EncryptionError, match=text):
        raise error


@ONLY_MARIADB
def test_a_version_of_the_key_that_the_keyring_has_not(recorded, tmp_path):
    raw = bytearray(recorded.pairs[0][0].read_bytes())
    raw[256 + 20] = 7
    raw[292:296] = _crc(raw[256:292])
    with pytest.raises(KeyMissing, match="1, version 7") as caught:
        opened(MemoryInput(bytes(raw)), keyring.open(recorded.keyring), path="f")
    assert (caught.value.key_id, caught.value.version) == ("1", 7)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.key_id, again.version, str(again)) == ("1", 7, str(caught.value))

    ours = keyring.make(tmp_path / "ring")
    key = keyring.open(recorded.keyring).key("1")
    for _ in range(7):
        ours.add("1", key)
    opened(MemoryInput(bytes(raw)), ours, path="f").read(1000)


def _crc(data):
    return zlib.crc32(data).to_bytes(4, "little")
