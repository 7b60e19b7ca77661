"""Whatever the bytes: an event, which can be made again of its fields, or an error of the tree."""

from contextlib import suppress

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tailrace.constants import EventType
from tailrace.errors import LogError
from tailrace.events import RowsEvent, event_name
from tests.events.cases import CASES
from tests.events.cases_mariadb import MARIADB_CASES
from tests.events.made import context, raw_event, table_map_body

FLAVOURS = st.sampled_from(["mysql", "mariadb"])
CODES = st.sampled_from([int(code) for code in EventType]) | st.integers(0, 255)
SAMPLES = [case for case in (*CASES.values(), *MARIADB_CASES.values()) if case.body]


def read_all(flavour, code, body, flags=0):
    made = context(flavour)
    with suppress(LogError):
        made.decode(raw_event(EventType.TABLE_MAP, table_map_body(b"\3\3", table_id=0)))
        event = made.decode(raw_event(code, body, flags=flags))
        assert event.name == event_name(code)
        event.check()
        again = event.replace()
        assert repr(again.fields()) == repr(event.fields())  # NaN is not NaN
        if isinstance(event, RowsEvent) and "row_data" in event.MADE_OF:
            assert again.row_data == event.row_data


@settings(max_examples=250)
@given(FLAVOURS, CODES, st.binary(max_size=90), st.sampled_from([0, 0x80]))
@example("mysql", EventType.WRITE_ROWS, bytes(10) + b"\2\3", 0)
def test_random_bodies(flavour, code, body, flags):
    read_all(flavour, code, body, flags)


@settings(max_examples=250)
@given(
    st.sampled_from(SAMPLES),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_damaged_events(case, changes):
    body = bytearray(case.body)
    for at, value in changes:
        body[at % len(body)] = value
    read_all(case.flavour, case.code, bytes(body))
