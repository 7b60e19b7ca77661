"""Logs that end anywhere, and what the ways of reading make of it: the same rows.

Each small log of `tools.campaign.verdicts`, those of MariaDB also as it encrypts them, is cut at
each event's bounds and inside each event, and ends inside each event whose length is
damaged; once with the flag of a log in use and once without: a
log that was closed, one that a server writes, one that it was writing as it crashed, and a copy of
such a one; and once more with a file after it, as of a server that crashed and started again. What
ends inside its format description also comes after a whole file. The object path reads each twice,
the second time ahead of every row, as it does in large transactions. The rows of a transaction
without an end are none. Splits may tell of another error than the two paths, as they leave those
inside a transaction to whoever decodes them.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tailrace.columns import plan_splits, read_split
from tailrace.constants import FILE_FLAGS_AT, HEADER_SIZE, MAGIC, EventFlag
from tailrace.errors import TailraceError
from tailrace.events.walk import LENGTH_AT, LENGTH_END, event_length, walk
from tailrace.log.reader import Reader
from tailrace.storage.encryption.mariadb.format import Mode
from tailrace.storage.encryption.mariadb.streams import MariadbBegin
from tailrace.storage.keyring import Keyring
from tools.campaign.mutate import Parsed
from tools.campaign.verdicts import (
    Verdict,
    VerdictsReport,
    bases,
    batch_rows,
    by_columns,
    by_objects,
    failed,
    series_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from decimal import Decimal

    from tailrace.storage import LogSeries


class OneKey(Keyring):
    """Any key is this one."""

    def key(self, key_id: str, version: int | None = None) -> bytes:  # noqa: ARG002 - any
        return bytes(range(16))


def renumbered(log: bytes) -> bytes:
    """A log with its events numbered as a server numbers them in a file of its own."""
    parsed, end = Parsed.of(log), 4
    for number, event in enumerate(parsed.events):
        end += len(event)
        event[13:17] = end.to_bytes(4, "little")
        parsed.seal(number)
    return parsed.bytes()


def encrypted(log: bytes) -> Iterator[tuple[str, bytes]]:
    """A log as MariaDB encrypts it, in each of its ways, with the way's name."""
    if Reader(series_of(log)).format.flavour == "mariadb":
        for mode in Mode:
            yield mode.value, MariadbBegin.of(log, OneKey(), mode=mode, path="binlog.000001").raw


def endings(log: bytes) -> Iterator[tuple[str, bytes]]:
    """What a log, clear or encrypted, may be where it ends, with its name."""
    events = walk(lambda at, count: log[at : at + count], len(MAGIC), len(log))
    for number, (at, length, _) in enumerate(events):
        ends = {"after": length, "behind the header of": HEADER_SIZE}
        if number:
            ends["in the header of"] = 10
        ends["inside"] = max(HEADER_SIZE + 1, length - 3)
        cut = {where: bytearray(log[: at + size]) for where, size in ends.items()}
        longer = cut["with a length too large of"] = bytearray(log)
        reaches = (len(log) - at + 1000).to_bytes(4, "little")
        longer[at + LENGTH_AT : at + LENGTH_END] = reaches
        for where, data in cut.items():
            for flag in (0, int(EventFlag.IN_USE)):
                flags = data[FILE_FLAGS_AT] & ~EventFlag.IN_USE | flag
                data[FILE_FLAGS_AT] = flags  # the event's checksum is that without
                yield f"{where} event {number}, {'in use' if flag else 'closed'}", bytes(data)


def by_splits(log: LogSeries) -> Verdict:
    """The splits' verdict."""
    rows: list[tuple[Decimal, str]] = []
    try:
        for split in plan_splits(log):
            for batch in read_split(split, statements="skip"):
                rows += batch_rows(batch)
    except TailraceError as error:
        return failed(error)
    return Verdict(tuple(text for _, text in sorted(rows)))


def difference(log: LogSeries) -> tuple[str | None, Verdict]:
    """In what the ways of reading differ, None where they do not; and the object path's verdict."""
    objects, splits = by_objects(log, verify=True), by_splits(log)
    found = objects.differs(by_columns(log, verify=True))
    if found is not None:
        return f"columns: {found}", objects
    found = objects.differs(by_objects(log, verify=True, most_held=0))
    if found is not None:
        return f"objects ahead: {found}", objects
    if (splits.error is None) != (objects.error is None) or splits.rows != objects.rows:
        return f"splits: {splits.message or len(splits.rows)}", objects
    return None, objects


def run(seed: int, every: int) -> VerdictsReport:
    """Compare one in ``every`` of all endings; with 1 each."""
    report, rng = VerdictsReport("broken logs"), random.Random(f"endings/{seed}")
    for name, base in bases():
        plain = renumbered(base)
        for way, log in (("clear", plain), *encrypted(plain)):
            begun = len(MAGIC) + event_length(log, len(MAGIC))
            for where, data in endings(log):
                if rng.randrange(every):
                    continue
                whole = [(data,), (data, log)]
                if len(data) < begun:
                    whole += [(log, *files) for files in whole]
                for files in whole:
                    differs, objects = difference(series_of(*files, keyring=OneKey()))
                    shown = objects.message or len(objects.rows)
                    kind = None if differs is None else differs.split(":")[0]
                    text = f"{name}, {way}, cut {where}, {len(files)} files: {differs}"
                    report.compared(objects, kind, f"{text}; objects: {shown}")
    return report
