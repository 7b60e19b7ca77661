"""Tables that nobody asked for, or of unknown columns: long logs hold no more of them than short."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

from tailrace.columns.frames.plan import PADDING
from tailrace.columns.read.decoder import LogDecoder
from tailrace.errors import SchemaError
from tailrace.events import TableMapEvent
from tailrace.events.rows import ROWS_TYPES
from tailrace.schema.catalogue import Catalogue

CORPUS = Path(__file__).resolve().parents[1] / "corpus"


class Unknowing(Catalogue):
    """A catalogue by which no table can be decoded."""

    def resolve(self, table_map, flavour):
        raise SchemaError(f"{table_map.table}: its columns are not known")


def without_rows(data):
    """A log without its rows events: their tables' maps are left."""
    found, at = data[:4], 4
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        found += b"" if data[at + 4] in ROWS_TYPES else data[at : at + size]
        at += size
    return found


def table_maps():
    gc.collect()
    return sum(type(each) is TableMapEvent for each in gc.get_objects())


def read(decoder, data, times):
    block = np.zeros(len(data) - 4 + PADDING, np.uint8)
    block[: len(data) - 4] = np.frombuffer(data[4:], np.uint8)
    for number in range(times):
        decoder.begin_file(f"binlog.{number + 1:06}")
        for _ in decoder.decode(block, len(data) - 4, 4, len(data), ends="file"):
            pass


@pytest.mark.parametrize("case", ["mysql-9.7.ddl", "mariadb-11.8.ddl"])
@pytest.mark.parametrize("kind", ["ignored", "unresolved"])
def test_what_is_held_of_tables(kind, case):
    """A format description and each DDL statement let all table maps be met anew."""
    data = next(iter(sorted((CORPUS / case).glob("*.0*")))).read_bytes()
    if kind == "ignored":
        decoder = LogDecoder("s", wants=lambda _database, _table: False, statements="skip")
    else:
        data = without_rows(data)
        decoder = LogDecoder("s", catalogue=Unknowing(), statements="skip")
    read(decoder, data, 2)
    held = table_maps()
    read(decoder, data, 20)
    assert table_maps() <= held  # others may have let go of some
