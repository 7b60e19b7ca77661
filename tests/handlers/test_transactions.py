"""The table index, the assembler, and what an event costs that nobody looks at."""

import pytest

import tailrace
from tailrace.constants import EventType
from tailrace.events import Event, RowsEvent, TableMapEvent
from tailrace.handlers import (
    CONSUMED,
    Assembler,
    ByServerId,
    ByTable,
    Handler,
    Pipeline,
    TableIndex,
)
from tests.cases import each_case
from tests.events.made import query_body, raw_event, raw_format, write
from tests.handlers.logs import CORPUS, cases, events
from tests.handlers.made import handling

E = EventType

TABLES = [
    "several-tables",
    "xa",
    "payload-full",
    "domains",
    "relay",
    "savepoint",
    "switches",
    "ddl",
]


@each_case(
    ("case", "expand"),
    [(case, expand) for case in cases(*TABLES) for expand in {True, "payload" not in case}],
)
def test_the_table_index(case, expand):
    index = TableIndex()
    seen = []
    with tailrace.open(CORPUS / case, handlers=[index], expand_payloads=expand) as log:
        done = False
        for event in log:
            if index.kind is None:
                done = False
            elif not done:
                done = True
                seen.append(
                    (
                        index.gtid,
                        index.kind,
                        {key: list(one.rows) for key, one in index.tables.items()},
                    )
                )
            if event.name == "FORMAT_DESCRIPTION":
                assert not index.tables
    whole = list(tailrace.open(CORPUS / case).transactions())
    wanted = []
    for one in whole:
        tables = {}
        for event in one.all_events():
            if isinstance(event, TableMapEvent):
                tables.setdefault((event.database, event.table), [])
            elif isinstance(event, RowsEvent) and not event.is_dummy:
                tables[event.table_map.database, event.table_map.table].append(event)
        wanted.append((one.gtid, one.kind, tables))
    assert seen == wanted
    assert any(tables for *_, tables in seen)


@pytest.mark.slow
@each_case("case", cases())
def test_the_assembler(case):
    got = []
    whole = list(tailrace.open(CORPUS / case).transactions())
    bare = events(case)
    assert events(case, Assembler(got.append)) == bare
    assert got == whole
    got.clear()
    left = events(case, Assembler(got.append, consume=True))
    assert got == whole
    inside = {(event.file, event.offset) for one in whole for event in one.events}
    assert left == [event for event in bare if (event.file, event.offset) not in inside]


def test_an_incomplete_tail_is_told_apart(tmp_path):
    begin, xid = raw_event(E.QUERY, query_body(b"BEGIN")), raw_event(E.XID, bytes(8))
    path = write(
        tmp_path / "b.000001",
        raw_format(),
        begin,
        xid,
        begin,
        raw_format(created=5),
        begin,
        xid,
        begin,
    )
    got = []
    list(tailrace.open(path, handlers=[Assembler(got.append)]))
    assert [(one.complete, len(one.events)) for one in got] == [
        (True, 2),
        (False, 1),
        (True, 2),
        (False, 1),
    ]


class Counter:
    """Counts which events' bodies are decoded."""

    def __init__(self, monkeypatch):
        self.read = []
        kinds = [Event]
        for kind in kinds:
            kinds += kind.__subclasses__()
            if "read_body" in vars(kind):
                monkeypatch.setattr(kind, "read_body", self.counting(vars(kind)["read_body"]))

    def counting(self, read_body):
        def counted(event, form, /):
            self.read.append(event.name)
            read_body(event, form)

        return counted


@each_case("case", ["mysql-9.7.image-full-full", "mysql-9.7.gtids", "mariadb-11.8.image-full-full"])
def test_events_that_pass_untouched_are_not_decoded(case, monkeypatch):
    """Only what tells where transactions begin and end is read, and what the filter asks for."""
    counter = Counter(monkeypatch)
    bare = events(case)
    grammar = {"FORMAT_DESCRIPTION", "QUERY", "MARIADB_GTID", "XA_PREPARE"}
    assert set(counter.read) <= grammar
    counter.read.clear()

    drops = handling(on_rotate=lambda _: CONSUMED)
    assert len(events(case, drops, ByServerId(without=[77]))) == len(bare) - sum(
        e.name == "ROTATE" for e in bare
    )
    assert set(counter.read) <= grammar
    counter.read.clear()
    assert len(events(case, ByTable(["*.*"]))) == len(bare)
    assert set(counter.read) <= grammar | {"TABLE_MAP"}
    bodies = {event.body for event in bare if isinstance(event, TableMapEvent)}
    assert counter.read.count("TABLE_MAP") == len(bodies)
    assert sum(isinstance(event, RowsEvent) for event in bare) > 3


def test_an_untouched_event_is_the_very_object():
    log = tailrace.open(CORPUS / "mysql-9.7.gtids")
    given = list(log)
    out = list(Pipeline([Handler(), ByTable(), ByServerId(), TableIndex()]).run(given))
    assert len(out) == len(given)
    assert all(one is other for one, other in zip(given, out, strict=True))
