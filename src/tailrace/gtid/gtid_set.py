"""MySQL's GTID sets, with tags or without: as text, in binary form, and their arithmetic.

Facts sheet 4.5.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Self

from tailrace.arguments import check_type
from tailrace.constants import Flavour
from tailrace.errors import GtidError, UsageError
from tailrace.gtid.ids import GNO_END, Gtid, decode_tag, format_uuid, parse_tag, parse_uuid
from tailrace.printable import short_repr

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.gtid.ids import AnyGtid

_INTERVAL: Final = re.compile(r"\s*([0-9]{1,40})\s*(?:-\s*([0-9]{1,40})\s*)?", re.ASCII)
_U64: Final = Struct("<Q")
_RUN: Final = Struct("<QQ")
_UUID_SIZE: Final = 16

Tsid = tuple[str, str]
"""A source's UUID and a tag; the empty tag is a classic GTID."""


class Intervals:
    """A sorted set of numbers as half-open runs ``[start, end)`` that neither touch nor overlap."""

    __slots__ = ("ends", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.starts, self.ends, strict=True)

    def __len__(self) -> int:
        return len(self.starts)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self.starts, number) - 1
        return at >= 0 and number < self.ends[at]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Intervals):
            return NotImplemented
        return self.starts == other.starts and self.ends == other.ends

    __hash__ = None  # type: ignore[assignment]  # it changes

    def copy(self) -> Intervals:
        """An independent copy."""
        new = Intervals()
        new.starts, new.ends = self.starts.copy(), self.ends.copy()
        return new

    def add(self, start: int, end: int) -> None:
        """Add ``[start, end)``, joining runs that it touches; adding at the end is nearly free."""
        if end <= start:
            return
        starts, ends = self.starts, self.ends
        if not ends or start > ends[-1]:
            starts.append(start)
            ends.append(end)
            return
        first = bisect_right(starts, start) - 1  # the run that begins at or before start
        if first < 0 or ends[first] < start:
            first += 1
        last = bisect_right(starts, end)  # past the last run that begins at or before end
        if first < last:
            start, end = min(start, starts[first]), max(end, ends[last - 1])
        starts[first:last] = [start]
        ends[first:last] = [end]

    @classmethod
    def of(cls, runs: Iterable[tuple[int, int]]) -> Intervals:
        """The set of these runs, in any order."""
        new = cls()
        for start, end in sorted(runs):
            new.add(start, end)
        return new

    def minus(self, other: Intervals) -> Intervals:
        """The numbers that are here but not in ``other``; linear in both."""
        new = Intervals()
        at = 0
        for start, end in self:
            left = start
            while at < len(other) and other.ends[at] <= left:
                at += 1
            look = at
            while look < len(other) and other.starts[look] < end:
                if other.starts[look] > left:
                    new.add(left, other.starts[look])
                left = other.ends[look]
                look += 1
            new.add(left, end)
            at = max(at, look - 1)
        return new

    def meet(self, other: Intervals) -> Intervals:
        """The numbers that are in both; linear in both."""
        new = Intervals()
        mine = theirs = 0
        while mine < len(self) and theirs < len(other):
            new.add(
                max(self.starts[mine], other.starts[theirs]),
                min(self.ends[mine], other.ends[theirs]),
            )
            if self.ends[mine] < other.ends[theirs]:
                mine += 1
            else:
                theirs += 1
        return new


def _parse_interval(item: str) -> tuple[int, int]:
    match = _INTERVAL.fullmatch(item)
    if not match:
        raise GtidError(f"not an interval of transaction numbers: {item[:60]!r}")
    start = int(match[1])
    last = int(match[2]) if match[2] else start
    if not 1 <= start < GNO_END or last >= GNO_END:
        raise GtidError(f"transaction numbers lie between 1 and {GNO_END - 1}, not {item.strip()}")
    return start, last + 1


