"""Our Arrow types as Spark's, for Parquet files that Spark reads and for the data source.

Spark takes our columns' types as they are (``columns/types.py`` chose them so), but for the
dictionaries of few-valued fields, which are plain strings to it.
"""

from __future__ import annotations

from inspect import signature
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from tailrace.errors import UnsupportedType

ROW_METADATA: Final = b"org.apache.spark.sql.parquet.row.metadata"
"""Under this key of a Parquet file's footer Spark looks for its own schema of the file."""

_PLAIN: Final[dict[pa.DataType, t.DataType]] = {
    pa.bool_(): t.BooleanType(),
    pa.int8(): t.ByteType(),
    pa.int16(): t.ShortType(),
    pa.int32(): t.IntegerType(),
    pa.int64(): t.LongType(),
    pa.float32(): t.FloatType(),
    pa.float64(): t.DoubleType(),
    pa.string(): t.StringType(),
    pa.binary(): t.BinaryType(),
    pa.date32(): t.DateType(),
    pa.timestamp("us"): t.TimestampNTZType(),
    pa.timestamp("us", "UTC"): t.TimestampType(),
    pa.duration("us"): t.DayTimeIntervalType(),
    pa.null(): t.NullType(),
}


def spark_type(arrow: pa.DataType) -> t.DataType:
    """Spark's type for one of ours; raises `UnsupportedType` for a type that is not ours."""
    if pa.types.is_dictionary(arrow):
        return spark_type(arrow.value_type)
    if pa.types.is_decimal128(arrow):
        return t.DecimalType(arrow.precision, arrow.scale)
    if pa.types.is_struct(arrow):
        return t.StructType([t.StructField(field.name, spark_type(field.type)) for field in arrow])
    if pa.types.is_map(arrow):
        return t.MapType(spark_type(arrow.key_type), spark_type(arrow.item_type))
    if pa.types.is_list(arrow):
        return t.ArrayType(spark_type(arrow.value_type))
    found = _PLAIN.get(arrow)
    if found is None:
        raise UnsupportedType(f"Spark has no type for {arrow}")
    return found


def spark_schema(schema: pa.Schema) -> t.StructType:
    """Spark's schema for one of ours; every field may be NULL to Spark, as in any file it reads."""
    return t.StructType([t.StructField(field.name, spark_type(field.type)) for field in schema])


def wanted_schema(schema: t.StructType) -> pa.Schema:
    """The Arrow schema that any version of Spark wants batches of a Python source to have."""
    options: dict[str, Any] = {}
    if "timezone" in signature(to_arrow_schema).parameters:  # from 4.2 on it has to be told
        options["timezone"] = "UTC"
    return to_arrow_schema(schema, **options)


def plain_type(arrow: pa.DataType) -> pa.DataType:
    """The type as Spark takes it from Python: dictionaries are gone, all may be NULL."""
    if pa.types.is_dictionary(arrow):
        return plain_type(arrow.value_type)
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(field.name, plain_type(field.type)) for field in arrow])
    if pa.types.is_list(arrow):
        return pa.list_(pa.field("element", plain_type(arrow.value_type)))
    if pa.types.is_map(arrow):
        return pa.map_(plain_type(arrow.key_type), plain_type(arrow.item_type))
    return arrow
