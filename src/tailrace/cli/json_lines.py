"""``tailrace log --as json``: change records, by kernels if a log has stretches for them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Literal

from tailrace.cli.kernels import parts, written
from tailrace.cli.options import say_what_was_left
from tailrace.log.changes import Changes
from tailrace.log.reader import Step
from tailrace.printable import printable_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from tailrace.columns.text.lines import Lines
    from tailrace.columns.text.stretches import DecodedRows
    from tailrace.log.reader import Reader
    from tailrace.values.schema import TableSchema


def json_lines(
    reader: Reader, statements: Literal["error", "skip"]
) -> Iterator[str | Iterator[str] | memoryview]:
    """The records of a reader's changes: lines, some in pieces, or many together as bytes."""
    changes = Changes(reader, statements=statements)
    done = 0  # lines of the next changes that are already written
    for part in parts(reader):
        if not isinstance(part, Step):
            done = yield from written(part, _lines)
            continue
        for change in changes.feed(part):
            for record in change.json_records():
                if done:
                    done -= 1
                    deque(() if isinstance(record, str) else record, maxlen=0)
                elif isinstance(record, str):
                    yield printable_json(record)
                else:
                    yield map(printable_json, record)
            del change  # before the next event is read: it may be large
        del part
    changes.finish()
    say_what_was_left(changes)


def _lines(piece: DecodedRows, file: str) -> list[Lines]:
    from tailrace.columns.text.record_json import record_lines  # noqa: PLC0415 - it needs pyarrow

    def made(schema: TableSchema, batch: pa.RecordBatch) -> Lines:
        return record_lines(batch, schema, file, piece.start).printable(printable_json)

    return [made(schema, batch) for schema, batch in piece.batches()]
