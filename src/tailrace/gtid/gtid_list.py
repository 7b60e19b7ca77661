"""MariaDB's replication state: the list of each domain's most recent GTIDs (facts sheet 2.8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from tailrace.arguments import check_type
from tailrace.constants import Flavour
from tailrace.errors import GtidError, UsageError
from tailrace.gtid.ids import MariadbGtid
from tailrace.printable import short_repr

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.gtid.ids import AnyGtid


class GtidList:
    """MariaDB's replication state: GTIDs, at most one for each server in a domain; the last of each
    domain is its most recent (GTID_LIST; ``@@gtid_binlog_state``).

    ``entries`` keeps that order. Lists are equal if `position` and the entries are the same. The
    text is that of the server (``0-1-100,1-2-7``), which JSON carries, `parse` reads, and every
    ``start`` and ``until`` takes.

    >>> import tailrace
    >>> state = tailrace.GtidList.parse("0-1-100,1-2-7")
    >>> state.text()
    '0-1-100,1-2-7'
    >>> state.includes(tailrace.gtid.MariadbGtid.parse("0-1-99"))
    True
    """

    __slots__ = ("_domains",)
    flavour: ClassVar[Literal[Flavour.MARIADB]] = Flavour.MARIADB

    def __init__(self, entries: Iterable[MariadbGtid] = ()) -> None:
        if not isinstance(entries, Iterable):
            raise UsageError(f"entries are GTIDs of MariaDB, and not {short_repr(entries)}")
        self._domains: dict[int, dict[int, MariadbGtid]] = {}
        for gtid in entries:
            self.add(gtid)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``0-1-100,1-2-7``; the empty text is the empty state. Raises GtidError."""
        check_type("text", text, "str")
        return cls(MariadbGtid.parse(part) for part in text.split(",")) if text.strip() else cls()

    def add(self, gtid: AnyGtid) -> None:
        """Make this the most recent GTID of its domain. Raises GtidError for one of MySQL."""
        if not isinstance(gtid, MariadbGtid):
            raise GtidError(f"{gtid} is no GTID of MariaDB (those look like 0-1-100)")
        servers = self._domains.setdefault(gtid.domain_id, {})
        servers.pop(gtid.server_id, None)
        servers[gtid.server_id] = gtid

    def discard(self, gtid: AnyGtid) -> None:
        """Remove this very GTID, if the list has it."""
        if isinstance(gtid, MariadbGtid) and gtid in self.entries:
            servers = self._domains[gtid.domain_id]
            del servers[gtid.server_id]
            if not servers:
                del self._domains[gtid.domain_id]

    def includes(self, gtid: AnyGtid) -> bool:
        """Whether the list has a GTID, or a later one of the same server and domain."""
        if not isinstance(gtid, MariadbGtid):
            return False
        last = self._domains.get(gtid.domain_id, {}).get(gtid.server_id)
        return last is not None and last.seq_no >= gtid.seq_no

    def __sub__(self, other: object) -> Self:
        """The GTIDs that another state, which may be MySQL's, does not include."""
        if not isinstance(other, GtidList):
            return self.copy()
        return type(self)(gtid for gtid in self.entries if not other.includes(gtid))

    @property
    def latest(self) -> Self:
        """The most recent GTID of each domain, which stands for all before it."""
        return type(self)(self.position.values())

    @property
    def entries(self) -> tuple[MariadbGtid, ...]:
        """All GTIDs, by domain; the most recent of a domain last."""
        return tuple(
            gtid for _, servers in sorted(self._domains.items()) for gtid in servers.values()
        )

    @property
    def position(self) -> dict[int, MariadbGtid]:
        """Each domain's most recent GTID, by domain id (``@@gtid_binlog_pos``)."""
        return {
            domain: next(reversed(servers.values()))
            for domain, servers in sorted(self._domains.items())
        }

    def copy(self) -> Self:
        """An independent copy."""
        return type(self)(self.entries)

    def __iter__(self) -> Iterator[MariadbGtid]:
        return iter(self.entries)

    def __len__(self) -> int:
        return sum(map(len, self._domains.values()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GtidList):
            return NotImplemented
        return self.entries == other.entries

    __hash__ = None  # type: ignore[assignment]  # it changes

    def text(self, separator: str = ",") -> str:
        """The GTIDs as text, separated by ``separator``."""
        return separator.join(map(str, self.entries))

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"GtidList({str(self)!r})"
