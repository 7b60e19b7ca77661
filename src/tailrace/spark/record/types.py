"""Our Arrow types as Spark's, for Parquet files that Spark reads and for the data source.

Spark takes our columns' types as they are (``columns/types.py`` chose them so), but for the
dictionaries of few-valued fields, which are plain strings to it.
"""

from __future__ import annotations

import json
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tailrace.errors import UnsupportedType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import types as t

SHARD: Final = "_source"
"""The column of a lake of shards that has the name of the source from which a row comes."""
ROW_METADATA: Final = b"org.apache.spark.sql.parquet.row.metadata"
"""Under this key of a Parquet file's footer Spark looks for its own schema of the file."""

_PLAIN: Final[Mapping[pa.DataType, str]] = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.duration("us"): "interval day to second",
    pa.null(): "void",
}


def _json_type(arrow: pa.DataType) -> Any:
    """Spark's type for one of ours, as its JSON; raises `UnsupportedType`."""
    if pa.types.is_dictionary(arrow):
        return _json_type(arrow.value_type)
    if pa.types.is_decimal128(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_struct(arrow):
        fields = [
            {"name": each.name, "type": _json_type(each.type), "nullable": True, "metadata": {}}
            for each in arrow
        ]
        return {"type": "struct", "fields": fields}
    if pa.types.is_map(arrow):
        key, item = _json_type(arrow.key_type), _json_type(arrow.item_type)
        return {"type": "map", "keyType": key, "valueType": item, "valueContainsNull": True}
    if pa.types.is_list(arrow):
        element = _json_type(arrow.value_type)
        return {"type": "array", "elementType": element, "containsNull": True}
    found = _PLAIN.get(arrow)
    if found is None:
        raise UnsupportedType(f"a table cannot have the type {arrow}")
    return found


def spark_json(schema: pa.Schema) -> str:
    """Spark's schema for one of ours, as it is in a Parquet file; this takes no PySpark.

    Every field may be NULL to Spark, as in any file it reads.
    """
    found = _json_type(pa.struct(list(schema)))
    return json.dumps(found, separators=(",", ":"), sort_keys=True)


def spark_schema(schema: pa.Schema) -> t.StructType:
    """`spark_json` as PySpark's object."""
    from pyspark.sql import types as t  # noqa: PLC0415 - files are written without Spark, too

    return t.StructType.fromJson(json.loads(spark_json(schema)))


def wanted_schema(schema: t.StructType) -> pa.Schema:
    """The Arrow schema that any version of Spark wants batches of a Python source to have."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - as above

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
