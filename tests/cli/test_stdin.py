"""``cat binlog.000001 binlog.000002 | tailrace log -``: standard input as a log."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from typing import NamedTuple
from unittest.mock import patch

import pytest
import zstandard

from tailrace import Table
from tailrace import changes as batches_of
from tailrace import open as open_log
from tailrace.constants import EventType as E
from tailrace.errors import StorageError, UsageError
from tailrace.log.changes import Changes
from tailrace.log.reader import Reader
from tailrace.storage import find, pipe
from tailrace.storage.files import find_one
from tests.cases import each_case
from tests.cli.test_errors import one_error
from tests.events.made import MAGIC, query_body, raw_event, raw_format
from tests.writing.made import log as new_log
from tools.expected import load_expected
from tools.servers import binlog_tool

MYSQL = "mysql-9.7.integers-min", "mysql-9.7.image-minimal-full"
TIMES = 110
"""So often they are more than the 1 MiB of a pipe that is kept."""
MARIADB = "mariadb-11.8.integers-min", "mariadb-11.8.interleaved"


class Done(NamedTuple):
    returncode: int
    stdout: bytes
    stderr: bytes


@contextmanager
def standard_input(given):
    """This process's standard input is a pipe, through which these bytes come."""
    ours, theirs = os.pipe()

    def write():
        with suppress(BrokenPipeError), os.fdopen(theirs, "wb") as end:  # who reads may go away
            end.write(given)

    writer = threading.Thread(target=write)
    writer.start()
    pipe.standard_input.cache_clear()
    try:
        with os.fdopen(ours) as stdin, patch.object(sys, "stdin", stdin):
            yield
    finally:
        pipe.standard_input.cache_clear()
        writer.join()


@pytest.fixture
def tailrace(run):
    """tailrace(command, ..., given=bytes) runs the command with them as its standard input."""

    def tailrace(*arguments, given):
        with standard_input(given):
            ran = run(*arguments)
        return Done(ran.status, ran.out.encode(), ran.err.encode())

    return tailrace


def logs(corpus, *names):
    return [path for name in names for path in sorted((corpus / name).glob("binlog.0*"))]


def joined(paths):
    return b"".join(path.read_bytes() for path in paths)


def records(out):
    return [json.loads(line) for line in out.splitlines()]


def refused(done):
    assert (done.returncode, b"Traceback" in done.stderr) == (2, False)
    lines = [line for line in done.stderr.decode().splitlines() if "column names" not in line]
    said = one_error("\n".join(lines))
    assert said.startswith("tailrace: -")
    return said


@each_case("names", [MYSQL, MARIADB, (*MYSQL, *MARIADB)])
def test_files_one_after_the_other(tailrace, corpus, names):
    paths = logs(corpus, *names)
    assert len(paths) >= 2
    done = tailrace("log", "-", "--as", "json", given=joined(paths))
    assert done.returncode == 0, done.stderr
    wanted, begin = [], 0
    for path in paths:
        alone = tailrace("log", path, "--as", "json", given=b"")
        for record in records(alone.stdout):
            del record["_seq"]
            wanted.append(record | {"_file": "-", "_pos": record["_pos"] + begin})
        begin += path.stat().st_size
    made = records(done.stdout)
    order = [int(record.pop("_seq")) for record in made]
    assert made == wanted
    assert order == sorted(order)
    assert len(set(order)) == len(order)


def test_compressed_files_one_after_the_other(tailrace, corpus):
    paths = logs(corpus, *MYSQL)
    packed = b"".join(zstandard.compress(path.read_bytes()) for path in paths)
    how = ("log", "-", "--as", "json")
    assert tailrace(*how, "--layers", "zstd", given=packed) == tailrace(*how, given=joined(paths))


def order(out):
    """The files of the records, each as often as the reading came to it."""
    files = [record["_file"] for record in records(out)]
    return [name for name, _ in itertools.groupby(files)]


