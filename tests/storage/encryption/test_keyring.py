"""Keyrings: the files of the servers, of other tools, and our own."""

import hashlib
import json
import pickle
import struct
import subprocess
import sys

import pytest

from tailrace.errors import KeyMissing, StorageError, UsageError
from tailrace.extras import hint
from tailrace.storage import keyring
from tailrace.storage.keyring import Keyring
from tailrace.storage.keyring.mariadb import MariadbKeyring
from tailrace.storage.keyring.mysql import ComponentKeyring, PluginKeyring
from tailrace.storage.keyring.own import OwnKeyring
from tests.cases import each_case
from tests.generators.test_another_package import package

KEY = bytes(range(32))
LINES = f"# a comment\n\n1;{KEY.hex()}\n 33;{KEY[:16].hex()} # of tables\r\n2;{KEY[:24].hex()}\n"
ID = "MySQLReplicationKey_d70f8d7f-e5e8-11f1-a104-02fc00000001_2"


def component(path, **changes):
    element = {"user": "", "data_id": ID, "data_type": "AES", "data": KEY.hex(), "extension": []}
    other = {**element, "user": "root@localhost", "data": KEY[::-1].hex()}
    content = {"version": "1.0", "elements": [element, other], **changes}
    path.write_text(json.dumps(content))
    return path


def plugin(path, word, version=b"2.0", user=b""):
    """The old plugin's file as its source lays it out."""
    mask = (b"*305=Ljt0*!@$Hnm(*-9-w;:" * 2)[:32]
    body = b""
    for name in (ID.encode(), b"other"):
        fields = [name, b"AES", user, bytes(a ^ b for a, b in zip(KEY, mask, strict=True))]
        size = struct.calcsize(word)
        used = 5 * size + sum(map(len, fields))
        whole = used + -used % size
        lengths = struct.pack(word[0] + "5" + word[1], whole, *map(len, fields))
        body += (lengths + b"".join(fields)).ljust(whole, b"\0")
    tail = hashlib.sha256(body).digest() if version == b"2.0" else b""
    path.write_bytes(b"Keyring file version:" + version + body + b"EOF" + tail)
    return path


def test_component_keyring_file(tmp_path):
    """Also by the component's configuration, which leads to it."""
    path = component(tmp_path / "k")
    found = keyring.open(path)
    assert isinstance(found, ComponentKeyring)
    assert found.key(ID) == KEY
    assert list(found.names()) == [ID]
    with pytest.raises(KeyMissing, match="has no key gone") as caught:
        found.key("gone")
    assert caught.value.key_id == "gone"
    configuration = tmp_path / "component_keyring_file.cnf"
    configuration.write_text(json.dumps({"path": str(path), "read_only": False}))
    assert keyring.open(configuration).key(ID) == KEY


ELEMENT = dict.fromkeys(("user", "data_id", "data_type", "extension"), "") | {"data": "xyz"}


@each_case(
    ("changes", "text"),
    [
        ({"version": "2.0"}, "version 1.0"),
        ({"elements": [{"user": ""}]}, "element 1 has no data_id"),
        ({"elements": None}, "not a keyring"),
        ({"elements": [ELEMENT]}, "not in hexadecimal"),
    ],
)
def test_a_damaged_component_file(tmp_path, changes, text):
    with pytest.raises(StorageError, match=text) as caught:
        keyring.open(component(tmp_path / "k", **changes)).key(ID)
    assert KEY.hex()[:8] not in str(caught.value)


@each_case("word", ["<Q", "<I", ">Q", ">I"])
@each_case("version", [b"1.0", b"2.0"])
def test_keyring_file_of_any_machine(tmp_path, word, version):
    found = keyring.open(plugin(tmp_path / "k", word, version))
    assert isinstance(found, PluginKeyring)
    assert list(found.names()) == [ID, "other"]
    assert found.key(ID) == found.key("other") == KEY


def test_keyring_file_leaves_out_users_keys(tmp_path):
    assert list(keyring.open(plugin(tmp_path / "k", "<Q", user=b"root@%")).names()) == []


def test_a_damaged_keyring_file(tmp_path):
    path = plugin(tmp_path / "k", "<Q")
    raw = path.read_bytes()
    for at in (30, 70, len(raw) - 1, len(raw) - 34):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        with pytest.raises(StorageError, match=str(path)):
            keyring.open(path).key(ID)
    path.write_bytes(raw[:50])
    with pytest.raises(StorageError):
        keyring.open(path).key(ID)
    path.write_bytes(b"")
    assert list(PluginKeyring(path).names()) == []


def test_file_key_management(tmp_path):
    path = tmp_path / "keys"
    path.write_text(LINES)
    found = keyring.open(path)
    assert isinstance(found, MariadbKeyring)
    assert [found.key(name, 1) for name in ("1", "2", "33")] == [KEY, KEY[:24], KEY[:16]]
    assert found.latest("1") == 1
    with pytest.raises(KeyMissing, match="key 1, version 2"):
        found.key("1", 2)


