"""On every recorded log, a row image's document is the object path's, character for character."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tailrace.columns.frames import plan as k
from tailrace.columns.read.pool import Pool
from tailrace.columns.read.table import TableDecoder
from tailrace.columns.text.row_json import images_to_json
from tailrace.errors import UnsupportedType
from tailrace.events import QueryEvent, RowsEvent
from tailrace.log import Log
from tailrace.schema.catalogue import Catalogue
from tailrace.storage import find
from tailrace.values.change_record import image_json
from tailrace.values.row import RowSet
from tests.cases import each_case
from tests.recorded import folders
from tools.objects import batch_of_rows

if TYPE_CHECKING:
    from pathlib import Path

FOLDERS = folders("unreadable", "unknown-documents")


@pytest.mark.slow
@each_case(
    "folder",
    FOLDERS,
    ids=lambda path: path.name,
)
def test_corpus(folder: Path) -> None:
    for series in find(folder):
        compare(series)


def compare(series) -> None:
    catalogue = Catalogue()
    log = Log(series)
    transaction = np.full(k.TRANSACTION_WORDS, -1, np.int64)
    transaction[k.T_KIND] = k.NO_GTID
    for event in log:
        if isinstance(event, QueryEvent):
            catalogue.apply_event(event, log.format.flavour)
        if not isinstance(event, RowsEvent) or event.is_dummy:
            continue
        schema = catalogue.resolve(event.table_map, log.format.flavour)
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
