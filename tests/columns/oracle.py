"""What the column path gives of a log, in order, and held against the object path."""

from __future__ import annotations

import pyarrow as pa

from tools.campaign.verdicts import by_columns, by_objects


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


def assert_same_rows(found, expected):
    """The same rows of the same tables, in order of ``_seq``; batches' borders and the source's name
    aside. Returns the number of rows.
    """

    def plain(batches):
        rows = {}
        for (name, schema), table in by_table(batches).items():
            metadata = {k: v for k, v in schema.metadata.items() if k != b"tailrace.source"}
            key = (name, str(schema.remove_metadata()), tuple(sorted(metadata.items())))
            rows.setdefault(key, []).extend(map(str, table.to_pylist()))
        return rows

    found, expected = plain(found), plain(expected)
    assert set(found) == set(expected)
    for key, rows in expected.items():
        assert found[key] == rows, key[0]
    return sum(map(len, expected.values()))


def in_order(batches):
    """All rows as dictionaries, in order of ``_seq``."""
    found = [row for batch in batches for row in pa.table(batch).to_pylist()]
    return sorted(found, key=lambda row: row["_seq"])


def assert_equal_paths(series):
    """The column path's batches hold what the object path decodes; returns the number of rows."""
    found, expected = by_columns(series, verify=True), by_objects(series, verify=True)
    assert expected.error is None, expected.message
    assert found.error is None, found.message
    assert found.rows == expected.rows
    return len(found.rows)
