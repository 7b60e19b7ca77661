"""How a log is written: what a server's variables say, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypedDict, TypeVar

from tailrace.constants import MAX_EVENT_SIZE, Flavour
from tailrace.errors import UsageError
from tailrace.values.encode import RowImage

if TYPE_CHECKING:
    from collections.abc import Callable

_SMALLEST_FILE: Final = 4096
_LARGEST_FILE: Final = 1 << 30
_E = TypeVar("_E", bound=StrEnum)


class TransactionOptions(TypedDict, total=False):
    """A transaction's options other than its GTID (`TransactionWriter` has the defaults)."""

    tag: str | None
    domain_id: int | None
    server_id: int | None
    timestamp: int | None
    original_commit_timestamp: int | None
    thread_id: int
    foreign_key_checks: bool
    unique_checks: bool
    gtid_at_commit: bool


class RowMetadata(StrEnum):
    """What table maps say of their tables (``binlog_row_metadata``)."""

    FULL = "full"
    """Names, keys, members and all."""
    MINIMAL = "minimal"
    """Signs and character sets."""
    NONE = "none"
    """Nothing (MariaDB's NO_LOG, its default)."""


class Sync(StrEnum):
    """When written bytes are made to survive a power cut (``sync_binlog``).

    They survive the end of this process in any case; in an object store without a sync only those
    that were committed a second before.
    """

    TRANSACTION = "transaction"
    """Before each commit returns."""
    NONE = "none"
    """When the operating system decides (in an object store within a second), and at
    `LogWriter.flush` and the end of a file.
    """


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """How transactions are written. Raises UsageError for what no server would do.

    ``compress``: MySQL's transaction payloads, MariaDB's compressed events.
    ``max_rows_event_size``: bytes of rows gathered in an event before the next is started; a row
    that is larger has an event of its own. ``max_size``: bytes after which the log continues in a
    new file, once a transaction ends. ``cache_limit``: bytes of a transaction held in memory
    before it is committed; what is more goes to a temporary file.
    """

    metadata: RowMetadata = RowMetadata.FULL
    image: RowImage = RowImage.FULL
    compress: bool = False
    max_rows_event_size: int = 8192
    max_size: int = _LARGEST_FILE
    sync: Sync = Sync.TRANSACTION
    cache_limit: int = 16 << 20

    def __post_init__(self) -> None:
        object.__setattr__(self, "metadata", _one_of(RowMetadata, self.metadata, "metadata"))
        object.__setattr__(self, "image", _one_of(RowImage, self.image, "image"))
        object.__setattr__(self, "sync", _one_of(Sync, self.sync, "sync"))
        _between("max_rows_event_size", self.max_rows_event_size, 256, MAX_EVENT_SIZE)
        _between("max_size", self.max_size, _SMALLEST_FILE, _LARGEST_FILE)
        _between("cache_limit", self.cache_limit, 1, 1 << 62)

    def check(self, flavour: Flavour) -> None:
        """Whether a server of the flavour knows these."""
        if flavour is Flavour.MYSQL and self.metadata is RowMetadata.NONE:
            raise UsageError("metadata: MySQL's table maps say 'minimal' or 'full', never 'none'")


def _one_of(kind: Callable[[str], _E], value: str, name: str) -> _E:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(repr(str(each)) for each in kind)  # type: ignore[attr-defined]
        raise UsageError(f"{name}: {value!r} is none of {known}") from None


def _between(name: str, value: int, least: int, most: int) -> None:
    if not isinstance(value, int) or not least <= value <= most:
        raise UsageError(f"{name}: {value!r} is not a number from {least} to {most}")
