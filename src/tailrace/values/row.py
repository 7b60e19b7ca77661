"""Rows of a rows event, decoded at first access."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final, Literal

from tailrace.errors import EventDecodeError, LogError, SchemaError, UnknownColumn, UsageError
from tailrace.events import Event, RowsEvent, TableMapEvent
from tailrace.values.image import (
    Image,
    ImageDecoder,
    ImagePlan,
    ImageSource,
    RowOfFields,
    decoder_of,
    placed,
)
from tailrace.values.resolve import resolve_table
from tailrace.values.schema import TableSchema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.constants import Flavour
    from tailrace.events import TableLayout

MOST_COLUMNS: Final = 40
"""The most columns that a notebook shows."""
Kind = Literal["insert", "update", "delete", "select"]


class Row(RowOfFields):
    """One change of one row: ``before`` (update, delete) and ``after`` (insert, update) images.

    ``number`` is the row's number in the event, from 0. A row of a query's result (``kind``
    "select") has an after image.

    A row is a sequence and a mapping of its `Value`s, as its images are. They are those of
    ``image``: the row after the change, or, for a delete, before it.
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
    def image(self) -> Image:
        """The row after the change, or, for a delete, before it."""
        image = self.after if self.after is not None else self.before
        if image is None:
            raise UnknownColumn("the row has no image, so no column either")
        return image

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented
        mine = (self.kind, self.number, self.before, self.after)
        return mine == (other.kind, other.number, other.before, other.after)

    __hash__ = None  # type: ignore[assignment]  # its images are compared by content

    def __repr__(self) -> str:
        return f"Row({self.kind}, before={self.before!r}, after={self.after!r})"

    def _repr_html_(self) -> str:
        """Its columns, for a notebook: for an update before and after."""
        from tailrace.notebook import table  # noqa: PLC0415 - in notebooks only

        images = {"before": self.before, "after": self.after}
        shown = {name: image for name, image in images.items() if image is not None}
        schema = self.image.schema
        return table(
            f"{self.kind} {schema.full_name}",
            ("column", *shown),
            zip(
                (column.name for column in schema.columns),
                *map(_texts, shown.values()),
                strict=True,
            ),
            most=MOST_COLUMNS,
            total=len(schema.columns),
        )


class RowSet:
    """The rows of a rows event (the worklog's ``Row_event_set``).

    ``table`` is the event's table map, or the schema that it and a definition resolve to. It can be
    iterated any number of times; its length is the number of rows. Raises `SchemaError` for a table
    map with another table id than the event's, and `UsageError` for arguments of other types. When
    iterated it raises `EventDecodeError`, with the event's position, for row data that does not
    follow the format, including bytes left over; `UnsupportedType` for columns that cannot be
    decoded.
    """

    def __init__(self, event: RowsEvent, table: TableSchema | TableMapEvent) -> None:
        if not isinstance(event, RowsEvent):
            raise UsageError(f"a RowSet is of a rows event, not of {_kind(event)}")
        self.event = event
        if isinstance(table, TableSchema):
            self.schema = table
        elif isinstance(table, TableMapEvent):
            self.schema = _schema_of(event, table)
        else:
            raise UsageError(f"a RowSet takes a table map or a TableSchema, not {_kind(table)}")

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

    def _repr_html_(self) -> str:
        """Its first rows, for a notebook; of an update, changed values before and after."""
        from tailrace.notebook import table  # noqa: PLC0415 - in notebooks only

        schema = self.schema
        names = [column.name for column in schema.columns[:MOST_COLUMNS]]
        left = len(schema.columns) - len(names)
        return table(
            f"{self.event.kind} {schema.full_name}"
            + (f", without the last {left:,} columns" if left else ""),
            names,
            (_changed(row)[:MOST_COLUMNS] for row in self),
            total=len(self),
        )

    def _rows(self) -> Iterator[Row]:
        event = self.event
        data, at = event.rows_in()
        table = decoder_of(self.schema)
        before_plan, after_plan = (
            None if present is None else table.plan(present)
            for present in (event.present_before, event.present_after)
        )
        plans = [plan for plan in (before_plan, after_plan) if plan is not None]
        if not any(plan.indexes for plan in plans):
            # INSERT INTO t () VALUES () with a MINIMAL image: MySQL logs one row of zero bytes.
            if at < len(data) or not plans:
                raise EventDecodeError(f"{len(data) - at} bytes of rows with no columns")
            images = [
                Image(plan.table, plan.blank.copy()) if plan else None
                for plan in (before_plan, after_plan)
            ]
            yield Row(event.kind, images[0], images[1])
            return
        source = ImageSource(event, data)
        number = 0
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


def _texts(image: Image) -> list[str]:
    """Its values as text, in the order of the columns."""
    from tailrace.values.text import value_text  # noqa: PLC0415 - in notebooks only

    return list(map(value_text, image.as_tuple(), image.schema.columns))


def _changed(row: Row) -> list[str]:
    """A row's values as text; those that an update changed before and after."""
    now = _texts(row.image)
    if row.before is None or row.after is None:
        return now
    pairs = zip(_texts(row.before), now, strict=True)
    return [new if old == new else f"{old} → {new}" for old, new in pairs]


def _kind(value: object) -> str:
    return value.name if isinstance(value, Event) else type(value).__name__


def _schema_of(event: RowsEvent, table_map: TableMapEvent) -> TableSchema:
    """The schema from the event's table map. Raises SchemaError if it is another table's."""
    if table_map.table_id != event.table_id:
        raise event.error(
            f"its rows are of table id {event.table_id}, the table map of {table_map.database}."
            f"{table_map.table} is of {table_map.table_id}: event.table_map is the one to use",
            SchemaError,
        )
    return _resolved(table_map.layout, table_map.form.flavour)


@lru_cache(maxsize=256)
def _resolved(layout: TableLayout, flavour: Flavour) -> TableSchema:
    """The schema from a table map alone; cached per table, as its decoder is."""
    return resolve_table(layout, flavour)


def _image(
    plan: ImagePlan, source: ImageSource, at: int, partial: dict[int, Image] | None = None
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
    table: ImageDecoder, data: bytes, at: int, before: Image
) -> tuple[dict[int, Image] | None, int]:
    """Reads what precedes an after image of PARTIAL_UPDATE_ROWS: options, and a bit per JSON
    column.

    Returns the columns that are logged as diffs, with the image that they apply to.
    """
    if at >= len(data):
        raise EventDecodeError("the row's options are missing")
    options = data[at]
    if options > 1:  # a length-encoded integer in which only bit 0 is defined
        raise EventDecodeError(f"row options {options:#x} are unknown")
    if not options:
        return None, at + 1
    columns = table.json_columns
    end = at + 1 + (len(columns) + 7) // 8
    if end > len(data):
        raise EventDecodeError("the bits of the partial JSON columns are missing")
    bits = int.from_bytes(data[at + 1 : end], "little")
    return {index: before for bit, index in enumerate(columns) if bits >> bit & 1}, end
