"""A hostile server: what it may do at each point of a conversation.

Behaviours are crossed with points: the greeting, the login, each statement that is asked, the
registration, the dump. The small size has each behaviour once, at a point that the seed chooses,
the full one at every point; mutations of a real dump are drawn from the seed.
"""

from __future__ import annotations

import itertools
import random
import signal
import socket
import struct
import threading
import time
import zlib
from typing import TYPE_CHECKING, Final
from zlib import crc32

import zstandard

import tailrace
import tailrace.live.feed
import tailrace.replication.receiver  # here, and not in the process of each scenario
from tailrace.errors import TailraceError
from tools.campaign.hostile import fake
from tools.campaign.hostile.fake import (
    END,
    NONCE,
    OK,
    PASSWORD,
    FakeServer,
    Talk,
    cell,
    header,
    reaching,
)
from tools.campaign.hostile.scenario import Scenario, command
from tools.campaign.process import TAILRACE, Process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tools.campaign.hostile.fake import Turn

    Reader = Callable[[FakeServer, Path], None]

_MOST_EVENTS: Final = 3000
_MOST_MEGABYTES: Final = 400
_FLOOD: Final = 6.0
"""Seconds after which a server tires of sending without end."""
_LARGEST: Final = 0xFFFFFF
_POINTS: Final = (
    "SET NAMES",
    "SELECT VERSION()",
    "SELECT @@GLOBAL.server_uuid",
    "SELECT @@GLOBAL.gtid_mode",
    "SHOW REPLICAS",
    "SET @master_heartbeat_period",
    "SET @master_binlog_checksum",
    "SELECT @master_binlog_checksum",
    "SET @slave_uuid",
    "SHOW BINARY LOG STATUS",
)
"""Statements that a reader by position asks, whatever comes of them."""
_BY_GTID: Final = ("SELECT @@GLOBAL.gtid_executed", "SELECT @@GLOBAL.gtid_owned")
_RESULTS: Final = (
    "SELECT VERSION()",
    "SELECT @@GLOBAL.server_uuid",
    "SHOW REPLICAS",
    "SELECT @master_binlog_checksum",
    "SHOW BINARY LOG STATUS",
)
"""Those that are answered with rows."""


# --- anywhere ------------------------------------------------------------------------------------


def _close(talk: Talk) -> None:
    del talk


def _reset(talk: Talk) -> None:
    talk.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    talk.sock.close()


def _silent(talk: Talk) -> None:
    talk.wait()


def _sends(*payloads: bytes) -> Turn:
    def turn(talk: Talk) -> None:
        for payload in payloads:
            talk.send(payload)
        talk.wait()

    return turn


def _wrong_sequence(talk: Talk) -> None:
    talk.send(OK, talk.sequence + 5)
    talk.wait()


def _sequence_zero(talk: Talk) -> None:
    talk.send(fake.error(1053, "08S01", "shutdown"), 0)
    talk.wait()


def _announced(talk: Talk) -> None:
    """16 MiB less one are announced, and two dozen bytes come."""
    talk.raw(header(_LARGEST - 1, talk.sequence) + bytes(24))
    talk.wait()


def _chain(talk: Talk) -> None:
    """Packets that go on with one another, without end."""
    end, piece = time.monotonic() + _FLOOD, bytes(_LARGEST)
    for number in itertools.count(talk.sequence):
        talk.raw(header(_LARGEST, number))
        talk.raw(piece)
        if time.monotonic() > end:
            return


def _drip(talk: Talk) -> None:
    """Byte by byte."""
    talk.raw(header(50_000, talk.sequence))
    end = time.monotonic() + _FLOOD
    while time.monotonic() < end:
        talk.raw(b"\x01")
        time.sleep(0.05)


def _flood(payload: bytes, before: tuple[bytes, ...] = ()) -> Turn:
    """The same packet without end."""

    def turn(talk: Talk) -> None:
        for each in before:
            talk.send(each)
        end = time.monotonic() + _FLOOD
        while time.monotonic() < end:
            many = bytearray()
            for _ in range(2000):
                many += header(len(payload), talk.sequence) + payload
                talk.sequence = (talk.sequence + 1) & 0xFF
            talk.raw(bytes(many))

    return turn


def _random(seed: int) -> Turn:
    def turn(talk: Talk) -> None:
        draw = random.Random(seed)
        talk.send(draw.randbytes(draw.choice((1, 2, 7, 40, 300, 70_000))))
        talk.wait()

    return turn


