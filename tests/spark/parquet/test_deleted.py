"""Numbers of deleted rows, and Delta's deletion vectors of them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import PipelineError
from tailrace.spark.lake.delta import vectors
from tailrace.spark.lake.delta.vectors import Vector
from tailrace.spark.parquet.deleted import dump, joined, load, without

NUMBERS = st.sets(st.one_of(st.integers(0, 300), st.integers(0, 1 << 20), st.integers(0, 1 << 40)))


def array(numbers):
    return np.array(sorted(numbers), np.int64)


@settings(deadline=None)
@given(NUMBERS)
def test_a_vector_and_back(numbers):
    assert load(dump(array(numbers))).tolist() == sorted(numbers)


@settings(deadline=None)
@given(NUMBERS, NUMBERS)
def test_joined(one, other):
    assert joined(array(one), array(other)).tolist() == sorted(one | other)


@settings(deadline=None)
@given(st.sets(st.integers(0, 49)), st.integers(0, 20), st.integers(0, 50))
def test_without(numbers, first, rows):
    table = pa.table({"n": np.arange(first, first + rows)})
    left = without(table, first, array(numbers))["n"].to_pylist()
    assert left == [each for each in range(first, first + rows) if each not in numbers]


def test_vector_of_all_kinds_of_containers():
    """Few values, very many, all of 2^16, and a gap of several containers."""
    rows = np.unique(
        np.concatenate(
            [
                np.arange(0, 65536, 17),
                np.arange(65536, 2 * 65536, 3),
                np.arange(5 * 65536, 6 * 65536),
                np.array([(1 << 32) + 7, 5 << 32]),
            ]
        )
    )
    assert np.array_equal(load(dump(rows)), rows)


def test_vector_of_others():
    """One that the tests of delta-kernel, delta-rs and others have."""
    found = {
        "storageType": "i",
        "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 44,
        "cardinality": 6,
    }
    rows = [3, 4, 7, 11, 18, 29]
    assert Vector.of(found, None).read().tolist() == rows
    assert vectors.write({"a": array(rows)}, None, "x")["a"].descriptor == found


def test_vector_with_runs():
    """As CRoaring writes it after run optimisation: 12347, one container of one run 5 to 9."""
    bitmap = bytes.fromhex("3b300000 01 0000 0400 0100 0500 0400".replace(" ", ""))
    data = (1681511377).to_bytes(4, "little") + (1).to_bytes(8, "little") + bytes(4) + bitmap
    assert load(data).tolist() == [5, 6, 7, 8, 9]


def test_place_of_the_protocol(tmp_path):
    """JSON example 1: a file with a prefix, told by its number."""
    found = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "cardinality": 1}
    name = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert Vector.of(found, tmp_path).place() == tmp_path / name


def test_large_vectors_go_into_one_file(tmp_path):
    rows = {"a": np.arange(0, 100_000, 7), "b": np.arange(5_000)}
    found = vectors.write(rows, tmp_path, "table/7")
    (file,) = tmp_path.glob(vectors.ANY_FILE)
    for name, each in found.items():
        assert each.descriptor["storageType"] == "u"
        assert each.place() == file
        assert np.array_equal(each.read(), rows[name])
    assert len({each.name for each in found.values()}) == 2
    again = vectors.write(rows, tmp_path, "table/7")
    assert [each.descriptor for each in again.values()] == [
        each.descriptor for each in found.values()
    ]
    data = bytearray(file.read_bytes())
    data[20] ^= 1
    file.write_bytes(data)
    with pytest.raises(PipelineError, match="checksum"):
        found["a"].read()


@settings(deadline=None)
@given(NUMBERS, st.data())
def test_a_damaged_vector_is_an_error_or_other_rows(numbers, data):
    whole = dump(array(numbers))
    with pytest.raises(PipelineError):
        load(whole[: data.draw(st.integers(0, len(whole) - 1))])
