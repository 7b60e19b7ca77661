"""Row images out of rows: which columns they hold, what is refused, and groups of any length."""

import pickle
from collections import OrderedDict
from itertools import count, islice

import pytest

from tailrace import Table
from tailrace.constants import ColumnType, Flavour
from tailrace.errors import UnknownColumn, UnsupportedType, ValueRejected
from tailrace.values.encode import RowEncoder, RowGroup, RowImage
from tailrace.values.image import ABSENT
from tailrace.values.resolve import resolve_table
from tailrace.values.row import RowSet
from tailrace.values.schema import (
    ColumnDefinition,
    Logical,
    TableDefinition,
)
from tests.cases import each_case
from tests.values.made import TableMap, decoded, rows_event, spec

T = ColumnType
SPECS = (
    spec(T.LONG, name="id", nullable=False),
    spec(T.VARCHAR, 20, name="name", collation=45),
    spec(T.BLOB, 2, name="photo", collation=63),
    spec(T.JSON, 4, name="notes"),
)


def schema_of(*specs, key=(0,), **facts):
    return resolve_table(TableMap(specs or SPECS, key), Flavour.MYSQL, **facts)


SCHEMA = schema_of()
ALL = b"\x0f"
ROW = {"id": 1, "name": "ab", "photo": b"\xff", "notes": '"hi"'}
OTHER = {**ROW, "name": None, "notes": "[]"}


def rows_of(groups, schema=SCHEMA):
    return decoded(groups, schema)


def test_the_bytes_of_an_insert():
    name = b"\x02ab"
    photo = b"\x01\x00\xff"
    notes = b"\x04\0\0\0\x0c\x02hi"
    full = b"\x00\x01\0\0\0" + name + photo + notes
    (group,) = RowEncoder(SCHEMA).insert([ROW])
    assert group == RowGroup("insert", None, ALL, [full])
    null = b"\x06\x02\0\0\0" + notes
    (group,) = RowEncoder(SCHEMA).insert([ROW, {**ROW, "id": 2, "name": None, "photo": None}])
    assert group.images == [full, null]


@each_case(
    "row",
    [
        ROW,
        OrderedDict(reversed(ROW.items())),
        {name.upper(): value for name, value in ROW.items()},
        tuple(ROW.values()),
        list(ROW.values()),
    ],
)
def test_all_ways_to_give_a_row(row):
    (usual,) = RowEncoder(SCHEMA).insert([ROW])
    assert list(RowEncoder(SCHEMA).insert([row])) == [usual]
    (found,) = rows_of(RowEncoder(SCHEMA).insert([row]))
    assert found.after.as_dict() == ROW


def test_rows_of_a_log_are_passed_on_as_they_are():
    """Their bytes are not looked at: these are no utf8mb4, and no JSON."""
    data = b"\x00\x01\0\0\0\x01\xff\x00\x00\x01\0\0\0\xff"
    (row,) = RowSet(rows_event("insert", None, ALL, data), SCHEMA)
    for given in (row, row.after):
        (group,) = RowEncoder(schema_of()).insert([given])
        assert group.images == [data]
    (group,) = RowEncoder(SCHEMA).delete([row.after])
    assert group == RowGroup("delete", ALL, None, [data])


def test_rows_of_another_table_are_encoded_anew():
    narrow = spec(T.VARCHAR, 20, name="name", collation=8)
    other = schema_of(SPECS[0], narrow, *SPECS[2:])
    (row,) = rows_of(RowEncoder(other).insert([{**ROW, "name": "é"}]), other)
    (group,) = RowEncoder(SCHEMA).insert([row])
    assert "é".encode() in group.images[0]
    (again,) = rows_of(iter([group]))
    assert again.values[1] == "é"
    bare = schema_of(*(spec(each.type, each.metadata) for each in SPECS), key=None)
    (row,) = rows_of(RowEncoder(SCHEMA).insert([ROW]), bare)
    (group,) = RowEncoder(SCHEMA).insert([row])  # without names, by their places
    assert rows_of(iter([group]))[0].after.as_dict() == ROW


def test_rows_that_were_pickled_and_values_are_taken_too():
    (row,) = rows_of(RowEncoder(SCHEMA).insert([ROW]))
    usual = list(RowEncoder(SCHEMA).insert([ROW]))
    for given in (pickle.loads(pickle.dumps(row)), list(row), dict(row.items())):
        assert list(RowEncoder(SCHEMA).insert([given])) == usual