_ERRORS: Final[dict[str, bytes]] = {
    "an ERR packet of one byte": b"\xff",
    "an ERR packet of two": b"\xff\x15",
    "an ERR packet without text": b"\xff\x15\x04#28000",
    "an ERR packet with a cut state": b"\xff\x15\x04#28",
    "an ERR packet of no code": fake.error(0, "HY000", "nothing"),
    "an ERR packet of the last code": fake.error(0xFFFF, "HY000", "too much"),
    "an ERR packet that is no text": fake.error(1045, "28000", b"\xff\xfe\x80"),
    "an ERR packet of many lines": fake.error(1045, "28000", "a\r\nb\n\nc\x85d\u2028e"),
    "an ERR packet with escapes": fake.error(1045, "28000", "\x1b]0;title\x07\x1b[2J\x9b"),
    "an ERR packet of a megabyte": fake.error(1105, "HY000", "x" * (1 << 20)),
}
_ANYWHERE: Final[dict[str, Turn]] = {
    "closes": _close,
    "resets the connection": _reset,
    "says nothing": _silent,
    "sends an empty packet": _sends(b""),
    "sends a wrong sequence number": _wrong_sequence,
    "sends the sequence number 0": _sequence_zero,
    "announces 16 MiB": _announced,
    "ends inside a packet": lambda talk: talk.raw(header(100, talk.sequence) + bytes(10)),
    "ends inside a header": lambda talk: talk.raw(b"\x07\x00"),
    "sends packets without end": _chain,
    "drips": _drip,
    "sends an OK of one byte": _sends(b"\x00"),
    "sends an OK with a cut number": _sends(b"\x00\xfe\x01\x02\x03\x04\x05"),
    "sends an EOF": _sends(END),
    "sends an EOF of one byte": _sends(b"\xfe"),
    "asks for a file": _sends(b"\xfb/etc/passwd"),
    "floods with OK": _flood(OK),
    **{f"sends {name}": _sends(payload) for name, payload in _ERRORS.items()},
}


# --- the greeting --------------------------------------------------------------------------------


def _greets(old: bytes, new: bytes, count: int = 1) -> Turn:
    """The true greeting with some bytes in place of others."""

    def turn(talk: Talk) -> bool:
        talk.send(talk.server.greeting().replace(old, new, count))
        return True

    return turn


def _greets_short(size: int) -> Turn:
    def turn(talk: Talk) -> bool:
        talk.send(talk.server.greeting()[:size])
        return True

    return turn


_GREETINGS: Final[dict[str, Turn]] = {
    **{f"greets with {size} bytes": _greets_short(size) for size in (1, 2, 8, 11, 20, 30, 44)},
    "greets as of protocol 9": _greets(b"\x0a", b"\x09"),
    "greets with no version": _greets(b"9.7.0", b""),
    "greets with a version of words": _greets(b"9.7.0", b"the best"),
    "greets with a version of escapes": _greets(b"9.7.0", b"9\x1b[2J"),
    "greets with a version of lines": _greets(b"9.7.0", b"9.7\nall is well"),
    "greets with a version of a thousand digits": _greets(b"9.7.0", b"9" * 5000),
    "greets without an end of its version": _greets(b"\x00", b"x", 1000),
    "greets with a way that is no text": _greets(b"caching", b"\xff\xfe\x80"),
    "greets with a way that is not known": _greets(b"caching_sha2", b"nothing"),
    "greets with a short nonce": _greets(NONCE[8:], b"ab"),
    "greets with HTTP": lambda talk: talk.raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "greets as SSH": lambda talk: talk.raw(b"SSH-2.0-OpenSSH_9.2p1\r\n"),
}


# --- the login -----------------------------------------------------------------------------------


def _reply(talk: Talk) -> bytes:
    """What the client answers; and what of it the server can decrypt."""
    reply = talk.read()
    talk.server.heard += fake.decrypted(reply)
    return reply


def _switch(way: bytes, nonce: bytes = NONCE + b"\0") -> bytes:
    return b"\xfe" + way + b"\0" + nonce


def _asks(*payloads: bytes) -> Turn:
    """Send each, and take an answer to each; then it is content."""

    def turn(talk: Talk) -> bool:
        for payload in payloads:
            talk.send(payload)
            _reply(talk)
        talk.send(OK)
        return True

    return turn


def _own_key(*before: bytes) -> Turn:
    """After these, send a key of its own for the password in full."""

    def turn(talk: Talk) -> object:
        return _asks(*before, b"\x01" + fake.public_key())(talk)

    return turn


