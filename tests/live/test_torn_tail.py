"""A server that crashed as it wrote: its file ends inside an event, and a new one follows."""

from __future__ import annotations

import shutil
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from zlib import crc32

import pytest

import tailrace
from tailrace.errors import ServerError
from tailrace.gtid import GtidList, GtidSet
from tailrace.live.feed import Feed
from tailrace.position import Position
from tailrace.replication.receiver import Receiver
from tests.cases import each_case
from tests.cli.conftest import run  # noqa: F401 - a fixture
from tests.live.feeding import DEADLINE, drain, events_of, plain, refused, source_of

if TYPE_CHECKING:
    from tools.servers import Server

GTID_TYPES = {33, 42, 162}
SAID = "binlog truncated in the middle of event"


def last_transaction(raw, *, next_gtid):
    """It once more, at the log's end, as the server would have written the next one."""
    events = events_of(raw)
    first = max(number for number, event in enumerate(events) if event[1] in GTID_TYPES)
    made = b""
    for number, (_, _, event) in enumerate(events[first:]):
        again = bytearray(event)
        if next_gtid and number == 0:
            (seq,) = struct.unpack_from("<Q", again, 19)
            struct.pack_into("<Q", again, 19, seq + 1)
        if again[13:17] != bytes(4):
            struct.pack_into("<I", again, 13, len(raw) + len(made) + len(again))
        made += again[:-4] + struct.pack("<I", crc32(again[:-4]))
    return made


@dataclass
class Torn:
    """A server with torn files: of each the bytes that are whole."""

    server: Server
    whole: dict[str, int] = field(default_factory=dict)

    def insert(self, *keys):
        for key in keys:
            self.server.execute("INSERT INTO d.t VALUES (%s, REPEAT('x', 200))", (key,))

    def crash(self, *, torn):
        """Crash with a part of a further transaction in the log."""
        self.server.kill()
        log = self.server.binlogs()[-1]
        raw = log.read_bytes()
        more = last_transaction(raw, next_gtid=self.server.flavour == "mariadb")[torn]
        log.write_bytes(raw + more)
        self.whole[log.name] = events_of(raw + more)[-1][0]
        self.server.start()

    @property
    def keys(self):
        return [key for (key,) in self.server.query("SELECT a FROM d.t ORDER BY a")]

    def url(self, **options):
        text = "&".join(f"{name}={value}" for name, value in options.items())
        return f"mysql://root@127.0.0.1:{self.server.port}/?ssl_mode=DISABLED&{text}"


def crashed(server):
    """Torn in the last event of a transaction; then, a file later, in its first."""
    made = Torn(server)
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (a INT PRIMARY KEY, b LONGBLOB) ENGINE=InnoDB")
    made.insert(1, 2, 3)
    made.crash(torn=slice(-11))
    made.insert(4, 5)
    made.crash(torn=slice(30))
    made.insert(6, 7)
    return made


@pytest.fixture(scope="module")
def torn(fresh_server):
    return crashed(fresh_server("mariadb-11.8", {"binlog_checksum": "CRC32"}))


def keys_of(source, **options):
    batches = tailrace.changes(source, tables="d.t", **options)
    return [row["a"] for batch in batches for row in batch["after"].to_pylist()]


def starts(torn):
    """Before a torn event, and at one: reading that stopped there goes on so."""
    name, whole = next(iter(torn.whole.items()))
    raw = (torn.server.data / name).read_bytes()
    begun = [offset for offset, kind, _ in events_of(raw) if kind in GTID_TYPES]
    return [Position(name, 4), Position(name, begun[-1]), Position(name, whole)]


def test_the_error_says_what_the_server_says(torn):
    """At the torn event itself only the bytes before it would tell that one begins there."""
    before, inside, at = starts(torn)
    source, told = source_of(torn.server), f"{SAID}.*skip_torn_tail=1"
    for start in (before, inside, at, GtidList()):
        error = refused(source, ServerError, told, start=start, follow=False)
        if start is at:
            assert "no event begins at" in str(error)


