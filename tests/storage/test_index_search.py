"""Which file, and where in it, a GTID or a time is; told by reading all of the log."""

from collections import Counter

import pytest

import tailrace
from tailrace.errors import GtidError
from tailrace.gtid import Gtid, MariadbGtid
from tailrace.storage import find, search
from tailrace.storage.search import commit_time, file_of_gtid, find_gtid, find_time
from tests.cases import each_case
from tests.recorded import CORPUS
from tests.writing.made import FLAVOURS, START, UUID, Clock, append, fill, log

both = each_case("flavour", FLAVOURS)
SECOND = 1_000_000


def series_of(path):
    (series,) = find(path)
    return series


def whole(series):
    return list(tailrace.open(series, expand_payloads=False).transactions())


def recorded():
    """Folders of the corpus whose logs have GTIDs and several files, or one of each kind."""
    names = [
        *("mysql-9.7.gtids", "mysql-9.7.tagged-gtids", "mysql-9.7.payload-full", "mysql-9.7.xa"),
        *("mariadb-11.8.domains", "mariadb-10.11.domains", "mariadb-11.8.xa", "mysql-9.7.torn"),
        "mysql-9.7.clean-shutdown",
    ]
    return [CORPUS / name for name in names]


@each_case("folder", recorded(), ids=lambda path: path.name)
def test_every_gtid_of_recorded_logs(folder):
    series = series_of(folder)
    some = False
    for each in whole(series):
        if each.gtid is None:
            continue
        some = True
        assert find_gtid(series, each.gtid) == each.start
        assert find_gtid(series, str(each.gtid)) == each.start
        assert each.start is not None
        assert file_of_gtid(series, each.gtid).name == each.start.file
    assert some or "anonymous" in folder.name


@each_case("folder", [*recorded(), CORPUS / "mysql-9.7.anonymous"], ids=lambda p: p.name)
def test_times_of_recorded_logs(folder):
    """As ``--start TIME`` finds it by reading all."""
    series = series_of(folder)
    transactions = whole(series)
    times = sorted({commit_time(each.events[0]) for each in transactions})
    asked = {time + more for time in times for more in (-SECOND, -1, 0, 1, SECOND)}
    for time in sorted(asked):
        wanted = next(
            (each.start for each in transactions if commit_time(each.events[0]) >= time), None
        )
        if wanted is None:
            bare = tailrace.open(series)
            list(bare)
            wanted = bare.position
        assert find_time(series, time) == wanted


def many(folder, flavour, files):
    with log(folder / "binlog.000001", flavour, now=Clock()) as out:
        for number in range(files):
            fill(out, 2, first=2 * number + 1)
            if number < files - 1:
                out.rotate()
    return series_of(folder)


def name_of(flavour, number):
    return Gtid(UUID, "", number) if flavour == "mysql" else MariadbGtid(0, 7, number)


@pytest.fixture
def read(monkeypatch):
    """How many events of which file were read."""
    counts = Counter()

    class Counting(search.EventReader):
        def __iter__(self):
            for item in super().__iter__():
                counts[self.file.name] += 1
                yield item

    monkeypatch.setattr(search, "EventReader", Counting)
    return counts


@both
def test_a_few_heads_are_read_and_one_file(tmp_path, flavour, read):
    files = 33
    series = many(tmp_path, flavour, files)
    for each in whole(series):
        assert each.gtid is not None
        assert each.start is not None
        read.clear()
        assert file_of_gtid(series, each.gtid).name == each.start.file
        assert len(read) <= 7  # the first, and 2 ** 5 others
        assert sum(read.values()) <= 2 * 7
        read.clear()
        assert find_gtid(series, each.gtid) == each.start
        assert [name for name, count in read.items() if count > 4] in ([], [each.start.file])
        assert find_time(series, commit_time(each.events[0])) == each.start
    assert find_time(series, 0) == whole(series)[0].start


@both
def test_what_is_not_in_the_logs(tmp_path, flavour):
    folder = tmp_path / flavour
    many(folder, flavour, 4)
    with append(folder) as out:
        out.purge(to="binlog.000002")
    series = series_of(folder)
    for number in (1, 2):
        for ask in (file_of_gtid, find_gtid):
            with pytest.raises(GtidError, match=r"is no longer in .* begin with binlog\.000002"):
                ask(series, name_of(flavour, number))
    assert find_gtid(series, name_of(flavour, 3)) == whole(series)[0].start
    with pytest.raises(GtidError, match=r"is in none of the logs, binlog\.000002 to"):
        find_gtid(series, name_of(flavour, 9))
    assert file_of_gtid(series, name_of(flavour, 9)).name == "binlog.000005"
    other = name_of("mariadb" if flavour == "mysql" else "mysql", 3)
    for ask in (file_of_gtid, find_gtid):
        with pytest.raises(GtidError, match=f"is a log of {flavour}"):
            ask(series, other)
    end = find_time(series, START + 10**12)
    assert (end.file, end.offset) == ("binlog.000005", series.files[-1].size)  # behind its STOP
    with pytest.raises(GtidError, match="not a GTID"):
        find_gtid(series, "soon")


def test_numbers_that_do_not_grow(tmp_path):
    """MariaDB's lists mislead then; the other files are looked through."""
    with log(tmp_path / "binlog.000001", "mariadb", gtid_strict_mode=False) as out:
        for number in (5, 9, 2, 3, 7):
            with out.transaction(gtid=f"0-7-{number}") as transaction:
                transaction.query(f"create table t{number} (a int)", "shop")
            out.rotate()
    series = series_of(tmp_path)
    starts = {str(each.gtid): each.start for each in whole(series)}
    assert len(starts) == 5
    for gtid, start in starts.items():
        assert find_gtid(series, gtid) == start
    with pytest.raises(GtidError, match="none of the logs"):
        find_gtid(series, "0-7-8")
