"""A login's packets, both ways: the source's greeting, the client's answer, what follows them.

Facts sheet 4.2. These are payloads; `tailrace.wire.packets.frame` makes packets of them. ``decode``
raises MalformedPacket, ``encode`` UsageError for a value that does not fit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntFlag
from typing import TYPE_CHECKING, Final, Self

from tailrace.errors import UsageError
from tailrace.events.fields import Builder
from tailrace.wire.packets import AUTOCOMMIT, PacketCursor, name, number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.wire.packets import Data

UTF8MB4: Final = 45
"""The character set ``utf8mb4`` with the collation ``utf8mb4_general_ci``: all releases have it."""
_VERSION: Final = 10
_SALT_FIRST: Final = 8
_SALT_LAST: Final = 13
_LONGEST: Final = 255
_OK: Final = 0x00
_MORE: Final = 0x01
_SWITCH: Final = 0xFE


class Capability(IntFlag):
    """What the two sides of a connection are capable of; each side names those that it has."""

    LONG_PASSWORD = 1
    """MySQL and its clients; MariaDB leaves it out and has capabilities of its own instead."""
    CONNECT_WITH_DB = 1 << 3
    COMPRESS = 1 << 5
    PROTOCOL_41 = 1 << 9
    SSL = 1 << 11
    TRANSACTIONS = 1 << 13
    SECURE_CONNECTION = 1 << 15
    PLUGIN_AUTH = 1 << 19
    CONNECT_ATTRS = 1 << 20
    PLUGIN_AUTH_LENENC = 1 << 21
    SESSION_TRACK = 1 << 23
    DEPRECATE_EOF = 1 << 24
    ZSTD = 1 << 26


@dataclass(frozen=True, slots=True)
class Handshake:
    """HandshakeV10: the source's first packet.

    ``nonce`` is the 20 bytes that the client's proof is made of, without the NUL after them, and
    ``plugin`` the authentication method that it is meant for. ``mariadb_capabilities`` are sent by
    a source without LONG_PASSWORD only.
    """

    version: str
    thread_id: int
    nonce: bytes = field(repr=False)
    capabilities: int
    plugin: str
    charset: int = UTF8MB4
    status: int = AUTOCOMMIT
    mariadb_capabilities: int = 0

    @classmethod
    def decode(cls, payload: Data) -> Self:
        """From a payload."""
        cursor = PacketCursor("a handshake", bytes(payload))
        cursor.expect(_VERSION, "the protocol's version")
        version = cursor.terminated("the source's version")
        thread_id = cursor.u32("the thread's id")
        first = cursor.take(_SALT_FIRST, "the nonce")
        cursor.skip(1, "the byte after the nonce")
        low = cursor.u16("the capabilities")
        charset = cursor.u8("the character set")
        status = cursor.u16("the status")
        capabilities = low | cursor.u16("the upper capabilities") << 16
        size = cursor.u8("the nonce's length")
        cursor.skip(6, "what is reserved")
        mariadb = cursor.u32("MariaDB's capabilities")
        if capabilities & Capability.LONG_PASSWORD:
            mariadb = 0
        rest = cursor.take(max(_SALT_LAST, size - _SALT_FIRST), "the nonce's second part")
        plugin = (
            cursor.terminated("the authentication method")
            if capabilities & Capability.PLUGIN_AUTH
            else ""
        )
        nonce = first + rest.removesuffix(b"\0")
        return cls(version, thread_id, nonce, capabilities, plugin, charset, status, mariadb)

    def encode(self) -> bytes:
        """The inverse of `decode`."""
        if len(self.nonce) != _SALT_FIRST + _SALT_LAST - 1:
            raise UsageError(f"a handshake's nonce has 20 bytes, not {len(self.nonce)}")
        capabilities = number(self.capabilities, "the capabilities", 4)
        extended = 0 if self.capabilities & Capability.LONG_PASSWORD else self.mariadb_capabilities
        parts = [
            bytes((_VERSION,)),
            name(self.version, "the source's version", _LONGEST) + b"\0",
            number(self.thread_id, "the thread's id", 4),
            self.nonce[:_SALT_FIRST] + b"\0",
            capabilities[:2],
            number(self.charset, "the character set", 1),
            number(self.status, "the status", 2),
            capabilities[2:],
            bytes((len(self.nonce) + 1,)),
            bytes(6),
            number(extended, "MariaDB's capabilities", 4),
            self.nonce[_SALT_FIRST:] + b"\0",
        ]
        if self.capabilities & Capability.PLUGIN_AUTH:
            parts.append(name(self.plugin, "the authentication method", _LONGEST) + b"\0")
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class TlsRequest:
    """SSLRequest: the client's wish to continue with TLS on the same socket.

    Its fields are those with which a `HandshakeResponse` begins. In its place the client sends
    that; `is_tls_request` tells them apart.
    """

    capabilities: int
    largest_packet: int = 1 << 24
    charset: int = UTF8MB4
    mariadb_capabilities: int = 0

    @classmethod
    def decode(cls, payload: Data) -> Self:
        """From a payload."""
        cursor = PacketCursor("a request for TLS", bytes(payload))
        fields = _client_head(cursor)
        cursor.finish("what is reserved")
        return cls(*fields)

    def encode(self) -> bytes:
        """The inverse of `decode`."""
        return _encoded_head(self)


def is_tls_request(payload: Data) -> bool:
    """Whether a client's answer to the handshake is a `TlsRequest`."""
    low = int.from_bytes(bytes(memoryview(payload)[:2]), "little")
    return len(payload) == _HEAD_SIZE and bool(low & Capability.SSL)