def test_no_event_begins_inside_the_torn_one(torn):
    name, whole = next(iter(torn.whole.items()))
    for skip in (0, 1):
        source = source_of(torn.server, skip_torn_tail=skip)
        start = Position(name, whole + 3)
        refused(source, ServerError, "no event begins", start=start, follow=False)


def test_what_was_left_out_is_named(torn, caplog):
    for start in (*starts(torn), GtidList()):
        caplog.clear()
        source = source_of(torn.server, skip_torn_tail=1)
        with Feed(source, start=start, follow=False) as feed:
            copy = drain(feed)
        files = {path.name: plain(path.read_bytes()) for path in torn.server.binlogs()}
        left = [(tail.file, tail.offset, tail.size) for tail in feed.torn]
        assert left == [
            (name, whole, len(files[name]) - whole) for name, whole in torn.whole.items()
        ]
        said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert len(said) == len(left)
        for text, (name, offset, size) in zip(said, left, strict=True):
            assert f"{name} ends inside an event at {offset}: {size} bytes left out" in text
        if isinstance(start, Position):
            copy.equals({name: raw[: torn.whole.get(name)] for name, raw in files.items()})


@each_case("mode", ["position", "gtid"])
def test_all_later_transactions_come(torn, mode):
    start = "oldest" if mode == "position" else GtidList()
    url = torn.url(skip_torn_tail=1)
    assert keys_of(url, start=start) == torn.keys
    with tailrace.open(url, start=start) as log:
        inserts = [
            each
            for each in log.transactions()
            if each.complete and any(event.name.startswith("WRITE_ROWS") for event in each.events)
        ]
    assert len(inserts) == len(torn.keys)


def test_a_reader_that_follows_goes_on(torn):
    with Feed(source_of(torn.server, skip_torn_tail=1), start="oldest") as feed:
        end = torn.server.binlogs()[-1]
        while feed.position != Position(end.name, end.stat().st_size):
            assert feed.take(DEADLINE) is not None


@each_case("first_without", [False, True])
def test_a_copy_has_all_that_is_whole(torn, tmp_path, first_without):
    folder = tmp_path / "copy"
    if first_without:
        for _ in range(2):  # the second time it begins at the torn event
            with pytest.raises(ServerError, match=f"{SAID}.*skip-torn-tail") as caught:
                Receiver(torn.url(), folder, follow=False).run()
            assert type(caught.value) is ServerError
    for _ in range(2):
        Receiver(torn.url(skip_torn_tail=1), folder, follow=False).run()
    for path in torn.server.binlogs():
        raw = (folder / path.name).read_bytes()
        assert raw == path.read_bytes()[: torn.whole.get(path.name)], path.name
    assert keys_of(folder) == torn.keys
    for path in sorted(folder.glob("binlog.0*")):
        listed = torn.server.mysqlbinlog("-v", path).stdout
        assert listed.count(b"ROLLBACK /* added by mysqlbinlog */") == 1


def test_the_command_line(torn, tmp_path, run):  # noqa: F811 - the fixture
    name, whole = next(iter(torn.whole.items()))
    for command in (["log", "--as", "json"], ["receive", "--into", tmp_path]):
        failed = run(*command, torn.url())
        assert failed.status == 2
        assert SAID in failed.err
        ran = run(*command, "--skip-torn-tail", torn.url())
        assert ran.status == 0
        assert f"{name} ends inside an event at {whole}" in ran.err
        if command[0] == "log":
            assert ran.out.count('"_op":"insert"') == len(torn.keys)


def test_a_folder_with_torn_files(torn, tmp_path, run):  # noqa: F811 - the fixture
    """A server's own files: they say of themselves that they were open, and need no option."""
    for path in torn.server.binlogs():
        shutil.copy(path, tmp_path)
    assert keys_of(tmp_path) == torn.keys
    ran = run("log", "--as", "json", tmp_path)
    assert ran.status == 0
    assert ran.out.count('"_op":"insert"') == len(torn.keys)


def test_mysql_cuts_its_file_back(fresh_server):
    made = crashed(fresh_server("mysql-9.7", {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"}))
    for start in ("oldest", GtidSet()):
        with Feed(source_of(made.server), start=start, follow=False) as feed:
            drain(feed)
            assert not feed.torn
        assert keys_of(made.url(), start=start) == made.keys