class GtidSet:
    """A set of MySQL's GTIDs: for each source (UUID and tag) runs of transaction numbers.

    Prints as the server prints it; accepts every text that the server accepts. `add` changes the
    set; the operators ``|``, ``-``, ``&`` give new ones, ``<=`` tests for a subset. `text` is one
    line, which JSON carries, `parse` reads, and every ``start`` and ``until`` takes.

    >>> import tailrace
    >>> read = tailrace.GtidSet.parse("b1499b96-e58b-11f1-8132-02fc00000001:1-398")
    >>> more = read | tailrace.GtidSet.parse("b1499b96-e58b-11f1-8132-02fc00000001:400")
    >>> more.text(), read <= more
    ('b1499b96-e58b-11f1-8132-02fc00000001:1-398:400', True)
    >>> row = next(tailrace.rows("examples/shop/mysql", start=read.text()))
    >>> row.gtid
    'b1499b96-e58b-11f1-8132-02fc00000001:399'
    """

    __slots__ = ("_sources",)
    flavour: ClassVar[Literal[Flavour.MYSQL]] = Flavour.MYSQL

    def __init__(self, sources: Mapping[Tsid, Iterable[tuple[int, int]]] | None = None) -> None:
        """From runs ``[start, end)`` by (uuid, tag), in canonical form."""
        self._sources: dict[Tsid, Intervals] = {}
        if not isinstance(sources, Mapping | None):
            raise UsageError(f"sources are runs by (uuid, tag), and not {short_repr(sources)}")
        for tsid, runs in (sources or {}).items():
            try:
                intervals = Intervals.of(runs)
            except (TypeError, ValueError):
                raise UsageError(
                    f"sources: the runs of {tsid!r} are pairs [start, end), and not"
                    f" {short_repr(runs)}"
                ) from None
            if intervals:
                self._sources[tsid] = intervals

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``uuid[:tag]:1-5:8[:tag2:…],uuid2:…``; "" is the empty set. Raises GtidError."""
        check_type("text", text, "str")
        runs: dict[Tsid, list[tuple[int, int]]] = {}
        for part in text.split(","):
            if not part.strip():
                continue
            head, *items = part.split(":")
            uuid = parse_uuid(head)
            into = runs.setdefault((uuid, ""), [])
            for item in items:
                if item.lstrip()[:1].isdigit():
                    into.append(_parse_interval(item))
                else:
                    into = runs.setdefault((uuid, parse_tag(item)), [])
        return cls(runs)

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Read the binary form, tagged or not. Raises GtidError."""
        if len(raw) < _U64.size:
            raise GtidError(f"a GTID set needs 8 bytes, {len(raw)} are there")
        header = raw[: _U64.size]
        tagged = header[7] == 1
        if header[7] > 1 or (tagged and header[0] != 1):
            raise GtidError(f"GTID set header {header.hex()} is not known")
        count = int.from_bytes(header[1:7] if tagged else header, "little")
        new = cls()
        pos = _U64.size
        before: Tsid = ("", "")
        for _ in range(count):
            tsid, pos = _decode_source(raw, pos, tagged=tagged)
            if tsid <= before:
                raise GtidError("the sources of a GTID set are not in order")
            before = tsid
            new._sources[tsid], pos = _decode_runs(raw, pos)
        if pos != len(raw):
            raise GtidError(f"{len(raw) - pos} bytes follow the GTID set")
        return new

    def encode(self, *, tagged: bool = False) -> bytes:
        """The binary form: untagged, unless there are tags or it is requested."""
        tagged = tagged or any(tag for _, tag in self._sources)
        count = len(self._sources)
        parts = [b"\1" + count.to_bytes(6, "little") + b"\1" if tagged else _U64.pack(count)]
        for (uuid, tag), intervals in sorted(self._sources.items()):
            parts.append(bytes.fromhex(uuid.replace("-", "")))
            if tagged:
                parts.append(bytes([len(tag) << 1]) + tag.encode())
            parts.append(_U64.pack(len(intervals)))
            parts.extend(_RUN.pack(start, end) for start, end in intervals)
        return b"".join(parts)

    def add(self, gtid: AnyGtid) -> None:
        """Add one GTID. Raises GtidError for one of MariaDB."""
        if not isinstance(gtid, Gtid):
            raise GtidError(f"{gtid} is no GTID of MySQL (those look like uuid:5)")
        tsid = (gtid.uuid, gtid.tag)
        self._sources.setdefault(tsid, Intervals()).add(gtid.gno, gtid.gno + 1)

    def discard(self, gtid: AnyGtid) -> None:
        """Remove one GTID, if the set has it."""
        if isinstance(gtid, Gtid) and gtid in self:
            tsid = (gtid.uuid, gtid.tag)
            runs = self._sources[tsid].minus(Intervals.of([(gtid.gno, gtid.gno + 1)]))
            if runs:
                self._sources[tsid] = runs
            else:
                del self._sources[tsid]

    def includes(self, gtid: AnyGtid) -> bool:
        """Whether the set has a GTID."""
        return gtid in self

    @property
    def latest(self) -> Self:
        """The GTIDs that stand for the whole: a set needs all of them."""
        return self

    @property
    def sources(self) -> dict[Tsid, tuple[tuple[int, int], ...]]:
        """The runs ``[start, end)`` by (uuid, tag), in order."""
        return {tsid: tuple(runs) for tsid, runs in sorted(self._sources.items())}

    def copy(self) -> Self:
        """An independent copy."""
        return self._with({tsid: runs.copy() for tsid, runs in self._sources.items()})

    def _with(self, sources: dict[Tsid, Intervals]) -> Self:
        new = type(self)()
        new._sources.update((tsid, runs) for tsid, runs in sources.items() if runs)  # noqa: SLF001 - our own kind
        return new

    def __or__(self, other: Self) -> Self:
        if not isinstance(other, GtidSet):
            return NotImplemented
        new = self.copy()
        for tsid, runs in other._sources.items():
            mine = new._sources.get(tsid)
            new._sources[tsid] = Intervals.of([*mine, *runs]) if mine else runs.copy()
        return new

    def __sub__(self, other: object) -> Self:
        """The GTIDs that another state, which may be MariaDB's, does not include."""
        theirs = other._sources if isinstance(other, GtidSet) else {}
        return self._with(
            {
                tsid: runs.minus(theirs[tsid]) if tsid in theirs else runs.copy()
                for tsid, runs in self._sources.items()
            }
        )

    def __and__(self, other: Self) -> Self:
        if not isinstance(other, GtidSet):
            return NotImplemented
        theirs = other._sources
        return self._with(
            {
                tsid: runs.meet(theirs[tsid])
                for tsid, runs in self._sources.items()
                if tsid in theirs
            }
        )

    def __le__(self, other: Self) -> bool:
        return not self - other

    def __contains__(self, gtid: object) -> bool:
        if not isinstance(gtid, Gtid):
            return False
        runs = self._sources.get((gtid.uuid, gtid.tag))
        return runs is not None and gtid.gno in runs

    def __bool__(self) -> bool:
        return bool(self._sources)

    def __len__(self) -> int:
        """How many GTIDs the set holds."""
        return sum(end - start for runs in self._sources.values() for start, end in runs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GtidSet):
            return NotImplemented
        return self._sources == other._sources

    __hash__ = None  # type: ignore[assignment]  # it changes

    def text(self, separator: str = ",") -> str:
        """The set as text, with ``separator`` between sources; one line by default."""
        lines: list[str] = []
        last_uuid = ""
        for (uuid, tag), runs in sorted(self._sources.items()):
            shown = ":".join(
                str(start) if end == start + 1 else f"{start}-{end - 1}" for start, end in runs
            )
            tagged = f"{tag}:{shown}" if tag else shown
            if uuid == last_uuid:
                lines[-1] += f":{tagged}"
            else:
                lines.append(f"{uuid}:{tagged}")
            last_uuid = uuid
        return separator.join(lines)

    def __str__(self) -> str:
        return self.text(",\n")

    def __repr__(self) -> str:
        return f"GtidSet({self.text()!r})"


