"""The plan kernel's tables and numbers are those of the grammar."""

from tailrace.columns.frames import plan as k
from tailrace.columns.read.grammar import STEPS, types_of
from tailrace.constants import EventType, Flavour
from tailrace.events.description import FormatDescription
from tailrace.transaction import State, Token
from tests.cases import each_case


def test_numbers():
    for name in ("GTID", "GROUP", "SINGLE", "BEGIN", "COMMIT", "ROWS", "ROWS_END", "PAYLOAD"):
        assert getattr(k, f"T_{name}") == Token[name]
    assert State.OUTSIDE == k.OUTSIDE
    assert State.OPEN == k.OPEN
    assert k.IN_PAYLOAD not in list(State)
    assert max(Token) < 16


def test_rows_change_nothing_inside_a_transaction():
    """The kernel does not look them up there."""
    for token in Token.ROWS, Token.ROWS_END:
        assert STEPS[State.OPEN, token] == State.OPEN


@each_case("flavour", Flavour)
def test_what_servers_write_is_not_doubted(flavour):
    types = types_of(FormatDescription.of(flavour))
    assert not (types & (k.DOUBTED | k.SHORT_ID)).any()
    assert types[EventType.WRITE_ROWS] & k.EXTRA_HEADER
    assert not types[EventType.WRITE_ROWS_V1] & k.EXTRA_HEADER
