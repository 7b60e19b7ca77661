"""Rows of a rows event: one thing at a time, decoded when it is looked at."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from tailrace.errors import EventDecodeError, LogError
from tailrace.rows.image import Image, ImagePlan, Source, TableDecoder, decoder_of, placed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.events.rows import RowsEvent
    from tailrace.rows.schema import TableSchema

Kind = Literal["insert", "update", "delete"]


class Row:
    """One change of one row: ``before`` (update, delete) and ``after`` (insert, update) images.

    ``number`` counts the rows of the event from 0.
    """

    __slots__ = ("after", "before", "kind", "number")

    def __init__(
        self, kind: Kind, before: Image | None, after: Image | None, number: int = 0
    ) -> None:
        self.kind = kind
        self.before = before
        self.after = after
        self.number = number

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of the row as it is now, or, for a delete, as it was."""
        image = self.after if self.after is not None else self.before
        return () if image is None else image.as_tuple()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented
        mine = (self.kind, self.number, self.before, self.after)
        return mine == (other.kind, other.number, other.before, other.after)

    __hash__ = None  # type: ignore[assignment]  # its images are compared by content

    def __repr__(self) -> str:
        return f"Row({self.kind}, before={self.before!r}, after={self.after!r})"


class RowSet:
    """The rows of a rows event (the worklog's ``Row_event_set``).

    Iterable any number of times; its length counts the rows. Raises `EventDecodeError`, with the
    event's place, for row data that does not follow the format, bytes left over included;
    `SchemaError` for a schema of another table; `UnsupportedType` for columns nobody can decode.
    """

    def __init__(self, event: RowsEvent, schema: TableSchema) -> None:
        self.event = event
        self.schema = schema

    @cached_property
    def _length(self) -> int:
        return sum(1 for _row in self)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Row]:
        event = self.event
        try:
            yield from self._rows()
        except LogError as error:
            raise placed(error, event) from None

    def _rows(self) -> Iterator[Row]:
        event = self.event
        data = event.row_data
        table = decoder_of(self.schema)
        before_plan, after_plan = (
            None if present is None else table.plan(present)
            for present in (event.present_before, event.present_after)
        )
        plans = [plan for plan in (before_plan, after_plan) if plan is not None]
        if not any(plan.indexes for plan in plans):
            # INSERT INTO t () VALUES () with a MINIMAL image: MySQL logs one such row, of no bytes.
            if data or not plans:
                raise EventDecodeError(f"{len(data)} bytes of rows that have no columns")
            images = [
                Image(plan.table, plan.blank.copy()) if plan else None
                for plan in (before_plan, after_plan)
            ]
            yield Row(event.kind, images[0], images[1])
            return
        source = Source(event, data)
        at = number = 0
        before = after = None
        while at < len(data):
            if before_plan is not None:
                before, at = _image(before_plan, source, at)
            if after_plan is not None:
                partial = None
                if event.partial and before is not None:
                    partial, at = _partial_columns(table, data, at, before)
                after, at = _image(after_plan, source, at, partial)
            yield Row(event.kind, before, after, number)
            number += 1


def _image(
    plan: ImagePlan, source: Source, at: int, partial: dict[int, Image] | None = None
) -> tuple[Image, int]:
    found, at = plan.locate(source.data, at)
    values = plan.blank.copy()
    spans = {}
    for index, span in zip(plan.indexes, found, strict=True):
        if span is None:
            values[index] = None
        else:
            spans[index] = span
    return Image(plan.table, values, source, spans, partial), at


def _partial_columns(
    table: TableDecoder, data: bytes, at: int, before: Image
) -> tuple[dict[int, Image] | None, int]:
    """What precedes an after image of PARTIAL_UPDATE_ROWS: options, and a bit a JSON column.

    Gives the columns that are logged as diffs, with the image that they apply to.
    """
    if at >= len(data):
        raise EventDecodeError("the row's options are missing")
    options = data[at]
    if options > 1:  # a length-encoded integer of which only bit 0 means anything
        raise EventDecodeError(f"row options {options:#x} are unknown")
    if not options:
        return None, at + 1
    columns = table.json_columns
    end = at + 1 + (len(columns) + 7) // 8
    if end > len(data):
        raise EventDecodeError("the bits of the partial JSON columns are missing")
    bits = int.from_bytes(data[at + 1 : end], "little")
    return {index: before for bit, index in enumerate(columns) if bits >> bit & 1}, end
