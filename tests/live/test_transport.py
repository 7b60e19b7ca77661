"""`tailrace.open` of a running server: its events are those of its files, byte by byte."""

import pickle
import subprocess
import sys
import threading
from datetime import UTC, datetime

import pytest

import tailrace
from tailrace.errors import AccessDenied, ConnectionLost, ServerError, UsageError
from tailrace.events import FormatDescriptionEvent, QueryEvent, RotateEvent
from tailrace.handlers import Handler
from tailrace.live.transport import ServerTransport
from tailrace.live.url import Source
from tailrace.log import Log
from tailrace.log.sources import transport_of
from tailrace.position import Position
from tests.cases import each_case
from tests.live.feeding import empty, executed, source_of
from tests.live.work import run_cases
from tests.waiting import DEADLINE, ended, in_thread, wait_for
from tools.servers import ONE_OF_EACH

pytestmark = pytest.mark.usefixtures("patient")


def url_of(server, more=""):
    return f"mysql://root@127.0.0.1:{server.port}/?heartbeat=1&ssl_mode=DISABLED{more}"


def seen(events):
    """Place and bytes of each event."""
    return [
        (event.file, event.offset, event.inner_index, event.header, event.body) for event in events
    ]


@pytest.fixture(scope="module", params=ONE_OF_EACH)
def worked(request, fresh_server):
    """A server with GTIDs that has run some cases; nobody else writes to it."""
    options = {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"}
    server = fresh_server(request.param, options if "mysql" in request.param else None)
    run_cases(server, ("xa", "savepoints", "ddl", "compressed-statements", "integers-min"))
    if server.flavour == "mysql":
        server.execute("set global binlog_transaction_compression = ON")
        run_cases(server, ("displayed",))
    server.settle()
    return server


def folder(server):
    return server.data / "binlog.index"


def test_events_are_those_of_the_files(worked):
    # The last file is open: the server clears its IN_USE flag, so it is left out.
    last = worked.binlogs()[-1].name
    expected = [each for each in seen(tailrace.open(folder(worked))) if each[0] != last]
    found = seen(tailrace.open(url_of(worked)))
    assert [each for each in found if each[0] != last] == expected
    assert len(expected) > 50
    assert len(found) > len(expected)


def test_resuming_at_each_position(worked):
    """Wherever reading stops between transactions, going on there gives what is left."""
    whole = seen(tailrace.open(url_of(worked)))
    log = tailrace.open(url_of(worked))
    count, places = 0, []
    for count, _ in enumerate(log, 1):
        if not places or places[-1][1] != log.position:
            places.append((count - 1, log.position))
    assert len(places) > 20
    for before, place in places[1 :: max(1, len(places) // 8)]:
        rest = seen(tailrace.open(url_of(worked), start=str(place)))
        assert rest[0][:2] == (place.file, 4)
        assert rest[1:] == [each for each in whole[before:] if each[:2] != (place.file, 4)]


def test_position_and_gtids_before_and_after(worked):
    log = tailrace.open(url_of(worked, "&start=now"))
    (event,) = log
    assert (event.offset, event.file) == (4, worked.binlogs()[-1].name)
    path = worked.binlogs()[-1]
    assert log.position == Position(path.name, path.stat().st_size)
    log = tailrace.open(url_of(worked))
    assert log.position == Position("", 4)
    assert log.gtids is None
    events = list(log)
    assert isinstance(events[0], FormatDescriptionEvent)
    assert log.format.flavour == worked.flavour
    assert log.position == Position(path.name, path.stat().st_size)
    assert log.gtids == executed(worked)


def test_behind_a_set_of_gtids(worked):
    """Resuming by what was taken gives the transactions that are left."""
    whole = [str(each.gtid) for each in tailrace.open(url_of(worked)).transactions()]
    log = tailrace.open(url_of(worked), start=empty(worked))
    taken = []
    for each in log.transactions():
        if len(taken) == len(whole) // 2:
            break
        taken.append(str(each.gtid))
    gtids = log.gtids
    assert taken == whole[: len(taken)]
    log.seek(gtids)
    assert log.gtids is None
    assert [str(each.gtid) for each in log.transactions()] == whole[len(taken) :]
    assert log.gtids != gtids
    again = tailrace.open(url_of(worked, f"&gtid={gtids}"))
    assert [str(each.gtid) for each in again.transactions()] == whole[len(taken) :]


def test_following(worked):
    log = tailrace.open(url_of(worked, "&start=now"), follow=True)
    with log:
        first = log.wait_for_next_event(timeout=DEADLINE)
        assert isinstance(first, FormatDescriptionEvent)
        assert log.wait_for_next_event(timeout=0.2) is None
        assert not log.at_end
        worked.execute("create database followed")
        events = [log.wait_for_next_event(timeout=DEADLINE)]
        while not isinstance(events[-1], QueryEvent):
            events.append(log.wait_for_next_event(timeout=DEADLINE))
        assert "followed" in events[-1].sql
        worked.rotate()
        while not isinstance(events[-1], RotateEvent):
            events.append(log.wait_for_next_event(timeout=DEADLINE))
        assert events[-1].file == worked.binlogs()[-2].name
        event = log.wait_for_next_event(timeout=DEADLINE)
        assert (event.file, event.offset) == (worked.binlogs()[-1].name, 4)
    worked.execute("drop database followed")
    worked.settle()


@each_case("follow", [True, False])
def test_closing_from_another_thread(worked, follow):
    """It ends the iteration, be it waiting or not, and the server loses its dump thread."""
    log = tailrace.open(url_of(worked), follow=follow)
    counted, started = [], threading.Event()

    def read():
        for event in log:
            counted.append(event)
            started.set()

    thread = in_thread(read)
    assert started.wait(DEADLINE)
    log.close()
    ended(thread)
    wait_for(lambda: not worked.dumps())


def test_leaving_an_iteration_closes_the_connection(worked):
    for _ in tailrace.open(url_of(worked)):
        break
    wait_for(lambda: not worked.dumps())


def test_refusals(worked):
    with pytest.raises(UsageError, match="keyring"):
        tailrace.open(url_of(worked), keyring="keys.json")
    for function in (tailrace.open, tailrace.changes):
        with pytest.raises(UsageError, match="start is oldest, now, a position"):
            function(url_of(worked), start="nowhere")
        with pytest.raises(UsageError, match=r"its URL says to begin at now, and .*:4 is given"):
            function(url_of(worked, "&start=now"), start="binlog.000001:4")
    two = tailrace.open(f"mysql://root@127.0.0.1:{worked.port},localhost:{worked.port}/")
    two.seek("2026-11-21T09:30")
    with pytest.raises(UsageError, match="the position of a time belongs to one server"):
        list(two)


# --- WL#3283: connect ---------------------------------------------------------------------------


def test_wl3283_connect_reports_its_error_at_once(mysql97, monkeypatch):
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    cases = [
        ("mysql://root@127.0.0.1:1/", ConnectionLost),
        (f"mysql://nobody:wrong@127.0.0.1:{mysql97.port}/", AccessDenied),
        (url_of(mysql97, "&start=binlog.999999:4"), ServerError),
    ]
    for url, kind in cases:
        for follow in (False, True):
            log = tailrace.open(url, follow=follow)
            for _ in range(2):
                with pytest.raises(kind) as caught:
                    log.connect()
                assert type(caught.value) is kind
            log.close()
    log.seek("oldest")  # it is as it was
    log.connect()
    assert isinstance(log.wait_for_next_event(DEADLINE), FormatDescriptionEvent)
    log.close()


@each_case("start", ["oldest", "now", "file", "time", "gtids"])
def test_wl3283_position_and_created_are_known_after_connect(worked, start):
    files = list(tailrace.open(folder(worked)))
    described = {each.file: each for each in files if isinstance(each, FormatDescriptionEvent)}
    first, *_, last = described
    wanted = {
        "file": last,
        "time": datetime(2000, 1, 1, tzinfo=UTC),
        "gtids": empty(worked),
    }.get(start, start)
    log = tailrace.open(url_of(worked), start=wanted, follow=True)
    if start != "file":
        assert not log.position.file
    with pytest.raises(UsageError):
        assert log.created
    log.connect()
    begin = log.position
    file = {"oldest": first, "now": last, "file": last}.get(start, begin.file)
    assert begin.file == file
    assert log.created == described[file].timestamp > 0
    assert log.format.server_version == described[file].description.server_version
    if start == "now":
        assert begin.offset == worked.binlogs()[-1].stat().st_size
    else:
        events = [log.wait_for_next_event(DEADLINE) for _ in range(2)]
        assert isinstance(events[0], FormatDescriptionEvent)  # connect has taken none of them
        next_offset = described[file].end_offset if begin.offset == 4 else begin.offset
        assert (events[1].file, events[1].offset) == (file, next_offset)
    log.close()


def test_wl3283_closing_ends_an_attempt_to_connect():
    log = tailrace.open("mysql://root@127.0.0.1:1/?retry=3600")
    connecting = in_thread(log.connect)
    wait_for(lambda: log._stream is not None)
    log.close()
    with pytest.raises(ConnectionLost, match="was closed during connect"):
        ended(connecting)


def test_no_secret_is_shown_or_pickled(mysql97):
    transport = transport_of("mysql://root:hush@host:3306/")
    assert isinstance(transport, ServerTransport)
    log = tailrace.open(transport)
    assert "hush" not in repr(transport) + transport.name + repr(vars(log))
    with pytest.raises(UsageError) as caught:
        pickle.dumps(transport)
    assert "hush" not in str(caught.value)
    plain = pickle.loads(pickle.dumps(ServerTransport(source_of(mysql97))))
    assert len(list(tailrace.open(plain))) > 1
    assert plain.source == source_of(mysql97)
    assert isinstance(plain.source, Source)


def test_what_is_imported():
    code = (
        "import sys, tailrace; from tailrace.log.sources import transport_of\n"
        "transport_of('mysql://root@h/')\n"
        "print([m for m in ('pymysql', 'numba', 'pyarrow', 'pyspark') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def first_events(log):
    return [log.wait_for_next_event(DEADLINE) for _ in range(3)]


@each_case("offset", [1 << 32, 9_999_999_999])
@each_case("follow", [False, True])
def test_wl3283_a_start_past_4_gib_that_the_log_does_not_have(worked, offset, follow):
    """It is read up to from the file's beginning: a dump is requested with 32 bits."""
    first, *_, last = worked.binlogs()
    assert last.stat().st_size < offset
    for path in (first, last):
        start = f"{path.name}:{offset}"
        told = f"no event begins at {start if path == last else ''}"
        with (
            tailrace.open(url_of(worked), start=start, follow=follow) as log,
            pytest.raises(ServerError, match=told),
        ):
            first_events(log)
        if not follow:
            with pytest.raises(ServerError, match=told):
                list(tailrace.changes(url_of(worked), start=start))


@pytest.fixture
def wrong_starts(worked):
    """Positions that are none: of a file that is not there, inside events, past the end."""
    path = worked.binlogs()[-1]
    events = [event for event in tailrace.open(path) if event.inner_index is None]
    inside = [events[1].offset + 1, events[len(events) // 2].offset + 7, events[-1].offset + 3]
    size = path.stat().st_size
    offsets = [5, *inside, size - 1, size + 1, 1 << 32]
    return ["nope.000001:4", *(f"{path.name}:{offset}" for offset in offsets)]


@each_case("follow", [False, True])
def test_wl3283_connect_reports_that_no_event_begins_at_the_start(worked, wrong_starts, follow):
    for start in wrong_starts:
        with tailrace.open(url_of(worked), start=start, follow=follow) as log:
            with pytest.raises(ServerError) as caught:
                log.connect()
            assert type(caught.value) is ServerError


@each_case("server_id", ["", "&server_id=4711"])
@each_case("follow", [False, True])
def test_wl3283_seek_of_a_connected_log_is_an_error_at_once(
    worked, wrong_starts, follow, server_id
):
    """Setting a position succeeds or is an error at once, which changes nothing."""
    with tailrace.open(url_of(worked, server_id), follow=follow) as log:
        log.connect()
        before = [log.wait_for_next_event(DEADLINE) for _ in range(2)]
        for start in wrong_starts:
            place = log.position
            with pytest.raises(ServerError):
                log.seek(start)
            with pytest.raises(ServerError):
                log.position = start
            assert log.position == place
        event = log.wait_for_next_event(DEADLINE)  # it reads on where it was
        assert event.offset == before[-1].end_offset
        if server_id:  # which the server takes for in use until it has seen that a dump has ended
            return
        log.seek(f"{event.file}:{event.offset}")
        found = [log.wait_for_next_event(DEADLINE) for _ in range(2)]
        assert [each.offset for each in found] == [4, event.offset]


@each_case("follow", [False, True])
def test_wl3283_connect_does_not_wait_at_the_logs_end(worked, follow):
    path = worked.binlogs()[-1]
    *_, last = (event for event in tailrace.open(path) if event.inner_index is None)
    for offset in (last.offset, path.stat().st_size):
        with tailrace.open(url_of(worked), start=f"{path.name}:{offset}", follow=follow) as log:
            log.connect()  # for ever, if it waited
            assert isinstance(log.wait_for_next_event(DEADLINE), FormatDescriptionEvent)
            event = log.wait_for_next_event(0.5)
            assert (event and event.offset) == (offset if offset == last.offset else None)


class Statements(Handler):
    """Keeps the statements."""

    def __init__(self):
        self.seen = []

    def on_query(self, event):
        self.seen.append(event.sql)
        return event


@pytest.mark.quick
def test_typical_usage_and_r1_creation_timestamp(server, log):
    """WL#3283, "Typical usage pattern", step by step."""
    url = f"mysql://root@127.0.0.1:{server.port}/?ssl_mode=DISABLED"
    binlog = Log(transport_of(url), start=log.name)
    handler = Statements()
    binlog.handlers.append(handler)
    binlog.connect()
    names = []
    while (event := binlog.wait_for_next_event(DEADLINE)) is not None:
        names.append(event.name)
    assert binlog.at_end
    assert binlog.created == int.from_bytes(log.read_bytes()[4:8], "little") > 0
    assert names[0] == "FORMAT_DESCRIPTION"
    assert {"TABLE_MAP", "XID", "ROTATE"} <= set(names)
    assert any(sql.startswith("CREATE TABLE IF NOT EXISTS feed.t") for sql in handler.seen)
    binlog.close()
