"""A transaction that waits to be applied."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tailrace.errors import LogError, ServerError, TailraceError, ValueRejected
from tailrace.events import FormatDescription
from tailrace.log.reader import TransactionHead
from tailrace.storage.spill import SpilledObjects
from tailrace.values.schema import TableSchema

if TYPE_CHECKING:
    from tailrace.gtid import AnyGtid, GtidState
    from tailrace.position import Position

MOST_HELD: Final = 16 << 20
"""Bytes of a transaction that are held in memory; a larger one is in a temporary file."""
_BLOCK: Final = 1 << 20
"""Bytes that are written to it together."""


class Stamp(NamedTuple):
    """What the log says about a commit: MySQL numbers the transactions of a file (``number``), and
    names the last that must be committed before one may be executed (``after``). MariaDB says which
    were committed together: those of the same ``group``.
    """

    number: int = 0
    after: int = 0
    group: tuple[int, int] | None = None

    def allows(self, earlier: Stamp) -> bool:
        """Whether a transaction may be executed at the same time as that earlier one, and all
        between them.
        """
        if self.group is not None:
            return self.group == earlier.group
        return self.after < earlier.number < self.number


class Note(NamedTuple):
    """What an applier has noted in a table of positions, as a log shows it: the id of the server on
    which the transaction began, None if that is not said, and whether it is ``pending``: a
    statement that is executed next.
    """

    server_id: int | None = None
    pending: bool = False


class Mark(NamedTuple):
    """By what a target knows its last transaction again: the mark of its file (`file_mark`), a
    digest of the transaction (`identity`), and the id of the server on which it began.
    """

    file: str
    identity: str = ""
    server_id: int | None = None

    @classmethod
    def parse(cls, text: str | None) -> Mark:
        """What a target has noted; that of a start has only the file's mark."""
        file, _, rest = (text or "").partition(".")
        identity, _, server_id = rest.partition(".")
        return cls(file, identity, int(server_id) if server_id.isdecimal() else None)

    def __str__(self) -> str:
        return f"{self.file}.{self.identity}.{self.server_id}"


@dataclass(slots=True)
class Transaction:
    """A transaction to apply: ``items`` are what its target made of the changes, in their order.

    ``gtid`` is its own, ``prepared`` that of the XA PREPARE. ``position`` is that of its last event
    in the log, ``resume`` a position from which reading finds it, ``mark`` that of its file.
    ``gtids`` are those that are applied with it, None without GTIDs. ``stamp`` is its commit stamp.
    ``rolled_back``: the source rolled it back; what is left are its changes to tables without
    transactions. ``non_transactional``: it may have changed only such tables. ``mixed``: it may
    have changed such tables next to others, by statements. ``uses_temporary_tables``: MariaDB finds
    those by the source's server id, so that a single statement that uses them keeps its GTID.
    ``row_events`` and ``statements`` are the numbers of them. ``note`` is what it says in a table
    of positions, which is not for the target. ``origin`` is the id of the server on which it began.
    """

    gtid: AnyGtid | None = None
    prepared: AnyGtid | None = None
    position: Position | None = None
    resume: Position | None = None
    mark: str | None = None
    gtids: GtidState | None = None
    rolled_back: bool = False
    non_transactional: bool = False
    mixed: bool = False
    uses_temporary_tables: bool = False
    note: Note | None = None
    origin: int | None = None
    row_events: int = 0
    statements: int = 0
    stamp: Stamp | None = None
    items: list[Any] | SpilledObjects[Any] = field(default_factory=list)
    size: int = 0

    def add(self, item: Any, size: int) -> None:
        """One change more, of so many bytes."""
        self.size += size
        items = self.items
        if isinstance(items, list):
            if self.size <= MOST_HELD:
                items.append(item)
                return
            shared = (TableSchema, TransactionHead, FormatDescription)
            self.items = SpilledObjects(_BLOCK, shared=shared)
            for each in items:
                self.items.append(each, MOST_HELD // len(items))
            self.items.append(item, size)
        else:
            items.append(item, size)

    @property
    def in_file(self) -> bool:
        """Whether a part of it is in a temporary file."""
        return not isinstance(self.items, list)

    def close(self) -> None:
        """Drop its changes."""
        if isinstance(self.items, list):
            self.items.clear()
        else:
            self.items.close()

    @property
    def name(self) -> str:
        """What errors call it."""
        place = "" if self.position is None else f" that ends at {self.position}"
        return f"the transaction{f' {self.gtid}' if self.gtid else ''}{place}"


def in_transaction(
    error: TailraceError, transaction: Transaction, advice: str = ""
) -> TailraceError:
    """An error of a target that also names the transaction in which it happened."""
    place = f": in {transaction.name}{advice}"
    if isinstance(error, ServerError):
        told = f"{error.args[0]}{place}"
        return type(error)(told, code=error.code, sqlstate=error.sqlstate, text=error.text)
    if isinstance(error, LogError):
        named = type(error)(f"{error.message}{place}")
        return named.at(error.file, error.offset, error.event_type)
    if isinstance(error, ValueRejected):
        return type(error)(f"{error}{place}")
    error.add_note(place[2:])
    return error