@dataclass(frozen=True, slots=True)
class HandshakeResponse:
    """HandshakeResponse41: who the client is, and its answer to the nonce.

    ``answer`` is that of the method ``plugin``. A client without the capability PLUGIN_AUTH names
    none: then it is ``mysql_native_password``.
    """

    capabilities: int
    user: str
    answer: bytes = field(repr=False)
    plugin: str = ""
    database: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    largest_packet: int = 1 << 24
    charset: int = UTF8MB4
    mariadb_capabilities: int = 0

    @classmethod
    def decode(cls, payload: Data, offered: int = 0xFFFFFFFF) -> Self:
        """From a payload; what the client is capable of counts where the source ``offered`` it."""
        cursor = PacketCursor("a handshake's response", bytes(payload))
        capabilities, largest, charset, mariadb = _client_head(cursor)
        capabilities &= offered
        if not capabilities & Capability.PROTOCOL_41:
            cursor.error(0, "the client lacks protocol 4.1")
        user = cursor.terminated("the user")
        if capabilities & Capability.PLUGIN_AUTH_LENENC:
            answer = cursor.lenenc_bytes("the answer")
        elif capabilities & Capability.SECURE_CONNECTION:
            answer = cursor.take(cursor.u8("the answer's length"), "the answer")
        else:
            answer = cursor.terminated_bytes("the answer")
        database = plugin = ""
        if capabilities & Capability.CONNECT_WITH_DB:
            database = cursor.terminated("the database")
        if capabilities & Capability.PLUGIN_AUTH:
            plugin = cursor.terminated("the authentication method")
        attributes: dict[str, str] = {}
        if capabilities & Capability.CONNECT_ATTRS:
            inner = PacketCursor("the connection's attributes", cursor.lenenc_bytes("attributes"))
            while inner.remaining:
                key = inner.lenenc_bytes("an attribute's name").decode(errors="backslashreplace")
                value = inner.lenenc_bytes("an attribute's value")
                attributes[key] = value.decode(errors="backslashreplace")
        if capabilities & Capability.ZSTD:
            cursor.skip(1, "the level of compression")
        cursor.finish("what a response ends with")
        return cls(
            capabilities, user, answer, plugin, database, attributes, largest, charset, mariadb
        )

    def encode(self) -> bytes:
        """The inverse of `decode`; the level of compression is zstd's default."""
        out = Builder()
        if self.capabilities & Capability.PLUGIN_AUTH_LENENC:
            out.lenenc_bytes(self.answer, "the answer")
        elif self.capabilities & Capability.SECURE_CONNECTION:
            out.raw(number(len(self.answer), "the answer's length", 1) + self.answer, "the answer")
        else:
            out.raw(self.answer + b"\0", "the answer")
        if self.capabilities & Capability.CONNECT_WITH_DB:
            out.raw(name(self.database, "the database", _LONGEST) + b"\0", "the database")
        if self.capabilities & Capability.PLUGIN_AUTH:
            out.raw(name(self.plugin, "the method", _LONGEST) + b"\0", "the method")
        if self.capabilities & Capability.CONNECT_ATTRS:
            inner = Builder()
            for key, value in self.attributes.items():
                inner.lenenc_bytes(key.encode(), "an attribute's name")
                inner.lenenc_bytes(value.encode(), "an attribute's value")
            out.lenenc_bytes(inner.done(), "the attributes")
        if self.capabilities & Capability.ZSTD:
            out.u8(3, "the level of compression")
        return _encoded_head(self) + name(self.user, "the user", _LONGEST) + b"\0" + out.done()


