"""Event types that are not ours: classes of other packages, and events of types nobody knows."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from tailrace.constants import ChecksumAlgorithm, EventType
from tailrace.errors import EventDecodeError, EventEncodeError, UnknownEvent, UsageError
from tailrace.events import (
    REGISTRY,
    REQUIRED,
    DecodeContext,
    Event,
    OpaqueEvent,
    QueryEvent,
    TransactionPayloadEvent,
    UnknownIgnorableEvent,
    XidEvent,
)
from tailrace.events.fields import Builder, Cursor
from tailrace.events.layout import U8, U16, Text, field, flagged, tail
from tests.cases import each_case
from tests.events.made import context, raw_event, raw_format

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.fixture(autouse=True)
def registry():
    """What a test registers is gone after it."""
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


def make_heartbeat_class():
    class PulseEvent(Event, types=(201, 202)):
        """A type of our own."""

        __slots__ = ("beats",)

        FIELDS = ("beats",)
        MADE_OF: ClassVar[Mapping[str, Any]] = {"beats": REQUIRED}

        beats: int

        def read_body(self, _form, /):
            cursor = Cursor(self.body)
            self.beats = cursor.u16("the beats")
            cursor.finish("PULSE")

        def write_body(self, _form, /):
            out = Builder()
            out.u16(self.beats, "beats")
            return out.done()

    return PulseEvent


def test_a_type_of_ones_own():
    kind = make_heartbeat_class()
    made = kind.make(type=202, beats=70, server_id=5)
    event = context(checksums=True).decode(made.encode(ChecksumAlgorithm.CRC32))
    assert type(event) is kind
    assert (event.fields(), event.type, event.header.server_id) == ({"beats": 70}, 202, 5)
    assert event.replace(beats=71).body == b"\x47\0"
    with pytest.raises(EventEncodeError, match="beats: 65536"):
        kind.make(type=201, beats=1 << 16)
    with pytest.raises(EventDecodeError, match=r"b at 4 \(UNKNOWN_201\): 1 bytes follow PULSE"):
        context().decode(raw_event(201, b"\1\0\0"), file="b", offset=4).check()


def test_a_layout_of_ones_own():
    """Fields that are declared once are read, written, made and printed."""

    class BeatEvent(Event, types=(203,)):
        flags: int = field(U8, "the flags", default=0)
        beats: int = field(U16, "the beats", default=3)
        who: str | None = flagged(Text(U8, "the name's length"), "the name", "flags", 4)
        rest: bytes = tail(shown=False)

    class LoudBeatEvent(BeatEvent, types=(204,)):
        __slots__ = ()

        @property
        def shout(self):
            return f"{self.who}!"

    for kind in (BeatEvent, LoudBeatEvent):
        made = kind.make(beats=70, who="é", rest=b"xyz")
        assert made.body == b"\4\x46\0\2\xc3\xa9xyz"
        event = context().decode(raw_event(kind.TYPES[0], made.body))
        assert type(event) is kind
        assert event.fields() == {"flags": 4, "beats": 70, "who": "é"}
        assert repr(event) == f"<UNKNOWN_{kind.TYPES[0]} flags=4 beats=70 who='é'>"
        assert event.replace(who=None, flags=0).body == b"\0\x46\0xyz"
        assert not hasattr(event, "__dict__")
    assert event.shout == "é!"
    assert BeatEvent.make(rest=b"").body == b"\0\3\0"
    for fields, words in (
        ({"beats": 1 << 16}, "beats: 65536 is not between 0 and 65535"),
        ({"flags": 4}, "who: it is missing, but flags announce it"),
        ({"who": 5}, "who: 5 is not text"),
    ):
        with pytest.raises(EventEncodeError, match=words):
            BeatEvent.make(rest=b"", **fields)
    for body, words in ((b"\0\1", "the beats needs 2 bytes, 1"), (b"\4\1\0\1\xff", "not UTF-8")):
        with pytest.raises(EventDecodeError, match=words):
            context().decode(raw_event(203, body)).check()


def test_a_class_may_be_defined_again_and_be_refined():
    first = make_heartbeat_class()
    again = make_heartbeat_class()  # as by a module's reload
    assert REGISTRY[201] is again is not first

    class LoudXidEvent(XidEvent, types=(EventType.XID,)):
        __slots__ = ()

        @property
        def shout(self):
            return f"{self.xid}!"

    event = context().decode(raw_event(EventType.XID, bytes([9, *bytes(7)])))
    assert isinstance(event, LoudXidEvent)
    assert event.shout == "9!"


@each_case(
    ("base", "codes", "words"),
    [
        (Event, (2,), r"type 2 \(QUERY\) is tailrace.events.query.QueryEvent's; only a subclass"),
        (QueryEvent, (210, 16), r"type 16 \(XID\) is tailrace.events.transaction.XidEvent's"),
        (Event, (256,), "a number up to 255, not 256"),
        (Event, (-1,), "a number up to 255, not -1"),
        (Event, ("XID",), "a number up to 255, not 'XID'"),
    ],
)
def test_classes_that_are_refused(base, codes, words):
    before = dict(REGISTRY)
    with pytest.raises(UsageError, match=words):
        type("Clash", (base,), {"__slots__": ()}, types=codes)
    assert before == REGISTRY


def test_a_class_that_only_reads():
    class OnlyRead(Event, types=(220,)):
        __slots__ = ("word",)
        FIELDS = ("word",)

        def read_body(self, _form, /):
            self.word = self.body.decode()

    event = context().decode(raw_event(220, b"hello"))
    assert event.fields() == {"word": "hello"}
    assert event.replace(timestamp=5).body == b"hello"
    for write in (event.replace, OnlyRead.make):
        with pytest.raises(EventEncodeError, match="OnlyRead has no write_body"):
            write()


def test_fields_may_not_be_called_like_the_headers():
    for name in ("header_flags", "type", "timestamp", "server_id", "form"):
        with pytest.raises(UsageError, match=f"MADE_OF: '{name}' is the header's"):
            type("Flagged", (Event,), {"__slots__": (), "MADE_OF": {name: 0}})


def test_unknown_types_stop_the_reader_unless_told():
    raw = raw_event(210, b"whatever", timestamp=77)
    with pytest.raises(UnknownEvent, match=r"event type 210 is not known and not marked"):
        context().decode(raw, file="binlog.1", offset=4)
    lenient = DecodeContext(unknown="opaque")
    lenient.decode(raw_format())
    event = lenient.decode(raw)
    assert type(event) is OpaqueEvent
    assert (event.data, event.size, event.type, event.timestamp) == (b"whatever", 8, 210, 77)
    assert event.encode() == event.replace().encode() == raw
    assert event.replace(data=b"else").encode()[19:] == b"else"
    ignorable = lenient.decode(raw_event(210, b"x", flags=0x80))
    assert type(ignorable) is UnknownIgnorableEvent
    assert isinstance(ignorable, OpaqueEvent)


def test_unknown_types_in_a_payload():
    inside = [OpaqueEvent.make(type=210, data=b"x"), XidEvent.make(xid=1)]
    payload = TransactionPayloadEvent.of(inside)
    with pytest.raises(UnknownEvent, match="event type 210"):
        list(payload)
    assert [event.type for event in payload.events(unknown="opaque")] == [210, 16]


PLUGIN = '''
from tailrace.events import Event

class {name}(Event, types=({code},)):
    """A type of another package."""
    __slots__ = ()
    FIELDS = ("word",)

    @property
    def word(self):
        return self.body.decode()
'''
PROGRAM = """
import json, sys
from tailrace.events import DecodeContext
from tests.events.made import raw_event, raw_format
said = [name for name in sys.modules if name.startswith("plugin_")]
context = DecodeContext(unknown="opaque")
context.decode(raw_format())
for code in (230, 231, 232):
    try:
        event = context.decode(raw_event(code, b"hello"))
        said.append([type(event).__module__, type(event).__name__, getattr(event, "word", None)])
    except Exception as error:
        said.append([type(error).__name__, str(error)])
    said.append(sorted(name for name in sys.modules if name.startswith("plugin_")))
