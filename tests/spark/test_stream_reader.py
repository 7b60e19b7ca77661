"""The streaming reader without Spark, over recorded logs: offsets, limits, ranges, what is gone."""

from __future__ import annotations

import random
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

import tailrace
from tailrace.columns import changes
from tailrace.errors import LogPurged, LogReset, PipelineError, StorageError, UsageError
from tailrace.position import Position
from tailrace.spark import stream_backlog, stream_log
from tailrace.spark.datasource import BinlogDataSource, Options
from tailrace.spark.shape import JSON_SCHEMA
from tailrace.spark.stream import StreamReader
from tailrace.spark.stream_options import StreamOptions
from tailrace.storage import find
from tailrace.times import Time
from tailrace.transaction import Boundary, BoundaryParser
from tailrace.transports.gtids import ReadGtids
from tests.recorded import CORPUS

SHOP = Path(__file__).resolve().parents[2] / "examples" / "shop"
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
        return StreamReader(Options.of(given), StreamOptions.of(given), JSON_SCHEMA)

    return make


def read(reader, start, end):
    """The rows of a range."""
    found = []
    for partition in reader.partitions(start, end):
        for batch in reader.read(partition):
            found += batch.to_pylist()
    return sorted(found, key=lambda row: row["_seq"])


def run(reader):
    """Batch after batch as Spark 4.1 does it; the offsets, and the rows of each batch."""
    offsets, batches = [reader.initialOffset()], []
    while (end := reader.latestOffset()) != offsets[-1]:
        batches.append(read(reader, offsets[-1], end))
        offsets.append(end)
    return offsets, batches


def whole(folder):
    """(_seq, _op, _table) of all changes."""
    return sorted(
        (int(row["_seq"]), row["_op"], row["_table"])
        for batch in changes(folder, statements="skip")
        for row in batch.select(["_seq", "_op", "_table"]).to_pylist()
    )


def transaction_ends(folder):
    """Where each transaction ends, and the GTIDs up to there, by the object path."""
    taken, parser = ReadGtids(None), BoundaryParser()
    for event in tailrace.open(folder):
        taken.feed(event)
        if parser.feed(event) is Boundary.END:
            taken.ended()
            yield Position(event.file, event.end_offset), taken.gtids.copy()


def keys(batches):
    return [(int(row["_seq"]), row["_op"], row["_table"]) for batch in batches for row in batch]


LIMITS = (
    {},
    {"maxTransactionsPerTrigger": "1"},
    {"maxBytesPerTrigger": "3000", "split": "700"},
    {"maxBytesPerTrigger": "9000", "maxTransactionsPerTrigger": "3"},
)


def test_batches_are_the_log(reader):
    for number, case in enumerate(CASES):
        rows, ends = whole(CORPUS / case), list(transaction_ends(CORPUS / case))
        for limits in LIMITS if number < 5 else (LIMITS[1], LIMITS[2 + number % 2]):
            offsets, batches = run(reader(CORPUS / case, **limits))
            assert sorted(keys(batches)) == rows, (case, limits)
            assert keys(batches) == sorted(keys(batches)), (case, limits)
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
    assert sorted(keys(rows for _, _, rows in ranges)) == whole(folder), case
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


def test_indices_are_made_once(reader, tmp_path, monkeypatch):
    """A restarted query goes through the file it is in, and those before are known."""
    folder = shutil.copytree(SHOP / "mysql", tmp_path / "logs")
    names = [log.name for log in find(folder)[0].files]
    assert len(names) > 2
    offsets, _ = run(reader(folder))
    seen = []
    original = stream_backlog.IndexPlanner._scan

    def scan(self, source, log, target):
        seen.append(log.name)
        return original(self, source, log, target)

    monkeypatch.setattr(stream_backlog.IndexPlanner, "_scan", scan)
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
    if len(files) > 1:
        with pytest.raises(LogPurged, match="is gone"):
            reader(folder).latestOffset(inside)
    else:
        files[0].with_name("binlog.000000").write_bytes(content)
        with pytest.raises(LogReset, match="were reset"):
            reader(folder).latestOffset(inside)


