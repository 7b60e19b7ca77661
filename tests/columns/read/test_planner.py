"""`SplitPlanner` over logs that grow: the same rows as in the whole log, each once."""

import os
import random
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from tailrace.columns import changes, read_split
from tailrace.columns.read import planner as planner_module
from tailrace.columns.read.planner import SplitPlanner
from tailrace.constants import EventType
from tailrace.errors import BoundaryError, StorageError, TruncatedEvent
from tailrace.position import Position
from tailrace.schema.catalogue import Catalogue
from tailrace.storage import find
from tests.cases import each_case
from tests.columns.oracle import in_order
from tests.events.made import raw_event, raw_format, write
from tests.live.feeding import events_of
from tests.recorded import CORPUS

CASES = [
    f"{server}.{case}"
    for server in ("mysql-9.7", "mariadb-11.8", "mariadb-10.11")
    for case in ("xa", "savepoints", "ddl", "several-tables", "switches")
]
FLAGS = 4 + 17


def logs(case):
    """The log files of a corpus case, in order."""
    return [Path(log.path) for series in find(CORPUS / case) for log in series.files]


def rows(splits):
    """All rows of splits, in order, as dictionaries; texts of names and places, and images."""
    return in_order(batch for split in splits for batch in read_split(split, statements="skip"))


def whole(folder):
    return in_order(changes(folder, statements="skip"))


def growing(case, folder, rng):
    """The folder's logs as a server writes them: yields after each piece; the last is whole."""
    files = logs(case)
    for number, path in enumerate(files):
        data = path.read_bytes()
        cuts = sorted(rng.randrange(130, len(data)) for _ in range(rng.randrange(1, 9)))
        for cut in cuts:
            part = bytearray(data[:cut])
            part[FLAGS] |= 1
            (folder / path.name).write_bytes(part)
            if number < len(files):
                yield False
        (folder / path.name).write_bytes(data)
        if rng.random() < 0.5 and number < len(files) - 1:
            yield False
    yield True


@each_case("seed", range(2))
@each_case("case", CASES)
@pytest.mark.slow
def test_a_log_that_grows(case, seed, tmp_path):
    rng = random.Random(f"{case} {seed}")
    planner = SplitPlanner(target_bytes=rng.choice((200, 5000, 1 << 26)))
    splits = []
    for _ in growing(case, tmp_path, rng):
        (series,) = find(tmp_path)
        splits += planner.plan(series)
        if planner.held is not None and planner.end is not None:
            assert planner.end <= planner.held
    last = SplitPlanner(planner_catalogue(planner), planner.end, hold=False)
    if planner.held is not None:  # never decided: its rows come last
        splits += last.plan(series)
    for before, after in pairwise(splits):
        assert Position(before.file, before.end) <= Position(after.file, after.start)
    assert rows(splits) == whole(tmp_path)


def planner_catalogue(planner):
    """What is known where the file begins that the planner is in; nothing, in these logs' first."""
    assert planner.end is None or planner.end.file.endswith("1") or planner.held is None
    return Catalogue()


@each_case("server", ["mysql-9.7", "mariadb-11.8"])
def test_xa_rows_that_were_read_and_are_taken_back(server, tmp_path):
    """Without holding, a log that ends between PREPARE and ROLLBACK gives rows that never were."""
    planner = SplitPlanner(hold=False, target_bytes=1)

    def read_on():
        for end in range(200, logs(f"{server}.xa")[0].stat().st_size, 40):
            data = bytearray(logs(f"{server}.xa")[0].read_bytes()[:end])
            data[FLAGS] |= 1
            (tmp_path / "binlog.000001").write_bytes(data)
            (series,) = find(tmp_path)
            planner.plan(series)

    with pytest.raises(BoundaryError, match="XA transaction was rolled back"):
        read_on()


@each_case("case", ["mariadb-10.11.ddl", "mariadb-11.8.xa", "mysql-9.7.xa"])
def test_gone_on_with_in_the_middle_of_a_file(case, tmp_path):
    """Names that only the DDL before tells are known: `after` stands behind it, in its file. So is
    which prepared rows were left out before it, since the log had been read up to their ROLLBACK.
    """
    for path in logs(case):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (series,) = find(tmp_path)
    planner = SplitPlanner(target_bytes=1)
    all_of_it = planner.plan(series)
    expected = rows(all_of_it)
    for number in range(1, len(all_of_it), 7):
        first = all_of_it[number]
        if first.file != all_of_it[0].file:
            break
        after = Position(first.file, first.start)
        again = SplitPlanner(after=after, target_bytes=1, seen=planner.seen).plan(series)
        left = rows(again)
        assert left == expected[len(expected) - len(left) :]
        assert again[0].catalogue._tables == first.catalogue._tables


