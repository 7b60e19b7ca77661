"""Logs that end anywhere, and what the ways of reading make of it: the same rows.

    ./run python -m tools.campaign badinput --endings 10 [--seed 1]      # one in ten of them

Each small log of `tools.campaign.verdicts` is cut at each event's bounds and inside each event,
behind the format description, once with the flag of a log in use and once without: a log that was
closed, one that a server writes, one that it was writing as it crashed, and a copy of such a one;
and once more with a file after it, as of a server that crashed and started again. The object path
reads each twice, the second time ahead of every row, as it does in large transactions. The rows of
a transaction without an end are none. Splits may tell of another error than the two paths, as they
leave those inside a transaction to whoever decodes them.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tailrace.columns import plan_splits, read_split
from tailrace.constants import EventFlag
from tailrace.errors import TailraceError
from tools.campaign.mutate import Parsed
from tools.campaign.verdicts import (
    Report,
    Verdict,
    bases,
    batch_rows,
    by_columns,
    by_objects,
    failed,
    series_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from decimal import Decimal

    from tailrace.storage import LogSeries


def endings(log: bytes) -> Iterator[tuple[str, bytes]]:
    """What a log may be where it ends, with its name."""
    parsed, end = Parsed.of(log), 4
    for number, event in enumerate(parsed.events):  # as a server numbers them in a file of its own
        end += len(event)
        event[13:17] = end.to_bytes(4, "little")
        parsed.seal(number)
    whole = b"\xfebin"
    for number, event in enumerate(parsed.events):
        ends = {"after": bytes(event)}
        if number:
            ends["in the header of"] = bytes(event[:10])
            ends["inside"] = bytes(event[: max(20, len(event) - 3)])
        for where, part in ends.items():
            data = bytearray(whole + part)
            for flag in (0, int(EventFlag.IN_USE)):
                data[21] = data[21] & ~EventFlag.IN_USE | flag  # its checksum is that without
                yield f"{where} event {number}, {'in use' if flag else 'closed'}", bytes(data)
        whole += event


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


def run(seed: int, every: int, *, say: Callable[[str], None] = lambda _text: None) -> Report:
    """Compare one in ``every`` of all endings; with 1 each."""
    report, rng = Report(seed), random.Random(f"endings/{seed}")
    for name, log in bases():
        for where, data in endings(log):
            if rng.randrange(every):
                continue
            for files in ((data,), (data, log)):
                differs, objects = difference(series_of(*files))
                shown = objects.message or len(objects.rows)
                kind = None if differs is None else differs.split(":")[0]
                text = f"{name} cut {where}, {len(files)} files: {differs}; objects: {shown}"
                report.take(objects, kind, text, say)
    return report