def _decode_source(raw: bytes, pos: int, *, tagged: bool) -> tuple[Tsid, int]:
    tag = ""
    end = pos + _UUID_SIZE + tagged
    if end <= len(raw) and tagged:
        length = raw[end - 1]
        if length & 1 or length >> 1 > 32:
            raise GtidError(f"a tag's length byte is 0x{length:02X}")
        tag = decode_tag(raw[end : end + (length >> 1)])
        end += length >> 1
    if end > len(raw):
        raise GtidError("the GTID set ends inside a source")
    return (format_uuid(raw[pos : pos + _UUID_SIZE]), tag), end


def _decode_runs(raw: bytes, pos: int) -> tuple[Intervals, int]:
    if pos + _U64.size > len(raw):
        raise GtidError("the GTID set ends before its intervals")
    (count,) = _U64.unpack_from(raw, pos)
    pos += _U64.size
    end = pos + count * _RUN.size
    if not count or end > len(raw):
        raise GtidError(f"a source of {count} intervals in {len(raw) - pos} bytes")
    runs = Intervals()
    before = 0
    for start, stop in _RUN.iter_unpack(memoryview(raw)[pos:end]):
        if start <= before or stop <= start or stop > GNO_END:
            raise GtidError(f"the intervals of a GTID set are not in order at [{start}, {stop})")
        runs.starts.append(start)
        runs.ends.append(stop)
        before = stop
    return runs, end
