import pickle

import pytest

from tailrace.errors import UsageError
from tailrace.position import Position, parts_of, sequence, sequence_at
from tests.cases import each_case


def test_parses_and_prints():
    position = Position.parse(" binlog.000003:1234\n")
    assert position == Position("binlog.000003", 1234)
    assert str(position) == "binlog.000003:1234"
    assert position.number == 3
    assert Position.parse("C:\\logs\\binlog.000003:4") == Position("C:\\logs\\binlog.000003", 4)
    assert Position.parse(f"b.1:{(1 << 63) - 1}").offset == (1 << 63) - 1


@each_case(
    "text",
    [
        "",
        "binlog.000003",
        "binlog.000003:",
        ":4",
        "b:-1",
        "b:4x",
        "b:٤",
        f"b:{1 << 63}",
        "b:" + "9" * 5000,
    ],
)
def test_what_is_no_position(text):
    with pytest.raises(UsageError, match="not a position"):
        Position.parse(text)


def test_order_is_by_number_then_offset():
    ordered = [
        Position("snapshot", 7),
        Position("binlog.000001", 900),
        Position("binlog.000002", 4),
        Position("binlog.000002", 1 << 33),
        Position("binlog.999999", 4),
        Position("binlog.1000000", 4),
    ]
    assert sorted([*ordered[3:], *ordered[:3]]) == ordered
    assert ordered[0] < ordered[1] <= ordered[2] > ordered[1]
    assert Position("binlog.000001", 4) == Position("binlog.000001", 4)
    with pytest.raises(TypeError):
        assert Position("binlog.000001", 4) < "binlog.000002:4"


def test_pickles_and_hashes():
    position = Position("binlog.000001", 4)
    assert pickle.loads(pickle.dumps(position)) == position
    assert len({position, Position("binlog.000001", 4)}) == 1


def test_sequence_orders_changes():
    keys = [sequence(1, 4, 0), sequence(1, 4, 1), sequence(1, 5, 0), sequence(2, 4, 0)]
    assert keys == sorted(keys)
    assert sequence(99_999_999, (1 << 44) - 1, (1 << 48) - 1) < 10**38


def test_what_a_sequence_is_made_of():
    number = sequence(7, (1 << 44) - 1, (1 << 48) - 2)
    assert parts_of(number) == (7, (1 << 44) - 1, (1 << 48) - 2)
    assert parts_of(sequence_at(Position("binlog.000012", 340))) == (12, 340, 0)
