"""On every recorded log, a row image's document is the object path's, character for character."""

import pytest

from tailrace.columns.text.row_json import images_to_json
from tailrace.storage import find
from tailrace.values.change_record import image_json
from tailrace.values.row import RowSet
from tests.cases import each_case
from tests.columns.write.encode_oracle import rows_events
from tests.recorded import folders


@pytest.mark.slow
@each_case("folder", folders("unreadable", "unknown-documents"), ids=lambda path: path.name)
def test_corpus(folder):
    for series in find(folder):
        for event, schema, records in rows_events(series):
            rows = list(RowSet(event, schema))
            for start in {0, len(rows) // 3} if rows else ():
                (part,) = records.slice(start).combine_chunks().to_batches()
                for image in ("before", "after"):
                    texts = images_to_json(part, schema, image).to_pylist()
                    expected = [image_json(getattr(row, image)) for row in rows[start:]]
                    assert [text or "null" for text in texts] == expected, image
