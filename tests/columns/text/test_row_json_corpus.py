"""On every recorded log, and random ones, a row image's document is the object path's, character
for character.
"""

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings

from tailrace.columns.text.row_json import images_to_json
from tailrace.errors import EventDecodeError
from tailrace.storage import find
from tailrace.values.change_record import image_json
from tailrace.values.row import RowSet
from tests.cases import each_case
from tests.cli.both import no_minus_zero
from tests.columns.random_log import logs
from tests.columns.read.test_random import series_of
from tests.columns.write.encode_oracle import rows_events
from tests.recorded import folders


def documents(batch, schema, image):
    found = images_to_json(batch, schema, image)
    found.validate(full=True)
    return [text or "null" for text in found.to_pylist()]


def exact(text):
    return json.loads(text, parse_int=str, parse_float=str)


def compare(series, seen=str):
    """Each event's images, a slice of them, and some of their columns only."""
    for event, schema, records in rows_events(series):
        rows = list(RowSet(event, schema))
        for batch in records.combine_chunks().to_batches():
            for image in ("before", "after"):
                try:
                    expected = [seen(image_json(getattr(row, image))) for row in rows]
                except EventDecodeError:
                    with pytest.raises(EventDecodeError):
                        documents(batch, schema, image)
                    continue
                assert list(map(seen, documents(batch, schema, image))) == expected
                part = documents(batch.slice(len(rows) // 3), schema, image)
                assert list(map(seen, part)) == expected[len(rows) // 3 :]
                images = batch.column(image)
                names = [column.name for column in schema.columns][::2]
                kept = pa.StructArray.from_arrays(
                    [images.field(name) for name in names], names, mask=images.is_null()
                )
                fewer = batch.set_column(batch.schema.get_field_index(image), image, kept)
                assert [exact(seen(text)) for text in documents(fewer, schema, image)] == [
                    row and {name: value for name, value in row.items() if name in names}
                    for row in map(exact, expected)
                ]


@pytest.mark.slow
@each_case("folder", folders("unreadable", "unknown-documents"), ids=lambda path: path.name)
def test_corpus(folder):
    for series in find(folder):
        compare(series)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("random")


@pytest.mark.slow
@given(data=logs())
@settings(max_examples=100, deadline=None)
def test_random_tables(folder, data):
    compare(series_of(folder, data), lambda text: no_minus_zero(text.encode()))
