"""Materialised streams: a filter that decodes nothing, and writing and reading, on one core.

Streams are in memory. The processor's time is measured, and the wall's, which on a machine with
other work is longer. The filter passes everything, or drops every second table's rows: then what
passes is copied in runs, with checksums of its own. Its rates are of what it reads; all checksums
are verified. Writing and reading are Python's, an event at a time: the examples' log, against only
decoding it.
"""

from __future__ import annotations

import io
import os
import statistics
import time
from typing import TYPE_CHECKING

from benchmarks.measure import pin
from tailrace import generators
from tailrace.generators.materialise import NativeWriter

if TYPE_CHECKING:
    from collections.abc import Callable

_BYTES = 256 << 20
_TABLES = 64


class _Drops(generators.Filter):
    def of_table(self, table: generators.ModifiedTable) -> generators.Action:
        odd = int(table.name[1:]) % 2
        return generators.Action.DROP if odd else generators.Action.PASS


def _stream(size: int, *, total: int) -> tuple[bytes, int]:
    """A stream of rows of about ``size`` bytes with their frames' heads; and their number."""
    out = io.BytesIO()
    writer = NativeWriter(out.write)
    tables = [generators.ModifiedTable("d", f"t{number}", ()) for number in range(_TABLES)]
    content = os.urandom(max(0, size - 36))
    number = 0
    while out.tell() < total:
        for table in tables:
            number += 1
            values = {"local_transaction_id": number, "table": table, "value": content}
            writer.event(generators.RowWrite(generators.KeptContext(values)))
    writer.close()
    return out.getvalue(), number


def _measured(act: Callable[[], object], rounds: int) -> tuple[list[float], list[float]]:
    """The seconds of the processor and of the wall, each sorted."""
    found = []
    for number in range(rounds + 1):
        start, cpu = time.perf_counter(), time.process_time()
        act()
        if number:
            found.append((time.process_time() - cpu, time.perf_counter() - start))
    return sorted(cpu for cpu, _ in found), sorted(wall for _, wall in found)


def _filter_lines(rounds: int, total: int) -> None:
    for label, size in (("8 KiB", 8192), ("60 bytes", 60)):
        data, events = _stream(size, total=total if size > 1000 else total // 8)
        real = len(data) / events
        for name, kind in (("passes all", generators.Filter), ("drops half", _Drops)):

            def act(kind: type[generators.Filter] = kind, data: bytes = data) -> None:
                kind().run(data, _Sink())

            print(f"  {name}, events of {label} ({real:,.0f} with heads)")
            both = zip(("processor", "wall"), _measured(act, rounds), strict=True)
            for clock, seconds in both:
                median = statistics.median(seconds)
                most, least = (each * 1e6 for each in (seconds[0], seconds[-1]))
                print(
                    f"    {clock:9} {len(data) / median / 1e6:8,.0f} MB/s"
                    f" ({len(data) / least:,.0f} to {len(data) / most:,.0f})"
                    f" {events / median / 1e6:8.2f} M events/s"
                    f" ({events / least:.2f} to {events / most:.2f})"
                )


class _Sink:
    """Takes bytes and keeps none."""

    def write(self, data: bytes) -> int:
        return len(data)


class _Reads(generators.RowConsumer):
    """Reads every accessor."""

    def __init__(self) -> None:
        self.events = 0

    def row_batch(self, event: generators.RowBatch) -> None:
        self.event(event)

    def event(self, event: generators.ReplicationEvent) -> None:
        event.values()
        self.events += 1


def _object_lines(rounds: int) -> None:
    source = "examples/shop/mysql"
    stream = bytearray()

    def decode() -> None:
        with generators.EventStream(source) as log:
            log.row.register(_Reads())
            log.run()

    def write() -> None:
        stream.clear()
        with generators.EventStream(source) as log, generators.Materialiser(stream) as written:
            written.register(log.row)
            log.run()

    def read() -> None:
        with generators.MaterialisedStream(bytes(stream)) as found:
            found.row.register(_Reads())
            found.run()

    for label, act in (
        ("the log, every accessor read", decode),
        ("the log, materialised", write),
        ("the stream, every accessor read", read),
    ):
        cpu, wall = _measured(act, rounds)
        print(
            f"  {label:34} {statistics.median(cpu) * 1e3:6,.0f} ms"
            f" ({cpu[0] * 1e3:,.0f} to {cpu[-1] * 1e3:,.0f}),"
            f" {statistics.median(wall) * 1e3:,.0f} by the wall"
        )
    print(f"  bytes of the stream: {len(stream):,}")


def run(*, quick: bool) -> None:
    """Print MB/s and events a second of a filter, and the milliseconds of the object path, by the
    processor's time and the wall's.
    """
    pin()
    rounds = 3 if quick else 9
    print(f"one core, {rounds} rounds, medians (least to most)")
    _filter_lines(rounds, _BYTES // 4 if quick else _BYTES)
    _object_lines(min(rounds, 5))
