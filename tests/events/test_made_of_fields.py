"""Events made of fields alone: what goes in comes out, and what the format cannot hold is refused."""

import functools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace.constants import ChecksumAlgorithm, EventFlag, EventType, Flavour
from tailrace.errors import EventEncodeError
from tailrace.events import REGISTRY, DecodeContext, Event, OpaqueEvent, RowsEvent, StatusVariables
from tailrace.events.unreadable_rows import UnreadableRowsEvent
from tailrace.gtid import GtidList
from tests.cases import each_case
from tests.events.fields import FORMS, strategies
from tests.events.made import MARIADB_ARRAY, MYSQL_ARRAY, raw_format

WAYS = strategies()
IDS = [f"{EventType(code).name if code < 200 else code} {whose}" for _, code, whose in WAYS]
EACH = each_case(("kind", "code", "flavour"), list(WAYS), ids=IDS)
CRC32 = ChecksumAlgorithm.CRC32
QUICK = settings(max_examples=20, suppress_health_check=list(HealthCheck), deadline=None)


def reading(flavour, fields):
    """A context behind a format description, and behind the table map that rows refer to."""
    context = DecodeContext(unknown="opaque")
    version, array = ("9.7.4", MYSQL_ARRAY)
    if flavour is Flavour.MARIADB:
        version, array = ("11.8.9-MariaDB-log", MARIADB_ARRAY)
    context.decode(raw_format(version, array, algorithm=1))
    table_map = fields.get("table_map")
    if isinstance(table_map, Event):
        context.decode(table_map.encode(CRC32))
    return context


def plain(name, value, event):
    """A field's value as the event gives it, in the form in which it was given to `make`."""
    if name == "status":
        return value.values if isinstance(value, StatusVariables) else value
    if isinstance(value, (str, bytes)) and event.MADE_FROM.get(name):
        return value.encode() if isinstance(value, str) else value
    if name == "value" and isinstance(value, str):
        return value.encode()
    return value


def compare(event, given_):
    derived = {
        # What is left out follows from others; flags say which of these are there.
        *("flags", "flags_extra", "tagged"),
        *(name for name, value in given_.items() if value is None),
    }
    for name, value in given_.items():
        found = getattr(event, event.MADE_FROM.get(name, name))
        if name == "table_map":
            assert isinstance(event, RowsEvent)
            assert (event.table_id, event.width) == (value.table_id, len(value.columns))
            assert found.body == value.body
        elif name not in derived:
            assert plain(name, found, event) == plain(name, value, event), name
        elif name in {"flags", "flags_extra"}:
            assert found & value == value


@pytest.mark.slow
@EACH
@QUICK
@given(data=st.data())
def test_what_goes_in_comes_out(kind, code, flavour, data):
    fields = data.draw(WAYS[kind, code, flavour])
    header = {"timestamp": 1_700_000_000, "server_id": 7, "header_flags": EventFlag.SUPPRESS_USE}
    made = kind.make(type=code, form=FORMS[flavour], **header, **fields)
    if code != EventType.FORMAT_DESCRIPTION:
        assert made.encode() == made.encode(ChecksumAlgorithm.NONE)
    raw = made.encode(CRC32, log_pos=None if made.OWN_LOG_POS else (1 << 32) + 99)
    event = reading(flavour, fields).decode(raw)
    assert type(event) is kind
    assert (event.type, event.timestamp, event.header.server_id) == (code, 1_700_000_000, 7)
    assert event.header.flags == EventFlag.SUPPRESS_USE
    assert made.OWN_LOG_POS or event.header.log_pos == 99
    if kind.__name__ != "TransactionPayloadEvent":  # its payload is random here
        event.check()
    compare(event, fields)
    assert event.fields() == made.fields()
    assert event.replace().encode(CRC32) == raw or getattr(event, "compressed", code == 165)


JUNK = [
    *(None, -1, 1 << 24, 1 << 48, 1 << 64, 1 << 70, 1.5, float("nan"), 10**400),
    *("", "x", "\ud800", "a\0b", "x" * 256, "x" * 70_000),
    *(b"", b"x", b"\0" * 12, b"x" * 256, b"x" * 70_000),
    *(True, object(), int, [], [1], (), (None,), ("x", 1), {}, {0: "x"}, {"a": b"b"}, {99: 1}),
    *({0, 1}, range(3), GtidList(), memoryview(b"xyz"), bytearray(b"xyz"), lambda: None),
]


@EACH
def test_whatever_is_given_is_held_or_refused(kind, code, flavour):
    """Any value in any field: the event holds it, or an error names the field; never else."""
    good = find(WAYS[kind, code, flavour])
    for name in kind.MADE_OF:
        for junk in JUNK:
            fields = {**good, name: junk}
            try:
                event = kind.make(type=code, form=FORMS[flavour], **fields)
            except EventEncodeError as error:
                assert name in str(error) or name_beside(name, str(error)), (name, junk, str(error))  # noqa: PT017 - one of two
                continue
            raw = event.encode(CRC32)
            again = reading(flavour, fields).decode(raw)
            if kind.__name__ != "TransactionPayloadEvent":
                again.check()
            assert repr(again.fields()) == repr(event.fields())  # NaN is not NaN


