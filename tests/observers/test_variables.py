"""User variables: WL#4398's getters, compared with how a real server converts them."""

from decimal import Decimal

import pytest

from tailrace.errors import UsageError
from tailrace.observers import UserVariables
from tests.cases import each_case

LITERALS = {
    "0": 0,
    "-3": -3,
    "9223372036854775807": 9223372036854775807,
    "2.7e0": 2.7,
    "2.5e0": 2.5,
    "3.5e0": 3.5,
    "2.7": Decimal("2.7"),
    "2.5": Decimal("2.5"),
    "1e0": 1.0,
    "1e-7": 1e-7,
    "-1.5e-16": -1.5e-16,
    "1e14": 1e14,
    "1e15": 1e15,
    "1.25e300": 1.25e300,
    "'12.7abc'": "12.7abc",
    "' 42 '": " 42 ",
    "'1e2x'": "1e2x",
    "'abc'": "abc",
    "''": "",
    "_binary'7\\0'": b"7\0",
}


def set_of(value):
    variables = UserVariables()
    variables["v"] = value
    return variables


@pytest.fixture(scope="module")
def answers(mysql97):
    """What a server makes of each: as an integer argument, a double, and text."""
    found = {}

    with mysql97.connect() as connection, connection.cursor() as cursor:
        for literal in LITERALS:
            cursor.execute(f"SET @v = {literal}")
            cursor.execute("SELECT ELT(1, LENGTH(REPEAT('x', @v))), @v + 0e0, CONCAT(@v)")
            found[literal] = cursor.fetchone()
    return found


@each_case("literal", LITERALS)
def test_get_user_var_int_real_and_str_are_the_servers(answers, literal):
    """The integer is that which a function of the server gets; not of all numbers it gets one."""
    integer, real, text = answers[literal]
    value = LITERALS[literal]
    variables = set_of(value)
    if literal[0] != "-" and value not in {(1 << 63) - 1, 1e14, 1e15, 1.25e300}:
        assert variables.get_user_var_int("v") == int(integer)
    assert variables.get_user_var_real("v") == real
    expected = text.decode() if isinstance(text, bytes) else text
    assert variables.get_user_var_str("v") == expected


def test_get_user_var_int_is_of_64_bits():
    assert set_of(1 << 64).get_user_var_int("v") == (1 << 63) - 1
    assert set_of("-99999999999999999999").get_user_var_int("v") == -(1 << 63)
    assert set_of(-1e300).get_user_var_int("v") == -(1 << 63)


def test_get_user_var_real_rounds_to_the_precision():
    assert set_of(2.71828).get_user_var_real("v", 2) == 2.72
    assert set_of("2.71828").get_user_var_real("v", precision=0) == 3.0


def test_get_user_var_str_has_length_and_precision():
    variables = set_of(2.71828)
    assert variables.get_user_var_str("v", precision=2) == "2.72"
    assert variables.get_user_var_str("v", 3) == "2.7"
    assert variables.get_user_var_str("v", 3, 0) == "3"
    assert set_of("grün").get_user_var_str("v", 3) == "gr"  # ü has two bytes
    assert set_of("grün").get_user_var_str("v", 4) == "grü"
    assert set_of("grün").get_user_var_str("v", 0) == ""
    with pytest.raises(UsageError, match="length: -1 is negative"):
        variables.get_user_var_str("v", -1)
    with pytest.raises(UsageError, match="precision: -1 is negative"):
        variables.get_user_var_real("v", -1)


@each_case("name", ["get_user_var_int", "get_user_var_real", "get_user_var_str"])
def test_null_is_told_from_a_variable_that_was_never_set(name):
    variables = set_of(None)
    assert getattr(variables, name)("V") is None
    with pytest.raises(KeyError):
        getattr(variables, name)("w")
    assert "V" in variables
    assert "w" not in variables
    assert [*variables] == ["v"]
    assert len(variables) == 1
