"""``tailrace check``: reads logs whole and checks everything in them, with a line per file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.cli.options import (  # noqa: TC001 - cyclopts reads them
    KeyringFile,
    Layers,
    SchemaFile,
    SkipChecksums,
    SkipTornTail,
    Sources,
)
from tailrace.cli.output import output_to, standard_output
from tailrace.cli.sources import with_servers
from tailrace.columns.text.readers import CHECK, parts, reader_for
from tailrace.constants import ChecksumAlgorithm
from tailrace.errors import LogError, TailraceError
from tailrace.events import FormatDescriptionEvent, RowsEvent, TransactionPayloadEvent
from tailrace.log.reader import Reader, Step
from tailrace.log.sources import catalogue_of, logs_of
from tailrace.printable import counted, one_line
from tailrace.storage import LogSeries
from tailrace.transaction import Boundary
from tailrace.transports import SeriesTransport
from tailrace.values.row import RowSet
from tailrace.values.schema import Logical

if TYPE_CHECKING:
    from tailrace.cli.output import Output
    from tailrace.columns.text.stretches import Stretch
    from tailrace.position import Position
    from tailrace.schema import Catalogue
    from tailrace.transports import Transport
    from tailrace.values.image import Image
    from tailrace.values.schema import TableSchema


@dataclass(slots=True)
class _Counts:
    events: int = 0
    transactions: int = 0
    rows: int = 0
    checksums: bool = False
    ends_inside: bool = False


def check(
    *sources: Sources,
    schema: SchemaFile = None,
    keyring: KeyringFile = None,
    layers: Layers = (),
    skip_checksums: SkipChecksums = False,
    skip_torn_tail: SkipTornTail = False,
) -> int:
    """Check each file of the logs: checksums, events, their order, rows; returns the status.

    After a damaged file, the files after it are still checked; but after an error, a server's log
    is read no further. Text with an unknown character set is not checked.
    """
    given = with_servers(sources, skip_torn_tail=skip_torn_tail)
    logs = logs_of(given, keyring, layers or None)
    catalogue = catalogue_of(schema)
    out = output_to(standard_output())
    good = True
    try:
        for log in logs:
            if isinstance(log, LogSeries):
                good &= _check_series(log, out, catalogue, not skip_checksums)
            else:
                good &= _check_stream(log, out, catalogue, not skip_checksums)
    finally:
        out.close()
    return 0 if good else 2


def _check_series(
    series: LogSeries, out: Output, catalogue: Catalogue, verify_checksums: bool
) -> bool:
    good = True
    for number, file in enumerate(series.files):
        name = file.path
        alone = LogSeries(series.name, (file,))
        counts = _Counts()
        try:
            make = reader_for(alone, CHECK)
            reader = make(
                SeriesTransport(alone, continues=number > 0),
                catalogue=catalogue,
                verify_checksums=verify_checksums,
            )
            for part in parts(reader):
                if isinstance(part, Step):
                    _count(part, counts)
                else:
                    _check_stretch(part, counts)
            catalogue = reader.catalogue
        except TailraceError as error:
            good = False
            text = one_line(str(error))
            text = text.replace(f"{file.path}: ", "", 1) if text.startswith(file.path) else text
            out.line((f"{name}: ", "file"), ("error: ", "alarm"), (text, ""))
            continue
        counts.ends_inside = reader.inside and number == len(series.files) - 1
        out.line((f"{name}: ", "file"), (_summary(counts, reader.log.torn_tail), ""))
    return good


def _check_stream(
    transport: Transport, out: Output, catalogue: Catalogue, verify_checksums: bool
) -> bool:
    counts = _Counts()
    name = ""
    try:
        reader = Reader(transport, catalogue=catalogue, verify_checksums=verify_checksums)
        for step in reader:
            if step.event.file != name:
                if name:
                    out.line((f"{name}: ", "file"), (_summary(counts, None), ""))
                name, counts = step.event.file or "", _Counts()
            _count(step, counts)
    except LogError as error:
        text = one_line(str(error))
        out.line((f"{name or transport.name}: ", "file"), ("error: ", "alarm"), (text, ""))
        return False
    counts.ends_inside = reader.inside
    out.line((f"{name}: ", "file"), (_summary(counts, reader.log.torn_tail), ""))
    return True


def _count(step: Step, counts: _Counts) -> None:
    event = step.event
    counts.events += 1
    counts.transactions += step.boundary is Boundary.END
    if isinstance(event, TransactionPayloadEvent):
        event.fields()  # the events inside come as separate steps
    else:
        event.check()
    if isinstance(event, RowsEvent) and step.schema is not None:
        judged = _judged(step.schema)
        for row in RowSet(event, step.schema):
            counts.rows += 1
            _decode(row.before, judged)
            _decode(row.after, judged)
    elif isinstance(event, FormatDescriptionEvent):
        description = event.description
        counts.checksums = description.checksum_algorithm is ChecksumAlgorithm.CRC32


def _check_stretch(stretch: Stretch, counts: _Counts) -> None:
    """Check a stretch by kernels; if they cannot, it is checked event by event."""
    from tailrace.columns.text.counts import check  # noqa: PLC0415 - it needs pyarrow

    try:
        found = check(stretch)
    except (TailraceError, UnicodeError, MemoryError):
        stretch.rejected = True
        return
    counts.events += found.events
    counts.transactions += found.transactions
    counts.rows += found.rows


def _judged(schema: TableSchema) -> list[int]:
    """The columns whose bytes must be decodable: all except text of an unknown character set."""
    return [
        column.index
        for column in schema.columns
        if column.logical is not Logical.TEXT or column.collation is not None
    ]


def _decode(image: Image | None, columns: list[int]) -> None:
    if image is not None:
        for index in columns:
            image.at(index)


def _summary(counts: _Counts, torn_tail: Position | None) -> str:
    text = (
        f"in order, {counted(counts.events, 'event')}, "
        f"{counted(counts.transactions, 'transaction')}, {counted(counts.rows, 'row')}, "
        f"{'checksums' if counts.checksums else 'no checksums'}"
    )
    if torn_tail is not None:
        text += f"; ends inside an event at {torn_tail.offset}: it is being written, or was cut off"
    if counts.ends_inside:
        text += "; ends inside a transaction"
    return text