def test_wl10956_standard_input_keeps_its_place_among_files(tailrace, corpus, tmp_path):
    """On the command line, wherever it stands, also between two files of one series."""
    (given,) = logs(corpus, MYSQL[1])
    for name, source in (("binlog.000001", MYSQL[0]), ("binlog.000003", "mysql-9.7.ddl")):
        (tmp_path / name).write_bytes(logs(corpus, source)[0].read_bytes())
    first, third = tmp_path / "binlog.000001", tmp_path / "binlog.000003"
    options = ("--as", "json", "--events")
    for arguments, wanted in (
        (("-", first, *options), ["-", "binlog.000001"]),
        ((*options, first, "-"), ["binlog.000001", "-"]),
        ((first, *options, "-", third), ["binlog.000001", "-", "binlog.000003"]),
        ((third, "-", first, *options), ["binlog.000003", "-", "binlog.000001"]),
        ((*options, "-", "--", third), ["-", "binlog.000003"]),
    ):
        done = tailrace("log", *arguments, given=given.read_bytes())
        assert done.returncode == 0, done.stderr
        assert order(done.stdout) == wanted
    counted = tailrace("stat", first, "-", "--as", "json", given=given.read_bytes())
    assert [record["log"] for record in records(counted.stdout)] == ["binlog", "-"]


def test_wl10956_where_standard_input_begins(tailrace, corpus):
    """Its positions count all bytes that come; a place in it may be an argument of its own."""
    paths = logs(corpus, *MYSQL)
    given = joined(paths)
    everything = records(tailrace("log", "-", "--as", "json", given=given).stdout)
    groups = [
        event["_pos"]
        for event in records(tailrace("log", "-", "--as", "json", "--events", given=given).stdout)
        if event["event"] == "GTID"
    ]
    assert everything
    for place in (groups[0], groups[-1], groups[-1] - 1, paths[0].stat().st_size):
        begin = min(group for group in groups if group >= place)
        for start in (["--start", f"-:{place}"], [f"--start=-:{place}"]):
            done = tailrace("log", *start, "-", "--as", "json", given=given)
            assert done.returncode == 0, done.stderr
            assert records(done.stdout) == [each for each in everything if each["_pos"] >= begin]
    for start, words in (
        ("now", "has no present end"),
        ("binlog.000001", "is not among the logs of -"),
        (f"-:{len(given) + 1}", "is past the end of -"),
    ):
        done = tailrace("log", "-", "--start", start, given=given)
        assert done.returncode == 2
        assert words in done.stderr.decode()
    done = tailrace("log", "-", paths[0], "--start", f"-:{groups[0]}", given=given)
    assert "a position is one log's" in done.stderr.decode()
    done = tailrace("log", "-", "--start", given=given)
    assert "--start needs a value" in done.stderr.decode()


def test_as_mysql_reads_it(tailrace, corpus):
    paths = logs(corpus, *MYSQL)
    given = joined(paths)
    done = tailrace("log", "-", "--as", "json", given=given)
    tool = [*binlog_tool("mysql-9.7"), "-v", "--base64-output=DECODE-ROWS", "-"]
    shown = subprocess.run(tool, input=given, capture_output=True, check=True).stdout
    for operation, word in (("insert", "INSERT INTO"), ("update", "UPDATE"), ("delete", "DELETE")):
        mine = [each for each in records(done.stdout) if each["_op"] == operation]
        assert len(mine) == shown.count(f"### {word} ".encode())
    for record in records(done.stdout):
        assert f"# at {record['_pos']}\n".encode() in shown


def test_stat_and_text_and_events(tailrace, corpus):
    paths = logs(corpus, *MYSQL)
    given = joined(paths)
    said = json.loads(tailrace("stat", "-", "--as", "json", given=given).stdout)
    events = records(tailrace("log", "--as", "json", "--events", "-", given=given).stdout)
    assert said["files"] == 1
    assert said["bytes"] == len(given)
    assert said["events"]["FORMAT_DESCRIPTION"]["events"] == len(paths)
    assert sum(each["events"] for each in said["events"].values()) == len(events)
    assert tailrace("log", "-", given=given).stdout.startswith(b"-- -: mysql 9.7")
    assert tailrace("check", "-", given=given).stdout.startswith(b"-: in order, ")


