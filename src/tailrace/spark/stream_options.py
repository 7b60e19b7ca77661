"""The options that only a stream of the data source ``binlog`` has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from tailrace.errors import UsageError
from tailrace.selection import start_of
from tailrace.sizes import bytes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.selection import Start

STREAMING: Final = frozenset(
    {"start", "maxbytespertrigger", "maxtransactionspertrigger", "spool", "spoollimit", "index"}
    | {"schemachange"}
)
"""Their names, in lower case."""


@dataclass(frozen=True)
class StreamOptions:
    """What is asked for of a stream; ``spool`` and ``index`` are folders.

    ``schema_change`` says what happens where the one table of a query gets other columns.
    """

    start: Start | None = None
    max_bytes: int | None = None
    max_transactions: int | None = None
    spool: str | None = None
    spool_limit: int | None = None
    index: str | None = None
    schema_change: Literal["error", "ignore"] = "error"

    @classmethod
    def of(cls, given: Mapping[str, str]) -> StreamOptions:
        """Understand what was given to ``.option(…)``; raises UsageError."""
        options = {name.lower(): value for name, value in given.items()}
        limit = options.get("spoollimit")
        return cls(
            start_of(options.get("start"), "option start"),
            _count(options, "maxBytesPerTrigger"),
            _count(options, "maxTransactionsPerTrigger"),
            options.get("spool"),
            None if limit is None else bytes_of(limit, "option spoolLimit"),
            options.get("index"),
            choice(options, "schemaChange", ("error", "ignore")),
        )


def refuse_streaming(given: Mapping[str, str], *, server: bool = False) -> None:
    """Raise UsageError where a batch read is given options of streams; a ``server`` has a spool."""
    streaming = STREAMING - {"spool"} if server else STREAMING
    if found := sorted(name for name in given if name.lower() in streaming):
        raise UsageError(f"option {found[0]} is for spark.readStream: a batch reads all there is")


def choice(options: Mapping[str, str], name: str, values: tuple[str, ...]) -> Any:
    """One of the values that an option may have, the first by default; raises UsageError."""
    value = options.get(name.lower(), values[0]).lower()
    if value not in values:
        raise UsageError(f"option {name} is {' or '.join(values)}, and not {value!r}")
    return value


def _count(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or not int(text):
        raise UsageError(f"option {name} is a number above 0, and not {text!r}")
    return int(text)
