"""Passwords verified by what real servers store, and real clients' answers to a nonce."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymysql import _auth

from tailrace.errors import UsageError
from tailrace.wire.authentication import (
    LONGEST_PASSWORD,
    METHODS,
    CachingSha2Password,
    Ed25519Password,
    NativePassword,
)
from tests.cases import each_case

PASSWORD = "pässword of some length, more than thirty-two bytes"
METHOD = each_case("method", METHODS.values())


def login(stored, nonce, *answers, secure=True):
    """The payloads sent, and the verdict: what comes before OK, or None."""
    going = stored.verify(nonce, secure=secure)
    assert next(going) is None
    sent = []
    for answer in answers:
        try:
            sent.append(going.send(answer))
        except StopIteration as end:
            return sent, end.value
    return sent, "waits"


def answer(method, password, nonce):
    """PyMySQL's."""
    raw = password.encode()
    if method is NativePassword:
        return _auth.scramble_native_password(raw, nonce)
    if method is CachingSha2Password:
        return _auth.scramble_caching_sha2(raw, nonce)
    return _auth.ed25519_password(raw, nonce)


@METHOD
def test_a_wrong_password_or_nonce_is_denied_and_nobody_has_the_decoys_password(method):
    stored, nonce = method.of_password(PASSWORD), method.nonce()
    wrong, right = answer(method, "other", nonce), answer(method, PASSWORD, nonce)
    assert login(stored, nonce, wrong, secure=False) == ([], None)
    assert login(stored, nonce, wrong, b"other\0")[1] is None
    assert login(stored, method.nonce(), right, secure=False) == ([], None)
    assert login(method.decoy(), nonce, right, PASSWORD.encode() + b"\0")[1] is None


@settings(deadline=None, max_examples=90)
@given(
    st.sampled_from([*METHODS.values()]), st.lists(st.binary(max_size=400), min_size=2, max_size=2)
)
def test_any_answers_are_denied(method, given):
    _, verdict = login(method.decoy(), method.nonce(), *given)
    assert verdict is None


@METHOD
def test_what_is_stored_is_read_again(method):
    stored = method.of_password(PASSWORD)
    assert method.of_hash(stored.stored).stored == stored.stored


@METHOD
@each_case("wrong", ["", "x\0y", "x" * (LONGEST_PASSWORD + 1)])
def test_no_account_has_such_a_password(method, wrong):
    with pytest.raises(UsageError) as caught:
        method.of_password(wrong)
    assert "xxx" not in str(caught.value)


@METHOD
@each_case("wrong", [b"", b"*123", b"$A$005$short", b"x" * 43 + b"\n", b"$A$000$" + b"s" * 63])
def test_a_stored_password_of_another_form_is_rejected(method, wrong):
    with pytest.raises(UsageError):
        method.of_hash(wrong)


def test_caching_sha2_in_full_through_tls_then_fast():
    """The full exchange caches the hash; the next login needs the proof alone."""
    stored = CachingSha2Password.of_hash(CachingSha2Password.of_password(PASSWORD).stored)
    nonce = stored.nonce()
    proof = answer(CachingSha2Password, PASSWORD, nonce)
    assert login(stored, nonce, proof, secure=False) == ([], None)
    assert login(stored, nonce, proof, PASSWORD.encode() + b"\0") == ([b"\x01\x04"], b"")
    assert login(stored, nonce, proof, secure=False) == ([], b"\x01\x03")


def test_a_nonce_is_new_each_time_and_printable():
    for method in METHODS.values():
        nonces = {method.nonce() for _ in range(100)}
        assert len(nonces) == 100
        assert all(0x20 < byte < 0x7F for nonce in nonces for byte in nonce)


# --- real servers --------------------------------------------------------------------------------


@each_case("password", ["a", PASSWORD, "x" * 64, "ü" * 100])
def test_what_mysql_stores(mysql97, password):
    mysql97.execute("DROP USER IF EXISTS kept")
    mysql97.execute("CREATE USER kept IDENTIFIED WITH caching_sha2_password BY %s", [password])
    ((raw,),) = mysql97.query(
        "SELECT CAST(authentication_string AS BINARY) FROM mysql.user WHERE user='kept'"
    )
    stored, nonce = CachingSha2Password.of_hash(raw), CachingSha2Password.nonce()
    proof = answer(CachingSha2Password, password, nonce)
    assert login(stored, nonce, proof, password.encode() + b"\0") == ([b"\x01\x04"], b"")
    assert login(stored, nonce, proof, b"other\0")[1] == b"\x01\x03"
    other = CachingSha2Password.of_hash(raw)
    assert login(other, nonce, proof, password.encode() + b"x\0")[1] is None


@each_case("password", ["a", PASSWORD, "ü" * 100])
def test_what_mariadb_stores(mariadb118, password):
    ((native,),) = mariadb118.query("SELECT PASSWORD(%s)", [password])
    assert NativePassword.of_password(password).stored == native.encode()
    mariadb118.execute("INSTALL PLUGIN IF NOT EXISTS ed25519 SONAME 'auth_ed25519'")
    mariadb118.execute("CREATE USER kept IDENTIFIED VIA ed25519 USING PASSWORD(%s)", [password])
    ((key,),) = mariadb118.query("SELECT authentication_string FROM mysql.user WHERE user='kept'")
    assert Ed25519Password.of_password(password).stored == key.encode()
    mariadb118.execute("DROP USER kept")