def test_it_is_written_as_a_log(tailrace, corpus, tmp_path):
    (first, *_) = paths = logs(corpus, MYSQL[0])
    into = tmp_path / "cut.000001"
    done = tailrace("log", "-", "--as", "raw", "--into", into, given=joined(paths))
    assert done.returncode == 0, done.stderr
    made = records(tailrace("log", into, "--as", "json", given=b"").stdout)
    wanted = records(tailrace("log", first, "--as", "json", given=b"").stdout)
    assert [each["after"] for each in made] == [each["after"] for each in wanted]


def test_tailrace_open(tailrace, corpus):
    paths = logs(corpus, *MARIADB)
    with standard_input(joined(paths)):
        log = open_log("-")
        found = (log.format.flavour, sum(1 for event in log), log.torn_tail)
    wanted = sum(
        len(records(tailrace("log", "--as", "json", "--events", p, given=b"").stdout))
        for p in paths
    )
    assert found == ("mariadb", wanted, None)


def test_a_pipe_is_no_log_that_can_be_read_again():
    with standard_input(b""), pytest.raises(UsageError, match="a pipe can be read once"):
        find_one("-", why="")


@each_case("name", ["mysql-9.7", "mariadb-11.8"])
def test_encrypted_files_among_plain_ones(tailrace, corpus, name):
    folder = corpus / f"{name}.encrypted"
    keys = next(path for path in folder.iterdir() if path.name in {"keys", "keyring"})
    said = load_expected(folder)["tables"]["corpus.t"]["rows"]
    encrypted, plain = logs(corpus, folder.name), logs(corpus, f"{name}.integers-min")
    given = joined([*encrypted, *plain, *encrypted])
    done = tailrace("log", "-", "--as", "json", "--keyring", keys, given=given)
    assert done.returncode == 0, done.stderr
    rows = [
        [str(value) for value in record["after"].values()]
        for record in records(done.stdout)
        if record["_table"] == "t"
    ]
    assert rows == said * 2
    assert len(records(done.stdout)) > len(rows)
    message = refused(tailrace("log", "-", "--as", "json", given=given))
    assert "encrypted with the key" in message
    assert "--keyring FILE" in message
    begin = len(joined(plain))
    message = refused(tailrace("log", "-", given=joined([*plain, *encrypted])))
    place = int(message.split("tailrace: - at ")[1].split(":")[0])
    assert begin <= place < begin + 512


@each_case("encrypted", [False, True])
def test_a_torn_end(tailrace, corpus, encrypted):
    paths = logs(corpus, "mysql-9.7.encrypted") if encrypted else logs(corpus, MYSQL[0])
    keys = ("--keyring", corpus / "mysql-9.7.encrypted" / "keyring")
    given = joined([*logs(corpus, MYSQL[1]), *paths])
    whole = records(tailrace("log", "-", "--as", "json", "--events", *keys, given=given).stdout)
    places = [event["_pos"] for event in whole]
    assert places == sorted(places)
    message = refused(tailrace("log", "-", *keys, given=given[:-20]))
    assert "the file ends after" in message
    place = int(message.split("tailrace: - at ")[1].split()[0])
    assert place == places[-1]
    in_use = joined(logs(corpus, "mysql-9.7.in-use"))
    done = tailrace("log", "-", given=joined(logs(corpus, MYSQL[1])) + in_use[:-5])
    assert done.returncode == 0
    assert b"the log ends inside an event" in done.stderr


@each_case(
    ("junk", "words"),
    [
        (b"", "- at 0: the file is empty"),
        (b"PAR1 and so on", "- at 0: not a binary log: it begins with 50 41 52 31"),
        (b"\xfebin", "nothing but its magic"),
        (b"\xfdbin\1\1", "encryption header"),
    ],
)
def test_junk(tailrace, junk, words):
    for command in ("log", "stat"):
        assert words in refused(tailrace(command, "-", given=junk))


def test_junk_between_files(tailrace, corpus):
    (path, *_) = logs(corpus, MYSQL[0])
    raw = path.read_bytes()
    for junk, words in ((b"\0" * 99, "not 0"), (b"\xff" * 99, "not 4294967295")):
        message = refused(tailrace("log", "-", given=raw + junk + raw))
        assert f"- at {len(raw)} " in message
        assert words in message
    message = refused(tailrace("log", "-", given=raw + b"\xfebin"))
    assert f"- at {len(raw) + 4}: " in message


