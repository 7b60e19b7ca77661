"""What a server says of its tables now: where it serves, and how it is kept."""

import json

import pytest

from tailrace.constants import Flavour
from tailrace.errors import SchemaError
from tailrace.events import QueryEvent
from tailrace.events.description import STANDARD_VERSIONS
from tailrace.position import Position
from tailrace.schema.catalogue import Catalogue, Learned
from tailrace.schema.catalogue_json import from_json, to_json
from tailrace.schema.table import Table
from tailrace.schema.user_schema import parse
from tests.cases import each_case

CREATE = "CREATE TABLE d.t (a INT UNSIGNED PRIMARY KEY, b VARCHAR(20), c ENUM('x','y') NOT NULL)"
END = Position("binlog.000002", 1000)


def learned(sql=CREATE, flavour=Flavour.MYSQL):
    (state,) = parse(sql, flavour)
    catalogue = Catalogue()
    catalogue.learn(Learned(state, END))
    return catalogue


def resolved(catalogue, sql=CREATE, metadata="minimal", flavour=Flavour.MYSQL):
    table_map = Table.parse(
        sql, flavour=flavour, server_version=STANDARD_VERSIONS[flavour]
    ).table_map(1, metadata=metadata)
    return catalogue.resolve(table_map, flavour)


def run(catalogue, sql, offset, file="binlog.000002"):
    event = QueryEvent.make(sql=sql, database="d")
    event.file, event.offset = file, offset
    catalogue.apply_event(event, Flavour.MYSQL)


def test_what_is_learned_of_a_later_place_stays():
    """Also where reading begins earlier than that place."""
    for place in (Position("binlog.000001", 4), END, Position("binlog.000003", 4)):
        assert resolved(learned().as_of(place)) == resolved(learned())


@each_case(
    ("flavour", "metadata"),
    [(Flavour.MYSQL, "minimal"), (Flavour.MARIADB, "minimal"), (Flavour.MARIADB, "none")],
)
def test_it_stands_in_for_what_the_log_does_not_say(flavour, metadata):
    schema = resolved(learned(flavour=flavour), CREATE, metadata, flavour)
    assert schema.names_from == "server"
    assert [column.name for column in schema.columns] == ["a", "b", "c"]
    assert schema.columns[0].unsigned
    assert schema.columns[2].members == ("x", "y")
    assert schema.primary_key == (0,)
    assert "the server's definition" in learned(flavour=flavour).notice(schema)


@each_case(
    "logged",
    [
        CREATE.replace("a INT UNSIGNED", "a INT"),
        CREATE.replace("INT UNSIGNED", "BIGINT UNSIGNED"),
        CREATE.replace("VARCHAR(20)", "VARCHAR(21)"),
        CREATE.replace("VARCHAR(20)", "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
        CREATE.replace("VARCHAR(20)", "VARCHAR(20) NOT NULL"),
        CREATE.replace("b VARCHAR(20), ", ""),
    ],
)
def test_rows_of_another_table_have_no_names(logged):
    assert resolved(learned(), logged).names_from == "none"


def test_what_the_log_says_goes_first():
    catalogue = learned(CREATE.replace(" b ", " z "))
    assert resolved(catalogue).columns[1].name == "z"
    catalogue.apply(CREATE, "d", flavour=Flavour.MYSQL)
    assert resolved(catalogue).columns[1].name == "b"
    assert resolved(learned(), CREATE.replace(" b ", " z "), "full").columns[1].name == "z"


def test_statements_before_the_end_are_in_it_and_later_ones_change_it():
    catalogue = learned()
    run(catalogue, "ALTER TABLE t CHANGE b z VARCHAR(20)", 999)
    run(catalogue, "ALTER TABLE t CHANGE b z VARCHAR(20)", 5000, "binlog.000001")
    assert resolved(catalogue).columns[1].name == "b"
    run(catalogue, "ALTER TABLE t CHANGE b z VARCHAR(20)", 1079)
    schema = resolved(catalogue)
    assert (schema.columns[1].name, schema.names_from) == ("z", "ddl")
    run(catalogue, "DROP TABLE t", 2000)
    assert resolved(catalogue).names_from == "none"


def test_it_is_kept_and_taken_over():
    catalogue = learned()
    kept = json.loads(json.dumps(to_json(catalogue)))
    assert kept["learned"][0]["end"] == "binlog.000002:1000"
    assert vars(from_json(kept)) == vars(catalogue)
    other = Catalogue()
    other.take_over(catalogue, but={("d", "t")})
    assert resolved(other).names_from == "none"
    other.take_over(catalogue)
    assert resolved(other.copy()).names_from == "server"
    assert resolved(other.without_learned({("d", "t")})).names_from == "none"
    kept["learned"][0]["end"] = "nowhere"
    with pytest.raises(SchemaError, match=r"learned\[0\].end"):
        from_json(kept)