def _asks_on(payload: bytes) -> Turn:
    def turn(talk: Talk) -> None:
        end = time.monotonic() + _FLOOD
        while time.monotonic() < end:
            talk.send(payload)
            _reply(talk)

    return turn


_CLEAR_WAYS: Final = (b"mysql_clear_password", b"dialog", b"mysql_old_password")
_LOGINS: Final[dict[str, Turn]] = {
    "wants the password by its own key": _own_key(b"\x01\x04"),
    "wants the password by its own key, after a switch": _own_key(
        _switch(b"caching_sha2_password"), b"\x01\x04"
    ),
    "wants sha256_password by its own key": _own_key(_switch(b"sha256_password"), b"\x01\x04"),
    "sends its own key unasked": _own_key(),
    **{f"asks for {way.decode()}": _asks(_switch(way)) for way in _CLEAR_WAYS},
    **{
        f"asks for {way.decode()} with a prompt": _asks(_switch(way, b"\x04Password: "))
        for way in _CLEAR_WAYS
    },
    **{
        f"switches, and then asks for {way.decode()}": _asks(
            _switch(b"mysql_native_password"), _switch(way)
        )
        for way in _CLEAR_WAYS
    },
    "asks for mysql_old_password as of old": _asks(b"\xfe"),
    "asks for the password as more data": _asks(b"\x01Password: "),
    "asks for a way that is not known": _asks(_switch(b"parsec")),
    "asks for a way that is no text": _asks(_switch(b"\xff\xfe\x80")),
    "asks for a way without an end": _asks(b"\xfecaching_sha2_password"),
    "asks for a way without a name": _asks(_switch(b"")),
    "asks with an empty nonce": _asks(_switch(b"caching_sha2_password", b"")),
    "asks with a nonce of one byte": _asks(_switch(b"caching_sha2_password", b"a")),
    "asks with an endless nonce": _asks(_switch(b"caching_sha2_password", bytes(60_000))),
    "asks for ed25519": _asks(_switch(b"client_ed25519", bytes(32))),
    "switches for ever": _asks_on(_switch(b"caching_sha2_password")),
    "wants more for ever": _asks_on(b"\x01\x04"),
    "says that it is cached for ever": _flood(b"\x01\x03"),
    "sends more data of one byte": _asks(b"\x01"),
    "sends more data that is not known": _asks(b"\x01\x09\x09"),
}


def _breaks_tls(talk: Talk) -> None:
    talk.raw(b"\x16\x03\x03\x40\x00" + bytes(200))
    talk.wait()


_TLS: Final[dict[str, Turn]] = {
    "breaks TLS": _breaks_tls,
    "says nothing in TLS": _silent,
    "closes in TLS": _close,
    "drips in TLS": _drip,
    "answers TLS in clear": _sends(OK),
}


# --- compression ----------------------------------------------------------------------------------

_COMPRESSES: Final = {"zlib": 0x20, "zstd": 1 << 26}
"""The bits of a greeting that offer it."""


def _squeezed(plain: bytes, way: str, length: int | None = None) -> bytes:
    """A compressed packet, whatever length it says."""
    squeeze = zlib.compress if way == "zlib" else zstandard.ZstdCompressor().compress
    body = squeeze(plain)
    said = len(plain) if length is None else length
    return header(len(body), 1) + said.to_bytes(3, "little") + body


def _after_login(make: Callable[[], bytes], *, times: float = 1) -> Turn:
    """The login is granted, and then come bytes that are to be compressed packets."""

    def turn(talk: Talk) -> None:
        talk.send(b"\x01\x03")
        talk.send(OK)
        talk.sequence = 1
        raw, end, sent = make(), time.monotonic() + _FLOOD, 0
        while sent < times and time.monotonic() < end:
            talk.raw(raw)
            sent += 1
        talk.wait()

    return turn