@pytest.mark.slow
def test_a_part_of_it(tailrace, corpus):
    """More than the part of a pipe that is kept: it is gone through once."""
    paths = logs(corpus, *MYSQL) * TIMES
    given = joined(paths)
    assert len(given) > 1 << 20
    events = records(
        tailrace("log", "-", "--as", "json", "--events", given=joined(logs(corpus, *MYSQL))).stdout
    )
    *_, before, last = [each for each in events if each["event"] == "GTID"]
    place, whole = last["_pos"], sum(each["event"] == "GTID" for each in events)
    source = last["fields"]["gtid"].rpartition(":")[0]
    for bound, count in (
        (f"--start={before['fields']['gtid']}", TIMES),  # all but the last were read, of each time
        (f"--start=-:{place}", TIMES * whole - whole + 1),
        (f"--until={last['fields']['gtid']}", whole),
        (f"--until=-:{place}", whole - 1),
    ):
        done = tailrace("stat", "-", "--as", "json", bound, given=given)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["events"]["GTID"]["events"] == count
    missing = tailrace("log", "-", f"--until={source}:99999", given=given)
    assert "were not read" in refused(missing)
    other = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7"
    missing = tailrace("log", "-", f"--start={other}", given=joined(logs(corpus, *MYSQL)))
    assert missing.returncode == 2
    assert f"{other} is not in the logs, -" in missing.stderr.decode()


def test_xa_in_a_long_pipe(tailrace, corpus):
    """It is found by reading ahead, and of a pipe only the first 1 MiB can be read again."""
    given = joined(logs(corpus, "mysql-9.7.xa"))
    done = tailrace("log", "-", "--as", "json", given=given)
    assert done.returncode == 0, done.stderr
    assert records(done.stdout)
    long = given * ((1 << 20) // len(given) + 2)
    message = refused(tailrace("log", "-", "--as", "json", given=long))
    assert "XA" in message
    assert "save it as a file" in message


def test_a_large_transaction_in_a_pipe(tailrace, tmp_path):
    """It is held in a temporary file, and the pipe is read once."""
    log = tmp_path / "log.000001"
    create = "create table d.t (id int primary key, body longtext)"
    with new_log(log, "mysql") as out, out.transaction() as change:
        change.insert(Table.parse(create), [(number, "x" * 100_000) for number in range(20)])
    given = log.read_bytes()
    with standard_input(given):
        changes = Changes(Reader(find("-")[0]), most_held=1)
        found = [json.loads(line) for change in changes for line in change.json_lines()]
    assert found == records(tailrace("log", "-", "--as", "json", given=given).stdout)


def test_what_a_pipe_cannot_do(tailrace, corpus, tmp_path):
    given = joined(logs(corpus, *MYSQL))
    done = tailrace("mirror", "-", "--into", tmp_path / "lake", given=given)
    assert "not through a pipe" in refused(done)
    with (
        standard_input(given),
        pytest.raises(StorageError, match="-: what comes through a pipe is read event by"),
    ):
        list(batches_of("-"))
    with standard_input(given), pytest.raises(StorageError, match="-: what comes through a pipe"):
        pickle.dumps(find("-"))


def test_a_named_pipe(tailrace, corpus, tmp_path):
    (path, *_) = logs(corpus, MYSQL[0])
    script = f"{sys.executable} -m tailrace log --as json <(cat {path} {path})"
    done = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    alone = records(tailrace("log", path, "--as", "json", given=b"").stdout)
    made = [record["after"] for record in records(done.stdout)]
    assert made == [record["after"] for record in alone] * 2


def test_an_event_of_the_second_that_reads_as_the_magic(tailrace):
    """In the second 1852400382 an event begins with FE 62 69 6E."""
    begin = raw_event(E.QUERY, query_body(b"BEGIN"))
    odd = MAGIC + raw_event(E.XID, bytes(8))[4:]
    raw = MAGIC + raw_format() + begin + odd + begin + odd
    done = tailrace("log", "-", "--as", "json", "--events", given=raw + raw)
    assert done.returncode == 0, done.stderr
    names = [event["event"] for event in records(done.stdout)]
    assert names == ["FORMAT_DESCRIPTION", "QUERY", "XID", "QUERY", "XID"] * 2
