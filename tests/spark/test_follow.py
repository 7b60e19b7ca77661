"""`mirror` that follows: real servers under load, against what their SELECT says."""

import ctypes
import gc
import shutil
import threading
import weakref

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailrace.errors import (
    ConnectionLost,
    LakeChanged,
    LogPurged,
    LogReset,
    TailraceError,
    UsageError,
)
from tailrace.spark import mirror
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.mirror.batches import Batches
from tailrace.spark.runtime.memory import Tidy, give_back
from tests.spark.following import Follow, caught_up, check, mark, no_spark, read, url_of, values
from tests.waiting import wait_for
from tools.dumps import dump_databases
from tools.proxy import Proxy
from tools.shop import SHOP, SHOP_TABLES


def test_a_backlog_is_worked_off_in_steps(lake):
    with Follow(SHOP, lake, batch_bytes=100_000) as following:
        following.wait_for(lambda: caught_up(following, 2))
    assert following.report.changes == 6232
    batches = [moment.report for moment in following.moments if moment.report is not None]
    assert len(batches) == following.moments[-1].batches > 3
    assert sum(each.log_bytes for each in batches) == following.report.log_bytes
    last = following.moments[-1]
    assert all((each.lag_bytes, each.lag_seconds) == (0, 0.0) for each in last.sources)
    assert check(lake, following.report, SHOP_TABLES) == len(SHOP_TABLES)


def test_the_servers_own_folder(source, lake):
    with Follow(source.data, lake, tables=["follow.*"], spark=no_spark) as following:
        following.wait_for_mark(source)
        source.rotate()
        following.wait_for_mark(source)
    expected = dump_databases(source, "follow")
    assert check(lake, following.report, expected) == 1


def test_lag_has_what_came_during_the_batch(source, tmp_path, monkeypatch):
    """It is what the source has when the batch is done and the lake has not, received or not."""
    mark(source)
    grown = []
    copies = tmp_path / "lake" / "_tailrace" / "sources"
    real = Batches.commit

    def commit(self, taken, again=None, spent=None):
        report = real(self, taken, again, spent)
        if not grown:
            log = source.binlogs()[-1]
            before = log.stat().st_size
            mark(source)
            grown.append(log.stat().st_size - before)
            wait_for(
                lambda: (
                    sum(each.stat().st_size for each in copies.glob(f"*/{log.name}"))
                    >= before + grown[0]
                )
            )
        return report

    monkeypatch.setattr(Batches, "commit", commit)
    with Follow(url_of(source), tmp_path / "lake", tables="follow.*") as following:
        following.wait_for(lambda: following.moments and following.moments[-1].batches > 1)
        following.wait_for(lambda: caught_up(following))
    first = next(each for each in following.moments if each.batches == 1)
    assert first.sources[0].lag_bytes >= grown[0] > 0
    assert first.sources[0].lag_seconds > 0


class Asked(threading.Event):
    """A stop: it is set as the mirror waits for its trigger."""

    seconds = None

    def wait(self, timeout=None):
        self.seconds = timeout
        self.set()
        return True


def test_what_comes_during_a_batch_waits_for_the_trigger(tmp_path, monkeypatch):
    first, second, *_ = sorted((SHOP / "mysql").glob("binlog.0*"))
    (tmp_path / "logs").mkdir()
    shutil.copy(first, tmp_path / "logs")
    real, moments, stop = Batches.commit, [], Asked()

    def commit(self, taken, again=None, spent=None):
        report = real(self, taken, again, spent)
        shutil.copy(second, tmp_path / "logs")
        return report

    monkeypatch.setattr(Batches, "commit", commit)
    mirror(
        tmp_path / "logs",
        tmp_path / "lake",
        follow=True,
        trigger="1h",
        stop=stop,
        on_moment=moments.append,
    )
    assert [each.batches for each in moments] == [1]
    assert moments[0].sources[0].lag_bytes >= second.stat().st_size
    assert 0 < stop.seconds <= 3600


def fails(following, error, match):
    """Wait until an error ends a mirror that follows."""
    with pytest.raises(error, match=match):
        following.wait_for(lambda: False)
    following.error = None


def test_a_source_that_fails_ends_it(fresh_server, lake, tmp_path):
    server = fresh_server("mysql-9.7", {"binlog_row_metadata": "FULL"})
    with Follow(url_of(server), lake, tables=["follow.*"]) as following:
        following.wait_for_mark(server)
    server.execute("RESET BINARY LOGS AND GTIDS")
    with Follow(url_of(server), lake, tables=["follow.*"]) as following:
        fails(following, LogReset, "reset")
    with Follow(url_of(server, "ssl_mode=DISABLED&retry=0.5"), tmp_path / "two") as following:
        following.wait_for(lambda: following.moments)
        server.stop()
        fails(following, ConnectionLost, "retry allows for 0.5")
    with Follow(url_of(server), tmp_path / "none") as following:
        fails(following, ConnectionLost, "cannot be reached")


