"""Keys in bulk, where a column of a key holds NULLs: zero dates, whose text stands beside them."""

from __future__ import annotations

import pyarrow as pa

from tailrace.spark.current.keys import buckets, dense

DAYS = pa.array([1, None, 2, None, 1], pa.date32())
TEXTS = pa.array([None, "0000-00-00", None, "2026-00-01", None])


def test_nulls_in_several_chunks_are_numbered():
    """As a base and the changes upon it come: in chunks of their own."""
    days = pa.chunked_array([DAYS[:2], DAYS[2:]])
    texts = pa.chunked_array([TEXTS[:2], TEXTS[2:]])
    numbers, count = dense([days, texts])
    assert (
        numbers.tolist() == dense([pa.chunked_array([DAYS]), pa.chunked_array([TEXTS])])[0].tolist()
    )
    assert len(set(numbers.tolist())) == 4
    assert numbers[0] == numbers[4]
    assert count >= 4


def test_a_column_of_texts_without_texts_changes_no_bucket():
    """Only some files have one beside a key's column."""
    days = pa.chunked_array([pa.array(range(1000), pa.date32())])
    nulls = pa.chunked_array([pa.nulls(1000, pa.string())])
    assert buckets([days, nulls], 16).tolist() == buckets([days], 16).tolist()
    assert len(set(buckets([days], 16).tolist())) == 16
