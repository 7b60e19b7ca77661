"""What an ALTER TABLE makes of a table's values, where its statement alone says it."""

from __future__ import annotations

import pytest

from tailrace.constants import Flavour
from tailrace.errors import SchemaError
from tailrace.schema.conversions import How, Modes, Sure, conversion, redeclared, shows_same
from tailrace.schema.ddl import effects
from tailrace.schema.defaults import Session, added_value
from tailrace.schema.session import StatementSession
from tailrace.schema.tokens import tokenize
from tests.cases import each_case

SESSION = StatementSession(Flavour.MYSQL)
STRICT, PADS = Modes(strict=True), Modes(pads=True)


def added(definition):
    """The column that a statement adds, and its tokens."""
    sql = f"ALTER TABLE t ADD a {definition}"
    ((clause,),) = (each.clauses for each in effects(sql, "d", SESSION))
    return clause.column.define(8, SESSION), tokenize(sql)[slice(*clause.tokens)]


@each_case(
    ("old", "new", "modes", "found"),
    [
        ("DECIMAL(40)", "DECIMAL(50)", STRICT, None),
        ("DECIMAL(40)", "VARCHAR(50)", STRICT, None),
        ("INT UNSIGNED", "VARCHAR(20)", STRICT, None),  # ZEROFILL may be on it
        ("CHAR(3)", "VARCHAR(3)", PADS, None),
        ("CHAR(3)", "VARBINARY(3)", PADS, None),
        ("JSON", "BLOB", STRICT, None),
        ("VARCHAR(3) CHARSET utf16", "VARBINARY(9)", STRICT, None),
        ("ENUM('a')", "VARBINARY(9)", STRICT, None),
        ("YEAR", "INT", STRICT, (How.NUMBER, Sure.ALWAYS)),
        ("BIT(3)", "BIT(2)", STRICT, (How.NUMBER, Sure.STRICT)),
        ("SMALLINT", "FLOAT", STRICT, (How.REAL, Sure.ALWAYS)),
        ("BIGINT", "DOUBLE", STRICT, (How.REAL, Sure.FITTING)),
        ("TEXT", "VARCHAR(3)", STRICT, (How.TEXT, Sure.STRICT)),
        ("VARBINARY(30)", "TEXT", STRICT, (How.TEXT, Sure.FITTING)),
        ("BINARY(3)", "VARBINARY(3)", STRICT, (How.SAME, Sure.ALWAYS)),
    ],
)
def test_a_conversion_is_of_the_list_or_unknown(old, new, modes, found):
    before, after = added(old)[0], added(new)[0]
    column = redeclared(before, Flavour.MYSQL, modes).column
    made = conversion(column, redeclared(after, Flavour.MYSQL, modes, before))
    assert (made and (made.how, made.sure)) == found
    assert not shows_same(before, after, Flavour.MYSQL, modes) or made.keeps


def test_a_type_that_the_flavour_does_not_have_is_never_the_same():
    assert not shows_same(added("UUID")[0], added("INET6")[0], Flavour.MYSQL, STRICT)


@each_case(
    ("definition", "problem"),
    [
        ("TIMESTAMP(3) DEFAULT NOW()", "is a time with other digits than the column"),
        ("DATE DEFAULT (CURRENT_TIMESTAMP)", "is a time, which becomes a date"),
        ("TIMESTAMP", "depends on explicit_defaults_for_timestamp"),
        ("FLOAT DEFAULT 1e60", "is not understood: float too large"),
        ("INT DEFAULT (b)", "is no literal: 'b'"),
        ("DATE DEFAULT 20200101", "is 20200101, which becomes a date"),
        ("BIT(8) DEFAULT 'a'", "is 'a', which becomes a bit"),
        ("ENUM('a') DEFAULT 'b'", "is 'b', which becomes a enum"),
        ("DATETIME DEFAULT '2020-01-01 1:2'", "is '2020-01-01 1:2', which becomes a datetime"),
        ("TIME DEFAULT '00:00:01.5'", "is '00:00:01.5', which becomes a time"),
        ("POINT NOT NULL", "is that of point without DEFAULT"),
    ],
)
def test_a_default_that_only_the_server_knows_is_refused(definition, problem):
    with pytest.raises(SchemaError) as refused:
        added_value(*added(definition), Session(0))
    assert refused.value.message.startswith(problem)
