"""Passwords, verified as a source verifies them: by what servers store, never in clear.

==========================  =======================================================================
method                      what is stored (``mysql.user.authentication_string``), and the answer
==========================  =======================================================================
mysql_native_password       ``*`` and the hexadecimal SHA1(SHA1(password)); a proof
caching_sha2_password       ``$A$005$``, 20 bytes of salt, 43 characters of SHA256-crypt; a proof
                            against a cached hash, or through TLS only the password itself
ed25519 (MariaDB)           43 characters, the public key in base64; a signature
==========================  =======================================================================

Sources: MySQL ``sql/auth/sha2_password.cc`` and ``mysys/crypt_genhash_impl.cc``, MariaDB
``plugin/auth_ed25519``; facts sheet 4.2.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final, Self

from tailrace.errors import UsageError
from tailrace.extras import importing
from tailrace.wire.handshake import more_data

if TYPE_CHECKING:
    from collections.abc import Generator

    Verification = Generator[bytes | None, bytes, bytes | None]
    """Of `StoredPassword.verify`."""

LONGEST_PASSWORD: Final = 256
"""Bytes of the longest password that is verified in full, as MySQL has it."""


class StoredPassword(ABC):
    """What a source knows of an account's password: enough to verify it, too little to log in.

    ``plugin`` is the method's name on the wire, ``stored_as`` its name in ``mysql.user``.
    """

    plugin: ClassVar[str]
    stored_as: ClassVar[str]
    nonce_size: ClassVar[int] = 20
    nonce_end: ClassVar[bytes] = b"\0"
    """What is sent after a nonce when the client is switched to the method."""

    @classmethod
    @abstractmethod
    def of_hash(cls, stored: bytes) -> Self:
        """From what a server stores. Raises UsageError, which does not quote it."""

    @classmethod
    @abstractmethod
    def of_password(cls, password: str) -> Self:
        """From the password itself. Raises UsageError for an empty one."""

    @classmethod
    @abstractmethod
    def decoy(cls) -> Self:
        """A password that nobody has, for accounts that do not exist."""

    @property
    @abstractmethod
    def stored(self) -> bytes:
        """What a server stores; the inverse of `of_hash`."""

    @abstractmethod
    def verify(self, nonce: bytes, *, secure: bool) -> Verification:
        """A login, as a generator. It is sent the client's answers to the ``nonce``.

        It yields the payloads to send before each further answer (None before the first), and
        returns the payload to send before OK (empty for none), or None for a login that is denied.
        ``secure``: others cannot read what the client sends.
        """

    @classmethod
    def nonce(cls) -> bytes:
        """A new nonce: printable bytes, as clients may take it for a text that ends with a NUL."""
        return bytes(secrets.choice(range(0x21, 0x7F)) for _ in range(cls.nonce_size))


class NativePassword(StoredPassword):
    """``mysql_native_password``."""

    plugin = stored_as = "mysql_native_password"

    def __init__(self, twice: bytes) -> None:
        self._twice = twice

    @classmethod
    def of_hash(cls, stored: bytes) -> Self:
        if not re.fullmatch(rb"\*[0-9A-Fa-f]{40}", stored):
            raise _no_hash(cls.stored_as, "an asterisk and 40 hexadecimal digits")
        return cls(bytes.fromhex(stored[1:].decode()))

    @classmethod
    def of_password(cls, password: str) -> Self:
        return cls(_sha1(_sha1(_checked(password))))

    @classmethod
    def decoy(cls) -> Self:
        return cls(secrets.token_bytes(20))

    @property
    def stored(self) -> bytes:
        return b"*" + self._twice.hex().upper().encode()

    def verify(self, nonce: bytes, *, secure: bool) -> Verification:
        del secure
        answer = yield None
        if len(answer) != 20:
            return None
        once = _xor(answer, _sha1(nonce + self._twice))
        return b"" if hmac.compare_digest(_sha1(once), self._twice) else None


class CachingSha2Password(StoredPassword):
    """``caching_sha2_password``: the first login of an account goes through TLS.

    Then SHA256(SHA256(password)) is cached, against which a proof is verified. Without TLS and a
    cached hash a login is denied: the RSA exchange that MySQL also has is not offered.
    """

    plugin = stored_as = "caching_sha2_password"
    _FAST: ClassVar = b"\x03"
    _IN_FULL: ClassVar = b"\x04"

    def __init__(self, rounds: int, salt: bytes, digest: bytes) -> None:
        self._rounds = rounds
        self._salt = salt
        self._digest = digest
        self._cached: bytes | None = None

    @classmethod
    def of_hash(cls, stored: bytes) -> Self:
        match = re.fullmatch(
            rb"\$A\$([0-9A-F]{3})\$([^\0]{20})([./0-9A-Za-z]{43})", stored, re.DOTALL
        )
        if match is None or not int(match[1], 16):
            raise _no_hash(cls.stored_as, "$A$005$, 20 bytes of salt, 43 characters of hash")
        return cls(int(match[1], 16), match[2], match[3])

    @classmethod
    def of_password(cls, password: str) -> Self:
        raw = _checked(password)
        salt = cls.nonce()
        made = cls(5, salt, _sha256_crypt(raw, salt, 5000))
        made._cached = _sha256(_sha256(raw))
        return made

    @classmethod
    def decoy(cls) -> Self:
        return cls(5, cls.nonce(), b"x" * 43)

    @property
    def stored(self) -> bytes:
        return b"$A$%03X$%s%s" % (self._rounds, self._salt, self._digest)

    def verify(self, nonce: bytes, *, secure: bool) -> Verification:
        answer = yield None
        if len(answer) != 32:  # an empty password, which no account has
            return None
        if self._cached is not None:
            once = _xor(answer, _sha256(self._cached + nonce))
            if hmac.compare_digest(_sha256(once), self._cached):
                return more_data(self._FAST)
        if not secure:
            return None
        answer = yield more_data(self._IN_FULL)
        if not 1 < len(answer) <= LONGEST_PASSWORD + 1 or answer[-1]:
            return None
        password = answer[:-1]
        digest = _sha256_crypt(password, self._salt, self._rounds * 1000)
        if not hmac.compare_digest(digest, self._digest):
            return None
        self._cached = _sha256(_sha256(password))
        return b""


class Ed25519Password(StoredPassword):
    """MariaDB's ``ed25519``; the client's part of it is called ``client_ed25519``."""

    plugin = "client_ed25519"
    stored_as = "ed25519"
    nonce_size = 32
    nonce_end = b""

    def __init__(self, key: bytes) -> None:
        with importing("live", "a login by ed25519"):
            from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
                Ed25519PublicKey,
            )
        self._raw = key
        self._key = Ed25519PublicKey.from_public_bytes(key)

    @classmethod
    def of_hash(cls, stored: bytes) -> Self:
        try:
            key = base64.b64decode(stored + b"=", validate=True)
        except binascii.Error:
            key = b""
        if len(stored) != 43 or len(key) != 32:
            raise _no_hash(cls.stored_as, "43 characters in base64")
        return cls(key)

    @classmethod
    def of_password(cls, password: str) -> Self:
        with importing("live", "a login by ed25519"):
            from nacl.bindings import crypto_scalarmult_ed25519_base  # noqa: PLC0415
        # The hash of the password takes the place of a seed's; the call sets the fixed bits.
        secret = hashlib.sha512(_checked(password)).digest()[:32]
        return cls(crypto_scalarmult_ed25519_base(secret))

    @classmethod
    def decoy(cls) -> Self:
        return cls.of_password(secrets.token_hex())

    @property
    def stored(self) -> bytes:
        return base64.b64encode(self._raw).rstrip(b"=")

    def verify(self, nonce: bytes, *, secure: bool) -> Verification:
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - as in __init__

        del secure
        answer = yield None
        if len(answer) != 64:
            return None
        try:
            self._key.verify(answer, nonce)
        except InvalidSignature:
            return None
        return b""


METHODS: Final[dict[str, type[StoredPassword]]] = {
    method.stored_as: method for method in (CachingSha2Password, NativePassword, Ed25519Password)
}
"""By the name that ``mysql.user`` has for it."""


def _checked(password: str) -> bytes:
    raw = password.encode()
    if not raw or b"\0" in raw or len(raw) > LONGEST_PASSWORD:
        raise UsageError(f"a password has 1 to {LONGEST_PASSWORD} bytes, none of them 0")
    return raw


def _no_hash(method: str, form: str) -> UsageError:
    return UsageError(f"the stored password is none of {method}: that has {form}")


def _sha1(raw: bytes) -> bytes:
    return hashlib.sha1(raw, usedforsecurity=False).digest()


def _sha256(raw: bytes) -> bytes:
    return hashlib.sha256(raw).digest()


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


_ALPHABET: Final = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ORDER: Final = (
    *((0, 10, 20), (21, 1, 11), (12, 22, 2), (3, 13, 23), (24, 4, 14), (15, 25, 5), (6, 16, 26)),
    *((27, 7, 17), (18, 28, 8), (9, 19, 29)),
)


def _sha256_crypt(password: bytes, salt: bytes, rounds: int) -> bytes:
    """The 43 characters of Ulrich Drepper's SHA256-crypt, with MySQL's salt of 20 bytes."""
    size = len(password)
    inner = _sha256(password + salt + password)
    text = password + salt + (inner * (size // 32 + 1))[:size]
    bits = size
    while bits:
        text += inner if bits & 1 else password
        bits >>= 1
    digest = _sha256(text)
    p = (_sha256(password * size) * (size // 32 + 1))[:size]
    s = _sha256(salt * (16 + digest[0]))[: len(salt)]
    for number in range(rounds):
        text = p if number & 1 else digest
        if number % 3:
            text += s
        if number % 7:
            text += p
        digest = _sha256(text + (digest if number & 1 else p))
    out = bytearray()
    for a, b, c in _ORDER:
        out += _base64(digest[a] << 16 | digest[b] << 8 | digest[c], 4)
    return bytes(out + _base64(digest[31] << 8 | digest[30], 3))


def _base64(value: int, count: int) -> bytes:
    return bytes(_ALPHABET[value >> 6 * at & 63] for at in range(count))