def _compressed_turns(way: str) -> dict[str, Turn]:
    okay = header(len(OK), 1) + OK
    made: dict[str, Callable[[], bytes]] = {
        "an answer of 16 MiB of zeros": lambda: _squeezed(bytes(_LARGEST), way),
        "64 MiB that say 16": lambda: _squeezed(bytes(64 << 20), way, _LARGEST),
        "16 MiB that say 11 bytes": lambda: _squeezed(bytes(_LARGEST), way, 11),
        "11 bytes that say 16 MiB": lambda: _squeezed(okay, way, _LARGEST),
        "nothing": lambda: header(0, 1) + bytes(3),
        "what is not compressed": lambda: header(len(okay), 1) + b"\xff\0\0" + okay,
        "a packet without its layer": lambda: okay,
        "a packet that is announced": lambda: header(_LARGEST, 1) + b"\xff\xff\xff" + b"x",
        "a cut packet": lambda: _squeezed(okay, way)[:-3],
        "a header that is cut": lambda: header(50, 1) + b"\x01",
        "a packet of another number": lambda: header(len(okay), 77) + bytes(3) + okay,
    }
    turns = {name: _after_login(make) for name, make in made.items()}
    turns["nothing without end"] = _after_login(lambda: (header(0, 1) + bytes(3)) * 9000, times=1e9)
    turns["zeros without end"] = _after_login(lambda: _squeezed(bytes(_LARGEST), way), times=1e9)
    turns["small answers without end"] = _after_login(lambda: _squeezed(okay, way) * 999, times=1e9)
    return turns


# --- rows ----------------------------------------------------------------------------------------

_HUGE: Final = b"\xfe" + struct.pack("<Q", 1 << 62)


def _row(*cells: object, kind: int = 253, charset: int = 255, columns: int = 3) -> Turn:
    """A result set of one row, whatever its columns are to hold."""
    head = [fake.integer(columns), *[fake.column("c", kind, charset)] * columns, END]
    return _sends(*head, b"".join(map(cell, cells)), END)


def _head(columns: int = 1) -> tuple[bytes, ...]:
    return (fake.integer(columns), *[fake.column("c")] * columns, END)


_ROWS: Final[dict[str, Turn]] = {
    "no rows": _sends(*_head(3), END),
    "NULLs": _row(None, None, None),
    "a row that is too short": _sends(*_head(3), cell("9.7.0"), END),
    "an empty row": _sends(*_head(3), b"", END),
    "a row of one column": _row("9.7.0", columns=1),
    "a row of no columns": _sends(b"\x00" * 7),
    "bytes that are no text": _row(b"\xff\xfe", b"\x80", b"\xc3"),
    "bytes as binary": _row(b"\xff\xfe", b"\x80", b"\xc3", charset=63),
    "words for numbers": _row("one", "two", "three", kind=8),
    "words for decimals": _row("one", "two", "three", kind=246),
    "words for doubles": _row("one", "two", "three", kind=5),
    "words for times": _row("one", "99:99:99", "-", kind=12),
    "numbers without end": _row("9" * 6000, "9" * 6000, "9" * 6000, kind=8),
    "numbers below zero": _row("-1", "-1", "-1"),
    "not a number": _row("9.7.0", "nan", "inf"),
    "texts of lines": _row("9\n7", "a\nb", "c\nd"),
    "a value of a megabyte": _row("9" * (1 << 20), "1", "1"),
    "a value that is longer than its row": _sends(*_head(), b"\xfc\xff\xff" + b"abc", END),
    "a value of 2**62 bytes": _sends(*_head(), _HUGE + b"abc", END),
    "a value of a length that is cut": _sends(*_head(), b"\xfe\x01", END),
    "2**62 columns": _sends(_HUGE, fake.column("c"), END),
    "NULL columns": _sends(b"\xfb"),
    "columns of a number that is cut": _sends(b"\xfc\x01"),
    "columns without end": _flood(fake.column("c"), (fake.integer(60_000),)),
    "columns that are cut": _sends(fake.integer(1), fake.column("c")[:9], END),
    "columns whose names are no text": _sends(fake.integer(1), fake.column(b"\xff\xfe"), END),
    "columns without their end": _sends(fake.integer(1), fake.column("c"), cell("x"), END),
    "columns of NULL names": _sends(fake.integer(1), b"\xfb" * 30, END),
    "a column of a type that is not known": _row("a", "b", "c", kind=99),
    "rows without end": _flood(cell("1"), _head()),
    "rows of NULL without end": _flood(b"\xfb", _head()),
    "rows of decimals without end": _flood(
        cell("1") * 64, (fake.integer(64), *[fake.column("c", 246)] * 64, END)
    ),
    "rows of a megabyte without end": _flood(cell("x" * (1 << 16)), _head()),
    "results without end": _flood(b"\x00\x00\x00\x0a\x00\x00\x00"),
    "rows that drip": _drip,
    "an error among the rows": _sends(*_head(), cell("1"), fake.error(1317, "70100", "killed")),
}


# --- the dump ------------------------------------------------------------------------------------


