"""What the report shows of a log: figures with their numbers, and lists. No drawing.

All text that comes from the log is made printable here, and escaped where it is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.printable import counted, one_line, printable, size
from tailrace.times import time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tailrace.log.statistics import Statistics
    from tailrace.log.timeline import Interval, Timeline

MOST_SERIES: Final = 6
"""Tables that a plot over time shows by themselves; the others are one more series."""
_MOST_BARS: Final = 15
_LONGEST_NAME: Final = 120
OTHERS: Final = "other tables"


class Bar(NamedTuple):
    """A part of a bar: from ``low`` to ``high``, of a series by its number.

    Over time, ``begin`` and ``end`` are seconds; else ``begin`` is the bar's number, which ``name``
    and ``total`` label. ``tip`` says what the part shows.
    """

    series: int
    low: int
    high: int
    tip: str
    begin: int
    end: int = 0
    name: str = ""
    total: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot, and its numbers as a table.

    ``summary`` is read out in place of the plot. ``series`` are named by a legend; with one, there
    is none. ``bars`` are for wide screens, ``few_bars`` for narrow ones. ``marks`` are seconds at
    which something is marked, with what it is.
    """

    title: str
    summary: str
    unit: str
    kind: str
    series: Sequence[str]
    bars: Sequence[Bar]
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    few_bars: Sequence[Bar] = ()
    marks: Sequence[tuple[int, str]] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """A table of text: ``numeric`` are the columns that are aligned to the right."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: frozenset[int] = field(default_factory=frozenset)
    note: str = ""


def shown(text: str) -> str:
    """A name from the log: printable, and cut if it is very long."""
    return printable(one_line(text, _LONGEST_NAME))


def of_log(found: Statistics) -> list[Figure]:
    """The plots of a log, without those that have nothing to show."""
    names = sorted(found.tables, key=lambda name: (-found.tables[name].changes, name))
    wide, narrow = found.timeline.within(120), found.timeline.within(48)
    figures = [
        _over_time("Changes over time", "changes", wide, narrow, names),
        _over_time("Bytes over time", "bytes", wide, narrow, names),
        _sizes("Transactions by size", "bytes", found.sizes.bytes),
        _sizes("Transactions by rows", "rows", found.sizes.rows),
        _by_table(found, names),
        _by_event(found),
    ]
    return [figure for figure in figures if figure.bars]


def largest(found: Statistics) -> Listing:
    """The largest transactions."""
    return Listing(
        "Largest transactions",
        ("Position", "GTID", "Time (UTC)", "Rows", "Bytes", "Seconds"),
        [
            (
                printable(str(each.start)),
                printable(each.gtid or "-"),
                moment(each.last) if each.last else "-",
                f"{each.rows:,}",
                size(each.bytes),
                f"{each.seconds:,}",
            )
            for each in found.largest
        ],
        frozenset({3, 4, 5}),
        "Seconds are from the start of the first statement to the commit.",
    )


def definitions(found: Statistics) -> Listing:
    """The statements that define something (DDL)."""
    total = sum(number for _, number in found.timeline.definitions())
    listed = len(found.definitions)
    return Listing(
        "Definitions (DDL)",
        ("Time (UTC)", "Position", "Database", "Statement"),
        [
            (
                moment(each.second),
                printable(str(each.start)),
                shown(each.database) or "-",
                printable(one_line(each.statement, 300)),
            )
            for each in found.definitions
        ],
        note="" if listed == total else f"The first {listed:,} of {total:,} are listed.",
    )


def moment(second: int) -> str:
    """A second as a UTC time."""
    return time_text(second * 1_000_000)


def width_text(seconds: int) -> str:
    """An interval's width, as ``5 minutes``."""
    for unit, name in ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
        if seconds % unit == 0:
            return counted(seconds // unit, name)
    raise ValueError(seconds)


def _over_time(
    title: str, what: str, wide: Timeline, narrow: Timeline, names: Sequence[str]
) -> Figure:
    index = 1 if what == "changes" else 2
    text = _number if what == "changes" else size
    first = list(names[:MOST_SERIES])
    series = [*map(shown, first), *([OTHERS] if len(names) > MOST_SERIES else [])]
    counts = _by_interval(wide, first, index)
    total = [sum(each) for each in zip(*counts.values(), strict=True)] or [0] * len(series)
    at = max(counts, key=lambda start: sum(counts[start]), default=0)
    parts = ", ".join(f"{name} {text(number)}" for name, number in zip(series, total, strict=True))
    defined = wide.definitions()
    summary = f"Stacked bars, one for each {width_text(wide.width)}. By table: {parts}."
    if counts:
        summary += f" Most in the interval from {moment(at)}: {text(sum(counts[at]))}."
    if defined:
        summary += f" Definitions (DDL) are marked in {len(defined)} intervals."
    return Figure(
        title,
        summary,
        what,
        "time",
        series,
        _stacked_in_time(counts, wide.width, series, text),
        ("From (UTC)", *series),
        [(moment(start), *map(text, each)) for start, each in sorted(counts.items())],
        _stacked_in_time(_by_interval(narrow, first, index), narrow.width, series, text),
        [(start, f"{counted(number, 'definition')} (DDL)") for start, number in defined],
        f"Each bar is {width_text(wide.width)}"
        + (f" ({width_text(narrow.width)} on a narrow screen)" if narrow != wide else "")
        + (". ▼ marks definitions (DDL)." if defined else "."),
    )


def _number(value: int) -> str:
    return f"{value:,}"


def _by_interval(timeline: Timeline, first: Sequence[str], index: int) -> dict[int, list[int]]:
    """For each interval the value of each series: the ``first`` tables, and all others together."""
    places = {name: place for place, name in enumerate(first)}
    tables: Mapping[str, Iterable[Interval]] = timeline.tables()
    width = len(first) + (len(tables) > len(first))
    found: dict[int, list[int]] = {}
    for table, intervals in tables.items():
        place = places.get(table, len(first))
        for each in intervals:
            found.setdefault(each.start, [0] * width)[place] += each[index]
    return found


def _stacked_in_time(
    counts: Mapping[int, Sequence[int]],
    width: int,
    series: Sequence[str],
    text: Callable[[int], str],
) -> list[Bar]:
    bars = []
    for start, values in sorted(counts.items()):
        low = 0
        for place, value in enumerate(values):
            if value:
                tip = f"{moment(start)}, {series[place]}: {text(value)}"
                bars.append(Bar(place, low, low + value, tip, start, start + width))
            low += value
    return bars


def _sizes(title: str, what: str, counts: Mapping[int, int]) -> Figure:
    text = size if what == "bytes" else _number
    held = [digits for digits, number in counts.items() if number]
    bars, rows = [], []
    for digits in range(min(held, default=0), max(held, default=-1) + 1):
        number = counts.get(digits, 0)
        low, high = (1 << digits - 1 if digits else 0), max((1 << digits) - 1, 0)
        name = text(low) if what == "bytes" or low == high else f"{low:,} to {high:,}"
        label = _short(low)
        tip = f"{name}: {counted(number, 'transaction')}"
        bars.append(Bar(0, 0, number, tip, digits, name=label))
        span = text(low) if low == high else f"{low:,} to {high:,}"
        rows.append((span, f"{number:,}"))
    total = sum(counts.values())
    common = max(held, key=lambda digits: counts[digits], default=0)
    begin = 1 << common - 1 if common else 0
    summary = (
        f"Bars, each for sizes up to twice its first. Of {total:,} transactions, most have"
        f" {text(begin)} or more, but less than {text(1 << common)}: {counts.get(common, 0):,}."
    )
    header = "Bytes" if what == "bytes" else "Rows"
    return Figure(
        title,
        summary,
        "transactions",
        "columns",
        ("transactions",),
        bars,
        (header, "Transactions"),
        rows,
        note=f"{header}: each bar counts from its label up to the next bar's.",
    )


def _short(number: int) -> str:
    """A power of two for an axis: ``512``, ``1Ki``."""
    for power, unit in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        if number >> power:
            return f"{number >> power}{unit}"
    return str(number)


def _by_table(found: Statistics, names: Sequence[str]) -> Figure:
    series = ("inserts", "updates", "deletes")
    bars = []
    for place, name in enumerate(names[:_MOST_BARS]):
        counts, low = found.tables[name], 0
        total = f"{found.tables[name].changes:,}"
        for index, value in enumerate((counts.insert, counts.update, counts.delete)):
            if value:
                tip = f"{shown(name)}: {value:,} {series[index]}"
                bars.append(Bar(index, low, low + value, tip, place, 0, shown(name), total))
            low += value
    all_of = [
        (
            shown(name),
            f"{each.insert:,}",
            f"{each.update:,}",
            f"{each.delete:,}",
            size(each.bytes),
        )
        for name, each in ((name, found.tables[name]) for name in names)
    ]
    return Figure(
        "Changes by table",
        f"Horizontal bars. Of {len(names):,} tables, most changes are in "
        + ", ".join(f"{shown(name)} ({found.tables[name].changes:,})" for name in names[:3])
        + ".",
        "changes",
        "rows",
        series,
        bars,
        ("Table", "Inserts", "Updates", "Deletes", "Bytes"),
        all_of,
        note=_cut(len(names), "tables"),
    )


def _by_event(found: Statistics) -> Figure:
    names = sorted(found.events, key=lambda name: (-found.events[name].bytes, name))
    bars = [
        Bar(0, 0, each.bytes, f"{shown(name)}: {total}", place, 0, shown(name), total)
        for place, name in enumerate(names[:_MOST_BARS])
        for each in (found.events[name],)
        for total in (f"{size(each.bytes)}, {counted(each.events, 'event')}",)
    ]
    return Figure(
        "Bytes by event type",
        f"Horizontal bars. Of {len(names):,} types, most bytes are in "
        + ", ".join(f"{shown(n)} ({size(found.events[n].bytes)})" for n in names[:3])
        + ".",
        "bytes",
        "rows",
        ("bytes",),
        bars,
        ("Event type", "Events", "Bytes"),
        [
            (shown(name), f"{found.events[name].events:,}", size(found.events[name].bytes))
            for name in names
        ],
        note=_cut(len(names), "types"),
    )


def _cut(number: int, what: str) -> str:
    return f"The first {_MOST_BARS} of {number:,} {what}." if number > _MOST_BARS else ""
