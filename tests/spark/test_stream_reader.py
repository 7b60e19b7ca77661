"""The streaming reader without Spark, over recorded logs: offsets, limits, ranges, what is gone."""

import random
import shutil
from itertools import chain, pairwise, product
from pathlib import Path

import pytest

import tailrace
from tailrace.columns.read.planner import SplitPlanner
from tailrace.errors import (
    LogPurged,
    LogReset,
    PipelineError,
    StorageError,
    TruncatedEvent,
    UsageError,
)
from tailrace.position import Position
from tailrace.spark.input import backlog, growing_log
from tailrace.spark.input.cursor import SourceCursor
from tailrace.spark.stream.datasource import BinlogDataSource
from tailrace.spark.stream.options import Options
from tailrace.storage import find
from tailrace.times import Time
from tailrace.transaction import Boundary, BoundaryParser
from tailrace.transports.gtids import ReadGtids
from tests.recorded import CORPUS
from tests.spark.following import Follow, caught_up, check
from tests.spark.streaming import expected, keys, read_range, stream_reader
from tools.shop import SHOP, SHOP_TABLES

CASES = [
    f"{server}.{case}"
    for server in ("mysql-9.7", "mariadb-11.8")
    for case in ("xa", "savepoints", "ddl", "several-tables", "switches")
]
FLAGS = 4 + 17


@pytest.fixture
def reader(tmp_path):
    """A function that makes a reader of a folder, with options."""

    def make(folder, **options):
        given = {"path": str(folder), "statements": "skip", "index": str(tmp_path / "index")}
        given |= options
        return stream_reader(**given)

    return make


def read(reader, start, end):
    return sorted(read_range(reader, start, end), key=lambda row: row["_seq"])


def run(reader):
    """Batch after batch as Spark 4.1 does it; the offsets, and the rows of each batch."""
    offsets, batches = [reader.initialOffset()], []
    while (end := reader.latestOffset()) != offsets[-1]:
        batches.append(read(reader, offsets[-1], end))
        offsets.append(end)
    return offsets, batches


def transaction_ends(folder):
    """Where each transaction ends, and the GTIDs up to there, by the object path."""
    taken, parser = ReadGtids(None), BoundaryParser()
    for event in tailrace.open(folder):
        taken.feed(event)
        if parser.feed(event) is Boundary.END:
            taken.ended()
            yield Position(event.file, event.end_offset), taken.gtids.copy()


LIMITS = (
    {},
    {"maxTransactionsPerTrigger": "1"},
    {"maxBytesPerTrigger": "3000", "split": "700"},
    {"maxBytesPerTrigger": "9000", "maxTransactionsPerTrigger": "3"},
)


def test_batches_are_the_log(reader):
    for number, case in enumerate(CASES):
        rows, ends = expected(CORPUS / case), list(transaction_ends(CORPUS / case))
        for limits in LIMITS if number < 5 else (LIMITS[1], LIMITS[2 + number % 2]):
            offsets, batches = run(reader(CORPUS / case, **limits))
            assert sorted(keys(chain(*batches))) == rows, (case, limits)
            assert keys(chain(*batches)) == sorted(keys(chain(*batches))), (case, limits)
            for offset in offsets[1:]:
                place = Position(offset["file"], offset["position"])
                gtids = [gtids for end, gtids in ends if end <= place][-1]
                text = gtids.text() if hasattr(gtids, "text") else str(gtids)
                assert offset["gtid"] == text, (case, limits)
            if limits == {"maxTransactionsPerTrigger": "1"}:
                places = [Position(offset["file"], offset["position"]) for offset in offsets[1:-1]]
                assert places == [end for end, _ in ends][: len(places)], case
                assert len(places) == len(ends) - 1, case


