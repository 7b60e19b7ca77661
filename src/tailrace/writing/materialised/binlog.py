"""The binary log as a format of materialised events (MWL#120: "other formats alongside")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tailrace.constants import FILE_FLAGS_AT, Flavour
from tailrace.errors import StorageError, UsageError
from tailrace.generators.event import context_of, place_of
from tailrace.generators.formats import MaterialisedFormat, MaterialisedWriter, reading
from tailrace.generators.log_context import LogContext
from tailrace.generators.materialise import injected
from tailrace.generators.row import OPERATIONS, RowBatch, RowConsumer
from tailrace.generators.stack import Stack, generators
from tailrace.generators.stream import offers_of
from tailrace.storage.file import LogFile, LogSeries
from tailrace.storage.memory import MemoryFolder
from tailrace.storage.pipe import Pipe
from tailrace.writing.consumer import LogConsumer
from tailrace.writing.create import create

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.generators.event import ReplicationEvent
    from tailrace.generators.formats import Output, Source
    from tailrace.generators.generator import Offer
    from tailrace.storage.streams.base import Data, RandomOutput
    from tailrace.writing.log import LogWriter

_VERSIONS = {Flavour.MYSQL: "9.7.0", Flavour.MARIADB: "11.8.3-MariaDB"}


class BinlogFormat(MaterialisedFormat):
    """A stream of events as a binary log, as `LogConsumer` writes it and `EventStream` reads it.

    Of events of a log it is a log of the same server's release, and a transaction of which nothing
    was changed has the same bytes: see `LogConsumer`. Else it is of the flavour that the first
    transaction's GTID has, MySQL's without one. It holds whole transactions that were committed: an
    event that is rolled back, or by itself, is a UsageError, and a transaction that has not ended
    is left out. The log's positions are its own.
    """

    name: ClassVar[str] = "binlog"

    def writer(self, output: Output) -> _BinlogWriter:
        """What writes a log to an output. After a GiB the next file follows."""
        return _BinlogWriter(output)

    def reader(self, source: Source) -> _BinlogReader:
        """What reads a log."""
        return _BinlogReader(source)


class _Written:
    """A file of the log, which is never read or changed: its bytes are the output's."""

    def __init__(self, output: Output, head: bytes) -> None:
        self._output = output
        self.size = 0
        complete = bytearray(head)
        if len(complete) > FILE_FLAGS_AT:
            complete[FILE_FLAGS_AT] &= ~1  # who reads it has all of it
        self.write(complete)

    def write(self, data: Data, /) -> None:
        self._output(bytes(data))
        self.size += len(data)

    def update(self, offset: int, data: Data, /) -> None:
        if (offset, len(data)) != (FILE_FLAGS_AT, 1):
            raise StorageError("what was written to a stream cannot be changed")

    def truncate(self, size: int, /) -> None:
        if size != self.size:
            raise StorageError("what was written to a stream cannot be cut off")

    def flush(self) -> None:
        """Nothing: the output has it."""

    def sync(self) -> None:
        """Nothing: whoever owns the output syncs it."""

    def close(self) -> None:
        """Nothing: its owner closes the output."""


class _OutputFolder(MemoryFolder):
    """Where the log is written: its files are the output, its index is in memory."""

    def __init__(self, output: Output) -> None:
        super().__init__("a stream")
        self._output = output

    def create(self, name: str, head: bytes) -> RandomOutput:  # type: ignore[override]
        self.files[name] = bytearray(head)
        return _Written(self._output, head)


class _BinlogWriter(MaterialisedWriter):
    def __init__(self, output: Output) -> None:
        self._output = output
        self._before: list[bytes] | None = []
        """What was written before the first commit: without one there is no log."""
        self._started: set[int] = set()
        self._log: LogWriter | None = None
        self._consumer: LogConsumer | None = None
        self._held: list[ReplicationEvent] = []

    def _out(self, data: bytes) -> None:
        if self._before is None:
            self._output(data)
        else:
            self._before.append(data)

    def _committed(self) -> None:
        before, self._before = self._before, None
        for data in before or ():
            self._output(data)

    def event(self, event: ReplicationEvent) -> None:
        if event.is_rolled_back or event.name == "trx_rollback":
            raise UsageError(
                f"{event.name}: a binary log holds no event that is rolled back: materialise"
                " without rollbacks"
            )
        number = place_of(event).transaction
        if event.name == "trx_start":
            self._started.add(number)
        elif number not in self._started:
            raise UsageError(
                f"{event.name}: a binary log holds whole transactions, and the start is missing"
            )
        self._take(event)
        if event.name == "trx_commit":
            self._started.discard(number)
            self._committed()

    def _take(self, event: ReplicationEvent) -> None:
        if self._consumer is not None:
            self._write(self._consumer, event)
            return
        context = context_of(event)
        if isinstance(context, LogContext) and not self._held:
            form = context.event.form
            self._write(self._begin(form.flavour, form.server_version, event.server_id), event)
            return
        self._held.append(event.keep())
        if event.name == "trx_commit":
            held, self._held = self._held, []
            gtid: Any = event.global_transaction_id  # type: ignore[attr-defined]
            mariadb = gtid is not None and ":" not in str(gtid)
            flavour = Flavour.MARIADB if mariadb else Flavour.MYSQL
            consumer = self._begin(flavour, _VERSIONS[flavour], held[0].server_id)
            for each in held:
                self._write(consumer, each)

    def _begin(self, flavour: Flavour, version: str, server_id: int | None) -> LogConsumer:
        self._log = create(
            _OutputFolder(self._out),
            flavour=flavour,
            server_version=version,
            server_id=server_id or 1,
            sync="none",
            image="full",
            gtid_strict_mode=False,
        )
        self._consumer = LogConsumer(self._log, anonymous=True)
        return self._consumer

    def _write(self, consumer: LogConsumer, event: ReplicationEvent) -> None:
        if event.name in OPERATIONS:
            values = event.values()
            before, after = values.pop("before_image", None), values.pop("after_image", None)
            event = injected(
                RowBatch,
                event,
                **values,
                operation=OPERATIONS[event.name],
                before_images=None if before is None else [before],
                after_images=None if after is None else [after],
            )
        getattr(consumer, event.name, consumer.event)(event)

    def flush(self) -> None:
        if self._log is not None:
            self._log.flush()

    def close(self) -> None:
        if self._log is not None:
            self._log.close()


class _BinlogReader:
    def __init__(self, source: Source) -> None:
        pipe = Pipe(_Input(source), "a stream")
        self._log = LogSeries("a stream", (LogFile(pipe, "stream", 0),))

    def offers(self) -> Iterator[Offer]:
        return offers_of(self._log)

    def events(self) -> Iterator[ReplicationEvent]:
        stack, keeps = Stack(generators()), _Keeps()
        stack["row"].register(keeps)
        for offer in self.offers():
            stack.offer(offer)
            yield from keeps.taken()


class _Keeps(RowConsumer):
    def __init__(self) -> None:
        self._kept: list[ReplicationEvent] = []

    def event(self, event: ReplicationEvent, /) -> None:
        self._kept.append(event.keep())

    row_batch = trx_rollback = event

    def taken(self) -> list[ReplicationEvent]:
        kept, self._kept = self._kept, []
        return kept


class _Input:
    def __init__(self, source: Source) -> None:
        self.read = reading(source)
