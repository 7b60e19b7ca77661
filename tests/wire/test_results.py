"""Result sets, both ways, and as real servers send them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import MalformedPacket
from tailrace.wire.results import Column, ColumnType, ResultSet

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


@st.composite
def results(draw):
    names = draw(st.lists(TEXTS, min_size=1, max_size=5))
    row = st.tuples(*(st.none() | TEXTS for _ in names))
    return ResultSet.of(names, draw(st.lists(row, max_size=5)))


@settings(deadline=None)
@given(result=results())
def test_both_ways(result):
    assert ResultSet.decode(result.encode()) == result


@settings(deadline=None)
@given(result=results(), data=st.data())
def test_damaged_packets_are_malformed(result, data):
    raw = [bytearray(each) for each in result.encode()]
    at = data.draw(st.integers(0, len(raw) - 1))
    if data.draw(st.booleans()):
        del raw[at]
    else:
        raw[at] = raw[at][: data.draw(st.integers(0, max(len(raw[at]) - 1, 0)))]
    try:
        found = ResultSet.decode(raw)
    except MalformedPacket:
        return
    assert found != result or at > len(result.columns)


def test_values_have_types():
    """A number stays one for the client: its column says so."""
    result = ResultSet.of(["i", "f", "t", "n"], [(None, None, None, None), (1, 0.5, "x", None)])
    kinds = [column.kind.name for column in result.columns]
    assert kinds == ["BIGINT", "DOUBLE", "VARCHAR", "VARCHAR"]
    assert ResultSet.decode(result.encode()).rows[1] == ("1", "0.5", "x", None)


def test_no_packets():
    with pytest.raises(MalformedPacket):
        ResultSet.decode([])


def test_a_column():
    for kind in ColumnType:
        assert Column.decode(Column("größe", kind).encode()) == Column("größe", kind)


def test_what_a_real_server_sends(flavour_server):
    """Read from the packets as they came; PyMySQL reads them, too."""
    with flavour_server.connect() as connection, connection.cursor() as cursor:
        connection._execute_command(3, "SELECT 1 AS a, 'x' AS b, 1.5e0 AS c, NULL AS d")
        packets = [bytes(connection._read_packet().get_all_data()) for _ in range(8)]
        found = ResultSet.decode(packets)
        assert [column.name for column in found.columns] == list("abcd")
        assert found.columns[0].kind in (ColumnType.INT, ColumnType.BIGINT)
        assert found.columns[1:] == (
            Column("b"),
            Column("c", ColumnType.DOUBLE),
            Column("d", ColumnType.NULL),
        )
        assert found.rows == (("1", "x", "1.5", None),)
        connection._result = None
        cursor.execute("SELECT 2")
        assert cursor.fetchall() == ((2,),)
