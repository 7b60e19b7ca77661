"""How a password is sent to a server: never so that another party can learn it.

The table has what each authentication method sends. It leaves out `mysql_native_password` and
`client_ed25519`, which send a proof, and are PyMySQL's:

==========================  ======================================================================
method                      how the password is sent
==========================  ======================================================================
caching_sha2_password       as a proof; in full only if the server has not cached it: then
                            through TLS or a socket, else encrypted with the public key of
                            ``server-public-key-path``, else not at all
sha256_password             in full: through TLS, else as above, also on a socket
mysql_clear_password,       in full, through TLS with a verified certificate, else not at all
dialog
mysql_old_password          not at all: its proof is easily broken
==========================  ======================================================================

A key that the server sends is not used: an impostor would send a key of its own.
Source: MySQL ``sql-common/client_authentication.cc`` and ``sql/auth/sha2_password.cc``.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final, Protocol

from tailrace.errors import AccessDenied, MalformedPacket, UsageError
from tailrace.extras import importing

with importing("live", "logging in to a server"):
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

_NONCE: Final = 20
_SWITCH: Final = 0xFE
_MORE: Final = 0x01
_CACHED: Final = b"\x01\x03"
_IN_FULL: Final = b"\x01\x04"
_LARGEST_KEY: Final = 64 << 10


def read_public_key(path: str) -> rsa.RSAPublicKey:
    """The RSA public key in a PEM file, as servers keep theirs. Raises UsageError."""
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_LARGEST_KEY)
    except OSError as error:
        raise UsageError(f"server-public-key-path {path}: {error.strerror}") from error
    try:
        key = serialization.load_pem_public_key(raw)
    except ValueError as error:
        raise UsageError(
            f"server-public-key-path {path}: it holds no public key in PEM form"
        ) from error
    if not isinstance(key, rsa.RSAPublicKey):
        raise UsageError(f"server-public-key-path {path}: the key in it is not an RSA key")
    return key


class Login(Protocol):
    """A connection during its login, as `tailrace.live.connect.ServerConnection` is one."""

    name: str
    password: bytes
    public_key: rsa.RSAPublicKey | None
    salt: bytes

    @property
    def is_tls(self) -> bool:
        """Whether it goes through TLS."""

    @property
    def is_socket(self) -> bool:
        """Whether it goes through a socket of this machine, by its path."""

    def exchange(self, answer: bytes | None) -> Any:
        """Send ``answer``, if there is one, and return the next packet."""


class _Way:
    """An authentication method, as PyMySQL calls it: created for a connection, `authenticate`."""

    name = ""
    _trusts_sockets = True

    def __init__(self, connection: Login) -> None:
        self._connection = connection
        self._password: bytes = connection.password

    def authenticate(self, packet: Any) -> Any:
        """Answer the server's packets up to its final one, and return that one."""
        raise NotImplementedError

    def _in_full(self) -> bytes:
        """The password in the form in which this connection may send it. Raises AccessDenied."""
        connection = self._connection
        terminated = self._password + b"\0"
        if connection.is_tls or (connection.is_socket and self._trusts_sockets):
            return terminated
        key = connection.public_key
        if key is None:
            raise AccessDenied(
                f"{connection.name}: the password was not sent: {self.name} needs it in full, and"
                " without TLS others could read it: turn TLS on (ssl-mode=REQUIRED or stricter),"
                " or give the server's public key (server-public-key-path, public_key.pem in its"
                " data folder)"
            )
        nonce = connection.salt[:_NONCE]
        if len(nonce) < _NONCE:
            raise self._malformed(f"a nonce of {len(nonce)} bytes")
        hidden = bytes(letter ^ nonce[at % _NONCE] for at, letter in enumerate(terminated))
        try:
            return key.encrypt(
                hidden,
                padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None),  # noqa: S303 - theirs
            )
        except ValueError as error:
            raise UsageError(
                f"{connection.name}: the password is longer than the public key can encrypt"
            ) from error

    def _take_nonce(self, packet: Any) -> bytes:
        """The nonce of an authentication switch."""
        nonce = bytes(packet.read_all()).removesuffix(b"\0")
        if len(nonce) != _NONCE:
            raise self._malformed(f"a nonce of {len(nonce)} bytes")
        self._connection.salt = nonce
        return nonce

    def _malformed(self, what: str) -> MalformedPacket:
        return MalformedPacket(f"{self._connection.name}: the login by {self.name}: {what}")


class _CachingSha2(_Way):
    name = "caching_sha2_password"

    def authenticate(self, packet: Any) -> Any:
        data = bytes(packet.get_all_data())
        if data[0] == _SWITCH:
            proof = _proof(self._password, self._take_nonce(packet))
            packet = self._connection.exchange(proof)
            data = bytes(packet.get_all_data())
            if data[0] != _MORE:
                return packet
        if data == _CACHED:
            return self._connection.exchange(None)
        if data != _IN_FULL:
            raise self._malformed(f"the server says {data[:8].hex(' ')}")
        return self._connection.exchange(self._in_full() if self._password else b"\0")


class _Sha256(_Way):
    name = "sha256_password"
    _trusts_sockets = False  # its server expects it encrypted there, too

    def authenticate(self, packet: Any) -> Any:
        if packet.get_all_data()[0] == _SWITCH:
            self._take_nonce(packet)
        return self._connection.exchange(self._in_full() if self._password else b"\0")


class _InClear(_Way):
    """`mysql_clear_password` and ``dialog`` if the server's identity was not verified."""

    def authenticate(self, packet: Any) -> Any:
        del packet
        raise AccessDenied(
            f"{self._connection.name}: the password was not sent: the server asks for it in clear"
            f" ({self.name}), and its certificate was not verified: use ssl-mode=VERIFY_CA or"
            " VERIFY_IDENTITY, with ssl-ca"
        )


class _Clear(_InClear):
    name = "mysql_clear_password"


class _Dialog(_InClear):
    name = "dialog"


class _Old(_Way):
    name = "mysql_old_password"

    def authenticate(self, packet: Any) -> Any:
        del packet
        raise AccessDenied(
            f"{self._connection.name}: the password was not sent: the server asks for a proof by"
            " mysql_old_password, which reveals the password: give the account another"
            " authentication method"
        )


def ways(*, verified: bool) -> dict[str, type[_Way]]:
    """PyMySQL's ``auth_plugin_map``; ``verified``: TLS verified the server's identity.

    If it did, `mysql_clear_password` and ``dialog`` are PyMySQL's own.
    """
    own: list[type[_Way]] = [_CachingSha2, _Sha256, _Old]
    if not verified:
        own += [_Clear, _Dialog]
    return {way.name: way for way in own}


def _proof(password: bytes, nonce: bytes) -> bytes:
    """caching_sha2's: SHA256(password) XOR SHA256(SHA256(SHA256(password)) + nonce)."""
    if not password:
        return b""
    once = hashlib.sha256(password).digest()
    twice = hashlib.sha256(once).digest()
    mask = hashlib.sha256(twice + nonce).digest()
    return bytes(a ^ b for a, b in zip(once, mask, strict=True))
