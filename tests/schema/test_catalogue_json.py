"""Catalogues as JSON. ``golden`` was made by the first release that wrote its version."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from tailrace.constants import Flavour
from tailrace.errors import SchemaError
from tailrace.schema import catalogue_json
from tailrace.schema.catalogue import Catalogue
from tailrace.schema.catalogue_json import VERSION, from_json, to_json
from tailrace.schema.foreign_keys import ForeignKey
from tailrace.schema.tables import TableState
from tailrace.schema.user_schema import parse
from tailrace.values.schema import ColumnDefinition, Logical, TableDefinition
from tests.cases import each_case

GOLDEN = Path(__file__).parent / "golden"


def catalogue():
    """What the golden file is of: all that statements could make known."""
    made = Catalogue()
    for sql, database in json.loads((GOLDEN / "catalogue.statements.json").read_text()):
        made.apply(sql, database, flavour=Flavour.MARIADB, default_collation=45)
    given = "CREATE TABLE given.one (a SET('x','y') CHARACTER SET latin1, b VECTOR(3));"
    made.given(parse(given, Flavour.MARIADB))
    return made


def test_version_2():
    """The form is what the first release that wrote it made of these statements."""
    written = json.loads((GOLDEN / "catalogue.version-2.json").read_text())
    known = catalogue()
    assert to_json(known) == written
    assert vars(from_json(written)) == vars(known)
    first = Catalogue(from_first=True)
    assert vars(from_json(to_json(first))) == vars(first)


def test_every_member_has_a_place():
    names = {each.name for each in fields(ColumnDefinition)}
    assert names - {"declared"} | {"type"} == set(catalogue_json._COLUMN)
    table = {each.name for each in fields(TableDefinition)}
    state = {each.name for each in fields(TableState)}
    assert table | state - {"definition"} == set(catalogue_json._TABLE)
    column = ColumnDefinition("a", "int", True, 1, ("x",), Logical.UUID, False, False, True, True)
    definition = TableDefinition("d", "t", (column,), ("a",), (3,))
    made = Catalogue()
    key = ForeignKey(("a",), "e", "u", ("b",), "CASCADE", "SET NULL", "k")
    assert set(ForeignKey.__slots__) == set(catalogue_json._FOREIGN_KEY)
    made.given([TableState(definition, 5, "a", 2, (key,))])
    assert from_json(json.loads(json.dumps(to_json(made)))).states() == made.states()


@each_case(
    ("damage", "where"),
    [
        ({"version": 1}, "version 1, and this Tailrace reads version 2: recreate the lake"),
        ({"version": 3}, "version 3, and this Tailrace reads version 2: recreate the lake"),
        ({"version": True}, "catalogue.version"),
        ({"more": 1}, "'more'"),
        ({"tables": [{"database": "a", "table": "b"}]}, r"tables\[0\] has no columns"),
        (
            {"tables": [{"database": "a", "table": "b", "columns": [{"name": 1}]}]},
            r"tables\[0\].columns\[0\].name is 1 and not text",
        ),
        (
            {"given": [{"database": "a", "table": "b", "columns": [], "hidden": -1}]},
            r"given\[0\].hidden",
        ),
        (
            {"tables": [{"database": "a", "table": "b", "columns": [], "foreign_keys": [{}]}]},
            r"foreign_keys\[0\] has no columns",
        ),
        ({"temporary": [["a"]]}, r"temporary\[0\]"),
        ({"databases": {"a": "b"}}, "databases.a"),
        ({"unknown": [[]]}, r"unknown\[0\] is \[\] and not an object"),
    ],
)
def test_a_damaged_catalogue(damage, where):
    with pytest.raises(SchemaError, match=where):
        from_json({"version": VERSION, **damage})
    with pytest.raises(SchemaError, match="object"):
        from_json([damage])
