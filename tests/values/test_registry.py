"""Every type code has an entry in each table of column types, or is known to be never logged."""

from tailrace.columns.types import PLANS
from tailrace.constants import ColumnType
from tailrace.sql import values as sql
from tailrace.values.registry import FORMATS, NAMES, WIDTHS
from tailrace.values.schema import STRING_TYPES, Logical
from tests.cases import each_case

NEVER_LOGGED = {ColumnType.DECIMAL, ColumnType.TYPED_ARRAY, ColumnType.INVALID, ColumnType.BOOL}
LOGGED = sorted(set(ColumnType) - NEVER_LOGGED)
KEYS = [*(code for code in LOGGED if code not in STRING_TYPES), *Logical]


@each_case("code", LOGGED, ids=lambda code: code.name)
def test_every_type_has_a_width(code):
    assert code in WIDTHS


@each_case("code", sorted(NEVER_LOGGED), ids=lambda code: code.name)
def test_types_that_are_never_logged_have_none(code):
    assert code not in WIDTHS
    assert code not in FORMATS


@each_case("table", [FORMATS, PLANS, sql.TYPES], ids=["values", "columns", "sql"])
def test_every_table_has_every_key(table):
    assert set(table) == set(KEYS)


def test_names_fit_logged_types_and_all_of_these_have_a_name():
    fitting = set().union(*(known.fits for known in NAMES.values()))
    assert fitting == {*LOGGED, ColumnType.DECIMAL} - {ColumnType.NULL}


def test_the_name_that_a_synonym_stands_for_is_a_name():
    assert all(NAMES[known.name].name == known.name for known in NAMES.values())