def test_a_batch_has_no_more_than_its_bytes(reader):
    offsets, _ = run(reader(SHOP / "mysql", maxBytesPerTrigger="20000"))
    ends = [(end.file, end.offset) for end, _ in transaction_ends(SHOP / "mysql")]
    assert len(offsets) > 10
    for before, after in pairwise(offsets[1:]):
        if before["file"] == after["file"] and after["position"] - before["position"] > 20000:
            number = ends.index((before["file"], before["position"]))
            assert ends[number + 1] == (after["file"], after["position"]), "one transaction alone"


def test_ranges_read_the_same_however_the_log_grew(reader, tmp_path):
    for case in CASES:
        grown(reader, case, random.Random(f"{case} 0"), tmp_path / case)


def grown(reader, case, rng, folder):
    """A log grows by pieces, and readers that follow it, new ones now and then, read ranges."""
    folder.mkdir()
    files = [Path(log.path) for series in find(CORPUS / case) for log in series.files]
    limits = {"maxBytesPerTrigger": str(rng.choice((500, 4000, 1 << 30)))}
    kept, other = (str(folder.with_name(f"{case} {name}")) for name in ("index", "other"))
    following = None
    ranges = []
    for path in files:
        data = path.read_bytes()
        cuts = sorted(rng.randrange(300, len(data)) for _ in range(4))
        for cut in [*cuts, len(data)]:
            part = bytearray(data[:cut])
            if cut < len(data):
                part[FLAGS] |= 1
            (folder / path.name).write_bytes(part)
            if cut == len(data) and path != files[-1]:
                continue  # a server begins the next file at once
            if following is None or rng.random() < 0.3:
                following = reader(folder, index=kept, **limits)
                if ranges:
                    following.partitions(ranges[-1][1], ranges[-1][1])
                else:
                    place = following.initialOffset()
            while (end := following.latestOffset(place)) != place:
                ranges.append((place, end, read(following, place, end)))
                place = end
    assert sorted(keys(row for _, _, rows in ranges for row in rows)) == expected(folder), case
    for start, end, rows in ranges:
        assert read(reader(folder, index=kept), start, end) == rows, case
        assert read(reader(folder, index=other), start, end) == rows, case


