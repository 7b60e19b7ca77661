"""Checks of what a stream writes."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tailrace.errors import StorageError, UsageError
from tailrace.storage.streams.base import RandomOutput
from tailrace.testing.content import ANY_BYTES
from tailrace.testing.expect import expect, expect_bytes
from tailrace.testing.faults import FAULTS, Faults, FaultyInput, FaultyOutput
from tailrace.testing.reading import check_ended, read_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.storage.streams.base import ForwardOutput
    from tailrace.storage.streams.layer import Layer
    from tailrace.testing.content import Content

    MakeStore = Callable[[Faults, float], FaultyOutput]
    """Makes the lowest store: with these faults, and the share of a failed write that is stored."""


class _Writer:
    """A stream being written, and separately the bytes that must be in it.

    ``synced`` are the bytes that the last `sync` acknowledged, None before the first.
    """

    def __init__(self, layer: Layer, content: Content, chance: Random, store: FaultyOutput) -> None:
        self.layer = layer
        self.content = content
        self.chance = chance
        self.store = store
        self.plain = bytearray()
        self.starts = [0]
        self.synced: bytes | None = None
        self.refused = 0
        self.output: ForwardOutput = layer.output(store)

    def steps(self) -> list[Callable[[], None]]:
        """The steps that write the content, with changes and cuts if the stream supports them."""
        steps: list[Callable[[], None]] = []
        for piece in self.content.pieces(self.chance):
            steps.append(lambda piece=piece: self.write(piece))  # type: ignore[misc]
            if isinstance(self.output, RandomOutput):
                steps += [self.update] * (self.content.free and self.chance.random() < 0.3)
                steps += [self.cut] * (self.chance.random() < 0.15)
            steps += [self.flush] * (self.chance.random() < 0.2)
            steps += [self.sync] * (self.chance.random() < 0.2)
        return [*steps, self.sync]

    def write(self, piece: bytes) -> None:
        before = self.output.size
        reused = bytearray(piece)
        data = self.chance.choice((piece, reused, memoryview(reused)))
        try:
            self.output.write(data)
        except StorageError as error:
            self._check_failure(error)
            there = self.output.size - before
            expect(
                0 <= there <= len(piece),
                f"size went from {before} to {before + there} by a write of {len(piece)} bytes",
            )
            if isinstance(self.output, RandomOutput):
                self.output.truncate(before)
                self.output.write(piece)
            else:
                self.output.flush()
                self.output.write(piece[self.output.size - before :])
        reused[:] = b"\xff" * len(reused)  # the buffer is the caller's, who now reuses it
        self.plain += piece
        self.starts.append(len(self.plain))
        self._check_size()

    def update(self) -> None:
        offset = self.chance.randint(0, len(self.plain))
        count = min(self.chance.choice((1, 2, 16, 17, 600)), len(self.plain) - offset)
        data = self.chance.randbytes(count)
        output = self._random()
        try:
            output.update(offset, data)
        except StorageError as error:
            self._check_failure(error)
            output.update(offset, data)
        self.plain[offset : offset + count] = data
        self.synced = None
        self._check_size()

    def cut(self) -> None:
        size = self.chance.choice(self.starts[-4:])
        output = self._random()
        try:
            output.truncate(size)
        except StorageError as error:
            self._check_failure(error)
            output.truncate(size)
        del self.plain[size:]
        self.starts = [start for start in self.starts if start <= size]
        self.synced = None
        self._check_size()

    def flush(self) -> None:
        try:
            self.output.flush()
        except StorageError as error:
            self._check_failure(error)
            self.output.flush()
        self.check_stored(bytes(self.store.data), "flush")

    def sync(self) -> None:
        try:
            self.output.sync()
        except StorageError as error:
            self._check_failure(error)
            self.output.sync()
        self.synced = bytes(self.plain)
        self.check_stored(self.store.durable, "sync")

    def close(self) -> None:
        try:
            self.output.close()
        except StorageError as error:
            self._check_failure(error)
        else:
            self.check_stored(bytes(self.store.data), "close", whole=True)
        self.output.close()
        expect(self.store.closed, "close() left the lower stream open")
        check_closed_output(self.output, len(self.plain))
        if self.synced is not None:
            self.check_stored(self.store.durable, "a close, of what was synced,", self.synced)

    def check_stored(
        self, raw: bytes, after: str, plain: bytes | None = None, *, whole: bool = False
    ) -> None:
        """The stored bytes must read as these bytes; an error for an end that was not closed is
        allowed.
        """
        wanted = bytes(self.plain) if plain is None else plain
        stream = self.layer.input(FaultyInput(raw, chance=self.chance))
        found = read_all(stream, self.chance, None if whole else max(len(wanted), 1))
        if not whole:
            found = found[: len(wanted)]
        expect_bytes(found, wanted, f"read after {after}")
        close = getattr(stream, "close", None)
        if close is not None:
            close()

    def _check_size(self) -> None:
        size = self.output.size
        expect(size == len(self.plain), f"size is {size}, not {len(self.plain)}")

    def _check_failure(self, error: StorageError) -> None:
        self.refused += 1
        told = self.store.faults.told
        expect(
            self.store.faults.done and told in str(error), f"it raised an error of its own: {error}"
        )
        expect(self.refused == 1, "one error of the store was raised twice")

    def _random(self) -> RandomOutput:
        if not isinstance(self.output, RandomOutput):
            raise TypeError("not a random output")
        return self.output


def check_closed_output(output: ForwardOutput, size: int) -> None:
    """An output of ``size`` bytes that was closed: it raises StorageError for whatever is done."""
    calls: dict[str, Callable[[], object]] = {
        "write": lambda: output.write(b"x"),
        "flush": output.flush,
        "sync": output.sync,
    }
    if isinstance(output, RandomOutput):
        calls["update"] = lambda: output.update(0, b"x" if size else b"")
        calls["truncate"] = lambda: output.truncate(size)
    check_ended(calls)


def check_writing(
    layer: Layer, content: Content = ANY_BYTES, seed: int = 0, store: MakeStore = FaultyOutput
) -> None:
    """Writes, changes and cuts: what is read is what was written; invalid ones are rejected."""
    chance = Random(seed)  # noqa: S311 - repeatable, not secret
    writer = _Writer(layer, content, chance, store(Faults(), 1))
    for step in writer.steps():
        step()
    if isinstance(writer.output, RandomOutput):
        _check_refusals(writer.output)
    writer.close()


def _check_refusals(output: RandomOutput) -> None:
    size = output.size
    refused: tuple[tuple[str, Callable[[], None]], ...] = (
        ("a cut past the end", lambda: output.truncate(size + 1)),
        ("a change across the end", lambda: output.update(max(size - 1, 0), b"ab")),
    )
    for outside, act in refused:
        try:
            act()
        except UsageError:
            expect(output.size == size, f"{outside} was rejected, but changed the size")
        else:
            expect(False, f"{outside} was not rejected")


def check_write_faults(
    layer: Layer, content: Content = ANY_BYTES, seed: int = 0, store: MakeStore = FaultyOutput
) -> None:
    """Each call of the store fails in turn: it is reported once, and the stream can be rolled
    back.
    """
    clean = Faults()
    _write(layer, content, seed, store(clean, 1))
    chance = Random(seed)  # noqa: S311
    for name, number in FAULTS.items():
        for call in sorted(chance.sample(range(clean.calls), min(clean.calls, 25))):
            faults = Faults(call, number)
            refused = _write(layer, content, seed, store(faults, chance.choice((0, 0.5, 1))))
            expect(
                refused or not faults.done,
                f"{name} at call {call} of the store: no error was raised",
            )


def _write(layer: Layer, content: Content, seed: int, store: FaultyOutput) -> int:
    try:
        writer = _Writer(layer, content, Random(seed), store)  # noqa: S311
    except StorageError as error:
        expect(store.faults.told in str(error), f"the store's error message became {error}")
        return 1
    for step in writer.steps():
        step()
    writer.close()
    return writer.refused


def check_sync(layer: Layer, content: Content = ANY_BYTES, seed: int = 0) -> None:
    """A power failure at any moment: nothing is lost that `sync` acknowledged."""
    chance = Random(seed)  # noqa: S311
    writer = _Writer(layer, content, chance, FaultyOutput())
    for step in writer.steps():
        step()
        if writer.synced is not None:
            for _ in range(3):
                left = writer.store.after_power_cut(chance)
                writer.check_stored(left, "a power cut", writer.synced)
    writer.close()
