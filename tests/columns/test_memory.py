"""Peak memory of a process that decodes to batches: bounded by bytes, whatever the rows are like."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

import tailrace

PEAK = """
import sys
def peak():  # of this process alone; getrusage's is also its parent's
    # Without what of libraries is in memory: that goes by how they lie in the system's cache.
    with open("/proc/self/status") as status:
        found = dict(line.split(":") for line in status)
    return int(found["VmHWM"].split()[0]) - int(found["RssFile"].split()[0]) >> 10
"""
DECODE = f"""{PEAK}
import tailrace
rows = []
for path in sys.argv[1:]:
    rows.append(sum(batch.num_rows for batch in tailrace.changes(path)))
    print(rows[-1], peak())
"""

LINES = f"""{PEAK}
from tailrace.cli import main
from tailrace.columns.text import readers
readers.LEAST = readers.LEAST_UNCOMPILED = 0  # for the small log, too
_, how, *logs = sys.argv
for log in logs:
    sys.argv = ["tailrace", "log", "--as", how, log]
    try:
        main()
    except SystemExit as ended:
        assert ended.code == 0, ended
    print(peak(), file=sys.stderr)
"""


def peaks(small, large, code=DECODE):
    """The rows of the large log, and by how many MB it raises the peak above the small one's."""
    done = subprocess.run(
        [sys.executable, "-c", code, str(small), str(large)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr[-500:]
    (_, before), (rows, after) = (map(int, line.split()) for line in done.stdout.splitlines())
    return rows, after - before


def numbers(count):
    digits = "(" + " union all ".join(f"select {n} d" for n in range(10)) + ")"
    places = range(len(str(count - 1)))
    number = " + ".join(f"d{at}.d * {10**at}" for at in places)
    source = " cross join ".join(f"{digits} d{at}" for at in places)
    return f"(select {number} n from {source} having n < {count}) numbers"


def recorded(server, folder, create, *inserts, session="autocommit = 1"):
    """Two logs of the same table: of a row, and of what ``inserts`` do in such a session."""
    server.execute("create database if not exists memory")
    server.execute("drop table if exists memory.t")
    server.execute(f"create table memory.t {create}")
    paths = []
    first = "insert into memory.t (id) values (-1)"
    for name, statements in (("small", [first]), ("large", inserts)):
        server.rotate()
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"set {session}")
            for statement in statements:
                cursor.execute(statement)
            connection.commit()
        path = server.rotate()
        paths.append(folder / f"{name}.000001")
        shutil.copy(path, paths[-1])
    server.execute("drop table memory.t")
    return paths


def test_many_columns(mysql97, tmp_path):
    columns = [f"i{n} int" for n in range(490)] + [f"v{n} varchar(10)" for n in range(499)]
    logs = recorded(
        mysql97,
        tmp_path,
        f"(id int primary key, {', '.join(columns)}) character set latin1",
        f"insert into memory.t (id, i7, v7) select n, n, 'some' from {numbers(30_000)}",
    )
    rows, more = peaks(*logs)
    assert rows == 30_000
    assert more < 150


def test_compressed_columns(mariadb118, tmp_path):
    logs = recorded(
        mariadb118,
        tmp_path,
        "(id int primary key, body mediumtext compressed)",
        f"insert into memory.t select n, repeat('some ', 8000) from {numbers(20_000)}",
    )
    rows, more = peaks(*logs)
    assert rows == 20_000
    assert more < 250


def test_payload_that_unpacks_to_much(mysql97, tmp_path):
    """256 MB in 24 KB."""
    logs = recorded(
        mysql97,
        tmp_path,
        "(id int, body longtext) engine = blackhole",
        f"insert into memory.t select 1, repeat('a', 8192) from {numbers(32_768)}",
        session="binlog_transaction_compression = ON",
    )
    assert logs[1].stat().st_size < 1 << 17
    rows, more = peaks(*logs)
    assert rows == 32_768
    assert more < 150


@pytest.mark.parametrize("text", ["x", "\u20ac"])
def test_value_after_small_ones(mysql97, tmp_path, text):
    """A row that has no room in a batch of the usual size gets one of its own."""
    size = 30_000_000 // len(text.encode())
    logs = recorded(
        mysql97,
        tmp_path,
        "(id int, a text, body longtext) engine = blackhole character set utf8mb4",
        "insert into memory.t values (1, 'a', 'b'), (2, repeat('c', 60000), 'd'), "
        f"(3, 'e', repeat('{text}', {size})), (4, 'f', repeat('g', 30000)), (5, null, 'h')",
    )
    rows, more = peaks(*logs)
    assert rows == 5
    assert more < 200


LARGE = {
    "json": ("json", f"json_array(repeat('a', {24 << 20}))"),
    "latin1": ("longtext character set latin1", f"repeat('\u00e9', {24 << 20})"),
    "blob": ("longblob", f"repeat(x'fe', {24 << 20})"),
}


def large(server, folder, kind):
    """A log of three values of 24 MiB, each in an event of its own."""
    column, value = LARGE[kind]
    inserts = [f"insert into memory.t values ({number}, {value})" for number in range(3)]
    return recorded(server, folder, f"(id int, body {column}) engine = blackhole", *inserts)


@pytest.mark.parametrize(("kind", "most"), [("json", 90), ("latin1", 140)])
def test_large_values_that_become_other_text(mysql97, tmp_path, kind, most):
    """Held are the event, a value's text, and that of the batch before."""
    rows, more = peaks(*large(mysql97, tmp_path, kind))
    assert rows == 3
    assert more < most


@pytest.mark.parametrize("kind", LARGE)
def test_large_values_as_lines_of_json(mysql97, tmp_path, kind):
    """Held are the event, its rows, the value, its text and the line."""
    more = more_for_lines("json", *large(mysql97, tmp_path, kind))
    assert more < {"json": 150, "latin1": 90, "blob": 90}[kind]


def more_for_lines(how, small, large):
    """By how many MB the large log raises the peak of ``tailrace log --as`` above the small one's."""
    done = subprocess.run(
        [sys.executable, "-c", LINES, how, str(small), str(large)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ,
    )
    before, after = (int(line) for line in done.stderr.splitlines() if line.isdigit())
    return after - before


@pytest.mark.parametrize(
    ("charset", "text"),
    [("latin1", "a\u00e9\u20ac"), ("cp1251", "\u0416x\u2116"), ("sjis", "\u6771x\uff71")],
)
def test_large_text_is_whole(mysql97, tmp_path, charset, text):
    paths = recorded(
        mysql97,
        tmp_path,
        f"(id int primary key, body longtext character set {charset}, other text)",
        f"insert into memory.t values (1, repeat('{text}', 9000000), 'a'), (2, 'b', 'c')",
    )
    batches = tailrace.changes(paths[1])
    rows = [row for batch in batches for row in batch.column("after").to_pylist()]
    assert [tuple(row.values()) for row in rows] == [(1, text * 9_000_000, "a"), (2, "b", "c")]


def test_values_are_whole(mysql97, tmp_path):
    _, large = recorded(
        mysql97,
        tmp_path,
        "(id int, a text, body longtext) engine = blackhole character set utf8mb4",
        "insert into memory.t values (1, 'a', 'b'), (2, repeat('c', 60000), 'd'), "
        "(3, 'e', repeat('\u20ac', 9000000)), (4, 'f', repeat('g', 30000)), (5, null, 'h')",
    )
    rows = [row for batch in tailrace.changes(large) for row in batch.column("after").to_pylist()]
    assert [tuple(row.values()) for row in rows] == [
        (1, "a", "b"),
        (2, "c" * 60_000, "d"),
        (3, "e", "\u20ac" * 9_000_000),
        (4, "f", "g" * 30_000),
        (5, None, "h"),
    ]


READ = f"""{PEAK}
import tailrace
for path in sys.argv[1:]:
    for event in tailrace.open(path):
        event.fields()
    print(event.offset, peak())
"""
VALUE = 48 << 20
PIECES = 24
"""MB of pieces of the line or statement, and of blocks."""


def made(folder, value, *, kind="longblob", compress):
    """Two logs of one transaction: of small values, and of a large one and small ones."""
    table = tailrace.Table.parse(f"create table d.t (id int, body {kind})", flavour="mysql")
    paths = []
    for name, each in (("small", value[:10]), ("large", value)):
        paths.append(folder / f"{name}.000001")
        log = tailrace.create(paths[-1], flavour="mysql", server_id=1, compress=compress)
        with log, log.transaction() as change:
            change.insert(table, [(1, each)])
            change.insert(table, [(2, value[:10]), (3, None)])
    return paths


@pytest.mark.parametrize("compress", [True, False], ids=["payload", "plain"])
def test_one_large_value_as_batches(tmp_path, compress):
    """Held are the event, and as the value is taken out of it less and less of it."""
    logs = made(tmp_path, bytes(VALUE), compress=compress)
    rows, more = peaks(*logs)
    assert rows == 3
    copies = 1 if compress else 2  # its headers are gone through
    assert more < copies * (VALUE >> 20) + 28
    rows = [row for batch in tailrace.changes(logs[1]) for row in batch.column("after").to_pylist()]
    assert [tuple(row.values()) for row in rows] == [(1, bytes(VALUE)), (2, bytes(10)), (3, None)]


@pytest.mark.parametrize("compress", [True, False], ids=["payload", "plain"])
def test_one_large_value_as_events(tmp_path, compress):
    """Held are the event's bytes, and its body while it is made of them."""
    _, more = peaks(*made(tmp_path, bytes(VALUE), compress=compress), code=READ)
    assert more < 2.2 * (VALUE >> 20)


@pytest.mark.parametrize("compress", [True, False], ids=["payload", "plain"])
@pytest.mark.parametrize("kind", ["longblob", "longtext character set utf8mb4"])
def test_one_large_value_as_lines_of_json(tmp_path, kind, compress):
    """Held are the event's bytes, and its body while it is made of them; of the line, pieces."""
    value = bytes(VALUE) if kind == "longblob" else "\u20ac" * (VALUE // 3)
    small, large = made(tmp_path, value, kind=kind, compress=compress)
    assert more_for_lines("json", small, large) < 2 * (VALUE >> 20) + PIECES


@pytest.mark.parametrize("compress", [True, False], ids=["payload", "plain"])
@pytest.mark.parametrize("kind", ["longblob", "longtext character set utf8mb4"])
@pytest.mark.parametrize("how", ["sql", "undo"])
def test_one_large_value_as_sql(tmp_path, how, kind, compress):
    """Of the statement, pieces; taken back, the value comes out of a file."""
    value = bytes(VALUE) if kind == "longblob" else "\u20ac" * (VALUE // 3)
    small, large = made(tmp_path, value, kind=kind, compress=compress)
    assert more_for_lines(how, small, large) < 2 * (VALUE >> 20) + PIECES