print(json.dumps(said))
"""


def run(folder, entries):
    info = folder / "plugins-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugins\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[tailrace.events]\n{entries}")
    (folder / "plugin_module.py").write_text(PLUGIN.format(name="PulseEvent", code=230))
    (folder / "plugin_class.py").write_text(PLUGIN.format(name="ToneEvent", code=231))
    (folder / "plugin_broken.py").write_text("import nothing_that_is_there\n")
    path = [str(folder), *filter(None, sys.path), "."]
    program = f"import sys; sys.path[:0] = {path!r}\n{PROGRAM}"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    return json.loads(done.stdout)


def test_entry_points_are_loaded_when_an_unknown_type_is_met(tmp_path):
    said = run(tmp_path, "pulse = plugin_module\ntone = plugin_class:ToneEvent\n")
    both = ["plugin_class", "plugin_module"]
    assert said == [
        ["plugin_module", "PulseEvent", "hello"],
        both,
        ["plugin_class", "ToneEvent", "hello"],
        both,
        ["tailrace.events.opaque", "OpaqueEvent", None],
        both,
    ]


def test_an_entry_point_that_cannot_be_loaded_is_no_secret(tmp_path):
    said = run(tmp_path, "broken = plugin_broken\npulse = plugin_module\n")
    (kind, message), *_ = said
    assert kind == "UnknownEvent"
    assert "entry point broken = plugin_broken of tailrace.events" in message
    assert "nothing_that_is_there" in message
    assert "repair or remove that package" in message