def test_a_log_that_is_away_while_it_is_reset(reader, tmp_path, monkeypatch):
    """RESET removes the files before it begins anew: there is no log for a moment."""
    folder = shutil.copytree(SHOP / "mysql", tmp_path / "logs")
    following = reader(folder)
    place = following.latestOffset()
    looks = []

    def away(path, keyring=None):
        looks.append(path)
        if len(looks) < 3:
            raise StorageError(f"{path}: no log in this folder")
        return find(CORPUS / "mysql-9.7.ddl", keyring)

    monkeypatch.setattr(stream_log, "find", away)
    with pytest.raises(LogReset, match="were reset"):
        following.latestOffset(place)
    assert len(looks) >= 3
    looks.clear()
    with pytest.raises(StorageError, match="no log"):
        reader(folder).latestOffset()
    assert len(looks) == 1


def test_a_bucket(reader, bucket):
    files = [Path(log.path) for log in find(SHOP / "mysql")[0].files]
    for path in files[:2]:
        bucket.put(f"logs/{path.name}", path)
    url = f"{bucket.url}/logs"
    offsets, batches = run(reader(url, maxBytesPerTrigger="60000"))
    for path in files[2:]:
        bucket.put(f"logs/{path.name}", path)
    place = offsets[-1]
    following = reader(url)
    assert following.partitions(place, place) == []
    end = following.latestOffset()
    rest = read(following, place, end)
    assert keys([*batches, rest]) == whole(SHOP / "mysql")
    assert [read(reader(url), *pair) for pair in pairwise(offsets)] == batches
    bucket.remove(f"logs/{files[0].name}")
    with pytest.raises(LogPurged, match="is gone"):
        reader(url).latestOffset(offsets[1])
    assert read(reader(url), place, end) == rest


def test_starts(reader):
    folder = CORPUS / "mysql-9.7.several-tables"
    offsets, batches = run(reader(folder, maxTransactionsPerTrigger="1"))
    number = next(n for n, rows in enumerate(batches) if n > 3 and rows)
    rest = keys(batches[number:])
    place = offsets[number]
    for start in (f"{place['file']}:{place['position']}", place["gtid"]):
        found = reader(folder, start=start)
        assert keys(run(found)[1]) == rest
    first = min(row["_ts"] for row in batches[number])
    at_time = keys(run(reader(folder, start=first.isoformat()))[1])
    assert at_time == [key for key in keys(batches) if key in at_time]
    assert set(rest) <= set(at_time)
    assert run(reader(folder, start="now"))[1] == []
    inside = reader(folder, start=f"{place['file']}:{place['position'] + 79}")
    with pytest.raises(UsageError, match="no transaction begins at"):
        inside.initialOffset()
    with pytest.raises(UsageError, match="not among the logs"):
        reader(folder, start="binlog.000099:4").initialOffset()


def test_the_option_is_read_as_starts_are_everywhere():
    assert StreamOptions.of({"start": "2026-11-21T10:00+02:00"}).start == Time(1795248000_000000)
    assert StreamOptions.of({}).start is None
    with pytest.raises(UsageError, match="option start is oldest, now"):
        StreamOptions.of({"start": "tomorrow"})


def test_options_that_make_no_sense(reader):
    with pytest.raises(UsageError, match="a number above 0"):
        reader(SHOP, maxBytesPerTrigger="0")
    with pytest.raises(UsageError, match="several logs"):
        reader(SHOP).initialOffset()
    with pytest.raises(UsageError, match=r'option\("spool"'):
        reader("mysql://root@127.0.0.1:1/").initialOffset()
    with pytest.raises(UsageError, match="spool is for servers"):
        reader(SHOP / "mysql", spool="/x").initialOffset()
    batch = BinlogDataSource({"path": str(SHOP), "start": "now"})
    with pytest.raises(UsageError, match=r"is for spark\.readStream"):
        batch.reader(batch.schema())
    with pytest.raises(PipelineError, match="none of format binlog"):
        reader(SHOP / "mysql").latestOffset({"n": 5})