B, N, K = 1 << 2, 1 << 1, 1 << 0  # photo, name, the key
J = 1 << 3
IMAGES = [
    # image, key, before, after, bitmaps
    ("full", (0,), ROW, OTHER, (15, 15)),
    ("full", (0,), ROW, {"name": "x"}, (15, 15)),
    ("minimal", (0,), ROW, OTHER, (K, N | J)),
    ("minimal", (0,), ROW, {"name": "x", "photo": b"\xff"}, (K, N | B)),
    ("minimal", (0,), {"id": 1}, OTHER, (K, 15)),
    ("minimal", (0,), ROW, ROW, (K, 15)),
    ("minimal", (), ROW, OTHER, (15, N | J)),
    ("minimal", (3, 1), ROW, {"id": 5}, (N | J, K)),
    ("noblob", (0,), ROW, OTHER, (K | N | J, K | N | J)),
    ("noblob", (0,), ROW, {**OTHER, "photo": b""}, (K | N | J, 15)),
    ("noblob", (0,), ROW, {"photo": b"\xff"}, (K | N | J, 15)),
    ("noblob", (0,), {"id": 1, "name": "a", "notes": None}, {"id": 2}, (K | N | J, K | N | J)),
    ("noblob", (), ROW, OTHER, (15, K | N | J)),
    ("noblob", (2,), ROW, OTHER, (15, K | N | J)),
]


@each_case(("image", "key", "before", "after", "bitmaps"), IMAGES)
def test_the_columns_of_an_update(image, key, before, after, bitmaps):
    schema = schema_of(key=key)
    (group,) = RowEncoder(schema, image).update([before], [after])
    assert (group.present_before[0], group.present_after[0]) == bitmaps
    (row,) = rows_of(iter([group]), schema)
    whole = {**before, **after}
    for name, value in row.before.as_dict().items():
        assert value == before[name]
    for name, value in row.after.as_dict().items():
        assert value == whole[name]


@each_case(
    ("image", "row", "bits"),
    [
        ("full", ROW, 15),
        ("minimal", ROW, 15),
        ("minimal", {"id": 1, "photo": None}, K | B),
        ("minimal", (1, ABSENT, ABSENT, "1"), K | J),
        ("minimal", {}, 0),
        ("noblob", ROW, 15),
        ("noblob", {"id": 1, "name": "a", "notes": "1"}, K | N | J),
    ],
)
def test_the_columns_of_an_insert(image, row, bits):
    (group,) = RowEncoder(SCHEMA, image).insert([row])
    assert (group.present_before, group.present_after) == (None, bytes([bits]))


@each_case(
    ("image", "key", "bits"),
    [
        ("full", (0,), 15),
        ("minimal", (0,), K),
        ("minimal", (), 15),
        ("noblob", (0,), K | N | J),
        ("noblob", (2,), 15),
        ("noblob", (), 15),
    ],
)
def test_the_columns_of_a_delete(image, key, bits):
    (group,) = RowEncoder(schema_of(key=key), image).delete([ROW])
    assert (group.present_before, group.present_after) == (bytes([bits]), None)


def without(*names):
    return {name: value for name, value in ROW.items() if name not in names}


REFUSED = [
    (lambda: RowEncoder(SCHEMA).insert([without("name", "notes")]), "after does not give name, no"),
    (lambda: RowEncoder(SCHEMA).insert([(1, "ab", ABSENT, None)]), "does not give photo"),
    (lambda: RowEncoder(SCHEMA).delete([without("photo")]), "the row before does not give photo"),
    (lambda: RowEncoder(SCHEMA, "noblob").insert([without("name")]), "NOBLOB image .* needs"),
    (lambda: RowEncoder(SCHEMA, "minimal").delete([without("id")]), "does not give id"),
    (lambda: RowEncoder(schema_of(key=()), "minimal").delete([without("id")]), "give id"),
    (lambda: RowEncoder(SCHEMA).update([without("photo")], [ROW]), "before does not give photo"),
    (lambda: RowEncoder(SCHEMA).insert([{**ROW, "id": None}]), "shop.orders.id: NULL"),
    (lambda: RowEncoder(SCHEMA).insert([{**ROW, "ID": 2}]), "given twice"),
    (lambda: RowEncoder(SCHEMA).insert([{**ROW, "nom": 2}]), "no column 'nom'"),
    (lambda: RowEncoder(SCHEMA).insert([{**ROW, 1: 2}]), "no column 1"),
    (lambda: RowEncoder(SCHEMA).insert([(1, 2)]), "a row of 2 values, the table has 4"),
    (lambda: RowEncoder(SCHEMA).insert(["abcd"]), "'abcd' is no row"),
    (lambda: RowEncoder(SCHEMA).insert([7]), "7 is no row"),
    (lambda: RowEncoder(SCHEMA).insert([ROW, {**ROW, "name": 3}]), "row 2 of the insert: shop.or"),
    (lambda: RowEncoder(SCHEMA).update([ROW], []), "fewer rows after"),
    (lambda: RowEncoder(SCHEMA).update([], [ROW]), "more rows after"),
    (lambda: RowEncoder(SCHEMA).update([ROW]), "rows before and after"),
    (lambda: RowEncoder(SCHEMA).delete(rows_of(RowEncoder(SCHEMA).insert([ROW]))), "no image be"),
]