def _dumps(*events: bytes, head: bool = True) -> Turn:
    """A dump of these events, behind a log's name and description; then the end."""

    def turn(talk: Talk) -> None:
        if head:
            FakeServer.event(talk, fake.rotate(talk.server.log, 4))
            FakeServer.event(talk, talk.server.description)
        for each in events:
            FakeServer.event(talk, each)
        talk.send(END)
        talk.wait()

    return turn


def _announces(event: bool = True) -> Turn:
    """An event announces 1 GiB, its packet as much as it can, and little comes."""

    def turn(talk: Talk) -> None:
        FakeServer.event(talk, fake.rotate(talk.server.log, 4))
        if event:
            FakeServer.event(talk, talk.server.description)
        head = struct.pack("<IBIIIH", 0, 30, 1, 1 << 30, 0, 0)
        talk.raw(header(_LARGEST, talk.sequence) + b"\0" + head + b"\0" * 5)
        talk.wait()

    return turn


def _dump_chain(talk: Talk) -> None:
    """An event that never ends."""
    FakeServer.event(talk, fake.rotate(talk.server.log, 4))
    FakeServer.event(talk, talk.server.description)
    head = b"\0" + struct.pack("<IBIIIH", 0, 30, 1, 0xFFFFFFFF, 0, 0)
    talk.raw(header(_LARGEST, talk.sequence) + head + bytes(_LARGEST - len(head)))
    talk.sequence += 1
    _chain(talk)


def _heartbeat(log: bytes = b"binlog.000001", end: int = 200) -> bytes:
    return fake.event(27, log, end=end, flags=0x20)


def _heartbeat_2(body: bytes) -> bytes:
    return fake.event(41, body, flags=0x20)


def _mutated(seed: int) -> Turn:
    """A real dump with bytes that are not as they were."""

    def turn(talk: Talk) -> None:
        draw = random.Random(seed)
        events = [fake.rotate(talk.server.log, 4), talk.server.description]
        events += talk.server.events[:200]
        for _ in range(draw.choice((1, 1, 3, 20))):
            number = draw.randrange(min(draw.choice((3, 20, 200)), len(events)))
            raw = bytearray(events[number])
            kind = draw.randrange(4)
            if not raw:  # cut off whole before
                raw += draw.randbytes(1)
            elif kind == 0:
                raw[draw.randrange(len(raw))] = draw.randrange(256)
            elif kind == 1:
                del raw[draw.randrange(len(raw)) :]
            elif kind == 2:
                raw += draw.randbytes(draw.randrange(1, 40))
            else:
                raw = bytearray(events[draw.randrange(len(events))])
            if draw.random() < 0.7 and len(raw) >= 23:
                raw[9:13] = struct.pack("<I", len(raw))
                raw = bytearray(raw[:-4] + struct.pack("<I", crc32(raw[:-4])))
            events[number] = bytes(raw)
        for each in events:
            FakeServer.event(talk, each)
        talk.send(END)
        talk.wait()

    return turn


def _description(body: bytes) -> bytes:
    return fake.event(15, body, end=4 + 23 + len(body))


