"""The checksums of `verify`: values that differ have different ones."""

from itertools import product

import pyarrow as pa

from tailrace.spark.verify_values import Values, checksums


def test_short_values_have_a_checksum_of_their_own():
    """All of up to two bytes, alone, in pairs of columns, and with NULL in each place."""
    values = [
        None,
        *(bytes(each) for size in range(3) for each in product(range(256), repeat=size)),
    ]
    one = checksums([Values(pa.array(values, pa.binary()))])
    assert len(set(one.tolist())) == len(values)
    some = [None, *(bytes(each) for size in range(4) for each in product((0, 1, 255), repeat=size))]
    left, right = zip(*product(some, repeat=2), strict=True)
    both = [Values(pa.array(each, pa.binary())) for each in (left, right)]
    assert len(set(checksums(both).tolist())) == len(some) ** 2
    numbers = pa.array([None, 0, 1, 1 << 62], pa.decimal128(38, 0))
    assert len(set(checksums([Values(numbers)]).tolist())) == 4
    odd = Values(pa.array([None, None, 0], pa.date32()), pa.array([None, "", None]))
    assert len(set(checksums([odd]).tolist())) == 3
    assert checksums([Values(pa.array([], pa.binary()))]).tolist() == []
