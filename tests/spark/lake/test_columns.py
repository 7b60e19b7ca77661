"""A table's columns when a step brings others: which of them continue, by the formats' own rules."""

import json

import pyarrow as pa
import pytest
from deltalake import Schema

from tailrace.errors import UnsupportedType
from tailrace.spark.lake.delta.actions import schema_string
from tailrace.spark.lake.iceberg.schema import evolved

CONTINUE = [  # https://iceberg.apache.org/spec/#schema-evolution
    (pa.int8(), pa.int32()),
    (pa.int32(), pa.int64()),
    (pa.float32(), pa.float64()),
    (pa.decimal128(12, 2), pa.decimal128(14, 2)),
    (pa.list_(pa.float32()), pa.list_(pa.float32())),
    (pa.map_(pa.string(), pa.string()), pa.map_(pa.string(), pa.string())),
]
BEGIN = [
    (pa.int64(), pa.int32()),
    (pa.decimal128(12, 2), pa.decimal128(12, 3)),
    (pa.decimal128(14, 2), pa.decimal128(12, 2)),
    (pa.string(), pa.binary()),
    (pa.int32(), pa.string()),
    (pa.map_(pa.string(), pa.string()), pa.map_(pa.string(), pa.int64())),
]


@pytest.mark.parametrize("inside", [False, True], ids=["top", "member"])
def test_an_iceberg_column_keeps_its_number_where_its_values_can_be_read(inside):
    def columns(kind):
        return pa.schema([("id", pa.int64()), ("c", pa.struct([("m", kind)]) if inside else kind)])

    for before, after in CONTINUE + BEGIN:
        old = evolved(None, 0, columns(before))
        new = evolved(old, old.highest_field_id, columns(after))
        name = "c.m" if inside else "c"
        numbers = [schema.find_field(name).field_id for schema in (old, new)]
        assert (numbers[0] == numbers[1]) == ((before, after) in CONTINUE)
        assert numbers[1] == numbers[0] or numbers[1] > old.highest_field_id
        assert new.find_field("id") == old.find_field("id")
        assert evolved(new, new.highest_field_id, columns(after)) is new


def test_what_others_noted_at_a_delta_column_stays_with_it():
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {"comment": name}}
        for name, kind in (("id", "long"), ("price", "integer"))
    ]
    known = Schema.from_json(json.dumps({"type": "struct", "fields": fields}))
    same = pa.schema([("id", pa.int64()), ("price", pa.int32())])
    assert json.loads(schema_string(same, known)) == json.loads(known.to_json())
    time = pa.field("time", pa.int64(), metadata={"tailrace": "time"})
    found = json.loads(
        schema_string(pa.schema([("id", pa.int64()), ("price", pa.string()), time]), known)
    )
    assert [(each["name"], each["type"], each["metadata"]) for each in found["fields"]] == [
        ("id", "long", {"comment": "id"}),
        ("price", "string", {}),
        ("time", "long", {}),
    ]


CONVERSIONS = {"Delta": schema_string, "Iceberg": lambda columns: evolved(None, 0, columns)}


@pytest.mark.parametrize("format_", CONVERSIONS)
@pytest.mark.parametrize("kind", [pa.duration("us"), pa.decimal256(65, 30)], ids=str)
def test_a_type_that_a_format_lacks(format_, kind):
    """The error names the column, and not only what the format's library calls the type."""
    columns = pa.schema([("id", pa.int64()), ("c", kind), ("d", pa.string())])
    with pytest.raises(UnsupportedType) as raised:
        CONVERSIONS[format_](columns)
    assert str(raised.value) == f"{format_} has no type for {kind} (c)"


def test_iceberg_columns_may_always_be_null():
    """Also new ones: a row of another source, or of an earlier definition, lacks them."""
    member = pa.struct([pa.field("m", pa.int32(), nullable=False)])
    columns = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("s", member, nullable=False),
        ]
    )
    new = evolved(None, 0, columns)
    names = ("id", "s", "s.m")
    assert not any(new.find_field(name).required for name in names)
    assert evolved(new, new.highest_field_id, columns) is new