@each_case(
    ("options", "spec"),
    [
        (["-md", "sha1"], ""),
        (["-md", "sha256"], ""),
        (["-md", "sha512"], "&digest=sha512"),
        (["-md", "sha256", "-pbkdf2", "-iter", "1000"], "&use_pbkdf2=1000&digest=sha256"),
        (["-md", "sha1", "-pbkdf2", "-iter", "77"], "&use_pbkdf2=77"),
    ],
)
def test_a_key_file_that_openssl_encrypted(tmp_path, options, spec, monkeypatch):
    plain, path, secret = tmp_path / "plain", tmp_path / "keys.enc", tmp_path / "secret"
    plain.write_text(LINES)
    secret.write_text("a password\n")
    command = ["openssl", "enc", "-aes-256-cbc", *options, "-k", "a password"]
    subprocess.run([*command, "-in", plain, "-out", path], check=True, capture_output=True)

    found = keyring.open(f"file_key_management:{path}?filekey={secret}{spec}")
    assert found.key("1") == KEY
    monkeypatch.setenv("KEYS_PASSWORD", "a password")
    by_name = keyring.open(f"file_key_management:{path}?filekey_env=KEYS_PASSWORD{spec}")
    assert by_name.key("33") == KEY[:16]
    for kept in (found, by_name):
        assert b"a password" not in pickle.dumps(kept)
        assert KEY not in pickle.dumps(kept)
        assert pickle.loads(pickle.dumps(kept)).key("1") == KEY

    secret.write_text("another password")
    with pytest.raises(StorageError, match="password does not decrypt"):
        keyring.open(f"file_key_management:{path}?filekey={secret}{spec}").key("1")
    with pytest.raises(KeyMissing, match="password is missing"):
        keyring.open(path).key("1")
    monkeypatch.delenv("KEYS_PASSWORD")
    with pytest.raises(KeyMissing, match="KEYS_PASSWORD is not set"):
        keyring.open(f"file_key_management:{path}?filekey_env=KEYS_PASSWORD{spec}").key("1")


def test_our_own(tmp_path):
    path = tmp_path / "ring"
    made = keyring.make(path, "1", "mine")
    assert path.stat().st_mode & 0o777 == 0o600
    first = made.key("1")
    assert len(first) == 32
    assert first != made.key("mine")
    reader = keyring.open(path)
    assert isinstance(reader, OwnKeyring)
    assert reader.key("1", 1) == first
    assert made.add("1") == 2
    assert made.add("1", KEY[:16]) == 3
    assert path.stat().st_mode & 0o777 == 0o600
    assert (reader.latest("1"), reader.key("1"), reader.key("1", 1)) == (3, KEY[:16], first)
    with pytest.raises(StorageError, match="File exists"):
        keyring.make(path)
    with pytest.raises(UsageError, match="not 5"):
        made.add("1", b"short")
    path.chmod(0o644)
    with pytest.raises(StorageError, match="chmod 600"):
        keyring.open(path).key("1")


def test_no_key_is_in_a_pickle_or_a_repr(tmp_path):
    made = keyring.make(tmp_path / "ring")
    made.add("1", KEY)
    made.key("1")
    files = [
        made,
        keyring.open(component(tmp_path / "c")),
        keyring.open(plugin(tmp_path / "p", "<Q")),
    ]
    for ring in files:
        name = next(iter(ring.names()))
        assert ring.key(name) == KEY
        assert KEY not in pickle.dumps(ring)
        assert KEY.hex().encode() not in pickle.dumps(ring)
        assert KEY.hex() not in repr(ring).lower()
        assert pickle.loads(pickle.dumps(ring)).key(name) == KEY


@each_case(
    ("content", "text"),
    [
        *((content, "no keyring file") for content in ("hello", "", "[1]", "\0\1")),
        ("{", "not valid JSON"),
        *(
            (f"2;{KEY.hex()}\n{line}\n", "line 2")
            for line in ("1;abc", f"1;{KEY.hex()}00", "x;00", f";{KEY.hex()}", "1:00")
        ),
    ],
)
def test_what_is_no_keyring(tmp_path, content, text):
    path = tmp_path / "k"
    path.write_text(content)
    with pytest.raises(StorageError, match=text):
        keyring.open(path).key("2")
    with pytest.raises(StorageError, match="No such file"):
        keyring.open(tmp_path / "gone")
    with pytest.raises(UsageError, match="no file and no kind of keyring"):
        keyring.open("vault:where")
    with pytest.raises(UsageError, match="colour"):
        keyring.open(f"tailrace:{path}?colour=red")


def test_a_keyring_of_another_package(tmp_path, monkeypatch):
    source = (
        "from tailrace.storage.keyring import Keyring\n"
        "class Vault(Keyring):\n"
        "    def __init__(self, where, region='none'):\n"
        "        self.where, self.region = where, region\n"
        "    def key(self, key_id, version=None):\n"
        "        return bytes(32)\n"
    )
    package(tmp_path, "vaulted", source, "[tailrace.keyrings]\nvaulted = vaulted:Vault\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = keyring.open("vaulted:prod/keys?region=eu")
    assert isinstance(found, Keyring)
    assert (found.where, found.region, found.key("x")) == ("prod/keys", "eu", bytes(32))
    assert "vaulted" in sys.modules


def test_without_the_package_the_message_says_what_to_install(tmp_path):
    keyring.make(tmp_path / "ring", "1")
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "import tailrace\n"
        "from tailrace.errors import MissingExtra\n"
        "try:\n"
        f"    tailrace.create({str(tmp_path / 'log')!r}, flavour='mariadb', server_id=1, encrypt=True, keyring={str(tmp_path / 'ring')!r})\n"
        "except MissingExtra as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith(f": {hint('encryption')}\n")
