"""A column's type in SQL declares what the log has: for each column of the recorded logs."""

from tailrace.errors import TailraceError
from tailrace.log.reader import Reader
from tailrace.storage import find
from tailrace.values.registry import declare
from tailrace.values.schema import ColumnDefinition, Logical
from tailrace.values.sql_type import sql_type
from tests.cases import each_case
from tests.recorded import folders

NEW = {"TIME": "TIME2", "DATETIME": "DATETIME2", "TIMESTAMP": "TIMESTAMP2", "NEWDATE": "DATE"}
"""Types of old tables, which a declaration does not make."""


def columns(folder):
    found = {}
    for series in find(folder):
        try:
            for step in (reader := Reader(series)):
                if step.schema is not None:
                    for column in step.schema.columns:
                        found[column] = reader.format.flavour
        except TailraceError:  # what a damaged log has before
            pass
    return found


@each_case("folder", folders("encrypted"), ids=lambda path: path.name)
def test_it_declares_what_the_log_has(folder):
    for column, flavour in columns(folder).items():
        declared = sql_type(column)
        if declared in {"enum", "set", "vector"} or column.logical is Logical.VECTOR:
            continue  # the log does not have their members, or its dimensions
        definition = ColumnDefinition(
            column.name,
            declared,
            collation=column.collation,
            members=column.members,
        )
        spec, _ = declare(definition, flavour)
        name = NEW.get(column.type.name, column.type.name)
        assert spec.type.name == name.replace("VAR_STRING", "VARCHAR"), declared
        if column.type.name not in NEW:
            assert spec.metadata == column.metadata, (declared, column)
        assert spec.unsigned in {None, column.unsigned} or name == "YEAR", declared
