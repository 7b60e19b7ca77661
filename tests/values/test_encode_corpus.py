"""Row images are those that servers write: rows of the corpus, and their values, encoded again."""

import json
from functools import partial

import pytest

from tailrace.constants import ColumnType, Flavour
from tailrace.errors import ValueRejected
from tailrace.events import RowsEvent
from tailrace.storage import find
from tailrace.values.encode import RowEncoder, RowImage
from tailrace.values.image import ABSENT
from tailrace.values.registry import dumper_of, loader_of
from tailrace.values.row import RowSet
from tests.cases import each_case
from tests.recorded import CORPUS, has
from tests.values.made import decoded
from tests.values.replay import cases, changes
from tools.campaign.recording import rows_events


def bits(present, width):
    """A bitmap's bits; MySQL sets those beyond the columns too."""
    return None if present is None else int.from_bytes(present, "little") & ((1 << width) - 1)


def made_of(event, groups):
    """The event with the groups' images in it, and their bitmaps."""
    (bitmaps,) = {(group.present_before, group.present_after) for group in groups}
    data = b"".join(b"".join(group.images) for group in groups)
    before, after = bitmaps
    made = event.replace(present_before=before, present_after=after, row_data=data)
    assert isinstance(made, RowsEvent)
    return made


def stored(row):
    return tuple(None if image is None else image.stored() for image in (row.before, row.after))


def same_columns(event, groups):
    wanted = bits(event.present_before, event.width), bits(event.present_after, event.width)
    return {
        (bits(group.present_before, event.width), bits(group.present_after, event.width))
        for group in groups
    } == {wanted}


def lacks_columns(rows):
    """Does a row not say what the FULL image needs? An update's may be after what it was before."""
    row = rows[0]
    cells = (row.before or row.after).as_tuple()
    return any(
        cell is ABSENT and not column.generated
        for cell, column in zip(cells, row.image.schema.columns, strict=True)
    )


JSON = ColumnType.JSON
EXCEPTIONS = {
    "json-full": 18,
    "json-min": 18,
    "enums-sets-full": 1,
    "enums-sets-min": 1,
    "byte-maps": 60,
    "json-partial-full": 50,
    "json-partial-noblob": 50,
}
"""How many values of a case are dumped as other bytes than logged, of the same text: no more."""


def others(row):
    """How many of a row's values are other bytes when they are loaded and dumped again."""
    count = 0
    for image in filter(None, (row.before, row.after)):
        for column, raw in zip(image.schema.columns, image.stored(), strict=True):
            if isinstance(raw, bytes):
                value = loader_of(column)(raw)
                dumped = dumper_of(column)(value)
                if dumped != raw:
                    count += 1
                    shown = partial(json.loads, parse_int=float) if column.type is JSON else str
                    assert shown(loader_of(column)(dumped)) == shown(value), (column.name, raw)
    return count


PASSED = [case for case in cases() if not has(case.folder, "unknown-documents", "nodup")]


@each_case("case", PASSED, ids=lambda case: case.folder.name)
@pytest.mark.slow
def test_rows_of_every_event_are_written_as_the_server_did(case):
    """The rows of each event, encoded with one of the three images, are the event's again."""
    (series,) = find(case.folder)
    count = 0
    for schema, event in rows_events(series):
        rows = list(RowSet(event, schema))
        count += sum(map(others, rows))
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
    allowed = [most for name, most in EXCEPTIONS.items() if case.folder.name.endswith(name)]
    assert count <= sum(allowed)


def given_columns(image):
    return set() if image is None else set(image.keys())


@each_case("image", ["minimal", "noblob"])
@each_case("server", ["mysql-9.7", "mariadb-11.8"])
def test_whole_rows_are_reduced_as_the_server_does(server, image):
    """The same statements were logged with each image: FULL rows are reduced to the others'."""
    full = changes(CORPUS / f"{server}.image-full-full")
    reduced = changes(CORPUS / f"{server}.image-{image}-full")
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