_EVENTS: Final[dict[str, Turn]] = {
    "an end at once": _dumps(head=False),
    "an event before a name": _dumps(fake.event(2, b"x"), head=False),
    "a description before a name": _dumps(fake.shop_events("mysql")[0], head=False),
    "a name twice": _dumps(
        fake.rotate("binlog.000001", 4), fake.rotate("binlog.000001", 4), head=False
    ),
    "a name without a name": _dumps(fake.event(4, bytes(8), flags=0x20), head=False),
    "a name of three bytes": _dumps(fake.event(4, bytes(3), flags=0x20), head=False),
    "a name that is no text": _dumps(fake.rotate(b"\xff\xfe.000001", 4), head=False),
    "a name of a megabyte": _dumps(fake.rotate("x" * (1 << 20), 4), head=False),
    "a name whose number has no end": _dumps(fake.rotate("b." + "9" * 6000, 4), head=False),
    "a name at 2**64 - 1": _dumps(fake.rotate("binlog.000001", (1 << 64) - 1), head=False),
    "a name at 2**63": _dumps(
        fake.rotate("binlog.000001", 1 << 63), fake.shop_events("mysql")[0], head=False
    ),
    "a next name at 2**64 - 1": _dumps(fake.rotate("binlog.000002", (1 << 64) - 1)),
    "a ROTATE to 2**64 - 1": _dumps(
        fake.rotate("binlog.000002", (1 << 64) - 1, artificial=False),
        fake.rotate("binlog.000002", (1 << 64) - 1),
        fake.shop_events("mysql")[0],
        fake.event(2, b"x"),
    ),
    "a ROTATE to nowhere": _dumps(fake.event(4, b"", end=200)),
    "a description of nothing": _dumps(
        fake.rotate("binlog.000001", 4), _description(b""), fake.event(2, b"x"), head=False
    ),
    "a description that is cut": _dumps(
        fake.rotate("binlog.000001", 4), _description(bytes(40)), head=False
    ),
    "a description of zeros": _dumps(
        fake.rotate("binlog.000001", 4), _description(bytes(100)), fake.event(2, b"x"), head=False
    ),
    "a description of version 1": _dumps(
        fake.rotate("binlog.000001", 4), _description(b"\1\0" + bytes(98)), head=False
    ),
    "two descriptions": _dumps(fake.shop_events("mysql")[0]),
    "an empty record": _dumps(b""),
    "a record of five bytes": _dumps(b"12345"),
    "an event of 18 bytes": _dumps(bytes(18)),
    "an event that says it is longer": _dumps(fake.event(2, b"x" * 30, size=1 << 20)),
    "an event that says it is of no bytes": _dumps(fake.event(2, b"x" * 30, size=0)),
    "an event that announces 1 GiB": _announces(),
    "a description that announces 1 GiB": _announces(event=False),
    "an event without end": _dump_chain,
    "an event with a wrong checksum": _dumps(fake.event(2, b"x" * 30)[:-4] + b"abcd"),
    "an event of a type that is not known": _dumps(fake.event(200, b"x" * 30)),
    "an event of type 0": _dumps(fake.event(0, b"x" * 30)),
    "an event elsewhere": _dumps(fake.event(2, b"x" * 30, end=1 << 20)),
    "a heartbeat elsewhere": _dumps(_heartbeat(b"binlog.000009", 4000)),
    "a heartbeat without a name": _dumps(_heartbeat(b"")),
    "a heartbeat without a place": _dumps(_heartbeat(b"binlog.000001", 0)),
    "a heartbeat of version 2 that is cut": _dumps(_heartbeat_2(b"\x01\x20abc")),
    "a heartbeat of version 2 with a NULL": _dumps(_heartbeat_2(b"\xfb\xfb\xfb")),
    "a heartbeat of version 2 with no length": _dumps(_heartbeat_2(b"\x02")),
    "a heartbeat of version 2 at 2**64 - 1": _dumps(
        _heartbeat_2(b"\x01\x0dbinlog.000001\x02\x09\xfe" + b"\xff" * 8 + b"\0")
    ),
    "a GTID list of MariaDB": _dumps(
        fake.event(163, struct.pack("<I", 0x0FFFFFFF) + bytes(40), end=400)
    ),
    "PREVIOUS_GTIDS that are cut": _dumps(fake.event(35, b"\xff" * 12, end=0)),
    "a payload of 2**62 bytes": _dumps(fake.event(40, b"\x02\x01\x00\x03\x09" + _HUGE + b"\0")),
    "a table map of 2**62 columns": _dumps(
        fake.event(19, bytes(8) + b"\x01a\0\x01b\0" + _HUGE + bytes(20))
    ),
    "an ERR packet": _sends(fake.error(1236, "HY000", "Could not find first log file name")),
    "an ERR packet that is cut": _sends(b"\xff\x01"),
    "a record of another kind": _sends(b"\x42" + bytes(50)),
    "an OK and silence": _sends(b"\x00"),
    "heartbeats without end": _flood(
        b"\0" + _heartbeat(end=0),
        (b"\0" + fake.rotate("binlog.000001", 4), b"\0" + fake.shop_events("mysql")[0]),
    ),
    "names without end": _flood(b"\0" + fake.rotate("binlog.000001", 4)),
    "mutations": _mutated(0),
}


# --- readers -------------------------------------------------------------------------------------


def _opens(name: str, options: str = "") -> Reader:
    def read(server: FakeServer, folder: Path) -> None:
        del folder
        with tailrace.open(server.url(options)) as log:
            for event in itertools.islice(log, _MOST_EVENTS):
                str(event)

    read.__name__ = name
    return read


_events, _by_gtid = _opens("events"), _opens("by_gtid", "gtid=")
_zlib, _zstd = _opens("zlib", "compress=zlib"), _opens("zstd", "compress=zstd")
_now = _opens("now", "start=now")


def _several_hosts(server: FakeServer, folder: Path) -> None:
    """By GTID from the oldest on, which a reader has to ask for first."""
    del folder
    url = server.url().replace("/?", f",localhost:{server.port}/?")
    for _ in itertools.islice(tailrace.open(url), _MOST_EVENTS):
        pass


