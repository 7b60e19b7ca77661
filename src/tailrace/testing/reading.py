"""Checks of what a stream reads."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from tailrace.errors import StorageError, UsageError
from tailrace.storage.streams.base import RandomInput, RandomOutput, SeekableInput
from tailrace.testing.content import ANY_BYTES
from tailrace.testing.expect import BrokenContract, expect, expect_bytes
from tailrace.testing.faults import FAULTS, Faults, FaultyInput, FaultyOutput

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.storage.streams.base import InputStream
    from tailrace.storage.streams.layer import Layer
    from tailrace.testing.content import Content

_NO_NUMBERS: Any = (-1, None, "1", 1.5)
_FAR = (1 << 45, (1 << 63) - 1, 1 << 63, 10**30)
_COUNTS = (1, 2, 3, 7, 16, 100, 511, 512, 513, 4096, 5000, 1 << 20)


def stored(layer: Layer, pieces: list[bytes]) -> bytes:
    """The bytes that the layer writes for these pieces."""
    store = FaultyOutput()
    output = layer.output(store)
    for piece in pieces:
        output.write(piece)
    output.close()
    return bytes(store.data)


def read_all(stream: InputStream, chance: Random, most: int | None = None) -> bytes:
    """Read everything in odd sizes; stop at the first read that reaches ``most``."""
    found = bytearray()
    while most is None or len(found) < most:
        count = chance.choice(_COUNTS)
        data = stream.read(count)
        expect(len(data) <= count, f"read({count}) gave {len(data)} bytes")
        if not data:
            break
        found += data
    return bytes(found)


def check_reading(layer: Layer, content: Content = ANY_BYTES, seed: int = 0) -> None:
    """Reads of odd sizes, over a lower stream that gives less than requested; seeks."""
    chance = Random(seed)  # noqa: S311 - repeatable, not secret
    pieces = content.pieces(chance)
    plain = b"".join(pieces)
    raw = stored(layer, pieces)
    source = FaultyInput(raw, chance=chance)
    stream = layer.input(source)
    check_wrong_calls(stream)
    expect_bytes(read_all(stream, chance), plain, "read from beginning to end")
    for _ in range(2):
        expect(stream.read(10) == b"", "a read at the end returned bytes")
    if isinstance(stream, RandomInput):
        _check_random(stream, content.starts(pieces), plain, chance)
    check_closed(stream)
    expect(source.closed, "close() left the lower stream open")
    if not isinstance(stream, RandomInput):
        source = FaultyInput(raw, chance=chance)
        stream = layer.input(source)
        if isinstance(stream, SeekableInput):
            _check_forward(stream, content.starts(pieces), plain, chance)
        check_closed(stream)
        expect(source.closed, "close() left the lower stream open")


def check_closed(stream: InputStream) -> None:
    """`close` may be called again, and ends the reading: other calls raise StorageError."""
    close: Any = getattr(stream, "close", None)
    expect(close, "the stream has no close()")
    close()
    close()
    calls: dict[str, Callable[[], object]] = {"read": lambda: stream.read(1)}
    if isinstance(stream, SeekableInput):
        calls["seek"] = lambda: stream.seek(0)
    if isinstance(stream, RandomInput):
        calls |= {"readinto": lambda: stream.readinto(bytearray(1)), "size": stream.size}
    check_ended(calls)


def check_ended(calls: dict[str, Callable[[], object]]) -> None:
    """Each of these calls of a closed stream raises StorageError."""
    for name, call in calls.items():
        try:
            call()
        except StorageError:
            continue
        except Exception as error:
            raise BrokenContract(f"{name}() after close() raised {error!r}") from error
        expect(False, f"{name}() after close() raised no error")


def check_wrong_calls(stream: InputStream) -> None:
    """A count or an offset that is no number from 0 on is a wrong argument, in `read` also -1 and
    None; the stream stays where it is.
    """
    calls: dict[str, Callable[[Any], object]] = {"read": stream.read}
    if isinstance(stream, SeekableInput):
        calls["seek"] = stream.seek
    tell = getattr(stream, "tell", None)
    before = tell and tell()
    for name, call in calls.items():
        for wrong in _NO_NUMBERS:
            try:
                call(wrong)
            except UsageError:
                continue
            except Exception as error:
                raise BrokenContract(
                    f"{name}({wrong!r}) raised {error!r}, not UsageError"
                ) from error
            expect(False, f"{name}({wrong!r}) raised no error")
    expect(not tell or tell() == before, "a rejected call moved the stream")


def check_far(stream: RandomInput) -> None:
    """It goes to any offset after the end, and reads nothing there."""
    size = stream.size()
    for offset in (size, size + 100, *_FAR):
        try:
            there = stream.seek(offset)
            found = stream.read(10), stream.readinto(bytearray(10)), stream.tell()
        except Exception as error:
            raise BrokenContract(f"reading at {offset}, after the end, raised {error!r}") from error
        expect(there == offset, f"seek({offset}) returned {there}")
        expect(found == (b"", 0, offset), f"at {offset}, after the end, it read {found}")


def _check_random(stream: RandomInput, starts: list[int], plain: bytes, chance: Random) -> None:
    for _ in range(40):
        offset = chance.choice(starts)
        expect(stream.seek(offset) == offset, "seek returned a different offset")
        expect(stream.tell() == offset, f"tell() after seek({offset}) gave {stream.tell()}")
        expect(stream.size() == len(plain), f"size() is {stream.size()}, not {len(plain)}")
        if chance.random() < 0.2:
            check_wrong_calls(stream)
        for _ in range(chance.randint(1, 4)):
            count = chance.choice(_COUNTS)
            if chance.random() < 0.5:
                data = stream.read(count)
            else:
                view = bytearray(count)
                data = bytes(view[: stream.readinto(memoryview(view))])
            wanted = plain[offset : offset + len(data)]
            expect_bytes(data, wanted, f"{count} bytes at {offset}")
            expect(data or offset >= len(plain), f"nothing was read at {offset}, before the end")
            offset += len(data)
            expect(stream.tell() == offset, f"tell() returned {stream.tell()} at {offset}")
    check_far(stream)
    stream.seek(0)
    expect_bytes(read_all(stream, chance), plain, "read again from the beginning")


def _check_forward(stream: SeekableInput, starts: list[int], plain: bytes, chance: Random) -> None:
    at = 0
    for offset in sorted(chance.choices(starts, k=5)):
        if offset < at:
            continue
        expect(stream.seek(offset) == offset, "seek returned a different offset")
        check_wrong_calls(stream)
        data = stream.read(chance.choice(_COUNTS))
        expect_bytes(data, plain[offset : offset + len(data)], f"read at {offset}")
        at = offset + len(data)
    if at:
        try:
            stream.seek(0)
        except StorageError:
            return
        expect_bytes(stream.read(at), plain[:at][: len(plain)], "read after seeking back")


def check_read_faults(layer: Layer, content: Content = ANY_BYTES, seed: int = 0) -> None:
    """Each call of the lower stream fails in turn: the error is raised, and reading continues."""
    chance = Random(seed)  # noqa: S311
    pieces = content.pieces(chance)
    plain = b"".join(pieces)
    raw = stored(layer, pieces)
    clean = Faults()
    _read_on(layer, FaultyInput(raw, clean, Random(seed)), clean, plain)  # noqa: S311
    for name, number in FAULTS.items():
        for call in _some(clean.calls, chance):
            faults = Faults(call, number)
            source = FaultyInput(raw, faults, Random(seed))  # noqa: S311
            told = _read_on(layer, source, faults, plain)
            expect(
                told or not faults.done, f"{name} at call {call} of the store: no error was raised"
            )


def _some(calls: int, chance: Random) -> list[int]:
    """All calls, or a sample if there are many."""
    return sorted(chance.sample(range(calls), min(calls, 60)))


def _read_on(layer: Layer, source: FaultyInput, faults: Faults, plain: bytes) -> int:
    """Read everything in spite of errors; return how many there were."""
    told = 0
    chance = Random(len(plain))  # noqa: S311
    stream: InputStream | None = None
    found = b""
    while True:
        try:
            stream = stream or layer.input(source)
            data = stream.read(chance.choice((50, 777, 5000)))
        except StorageError as error:
            told += 1
            expect(faults.told in str(error), f"the store's error message became {error}")
            expect(told < 2, "one error of the store was raised twice")
            continue
        if not data:
            break
        found += data
    expect_bytes(found, plain, "read after an error")
    close = getattr(stream, "close", None)
    if close is not None:
        close()
    return told


def check_growth(layer: Layer, content: Content = ANY_BYTES, seed: int = 0) -> None:
    """An input that was at the end sees what is appended and flushed (both are random-access)."""
    chance = Random(seed)  # noqa: S311
    store = FaultyOutput()
    output = layer.output(store)
    pieces = content.pieces(chance)
    if not isinstance(output, RandomOutput) or not pieces:
        return
    output.write(pieces[0])
    output.flush()
    stream = layer.input(FaultyInput(store.data, chance=chance))
    if not isinstance(stream, RandomInput):
        return
    found = read_all(stream, chance)
    for piece in pieces[1:]:
        output.write(piece)
        output.flush()
        told = stream.size()
        if told != output.size:  # a reader that waits asks again
            told = stream.size()
        expect(told == output.size, f"size() of a file that grew is {told}, not {output.size}")
        found += read_all(stream, chance)
    expect_bytes(found, b"".join(pieces), "read while it grew")
    stream.close()
    output.close()
