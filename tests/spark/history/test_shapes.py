"""Columns of a lake's table as files with others come in."""

import pyarrow as pa

from tailrace.spark.parquet.shapes import as_arrow, merged, plain_schema


def put(*schemas):
    shape, names = None, {}
    for each in schemas:
        shape, names = merged(shape, plain_schema(pa.schema(list(each.items()))))
    return {field.name: field.type for field in as_arrow(shape)}, names


def test_types_widen_or_go_on_beside():
    first = {"a": pa.int8(), "b": pa.float32(), "c": pa.decimal128(5, 2), "d": pa.duration("us")}
    second = {"a": pa.int64(), "b": pa.float64(), "c": pa.decimal128(9, 2), "d": pa.duration("us")}
    assert put(first, second) == (second, {})
    assert put(second, first) == (second, {})
    third = {"a": pa.string(), "c": pa.decimal128(9, 3), "d": pa.int64()}
    found, names = put(first, second, third)
    assert names == {"a": "a__string", "c": "c__decimal_9_3", "d": "d__bigint"}
    assert found == {**second, **{names[each]: third[each] for each in third}}
    assert put(first, third, second)[1] == {}
    assert put(first, second, third, second, third) == (found, names)


def test_a_column_of_that_name_is_there():
    both = {"a": pa.string(), "a__string": pa.string()}
    found, names = put({"a": pa.int32(), "a__string": pa.string()}, both)
    assert names == {"a": "a__string_"}
    assert list(found) == ["a", "a__string", "a__string_"]


def test_case_does_not_count():
    found, names = put({"Price": pa.int32()}, {"price": pa.int64()})
    assert (found, names) == ({"Price": pa.int64()}, {"price": "Price"})
    found, names = put({"Price": pa.int32()}, {"price": pa.string()}, {"PRICE": pa.string()})
    assert list(found) == ["Price", "price__string"]
    assert names == {"PRICE": "price__string"}
