"""Row images are those that servers write: rows of the corpus encoded again, and random ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings

import tailrace.log
from tailrace.constants import ColumnType, Flavour
from tailrace.errors import ValueRejected
from tailrace.events import QueryEvent, RowsEvent, WriteRowsEvent
from tailrace.schema.catalogue import Catalogue
from tailrace.values.charsets import longest_character
from tailrace.values.encode import RowEncoder, RowImage
from tailrace.values.image import ABSENT
from tailrace.values.resolve import resolve_table
from tailrace.values.row import RowSet
from tailrace.values.schema import Logical, TableSchema
from tests.cases import each_case
from tests.columns.random_log import logs
from tests.recorded import has
from tests.values.made import decoded
from tests.values.replay import CORPUS, Case, cases, changes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.values.encode import RowGroup
    from tailrace.values.image import Image
    from tailrace.values.row import Row
    from tailrace.values.schema import Column


def events(case: Case) -> Iterator[tuple[RowsEvent, TableSchema]]:
    catalogue = Catalogue()
    for event in tailrace.log.open(case.folder):
        if isinstance(event, QueryEvent):
            catalogue.apply_event(event, case.flavour)
        elif isinstance(event, RowsEvent) and not event.is_dummy:
            yield event, catalogue.resolve(event.table_map, case.flavour)


def bits(present: bytes | None, width: int) -> int | None:
    """A bitmap's bits; MySQL sets those beyond the columns too."""
    return None if present is None else int.from_bytes(present, "little") & ((1 << width) - 1)


def made_of(event: RowsEvent, groups: list[RowGroup]) -> RowsEvent:
    """The event with the groups' images in it, and their bitmaps."""
    (bitmaps,) = {(group.present_before, group.present_after) for group in groups}
    data = b"".join(b"".join(group.images) for group in groups)
    before, after = bitmaps
    made = event.replace(present_before=before, present_after=after, row_data=data)
    assert isinstance(made, RowsEvent)
    return made


def stored(row: Row) -> tuple[list[Any] | None, ...]:
    return tuple(None if image is None else image.stored() for image in (row.before, row.after))


def same_columns(event: RowsEvent, groups: list[RowGroup]) -> bool:
    wanted = bits(event.present_before, event.width), bits(event.present_after, event.width)
    return {
        (bits(group.present_before, event.width), bits(group.present_after, event.width))
        for group in groups
    } == {wanted}


def lacks_columns(rows: list[Row]) -> bool:
    """Does a row not say what the FULL image needs? An update's may be after what it was before."""
    row = rows[0]
    cells = (row.before or row.after).as_tuple()
    return any(
        cell is ABSENT and not column.generated
        for cell, column in zip(cells, row.image.schema.columns, strict=True)
    )


PASSED = [case for case in cases() if not has(case.folder, "unknown-documents", "nodup")]


@each_case("case", PASSED, ids=lambda case: case.folder.name)
def test_rows_of_every_event_are_written_as_the_server_did(case: Case) -> None:
    """The rows of each event, encoded with one of the three images, are the event's again."""
    for event, schema in events(case):
        rows = list(RowSet(event, schema))
        tried = []
        for image in RowImage:
            filler = case.flavour is Flavour.MARIADB
            encode = getattr(RowEncoder(schema, image, filler=filler), event.kind)
            if image is RowImage.FULL and lacks_columns(rows):
                with pytest.raises(ValueRejected, match="does not give"):
                    list(encode(rows))
                continue
            groups = list(encode(rows))
            if same_columns(event, groups):
                break
            tried.append(image)
        else:
            pytest.fail(f"{schema.table}: {event.present_before} {event.present_after} {tried}")
        if event.partial:
            continue
        again = RowSet(made_of(event, groups), schema)
        assert [stored(row) for row in again] == [stored(row) for row in rows]
        assert b"".join(b"".join(group.images) for group in groups) == event.row_data


def given_columns(image: Image | None) -> set[str]:
    return set() if image is None else set(image.keys())


@each_case("image", ["minimal", "noblob"])
@each_case("server", ["mysql-9.7", "mariadb-11.8", "mariadb-10.11"])
def test_whole_rows_are_reduced_as_the_server_does(server: str, image: str) -> None:
    """The same statements were logged with each image: FULL rows are reduced to the others'."""
    full = changes(Case(CORPUS / f"{server}.image-full-full", {"server": server}))
    reduced = changes(Case(CORPUS / f"{server}.image-{image}-full", {"server": server}))
    count = 0
    for (_, whole), (schema, logged) in zip(full, reduced, strict=True):
        assert whole.kind == logged.kind
        encoder = RowEncoder(schema, image)
        before = None if whole.before is None else whole.before.as_dict()
        after = {name: whole.after.as_dict()[name] for name in given_columns(logged.after)}
        if whole.kind == "insert":
            (group,) = encoder.insert([after])
        elif whole.kind == "delete":
            (group,) = encoder.delete([before])
        else:
            (group,) = encoder.update([before], [after])
        (row,) = decoded([group], schema)
        assert given_columns(row.before) == given_columns(logged.before)
        # Of a row that is given whole only what changed is logged; the servers log what was
        # assigned, and MariaDB all columns where there is no key.
        more = given_columns(logged.after) - given_columns(row.after)
        assert given_columns(row.after) <= given_columns(logged.after)
        assert all(whole.before[name] == whole.after[name] for name in more)
        assert not more or len(after) == len(schema.columns)
        for mine, theirs in ((row.before, logged.before), (row.after, logged.after)):
            for name in given_columns(mine):
                assert mine[name] == theirs[name]
        count += 1
    assert count > 40


def no_server_has(column: Column, value: Any) -> bool:
    """Random bytes may be numbers that are none, or too many characters for their column."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, tuple):
        return not all(map(math.isfinite, value))
    if column.type not in {ColumnType.STRING, ColumnType.VARCHAR} or not isinstance(value, str):
        return False
    return len(value) > column.metadata // longest_character(column.collation)


def trimmed(schema: TableSchema, values: tuple[Any, ...]) -> list[Any]:
    return [
        value.rstrip(" ")
        if column.type is ColumnType.STRING and column.logical is Logical.TEXT and value
        else value
        for column, value in zip(schema.columns, values, strict=True)
    ]


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=logs())
def test_random_rows_come_back(tmp_path_factory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("random") / "binlog.000001"
    path.write_bytes(data)
    for event in tailrace.log.open(path):
        if not isinstance(event, RowsEvent):
            continue
        schema = resolve_table(event.table_map, Flavour.MYSQL)
        encoder = RowEncoder(schema, "minimal")
        for row in RowSet(event, schema):
            for image in filter(None, (row.before, row.after)):
                values = [
                    ABSENT if no_server_has(column, value) else value
                    for column, value in zip(schema.columns, image.as_tuple(), strict=True)
                ]
                (group,) = encoder.insert([values])
                made = WriteRowsEvent.make(
                    type=30,
                    table_map=event.table_map,
                    present_after=group.present_after,
                    row_data=group.images[0],
                )
                (again,) = RowSet(made, schema)
                assert trimmed(schema, again.values) == trimmed(schema, tuple(values))
