"""The object path's word on a log: the change record of every row, as Python objects."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa

from tailrace.columns.batches import changes
from tailrace.columns.frames import plan as k
from tailrace.columns.read.committed import committed_in
from tailrace.columns.read.pool import Pool
from tailrace.columns.read.table import TableDecoder
from tailrace.events import (
    GtidEvent,
    MariadbGtidEvent,
    QueryEvent,
    RowsEvent,
    TransactionPayloadEvent,
)
from tailrace.log import Log
from tailrace.log_name import file_number
from tailrace.schema.catalogue import Catalogue
from tools.objects import batch_of_rows


def by_table(batches):
    """Batches as one table for each table and schema, in order of ``_seq``."""
    found = {}
    for batch in batches:
        found.setdefault(batch.schema, []).append(batch)
    # A schema's metadata is part of its identity here: names, key, source.
    return {
        (schema.metadata[b"tailrace.table"], schema): pa.Table.from_batches(
            map(pa.record_batch, each)
        )
        .combine_chunks()
        .unify_dictionaries()
        .sort_by("_seq")
        for schema, each in found.items()
    }


def in_order(batches):
    """All rows as dictionaries, in order of ``_seq``."""
    found = [row for batch in batches for row in pa.table(batch).to_pylist()]
    return sorted(found, key=lambda row: row["_seq"])


def object_batches(series):
    """What `changes` gives, but by the object path, a batch an event."""
    known = Catalogue()
    log = Log(series)
    transaction = np.zeros(k.TRANSACTION_WORDS, np.int64)
    transaction[k.T_STAMP] = -1
    decoders = {}
    left_out = committed_in(series).left_out
    for event in log:
        if isinstance(event, GtidEvent):
            transaction = _mysql(event)
        elif isinstance(event, MariadbGtidEvent):
            transaction = _mariadb(event)
        elif isinstance(event, QueryEvent):
            known.apply_event(event, log.format.flavour)
        elif isinstance(event, RowsEvent) and not event.is_dummy:
            if any(f == event.file and s <= event.offset < e for f, s, e in left_out):
                continue
            schema = known.resolve(event.table_map, log.format.flavour)
            decoder = decoders.get(schema)
            if decoder is None:
                decoder = decoders[schema] = TableDecoder(schema, series.name, Pool())
            first = 0
            if event.inner_index is not None:
                first = _inner_offset(event)
            yield from batch_of_rows(
                event, decoder, transaction, file_number(event.file) or 0, first
            )


_inner = {}


def _inner_offset(event):
    """Where an inner event begins in its payload: the sum of those before it."""
    return _inner[event.file, event.offset][event.inner_index]


def note_payloads(series):
    """Work out the offsets of all inner events of a series."""
    log = Log(series, expand_payloads=False)
    for event in log:
        if isinstance(event, TransactionPayloadEvent):
            sizes = [len(raw) for raw in event.raw_events()]
            _inner[event.file, event.offset] = np.cumsum([0, *sizes]).tolist()


def _mysql(event):
    words = np.zeros(k.TRANSACTION_WORDS, np.int64)
    stamp = event.original_commit_timestamp
    words[k.T_STAMP] = event.timestamp * 1_000_000 if stamp is None else stamp
    words[k.T_KIND] = k.MYSQL_GTID if event.gtid is not None else k.NO_GTID
    words[k.T_UUID : k.T_UUID + 2] = np.frombuffer(event.uuid_bytes, np.int64)
    words[k.T_NUMBER] = event.gno
    tag = event.tag.encode()
    words[k.T_TAG_SIZE] = len(tag)
    words[k.T_TAG : k.T_TAG + 4] = np.frombuffer(tag.ljust(32, b"\0"), np.int64)
    return words


def _mariadb(event):
    words = np.zeros(k.TRANSACTION_WORDS, np.int64)
    words[k.T_STAMP] = event.timestamp * 1_000_000
    words[k.T_KIND] = k.MARIADB_GTID
    words[k.T_NUMBER : k.T_NUMBER + 1].view(np.uint64)[0] = event.gtid.seq_no
    words[k.T_DOMAIN] = event.gtid.domain_id
    words[k.T_SERVER] = event.gtid.server_id
    return words


def assert_equal_paths(series, **options):
    """The column path's batches hold what the object path decodes; returns the number of rows."""
    note_payloads(series)
    fast = by_table(changes(series, **options))
    slow = by_table(object_batches(series))
    assert set(fast) == set(slow)
    rows = 0
    for key, expected in slow.items():
        found = fast[key]
        assert found.num_rows == expected.num_rows
        rows += found.num_rows
        for name in expected.schema.names:
            left, right = found[name].to_pylist(), expected[name].to_pylist()
            if left != right:
                for row, (one, other) in enumerate(zip(left, right, strict=True)):
                    assert _plain(one) == _plain(other), (key[0], name, row)
    return rows


def _plain(value):
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - NaN
        return "nan"
    return Decimal(value) if isinstance(value, Decimal) else value