def _changes(server: FakeServer, folder: Path) -> None:
    del folder
    for _ in itertools.islice(tailrace.changes(server.url()), _MOST_EVENTS):
        pass


def _receive(server: FakeServer, folder: Path) -> None:
    tailrace.receive(server.url(), folder / "copy", follow=False)


def _semisync(server: FakeServer, folder: Path) -> None:
    from tailrace.observers import find  # noqa: PLC0415 - with PyMySQL

    observers = find(["semisync.replica"])
    tailrace.receive(server.url(), folder / "copy", follow=False, observers=observers)


def _log_command(server: FakeServer, folder: Path) -> None:
    del folder
    text = command("log", server.url(), accept=(0, 1, 2))
    assert PASSWORD not in text


def _runs(verb: str, into: str = "") -> Reader:
    def run(server: FakeServer, folder: Path) -> None:
        more: tuple[str | Path, ...] = ("--into", folder / into) if into else ()
        command(verb, server.url(), *more)

    run.__name__ = f"{verb}_command"
    return run


_stat_command = _runs("stat")
_receive_command, _mirror_command = _runs("receive", "copy"), _runs("mirror", "lake")


_OF_MARIADB: Final[dict[str, Reader]] = {
    "SELECT VERSION()": _by_gtid,
    "SHOW SLAVE HOSTS": _by_gtid,
    "SELECT @@GLOBAL.gtid_binlog_state": _by_gtid,
    "SELECT @master_binlog_checksum": _by_gtid,
    "SET @slave_connect_state": _by_gtid,
    "SHOW MASTER STATUS": _events,
    "SHOW BINARY LOGS": _several_hosts,
    "SELECT BINLOG_GTID_POS": _several_hosts,
}
"""Who asks a MariaDB what."""
_OBJECTS: Final[tuple[Reader, ...]] = (_events, _by_gtid, _receive, _semisync)
_READERS: Final[tuple[Reader, ...]] = (*_OBJECTS, _changes)
_COMMANDS: Final[tuple[Reader, ...]] = (_log_command, _stat_command, _receive_command)
_SLOW: Final = 120.0


def _stopped(verb: tuple[str, ...], point: str) -> Callable[[Path], None]:
    """A command whose server says nothing is told to end, and does."""

    def run(folder: Path) -> None:
        there = threading.Event()

        def reached(talk: Talk) -> None:
            there.set()
            talk.wait()

        with FakeServer({point: reached}) as server:
            url = f"mysql://u@127.0.0.1:{server.port}/?connect_timeout=300"
            more = [] if verb[0] == "log" else ["--follow", "--into", str(folder / "copy")]
            own = Process(folder / "said", [*TAILRACE, *verb, url, *more])
            own.start()
            try:
                assert there.wait(60), f"it does not come to {point}"
                process = own.running
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) in {0, -signal.SIGTERM}
            finally:
                own.kill()

    return run


# --- scenarios -----------------------------------------------------------------------------------


def _scenario(
    name: str,
    turns: dict[str, Turn],
    reader: Reader,
    *,
    options: Mapping[str, object] | None = None,
    seconds: float = 20,
    megabytes: int = _MOST_MEGABYTES,
) -> Scenario:
    def run(folder: Path) -> None:
        for number, server in enumerate(reaching(turns, **(options or {}))):
            ended = None
            own = folder / str(number)
            own.mkdir()
            try:
                reader(server, own)
            except TailraceError as error:
                ended = error
            assert PASSWORD.encode() not in server.heard, "the password was given away"
        if ended is not None:
            raise ended

    return Scenario(f"{name} ({reader.__name__.strip('_')})", run, seconds, megabytes)


def scenarios(size: str, seed: int) -> Iterator[Scenario]:
    """Those of a size; see the module."""
    draw = random.Random(seed)
    full = size == "full"
    yield from _entering(full=full, draw=draw)
    yield from _asking(full=full, draw=draw)
    yield from _dumping(full=full, draw=draw)
    yield from _through_commands(full=full)


