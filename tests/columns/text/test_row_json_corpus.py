"""On every recorded log, a row image's document is the object path's, character for character."""

import numpy as np
import pytest

from tailrace.columns.frames import plan as k
from tailrace.columns.read.pool import Pool
from tailrace.columns.read.table import TableDecoder
from tailrace.columns.text.row_json import images_to_json
from tailrace.errors import UnsupportedType
from tailrace.storage import find
from tailrace.values.change_record import image_json
from tailrace.values.row import RowSet
from tests.cases import each_case
from tests.recorded import folders
from tools.campaign.recording import rows_events
from tools.objects import batch_of_rows

FOLDERS = folders("unreadable", "unknown-documents")


@pytest.mark.slow
@each_case(
    "folder",
    FOLDERS,
    ids=lambda path: path.name,
)
def test_corpus(folder):
    for series in find(folder):
        compare(series)


def compare(series):
    transaction = np.full(k.TRANSACTION_WORDS, -1, np.int64)
    transaction[k.T_KIND] = k.NO_GTID
    for schema, event in rows_events(series):
        decoder = TableDecoder(schema, series.name, Pool())
        try:
            batches = list(batch_of_rows(event, decoder, transaction, 1, 0))
        except UnsupportedType:  # a partial JSON update of a row that is not there
            continue
        rows = iter(RowSet(event, schema))
        for batch in batches:
            for part in (batch, batch.slice(len(batch) // 3)):
                documents = {
                    image: images_to_json(part, schema, image).to_pylist()
                    for image in ("before", "after")
                }
                if part is batch:
                    whole = [next(rows) for _ in range(len(batch))]
                for image, texts in documents.items():
                    expected = [image_json(getattr(row, image)) for row in whole[-len(part) :]]
                    assert [text or "null" for text in texts] == expected, image
