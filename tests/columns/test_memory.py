"""Peak memory of a process that decodes: bounded by bytes, whatever the rows are like."""

import json
import shutil
import subprocess
import sys

import pytest

import tailrace
from tests.cases import each_case

MEASURE = """
import json, os, sys
import tailrace
from tailrace.cli import main
from tailrace.columns import native
from tailrace.columns.text import readers
readers.LEAST = readers.LEAST_UNCOMPILED = 0  # for the small log, too
native.compile_all()

def peak():  # of this process alone, in MB; getrusage's is also its parent's
    # Without what of libraries is in memory: that goes by how they lie in the system's cache.
    with open("/proc/self/status") as status:
        found = dict(line.split(":") for line in status)
    return int(found["VmHWM"].split()[0]) - int(found["RssFile"].split()[0]) >> 10

def batches(path):
    return sum(batch.num_rows for batch in tailrace.changes(path))

def events(path):
    return sum(len(event.fields()) for event in tailrace.open(path))

def text(path):
    sys.argv = ["tailrace", "log", "--as", how, path]
    try:
        main()
    except SystemExit as ended:
        assert ended.code == 0, ended

for line in sys.stdin:
    how, *logs = json.loads(line)
    if os.fork():  # each measurement is a process of its own, whose imports are done
        assert os.wait()[1] == 0
        continue
    out = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    read = {"batches": batches, "events": events}.get(how, text)
    found = [(read(log), peak()) for log in logs]
    os.write(out, json.dumps(found).encode() + b"\\n")
    os._exit(0)
"""


@pytest.fixture(scope="module")
def measure():
    """A function: the large log's rows by batches or events, or its text by ``log --as``; gives
    them, and by how many MB that raises the peak above the small log's.
    """
    command = [sys.executable, "-c", MEASURE]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:

        def ask(how, small, large):
            process.stdin.write(json.dumps([how, str(small), str(large)]) + "\n")
            process.stdin.flush()
            (_, before), (rows, after) = json.loads(process.stdout.readline())
            return rows, after - before

        yield ask
        process.stdin.close()


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


def values(log):
    rows = [row for batch in tailrace.changes(log) for row in batch.column("after").to_pylist()]
    return [tuple(row.values()) for row in rows]


COLUMNS = [f"i{n} int" for n in range(490)] + [f"v{n} varchar(10)" for n in range(499)]
MANY = {
    "columns": (
        f"(id int primary key, {', '.join(COLUMNS)}) character set latin1",
        f"insert into memory.t (id, i7, v7) select n, n, 'some' from {numbers(30_000)}",
        (30_000, 150),
    ),
    "compressed columns": (
        "(id int primary key, body mediumtext compressed)",
        f"insert into memory.t select n, repeat('some ', 8000) from {numbers(20_000)}",
        (20_000, 250),
    ),
    "payload": (  # 256 MB in 24 KB
        "(id int, body longtext) engine = blackhole",
        f"insert into memory.t select 1, repeat('a', 8192) from {numbers(32_768)}",
        (32_768, 150),
    ),
}


@each_case("name", MANY)
def test_many_rows(mysql97, mariadb118, measure, tmp_path, name):
    create, insert, (count, most) = MANY[name]
    session = "binlog_transaction_compression = ON" if name == "payload" else "autocommit = 1"
    server = mariadb118 if name == "compressed columns" else mysql97
    logs = recorded(server, tmp_path, create, insert, session=session)
    assert name != "payload" or logs[1].stat().st_size < 1 << 17
    rows, more = measure("batches", *logs)
    assert rows == count
    assert more < most


@each_case("text", ["x", "\u20ac"])
def test_value_after_small_ones(mysql97, measure, tmp_path, text):
    """A row that has no room in a batch of the usual size gets one of its own."""
    size = 30_000_000 // len(text.encode())
    logs = recorded(
        mysql97,
        tmp_path,
        "(id int, a text, body longtext) engine = blackhole character set utf8mb4",
        "insert into memory.t values (1, 'a', 'b'), (2, repeat('c', 60000), 'd'), "
        f"(3, 'e', repeat('{text}', {size})), (4, 'f', repeat('g', 30000)), (5, null, 'h')",
    )
    rows, more = measure("batches", *logs)
    assert rows == 5
    assert more < 200
    assert values(logs[1]) == [
        *((1, "a", "b"), (2, "c" * 60_000, "d"), (3, "e", text * size)),
        *((4, "f", "g" * 30_000), (5, None, "h")),
    ]


LARGE = {
    "json": ("json", f"json_array(repeat('a', {24 << 20}))", {"batches": 90, "json": 150}),
    "latin1": (
        "longtext character set latin1",
        f"repeat('\u00e9', {24 << 20})",
        {"batches": 140, "json": 90},
    ),
    "blob": ("longblob", f"repeat(x'fe', {24 << 20})", {"json": 90}),
}


@each_case("kind", LARGE)
def test_large_values_that_become_other_text(mysql97, measure, tmp_path, kind):
    """Of batches, the event, a value's text and that of the batch before are held; of lines of
    JSON, the event, its rows, the value, its text and the line.
    """
    column, value, bounds = LARGE[kind]
    inserts = [f"insert into memory.t values ({number}, {value})" for number in range(3)]
    logs = recorded(mysql97, tmp_path, f"(id int, body {column}) engine = blackhole", *inserts)
    for how, most in bounds.items():
        rows, more = measure(how, *logs)
        assert rows == (3 if how == "batches" else None)
        assert more < most, how


@each_case(
    ("charset", "text"),
    [("latin1", "a\u00e9\u20ac"), ("cp1251", "\u0416x\u2116"), ("sjis", "\u6771x\uff71")],
)
def test_large_text_is_whole(mysql97, tmp_path, charset, text):
    _, log = recorded(
        mysql97,
        tmp_path,
        f"(id int primary key, body longtext character set {charset}, other text)",
        f"insert into memory.t values (1, repeat('{text}', 9000000), 'a'), (2, 'b', 'c')",
    )
    assert values(log) == [(1, text * 9_000_000, "a"), (2, "b", "c")]


VALUE = 48 << 20
MB = VALUE >> 20
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


@pytest.mark.slow
@each_case("compress", [True, False], ids=["payload", "plain"])
@each_case("kind", ["longblob", "longtext character set utf8mb4"])
def test_one_large_value(measure, tmp_path, kind, compress):
    """Of batches, the event is held, and as the value is taken out of it less and less of it; of
    events, their bytes, and a body while it is made of them; of lines and statements, pieces as
    well. Taken back, the value comes out of a file.
    """
    value = bytes(VALUE) if kind == "longblob" else "\u20ac" * (VALUE // 3)
    logs = made(tmp_path, value, kind=kind, compress=compress)
    bounds = dict.fromkeys(("json", "sql", "undo"), 2 * MB + PIECES)
    if kind == "longblob":
        # Where it is not compressed, its headers are gone through.
        bounds |= {"batches": (1 if compress else 2) * MB + 28, "events": 2.2 * MB}
        assert values(logs[1]) == [(1, value), (2, value[:10]), (3, None)]
    for how, most in bounds.items():
        _, more = measure(how, *logs)
        assert more < most, how