def _entering(*, full: bool, draw: random.Random) -> Iterator[Scenario]:
    for name, turn in _GREETINGS.items():
        yield _scenario(name, {"greeting": turn}, _events)
    for name, turn in _LOGINS.items():
        ways = ("caching_sha2_password", "sha256_password", "mysql_native_password")
        for way in ways if full else ways[:1]:
            yield _scenario(f"{way}: {name}", {"login": turn}, _events, options={"way": way})
    for clear in _CLEAR_WAYS:  # encrypted, but to whom?
        turns: dict[str, Turn] = {"login": _asks(_switch(clear))}
        name = f"through TLS it asks for {clear.decode()}"
        yield _scenario(name, turns, _events, options={"tls": True})
    for name, turn in _TLS.items():
        yield _scenario(name, {"tls": turn}, _events, options={"tls": True})
    for reader in (_zlib, _zstd):
        way = reader.__name__.strip("_")
        for name, turn in _compressed_turns(way).items():
            options = {"offers": _COMPRESSES[way]}
            yield _scenario(f"compressed: {name}", {"login": turn}, reader, options=options)
    if full:
        for point in ("greeting", "login"):
            for number in range(20):
                turn = _random(draw.randrange(1 << 30))
                yield _scenario(f"{point}: random {number}", {point: turn}, _events)


def _asking(*, full: bool, draw: random.Random) -> Iterator[Scenario]:
    points = ("greeting", "login", "register", "dump", *_POINTS)
    for name, turn in _ANYWHERE.items():
        for point in points if full else (draw.choice(points),):
            reader = _now if "STATUS" in point else _events
            yield _scenario(f"{point}: {name}", {point: turn}, reader)
    for name, turn in _ROWS.items():
        for point in (*_RESULTS, *_BY_GTID) if full else (draw.choice(_RESULTS),):
            reader = _now if "STATUS" in point else _by_gtid if "gtid" in point else _events
            yield _scenario(f"{point}: {name}", {point: turn}, reader)
    if full:
        for name, turn in _ROWS.items():
            for point, asking in _OF_MARIADB.items():
                options = {"flavour": "mariadb"}
                yield _scenario(f"mariadb: {point}: {name}", {point: turn}, asking, options=options)
            for point, asking in (
                ("SELECT @@GLOBAL.gtid_purged", _several_hosts),
                ("SELECT @@global.rpl", _semisync),
            ):
                yield _scenario(f"{point}: {name}", {point: turn}, asking)


def _dumping(*, full: bool, draw: random.Random) -> Iterator[Scenario]:
    for number, (name, turn) in enumerate(_EVENTS.items()):
        # Kernels take a second to load.
        one = _changes if number % 8 == 5 else _OBJECTS[number % len(_OBJECTS)]
        readers = _READERS if full else (one,)
        for reader in readers:
            # What observers take off an event is theirs to know: it may have 1 GiB until then.
            whole = reader is _semisync and turn is _dump_chain
            most = 2200 if whole else _MOST_MEGABYTES
            yield _scenario(f"dump: {name}", {"dump": turn}, reader, megabytes=most)
    readers = _READERS if full else _OBJECTS
    for number in range(100 if full else 4):
        turn = _mutated(draw.randrange(1 << 30))
        reader = readers[number % len(readers)]
        for flavour in fake.VERSIONS if full else ("mysql",):
            name = f"dump: mutation {number} of {flavour}"
            yield _scenario(name, {"dump": turn}, reader, options={"flavour": flavour})


def _through_commands(*, full: bool) -> Iterator[Scenario]:
    """Some through the commands: each starts a process."""
    own_key = "wants the password by its own key"
    chosen: list[tuple[str, str, Turn]] = [
        (own_key, "login", _LOGINS[own_key]),
        ("rows without end", "SHOW REPLICAS", _ROWS["rows without end"]),
        ("an error of many lines", "SHOW REPLICAS", _ANYWHERE["sends an ERR packet of many lines"]),
        ("an event that announces 1 GiB", "dump", _EVENTS["an event that announces 1 GiB"]),
        ("a name that is no text", "dump", _EVENTS["a name that is no text"]),
        ("asks for a file", "SELECT VERSION()", _ANYWHERE["asks for a file"]),
    ]
    for number, (name, point, turn) in enumerate(chosen):
        for reader in _COMMANDS if full else (_COMMANDS[number % 3],) if number < 3 else ():
            yield _scenario(f"{point}: {name}", {point: turn}, reader, seconds=60)
        if full:
            yield _scenario(f"{point}: {name}", {point: turn}, _mirror_command, seconds=_SLOW)
    verbs = (("receive",), ("log", "--follow"))
    for verb in verbs if full else verbs[:1]:
        for point in ("greeting", "SELECT VERSION()") if full else ("greeting",):
            name = f"{' '.join(verb)} is told to end while {point} is silent"
            yield Scenario(name, _stopped(verb, point), 120)