@dataclass(frozen=True, slots=True)
class AuthSwitch:
    """AuthSwitchRequest: the account has another method, and ``data`` for it.

    That is a nonce: of 20 bytes and a NUL, or for `client_ed25519` of 32 bytes.
    """

    plugin: str
    data: bytes = field(repr=False)

    @classmethod
    def decode(cls, payload: Data) -> Self:
        """From a payload."""
        cursor = PacketCursor("a switch of the authentication method", bytes(payload))
        cursor.expect(_SWITCH, "its first byte")
        plugin = cursor.terminated("the authentication method")
        return cls(plugin, cursor.rest())

    def encode(self) -> bytes:
        """The inverse of `decode`."""
        plugin = name(self.plugin, "the authentication method", _LONGEST)
        return bytes((_SWITCH,)) + plugin + b"\0" + self.data


def more_data(data: bytes) -> bytes:
    """AuthMoreData, which a method sends between its first question and its verdict."""
    return bytes((_MORE,)) + data


@dataclass(frozen=True, slots=True)
class OkPacket:
    """OK, without the parts that SESSION_TRACK adds."""

    affected: int = 0
    inserted: int = 0
    status: int = AUTOCOMMIT
    warnings: int = 0
    info: bytes = b""

    @classmethod
    def decode(cls, payload: Data) -> Self:
        """From a payload."""
        cursor = PacketCursor("an OK packet", bytes(payload))
        cursor.expect(_OK, "its first byte")
        affected = cursor.lenenc("the number of rows")
        inserted = cursor.lenenc("the inserted id")
        status = cursor.u16("the status")
        warnings = cursor.u16("the number of warnings")
        return cls(affected, inserted, status, warnings, cursor.rest())

    def encode(self) -> bytes:
        """The inverse of `decode`."""
        out = Builder()
        out.u8(_OK, "its first byte")
        out.lenenc(self.affected, "the number of rows")
        out.lenenc(self.inserted, "the inserted id")
        out.u16(self.status, "the status")
        out.u16(self.warnings, "the number of warnings")
        out.raw(self.info, "the message")
        return out.done()


_HEAD_SIZE: Final = 32


def _client_head(cursor: PacketCursor) -> tuple[int, int, int, int]:
    """Capabilities, largest packet, character set, MariaDB's capabilities."""
    capabilities = cursor.u32("the capabilities")
    largest = cursor.u32("the largest packet")
    charset = cursor.u8("the character set")
    cursor.skip(19, "what is reserved")
    mariadb = cursor.u32("MariaDB's capabilities")
    own = capabilities & Capability.LONG_PASSWORD
    return capabilities, largest, charset, 0 if own else mariadb


def _encoded_head(packet: TlsRequest | HandshakeResponse) -> bytes:
    own = packet.capabilities & Capability.LONG_PASSWORD
    mariadb = 0 if own else packet.mariadb_capabilities
    return b"".join(
        [
            number(packet.capabilities, "the capabilities", 4),
            number(packet.largest_packet, "the largest packet", 4),
            number(packet.charset, "the character set", 1),
            bytes(19),
            number(mariadb, "MariaDB's capabilities", 4),
        ]
    )