def test_a_source_that_is_down_is_waited_for(fresh_server, tmp_path, caplog, monkeypatch):
    """Where the lake has some of it, and ``retry`` says nothing."""
    monkeypatch.setattr("tailrace.live.retry.LONGEST_PAUSE", 0.2)
    server = fresh_server("mariadb-11.8", {"binlog_row_metadata": "FULL"})
    lake, tables = tmp_path / "lake", ["follow.*"]
    with Proxy(lambda: server.port) as proxy:  # the server has another port each time
        url = url_of(server).replace(f":{server.port}/", f":{proxy.port}/")
        with Follow(url, lake, tables=tables) as following:
            following.wait_for_mark(server)
        server.stop(keep=True)
        with Follow(url, lake, tables=tables) as following:
            following.wait_for(lambda: "trying again" in caplog.text)
            server.start()
            following.wait_for_mark(server)
        server.stop(keep=True)
        caplog.clear()
        with Follow(url, lake, tables=tables) as following:
            following.wait_for(lambda: caplog.text.count("trying again") > 1)


def test_a_folder_whose_log_is_gone(lake, tmp_path):
    logs = shutil.copytree(SHOP / "mysql", tmp_path / "mysql")
    with Follow(logs, lake, tables=["shop.orders"]) as following:
        following.wait_for(lambda: caught_up(following))
        for path in [logs / "binlog.index", *sorted(logs.glob("binlog.0*"), reverse=True)[:2]]:
            path.unlink()
        fails(following, TailraceError, "is gone|No such file")  # of the log, or one that it opens
    for path in logs.glob("binlog.0*"):
        path.rename(logs / "binlog.000999")  # the lake's file was purged: nothing is retried
    with Follow(logs, lake, tables=["shop.orders"]) as following:
        fails(following, LogPurged, r"begin with binlog\.000999, .*create a new lake")
    assert LakeView.open(lake).manifest.tables["shop.orders"].set_aside is None
    assert read(lake, "shop.orders") is not None


def test_stopped_before_anything_came(source, tmp_path):
    stop = threading.Event()
    stop.set()
    report = mirror(url_of(source), tmp_path / "lake", follow=True, stop=stop)
    assert (report.version, report.changes) == (0, 0)


def test_what_makes_no_sense(tmp_path):
    for options in ({"trigger": -1}, {"batch_bytes": 0}):
        with pytest.raises(UsageError):
            mirror(SHOP, tmp_path / "lake", follow=True, **options)


def test_others_that_keep_writing_to_the_lake_are_waited_for(source, lake, monkeypatch):
    """What was read is tried again at later triggers, and nothing of it is left out or twice."""
    failed = []
    commit = Batches.commit

    def refused(self, taken, again=None, spent=None):
        if len(failed) < 4:
            failed.append(taken)
            raise LakeChanged("others have written")
        return commit(self, taken, again, spent)

    source.execute("CREATE DATABASE IF NOT EXISTS follow")
    monkeypatch.setattr(Batches, "commit", refused)
    with Follow(url_of(source), lake, tables=["follow.*"], spark=no_spark) as following:
        following.wait_for(lambda: len(failed) >= 2)
        mark(source)
        following.wait_for_mark(source)
    assert len(failed) == 4
    rows = [int(row[0]) for row in source.query("SELECT n FROM follow.marks ORDER BY n")]
    assert sorted(values(lake, "follow.marks", "n")) == rows
    inserted = [each["n"] for each in read(lake, "follow.marks", "changelog")["after"].to_pylist()]
    assert sorted(inserted) == rows


CHUNK, CHUNKS = 64 << 10, 1600


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="not glibc")
def test_what_was_freed_below_what_is_used_goes_back():
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    places = [libc.malloc(CHUNK) for _ in range(CHUNKS)]
    for place in places:
        ctypes.memset(place, 1, CHUNK)
    last = libc.malloc(CHUNK)
    for place in places:
        libc.free(place)
    held = psutil.Process().memory_info().rss
    give_back()
    assert held - psutil.Process().memory_info().rss > CHUNK * CHUNKS * 0.8
    libc.free(last)


def test_footers_and_schemas_that_refer_to_each_other_go():
    """The command's process collects rarely, and pyarrow's memory is not counted by Python."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1]}), sink)
    footer = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    columns = footer.schema
    held = weakref.ref(footer)
    gc.disable()
    try:
        del footer, columns
        assert held() is not None, (
            "pyarrow has no such cycle any more: `give_back` need not collect"
        )
        give_back()
        assert held() is None
    finally:
        gc.enable()


def test_now_and_then():
    rarely = Tidy(every=1e6)
    assert not rarely()
    always = Tidy(every=0.0)
    assert always()
    assert always()


def test_a_new_lake_needs_its_server_once(tmp_path):
    """Only the server tells which tables the log does not have from their beginning."""
    for url in ("mysql://u:p@127.0.0.1:1?retry=60s", "mysql://u:p@127.0.0.1:1"):
        with pytest.raises(ConnectionLost):
            mirror(url, tmp_path / "lake", follow=True, trigger=0.05)
    assert not (tmp_path / "lake").exists()
