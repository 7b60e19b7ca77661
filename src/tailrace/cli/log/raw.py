"""``tailrace log --as raw --into FILE``: writes the selection as a log again."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from tailrace.cli.output import say
from tailrace.cli.sources import say_how_it_ended
from tailrace.constants import ChecksumAlgorithm, EventType
from tailrace.errors import BoundaryError, StatementChange, UsageError
from tailrace.events import Event, GtidEvent, MariadbGtidEvent
from tailrace.handlers import ByTable, Handler, Pipeline, Rename
from tailrace.log.events import gtids_at
from tailrace.log_name import LogName, base_and_number
from tailrace.printable import counted
from tailrace.schema.classify import StatementKind, classify
from tailrace.sql.logged import selected
from tailrace.transaction import Boundary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tailrace.events import QueryEvent
    from tailrace.handlers.base import Outcome
    from tailrace.log.reader import Reader
    from tailrace.position import Position
    from tailrace.table_filter import TableFilter
    from tailrace.writing import LogWriter


class _Tables(ByTable):
    """Rows of the requested tables, and the statements that define them."""

    def __init__(self, wants: TableFilter, refuse: Callable[[QueryEvent], None]) -> None:
        super().__init__(wants)
        self._asked_for = wants
        self._reject_statement = refuse

    def on_query(self, event: QueryEvent) -> Outcome:
        kind = classify(event.sql)
        if kind is StatementKind.CONTROL:
            return self.on_event(event)
        if kind in {StatementKind.DML, StatementKind.UNKNOWN}:
            self._reject_statement(event)
            return self.leave_out(event)
        found = selected(event, self._asked_for)
        return self.leave_out(event) if found is None else self.on_event(found)


class _Anonymous(Handler):
    """Transactions without their GTIDs."""

    def on_event(self, event: Event) -> Outcome:
        if isinstance(event, MariadbGtidEvent):
            raise UsageError(
                "--skip-gtids with --as raw: a transaction of MariaDB's begins with its GTID"
            )
        if isinstance(event, GtidEvent) and event.gtid is not None:
            return event.replace(
                type=EventType.ANONYMOUS_GTID, gtid=None, last_needed=0, unknown_fields=b""
            )
        return event


class RawOutput:
    """Copies a reader's selection into a new log, in whole transactions."""

    def __init__(
        self,
        into: Path,
        wants: TableFilter,
        names: Mapping[str, str],
        statements: Literal["error", "skip"],
        *,
        gtids: bool,
    ) -> None:
        self._into = into
        self._statements = statements
        self._skipped = 0
        self._transactions = 0
        self._handlers = Pipeline()
        self._gtids = gtids
        if not gtids:
            self._handlers.append(_Anonymous())
        if names:
            self._handlers.append(Rename(names))
        if not wants.takes_all:
            self._handlers.append(_Tables(wants, self._reject))
        self._writer: LogWriter | None = None

    def copy(self, reader: Reader) -> None:
        """Write the file. It must not exist; it is removed if something fails."""
        try:
            self._copy(reader)
        except BaseException:
            self._remove()
            raise
        if self._skipped:
            say(f"{self._skipped} statements that changed rows left out: their tables are unknown")
        say(f"{self._into}: {counted(self._transactions, 'transaction')} of {reader.name}")
        say_how_it_ended(reader)

    def _copy(self, reader: Reader) -> None:
        for event in self._handlers.run(self._selected(reader)):
            if self._writer is not None:
                self._writer.write(event)
        writer = self._writer or self._open(reader, None)
        try:
            writer.close()
        except BoundaryError:
            if not reader.inside:
                raise
            say("the log ends inside a transaction: it is left out")

    def _selected(self, reader: Reader) -> Iterator[Event]:
        """The events of whole transactions, with payloads as one event each.

        The writer skips events between transactions.
        """
        for event, boundary, group, *_ in reader:
            if event.inner_index is not None:
                continue
            if self._writer is None and group is not None:
                self._open(reader, group.start)
            if self._writer is not None:
                yield event
            self._transactions += boundary is Boundary.END

    def _open(self, reader: Reader, start: Position | None) -> LogWriter:
        from tailrace.writing import create  # noqa: PLC0415 - only where something is written

        form = reader.format
        if LogName.parse(self._into.name) is None:
            raise UsageError(f"--into {self._into}: a log's name ends in a number, as cut.000001")
        sums = form.checksum_algorithm is ChecksumAlgorithm.CRC32
        self._writer = create(
            self._into,
            flavour=form.flavour,
            server_id=reader.server_id or 1,
            server_version=form.server_version,
            checksum="crc32" if sums else "none",
            gtids=None if start is None or not self._gtids else gtids_at(reader.transport, start),
            sync="none",
        )
        return self._writer

    def _remove(self) -> None:
        """Remove the files that were created."""
        if self._writer is None:
            return
        names = self._writer.files  # of its own index
        with suppress(Exception):
            self._writer.close()
        folder, base = self._into.parent, base_and_number(self._into.name)[0]
        for name in (*names, f"{base}.index"):
            (folder / name).unlink(missing_ok=True)

    def _reject(self, event: QueryEvent) -> None:
        if self._statements == "skip":
            self._skipped += 1
            return
        raise event.error(
            "the log holds a statement that changes rows, of unknown tables, so "
            "--tables and --exclude cannot select it; --statements skip leaves such out",
            StatementChange,
        )
