"""Accounts: from a file as a server's mysql.user has them, and what an unknown name learns."""

import pytest

from tailrace.errors import UsageError
from tailrace.replication.source.users import Users, stored_password
from tailrace.wire.authentication import (
    METHODS,
    CachingSha2Password,
    Ed25519Password,
    NativePassword,
)
from tests.cases import each_case

NATIVE = NativePassword.of_password("p")
SHA2 = CachingSha2Password.of_password("p")


@each_case("method", METHODS)
def test_a_file_of_users(tmp_path, method):
    stored = METHODS[method].of_password("geheim").stored
    file = tmp_path / "users"
    file.write_text(f"# name method stored\n\nrepl\t{method}\t0x{stored.hex()}\n", "utf-8")
    found = Users.of_file(file).find("repl")
    assert type(found) is METHODS[method]
    assert found.stored == stored


@each_case("encoding", ["utf-8", "utf-8-sig"])  # editors write a byte order mark
def test_a_stored_password_as_text(tmp_path, encoding):
    file = tmp_path / "users"
    file.write_text(f"repl mysql_native_password {NATIVE.stored.decode()}", encoding)
    assert Users.of_file(file).find("repl").stored == NATIVE.stored


def test_a_name_acts_on_no_terminal():
    with pytest.raises(UsageError, match="printable"):
        Users({"a\x1b[31m": NATIVE})


@each_case(
    ("text", "says"),
    [
        ("", "no account"),
        ("repl mysql_native_password", "line 1"),
        ("x mysql_native_password *0", "line 1"),
        ("# a\nrepl sha256_password x", "line 2"),
        ("repl caching_sha2_password 0xzz", "hexadecimal"),
        (f"a mysql_native_password {NATIVE.stored.decode()}\n" * 2, "line 2.*already"),
        (f"{'n' * 33} mysql_native_password {NATIVE.stored.decode()}", "1 to 32"),
    ],
)
def test_a_file_that_is_wrong_is_rejected_and_not_quoted(tmp_path, text, says):
    file = tmp_path / "users"
    file.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=says) as caught:
        Users.of_file(file)
    assert NATIVE.stored.decode() not in str(caught.value)


def test_a_file_that_is_not_there_or_no_text(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        Users.of_file(tmp_path / "none")
    (tmp_path / "users").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="UTF-8"):
        Users.of_file(tmp_path / "users")


def test_an_unknown_name_has_one_of_the_methods_in_use_always_the_same():
    users = Users({"a": NATIVE, "b": SHA2})
    kinds = {name: type(users.find(name)) for name in map(str, range(50))}
    assert set(kinds.values()) == {NativePassword, CachingSha2Password}
    assert all(type(users.find(name)) is kind for name, kind in kinds.items())
    assert {type(Users({"a": NATIVE}).find(str(at))) for at in range(9)} == {NativePassword}


def test_most_accounts_methods_come_first():
    ed25519 = Ed25519Password.of_password("p")
    assert Users({"a": ed25519, "b": SHA2, "c": SHA2}).first_plugin == "caching_sha2_password"


def test_a_method_that_is_not_known():
    with pytest.raises(UsageError, match="one of caching_sha2_password, mysql_native_password"):
        stored_password("dialog", "x")