@each_case(("encode", "message"), REFUSED)
def test_refused(encode, message):
    with pytest.raises((ValueRejected, UnknownColumn), match=message) as caught:
        list(encode())
    assert "shop.orders" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_tables_that_cannot_be_written():
    with pytest.raises(UnsupportedType, match=r"shop\.orders: column c1 .*TYPED_ARRAY"):
        RowEncoder(schema_of(spec(T.TYPED_ARRAY)))
    with pytest.raises(ValueError, match="most"):
        RowEncoder(SCHEMA, "most")
    assert RowEncoder(SCHEMA, "noblob").image is RowImage.NOBLOB


def test_generated_columns_may_be_left_out():
    definition = TableDefinition(
        "shop",
        "orders",
        (ColumnDefinition("id", "int"), ColumnDefinition("twice", "int", generated=True)),
        ("id",),
    )
    schema = resolve_table(TableMap((spec(T.LONG), spec(T.LONG))), Flavour.MARIADB, definition)
    (group,) = RowEncoder(schema).insert([{"id": 1}])
    assert group == RowGroup("insert", None, b"\x01", [b"\x00\x01\0\0\0"])
    (group,) = RowEncoder(schema).update([(1, 2)], [{"id": 2, "twice": 4}])
    assert (group.present_before, group.present_after) == (b"\x03", b"\x03")
    (group,) = RowEncoder(schema, "minimal").update([{"id": 1}], [{"id": 2}])
    assert (group.present_before, group.present_after) == (b"\x01", b"\x01")


def test_groups_change_with_the_columns():
    rows = [{"id": 1}, {"id": 2}, {"id": 3, "name": "x"}, {"id": 4}, {}, {}]
    groups = list(RowEncoder(SCHEMA, "minimal").insert(rows))
    assert [len(group.images) for group in groups] == [2, 1, 1, 1, 1]
    assert [row.after.as_dict() for row in rows_of(iter(groups))] == rows
    assert list(RowEncoder(SCHEMA).insert([])) == []


def test_rows_are_taken_one_by_one():
    groups = RowEncoder(SCHEMA).insert({**ROW, "id": number} for number in count())
    first, second = islice(groups, 2)
    assert len(first.images) == len(second.images) == 4096
    big = schema_of(SPECS[0], spec(T.BLOB, 4, name="photo", collation=63))
    groups = RowEncoder(big).insert((number, bytes(300_000)) for number in count())
    assert [len(group.images) for group in islice(groups, 3)] == [4, 4, 4]


def test_updates_of_a_log_go_on_as_they_are():
    encoder = RowEncoder(SCHEMA)
    rows = rows_of(encoder.update([ROW, OTHER], [OTHER, ROW]))
    assert list(encoder.update(rows)) == list(encoder.update([ROW, OTHER], [OTHER, ROW]))
    assert list(encoder.update(rows, rows)) == list(encoder.update(rows))


def test_a_partial_update_is_made_whole():
    columns = (SPECS[0], SPECS[3])
    schema = schema_of(*columns)
    (insert,) = RowEncoder(schema).insert([(1, "[1, 2]")])
    diffs = b"\x00\x04$[0]\x02\x04\x01"
    after = b"\x01\x01" + b"\x00\x01\0\0\0" + len(diffs).to_bytes(4, "little") + diffs
    event = rows_event("update", b"\x03", b"\x03", insert.images[0] + after, partial=True)
    (row,) = rows_of(RowEncoder(schema).update(RowSet(event, schema)), schema)
    assert row.before.as_dict()["notes"] == "[1, 2]"
    assert row.after.as_dict()["notes"] == "[true, 2]"
    event = rows_event("update", b"\x01", b"\x03", b"\x00\x01\0\0\0" + after, partial=True)
    with pytest.raises(UnsupportedType, match=r"shop\.orders\.notes: only the change"):
        list(RowEncoder(schema, "minimal").update(RowSet(event, schema)))


def test_a_binary_key_is_a_binary_key():
    schema = schema_of(spec(T.STRING, 4, name="b", collation=63), SPECS[1])
    assert schema.columns[0].logical is Logical.BINARY
    (group,) = RowEncoder(schema, "minimal").delete([{"b": b"a\0\0\0"}])
    assert group.images == [b"\x00\x01a"]


@each_case(
    ("charset", "codec"), [("utf8mb4", "utf-8"), ("utf8mb3", "utf-8"), ("utf32", "utf-32-be")]
)
def test_a_surrogate_is_stored_by_mariadb_only(charset, codec):
    """MySQL answers 1366 (Incorrect string value); both store one in ucs2."""
    for flavour in ("mysql", "mariadb"):
        schema = Table("d.t", f"a TEXT CHARACTER SET {charset}", flavour=flavour).schema
        encoder = RowEncoder(schema, surrogates=flavour == "mariadb")
        if flavour == "mysql":
            with pytest.raises(ValueRejected, match="has a surrogate, which MySQL does not store"):
                list(encoder.insert([("\ud800",)]))
        else:
            (group,) = encoder.insert([("\ud800",)])
            assert "\ud800".encode(codec, "surrogatepass") in group.images[0]