def test_a_transaction_that_continues_in_the_next_file_after_one_in_doubt(tmp_path):
    """The scan continues in the state of the last file, not in that of the file held in doubt."""
    (path,) = logs("mysql-9.7.xa")
    format_, *events = (raw for _, _, raw in events_of(path.read_bytes()))
    in_doubt = [raw[4] for raw in events].index(EventType.XA_PREPARE) + 1
    start = in_doubt + 2  # after the end of the transaction in doubt
    rotate = raw_event(EventType.ROTATE, bytes(8) + b"binlog.000003", checksum=True)
    begun, continued = events[start : start + 3], events[start + 3 : start + 6]
    parts = [events[:in_doubt], [*begun, rotate], continued]
    for number, part in enumerate(parts, 1):
        log = tmp_path / f"binlog.{number:06}"
        write(log, format_ if number == 1 else raw_format(algorithm=1), *part)
    planner = SplitPlanner()
    (series,) = find(tmp_path)
    with pytest.raises(BoundaryError, match="a transaction continues here") as failed:
        planner.plan(series)
    assert planner.held is not None
    assert failed.value.file == "binlog.000003"


def test_what_was_known_of_a_log_stays_known(tmp_path):
    """Planned again in pieces, what rolls back rows is looked for as far as it was before."""
    case = logs("mysql-9.7.ddl")
    for number in range(1, 4):
        (tmp_path / f"binlog.00000{number}").write_bytes(case[0].read_bytes())
    (series,) = find(tmp_path)
    planner = SplitPlanner(target_bytes=1)
    first = planner.plan(series)[0]
    again = SplitPlanner(after=Position(first.file, first.end), target_bytes=1, seen=planner.seen)
    again.plan(series, enough=1)
    assert again.seen == planner.seen
    new = SplitPlanner(target_bytes=1)
    new.plan(series, enough=1)
    assert new.seen < planner.seen


def test_a_log_that_just_begins(tmp_path):
    """Followed, it is waited for; else it ends too early."""
    (path, *_) = logs("mysql-9.7.ddl")
    data = path.read_bytes()
    planner = SplitPlanner(Catalogue(), hold=True)
    for size in (4, 5, 20, 22, 100):
        (tmp_path / path.name).write_bytes(
            data[:21] + b"\1" + data[22:100] if size > 22 else data[:size]
        )
        (series,) = find(tmp_path)
        assert planner.plan(series) == []
        if 4 < size < 100:
            with pytest.raises(TruncatedEvent):
                SplitPlanner(Catalogue(), hold=False).plan(series)
    (tmp_path / path.name).write_bytes(data)
    (series,) = find(tmp_path)
    assert rows(planner.plan(series)) == whole(tmp_path)


@each_case("cores", [1, 2, 4])
def test_about_a_split_for_each_core(cores, monkeypatch):
    monkeypatch.setattr(planner_module, "SMALLEST_SPLIT", 100)
    monkeypatch.setattr(planner_module.os, "cpu_count", lambda: cores)
    (series,) = find(CORPUS / "mysql-9.7.several-tables")
    (log,) = series.files
    splits = SplitPlanner().plan(series)
    sizes = [each.end - each.start for each in splits]
    assert all(size >= (log.size - 4) // cores for size in sizes[:-1])
    assert len(splits) == {1: 1, 2: 2, 4: 3}[cores]  # they end where transactions do


def test_no_split_is_smaller_than_is_worth_it():
    (series,) = find(CORPUS / "mysql-9.7.several-tables")
    assert len(SplitPlanner().plan(series)) == 1


@each_case(("folder", "file"), [(b"d\xff", b"binlog.000001"), (b"d", b"\xff.000001")])
def test_a_name_that_is_not_utf8(tmp_path, folder, file):
    """Record batches name their log: one error says so at the call, before anything is read."""
    path = tmp_path / os.fsdecode(folder)
    path.mkdir()
    shutil.copy(logs("mysql-9.7.ddl")[0], path / os.fsdecode(file))
    with pytest.raises(StorageError, match=r"\udcff.*its name is not UTF-8"):
        changes(path)
    (series,) = find(path)
    with pytest.raises(StorageError, match="its name is not UTF-8"):
        SplitPlanner().plan(series)