def test_the_first_batch_is_read_again_from_where_it_began(reader, tmp_path):
    """Spark asks anew where a query begins that was killed in its first batch."""
    folder = tmp_path / "logs"
    folder.mkdir()
    path = Path(find(CORPUS / "mysql-9.7.ddl")[0].files[0].path)
    data = path.read_bytes()
    offsets, _ = run(reader(CORPUS / "mysql-9.7.ddl", maxTransactionsPerTrigger="1"))
    some, more = offsets[len(offsets) // 3], offsets[2 * len(offsets) // 3]
    grown = bytearray(data)
    grown[FLAGS] |= 1
    (folder / path.name).write_bytes(grown[: some["position"]])
    first = reader(folder, start="now")
    start = first.initialOffset()
    assert start["position"] == some["position"]
    (folder / path.name).write_bytes(grown[: more["position"]])
    end = first.latestOffset()
    rows = read(first, start, end)
    assert rows
    (folder / path.name).write_bytes(data)
    again = reader(folder, start="now")
    assert again.partitions(end, end) == []
    later = again.initialOffset()
    assert later["position"] > end["position"]
    assert read(again, later, end) == rows


def test_a_log_that_could_not_be_read_for_a_while(reader, tmp_path):
    """What an error leaves half-way is gone through again: no transaction is in the index twice."""
    path = Path(find(CORPUS / "mysql-9.7.anonymous")[0].files[0].path)
    data, folder = path.read_bytes(), tmp_path / "logs"
    folder.mkdir()
    ends = [end.offset for end, _ in transaction_ends(path)]
    (folder / path.name).write_bytes(data[: ends[len(ends) // 2]])
    following = reader(folder, split="1")
    start = following.initialOffset()
    place = following.latestOffset(start)
    (folder / path.name).write_bytes(data[: ends[-2] + 100])
    with pytest.raises(TruncatedEvent):
        following.latestOffset(place)
    (folder / path.name).write_bytes(data)
    end = following.latestOffset(place)
    assert sorted(keys(read(following, start, end))) == expected(folder)


def test_indices_are_made_once(reader, tmp_path, monkeypatch):
    """A restarted query goes through the file it is in, and those before are known."""
    folder = shutil.copytree(SHOP / "mysql", tmp_path / "logs")
    names = [log.name for log in find(folder)[0].files]
    assert len(names) > 2
    offsets, _ = run(reader(folder))
    seen = []
    original = backlog.IndexPlanner._scan

    def scan(self, source, log, target):
        seen.append(log.name)
        return original(self, source, log, target)

    monkeypatch.setattr(backlog.IndexPlanner, "_scan", scan)
    assert read(reader(folder), offsets[0], offsets[-1])
    assert seen == names[-1:]


def test_what_is_gone_stops_it(reader, tmp_path):
    folder = shutil.copytree(SHOP / "mysql", tmp_path / "logs")
    (folder / "binlog.index").unlink(missing_ok=True)
    files = [Path(log.path) for log in find(folder)[0].files]
    offsets, _ = run(reader(folder, maxBytesPerTrigger="50000"))
    inside = next(offset for offset in offsets if offset["position"] > 4)
    content = files[0].read_bytes()
    files[0].write_bytes(content[: inside["position"] - 1])
    with pytest.raises(LogReset, match="is not the log that was read"):
        reader(folder).latestOffset(inside)
    changed = bytearray(content)
    changed[inside["position"] - 10] ^= 1
    files[0].write_bytes(changed)
    with pytest.raises(LogReset, match="is not the log that was read"):
        reader(folder).latestOffset(inside)
    files[0].unlink()
    with pytest.raises(LogPurged, match=r"is gone.*begin a new query"):
        reader(folder).latestOffset(inside)


def test_a_log_that_is_away_while_it_is_reset(reader, tmp_path, monkeypatch):
    """RESET removes the files before it begins anew: there is no log for a moment."""
    folder = shutil.copytree(SHOP / "mysql", tmp_path / "logs")
    following = reader(folder)
    place = following.latestOffset()
    looks = []

    def away(path, keyring=None, *, why):
        looks.append(path)
        if len(looks) < 3:
            raise StorageError(f"{path}: no log in this folder")
        return find(CORPUS / "mysql-9.7.ddl", keyring)[0]

    monkeypatch.setattr(growing_log, "find_one", away)
    with pytest.raises(LogReset, match="were reset"):
        following.latestOffset(place)
    assert len(looks) >= 3
    looks.clear()
    with pytest.raises(StorageError, match="no log"):
        reader(folder).latestOffset()
    assert len(looks) == 1


def test_starts(reader):
    folder = CORPUS / "mysql-9.7.several-tables"
    offsets, batches = run(reader(folder, maxTransactionsPerTrigger="1"))
    number = next(n for n, rows in enumerate(batches) if n > 3 and rows)
    rest = keys(chain(*batches[number:]))
    place = offsets[number]
    for start in (f"{place['file']}:{place['position']}", place["gtid"]):
        found = reader(folder, start=start)
        assert keys(chain(*run(found)[1])) == rest
    first = min(row["_ts"] for row in batches[number])
    at_time = keys(chain(*run(reader(folder, start=first.isoformat()))[1]))
    assert at_time == [key for key in keys(chain(*batches)) if key in at_time]
    assert set(rest) <= set(at_time)
    assert run(reader(folder, start="now"))[1] == []
    for offset in (place["position"] + 79, 0):
        with pytest.raises(UsageError, match="no transaction begins at"):
            reader(folder, start=f"{place['file']}:{offset}").initialOffset()
    with pytest.raises(UsageError, match="not among the logs"):
        reader(folder, start="binlog.000099:4").initialOffset()


def test_the_option_is_read_as_starts_are_everywhere():
    given = {"path": "/x", "start": "2026-11-21T10:00+02:00"}
    assert Options.of(given).start == Time(1795248000_000000)
    assert Options.of({"path": "/x"}).start is None
    with pytest.raises(UsageError, match="option start is oldest, now"):
        Options.of(given | {"start": "tomorrow"})


def test_options_that_make_no_sense(reader):
    with pytest.raises(UsageError, match="a number above 0"):
        reader(SHOP, maxBytesPerTrigger="0")
    with pytest.raises(UsageError, match="several logs"):
        reader(SHOP).initialOffset()
    with pytest.raises(UsageError, match=r'option\("spool"'):
        reader("mysql://root@127.0.0.1:1/").initialOffset()
    with pytest.raises(UsageError, match="spool is for servers"):
        reader(SHOP / "mysql", spool="/x").initialOffset()
    with pytest.raises(UsageError, match="spoolLimit is for servers"):
        reader(SHOP / "mysql", spoolLimit="1GB").initialOffset()
    with pytest.raises(UsageError, match="option spoolLimit is a size"):
        reader(SHOP / "mysql", spoolLimit="all")
    batch = BinlogDataSource({"path": str(SHOP), "start": "now"})
    with pytest.raises(UsageError, match=r"is for spark\.readStream"):
        batch.reader(batch.schema())
    with pytest.raises(PipelineError, match="none of format binlog"):
        reader(SHOP / "mysql").latestOffset({"n": 5})


CUT = [
    *(CORPUS / f"{server}.savepoints" for server in ("mysql-9.7", "mariadb-11.8")),
    SHOP / "mysql",
    SHOP / "mariadb",
]


@pytest.fixture
def each_statement(monkeypatch):
    """All planners cut at each statement."""
    monkeypatch.setitem(SplitPlanner.__init__.__kwdefaults__, "target_bytes", 1)


def ranges(folder, tmp_path, split):
    """A log's last file by a stream, in one batch: its partitions, and the rows by ``_seq``."""
    given = {"path": str(folder), "statements": "skip", "index": str(tmp_path / f"index-{split}")}
    given |= {"split": str(split), "start": f"{find(folder)[0].files[-1].name}:4"}
    for _ in range(2):  # by an index made now, and by one that was kept
        reader = stream_reader(**given)
        start = reader.initialOffset()
        end = reader.latestOffset(start)
        rows = sorted(read_range(reader, start, end), key=lambda row: int(row["_seq"]))
        yield [each.split for each in reader.partitions(start, end)], rows


def test_a_range_of_a_stream(tmp_path):
    for number, folder in enumerate(CUT[:3]):
        whole, expected = next(ranges(folder, tmp_path / f"{number} whole", 1 << 30))
        assert not any(split.inside for split in whole)
        for splits, rows in ranges(folder, tmp_path / f"{number} parts", 1):
            assert rows == expected, folder
            assert any(split.inside for split in splits)
            assert len(splits) > len(whole)


def test_batches_end_where_transactions_do(each_statement):
    for folder, most in product(CUT, (1, 5000, None)):
        (series,) = find(folder)
        cursor = SourceCursor(series, None, (), hold=True)
        waiting = cursor.planner.plan(series)
        cursor.splits += waiting
        assert any(split.inside for split in waiting)
        taken = []
        while (batch := cursor.take(most)) is not None:
            assert batch.splits[0].inside is None, (folder, most)
            taken += batch.splits
        assert taken == waiting, (folder, most)


def test_a_lake_of_them(lake, each_statement):
    with Follow(SHOP / "mariadb", lake, batch_bytes=100_000) as following:
        following.wait_for(lambda: caught_up(following))
    expected = {name: SHOP_TABLES[name] for name in SHOP_TABLES if name.startswith("warehouse.")}
    assert check(lake, following.report, expected) == len(expected)