def name_beside(name, message):
    """Whether the error names a field that does not go with the one that changed."""
    beside = {
        "sql": "name_",
        "flavour": "server_version",
        "server_version": "checksum_algorithm",
        "flags": "xid",
        "flags_extra": "alter_seq_no",
        "columns": "primary_key",
        "primary_key": "primary_key_prefixes",
        "table_map": "present_",
        "part": "parts",
        "parts": "part",
        "gtid": "uuid",
        "last_committed": "sequence_number",
        "value": "collation",
        "original_commit_timestamp": "immediate_commit_timestamp",
        "original_server_version": "immediate_server_version",
        "name_end": "name_start",
        "width": "table map",
        "unknown_fields": "last_needed",
    }
    return beside.get(name, "no such") in message


@functools.cache
def find(way):
    """Fields that are good, always the same."""
    found = []

    @settings(max_examples=1, derandomize=True, database=None)
    @given(way)
    def take(fields):
        found.append(fields)

    take()
    return found[0]


@EACH
def test_fields_that_are_wrong_unknown_or_missing(kind, code, flavour):
    given = {"type": code, "form": FORMS[flavour], **find(WAYS[kind, code, flavour])}
    for name, values in {
        "timestamp": (-1, 1 << 32, "now", None),
        "server_id": (-1, 1 << 32, b"7"),
        "header_flags": (-1, 1 << 16, 1.0),
        "type": (-1, 256, "QUERY", 2 if code != 2 else 3),
        "form": (None, "mysql"),
    }.items():
        for value in values:
            with pytest.raises(EventEncodeError, match=name):
                kind.make(**{**given, name: value})
    with pytest.raises(EventEncodeError, match="no field 'colour'"):
        kind.make(**given, colour="red")
    for name, default in kind.MADE_OF.items():
        if type(default) is object:
            less = {field: value for field, value in given.items() if field != name}
            with pytest.raises(EventEncodeError, match=f"misses its field '{name}'"):
                kind.make(**less)


def all_kinds():
    return set(REGISTRY.values()) | {OpaqueEvent}


def test_every_class_is_made_here():
    assert {kind for kind, _, _ in WAYS} == {
        kind for kind in all_kinds() if kind.__module__.startswith("tailrace.")
    }


@each_case("kind", sorted(all_kinds(), key=lambda kind: kind.__name__))
def test_every_class_writes(kind):
    """A class that reads a body of its own writes it, too: else what is read would be lost."""

    def owner(method):
        return next(base for base in kind.__mro__ if method in vars(base))

    assert kind.LAYOUT is not None or owner("write_body") is not Event
    assert issubclass(owner("write_body"), owner("read_body"))
    read = {name for base in kind.__mro__ for name in vars(base).get("__slots__", ())}
    read -= {*Event.__slots__, *kind.FROM_CONTEXT}
    made = {kind.MADE_FROM.get(name, name) for name in kind.MADE_OF}
    read = {name for name in read if not name.startswith("_")}  # places in the body
    followed = {"schema", "layout", "description", "payload_size", "uuid_bytes", "tag", "gno"}
    followed.add("raw_value")
    if "data" in kind.MADE_OF:  # the body as it is
        return
    if issubclass(kind, UnreadableRowsEvent):
        read -= set(RowsEvent.__slots__)
    assert read - followed <= made, kind


@each_case("code", [2, 4, 5, 9, 11, 13, 14, 16, 17, 18, 19, 26])
def test_longer_fixed_parts(code):
    """What a newer server put behind the fixed part that we know is kept, and can be made."""
    kind = REGISTRY[code]
    assert "fixed_rest" in kind.MADE_OF
    context = DecodeContext()
    array = bytearray(MYSQL_ARRAY)
    array[code - 1] += 3
    array[18] = 11 if code == EventType.TABLE_MAP else 8
    usual = {4: 8, 2: 13, 18: 26, 26: 2, 9: 4, 17: 4, 11: 4, 19: 8}.get(code, 0)
    array[code - 1] = usual + 3
    context.decode(raw_format(array=bytes(array), algorithm=1))
    assert context.format is not None
    good = find(WAYS[kind, code, Flavour.MYSQL])
    made = kind.make(type=code, form=context.format, **good)
    event = context.decode(made.encode(CRC32))
    event.check()
    compare(event, good)
    assert event.fixed_rest == bytes(3)
    told = event.replace(fixed_rest=b"new")
    told = context.decode(told.encode(CRC32))
    compare(told, good)
    assert told.replace().body == told.body
    assert b"new" in told.body
    with pytest.raises(EventEncodeError, match="fixed_rest: 3 bytes where the form has 0"):
        told.replace(form=FORMS[Flavour.MYSQL])
    shorter = told.replace(form=FORMS[Flavour.MYSQL], fixed_rest=b"")
    assert len(shorter.body) == len(told.body) - 3
