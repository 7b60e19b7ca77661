"""Decoding to Arrow what a running server sends, against the same log read as a file.

Next to them what bounds and what rivals it: the dump thrown away by a bare socket (what the server
and the loopback can do), our feed thrown away, ``mysqlbinlog --read-from-remote-server``; and rows
as objects, by `tailrace.rows` and by mysql-replication. The server has one core, the readers
another; connections are without TLS, but for the row that says so.

``--transaction MB`` compares something else: one transaction of that size, read by position and by
GTID, in turn. So does ``--receive``: a log of 300 MB copied to disk by `tailrace.receive` and by
``mysqlbinlog --raw``, which never syncs; the ratio is of copies that are synced once, at their end.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import tailrace
from benchmarks import logs
from benchmarks.measure import run_command
from tailrace import changes
from tailrace.columns.live.unframe import unframe
from tailrace.live.chunks import END, Chunk, FileBegin
from tailrace.live.feed import Feed
from tailrace.live.url import Source
from tailrace.replication.receiver import Receiver
from tailrace.wire.commands import BinlogDump, DumpFlag
from tools.servers import Server, binlog_tool

if TYPE_CHECKING:
    from collections.abc import Callable

_OPTIONS: Final = {
    "mysql-9.7": {
        "binlog_row_metadata": "FULL",
        "gtid_mode": "ON",
        "enforce_gtid_consistency": "ON",
        "sync_binlog": "0",
        "innodb_flush_log_at_trx_commit": "0",
        "max_binlog_size": "1G",
    },
    "mariadb-11.8": {
        "binlog_row_metadata": "FULL",
        "sync_binlog": "0",
        "innodb_flush_log_at_trx_commit": "0",
        "max_binlog_size": "1G",
    },
}
_ROWS: Final = {"bulk": 1_000_000, "single": 60_000}
_RECEIVED_ROWS: Final = {
    "mysql-9.7": {"bulk": 2_500_000, "single": 500_000},
    "mariadb-11.8": {"bulk": 2_500_000, "single": 300_000},
}
"""Rows in 300 MB."""
_SYNCED_AT_END: Final = 86400.0
"""Seconds between syncs that leave only the one at the end."""
_INCUMBENT_ROWS: Final = 10_000
_ROW_SIZE: Final = 8240
"""Bytes of a rows event of the log ``even``."""
_END_SIZE: Final = 9
"""Bytes of the packet behind a dump that does not wait: an EOF with its header."""


@dataclass(slots=True)
class _Times:
    """Seconds on the clock and of our processor, round by round."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


class _Log:
    """A log on a running server, and all ways to read it; each returns its seconds on the clock."""

    def __init__(self, server: Server, kind: str) -> None:
        self.server = server
        self.path = max(server.binlogs(), key=lambda file: file.stat().st_size)
        self.size = self.path.stat().st_size
        self.rows = _ROWS[kind]
        self._sent = 0

    def source(self, ssl_mode: str = "DISABLED") -> Source:
        url = f"mysql://{self.server.user}@{self.server.host}:{self.server.port}/"
        return Source.parse(url, position=f"{self.path.name}:4", ssl_mode=ssl_mode)

    def file(self) -> None:
        self._check(sum(batch.num_rows for batch in changes(self.path)))

    def live(self) -> int:
        rows: int = sum(batch.num_rows for batch in changes(self.source()))
        self._check(rows)
        return rows

    def live_tls(self) -> None:
        self._check(sum(batch.num_rows for batch in changes(self.source("REQUIRED"))))

    def _check(self, rows: int) -> None:
        if rows < self.rows * 0.9:  # some updates of `single` find no row
            raise RuntimeError(f"{rows} rows of {self.rows}")

    def feed(self) -> None:
        size = 0
        with Feed(self.source(), follow=False, unframe=unframe) as feed:
            while True:
                item = feed.take()
                if isinstance(item, Chunk):
                    size += len(item.data)
                elif not isinstance(item, FileBegin):
                    break
        if size < self.size - 1000:
            raise RuntimeError(f"{size} bytes of {self.size}")

    def sink(self) -> None:
        """Only recv, into memory that is thrown away, up to the dump's last byte."""
        with self.server.connect(ssl_disabled=True) as connection, connection.cursor() as cursor:
            cursor.execute(
                "set @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32',"
                " @mariadb_slave_capability = 4"
            )
            flags = DumpFlag.NON_BLOCK | DumpFlag.ANNOTATE_ROWS
            sent = BinlogDump(self.path.name, 4, 4711, flags).encode()
            inner: Any = connection
            inner._execute_command(sent[0], sent[1:])  # noqa: SLF001 - as it is on the wire
            sock = inner._sock  # noqa: SLF001
            memory = memoryview(bytearray(4 << 20))
            size = 0
            while size < self._sent or not self._sent:
                count = sock.recv_into(memory)
                size += count
                end = bytes(memory[max(count - _END_SIZE, 0) : count])
                if not self._sent and size > self.size and end[:3] == b"\5\0\0" and end[4] == 0xFE:
                    self._sent = size

    def tool_text(self) -> float:
        return self._tool("-v", "--base64-output=DECODE-ROWS")

    def tool_raw(self) -> float:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            return self._tool("--raw", f"--result-file={folder}/")

    def tool_copy(self, folder: Path, *, sync: bool) -> None:
        self._tool("--raw", f"--result-file={folder}/")
        if sync:
            with (folder / self.path.name).open("rb") as file:
                os.fsync(file.fileno())

    def receive(self, folder: Path, sync: str | float) -> None:
        done = Receiver(self.source(), folder, sync=sync).run()
        if done.received < self.size - 1000:
            raise RuntimeError(f"{done.received} bytes of {self.size}")

    def _tool(self, *options: str) -> float:
        name = self.server.name
        ssl = "--ssl-mode=DISABLED" if self.server.flavour == "mysql" else "--skip-ssl"
        place = [f"--host={self.server.host}", f"--port={self.server.port}", ssl]
        user = f"--user={self.server.user}"
        remote = ["--read-from-remote-server", *place, user, *options, self.path.name]
        seconds, _ = run_command([*binlog_tool(name), *remote])
        return seconds

    def objects(self) -> int:
        """The log's first rows by `tailrace.rows`, each with its values as dicts."""
        seen = 0
        with tailrace.rows(self.source()) as rows:
            for row in rows:
                _ = (row.before, row.after)
                seen += 1
                if seen >= _INCUMBENT_ROWS:
                    break
        return seen

    def incumbent(self) -> int:
        """As many rows by mysql-replication, which makes dicts of them: for a second or so."""
        from pymysqlreplication import BinLogStreamReader  # noqa: PLC0415 - warns when imported
        from pymysqlreplication.row_event import (  # noqa: PLC0415
            DeleteRowsEvent,
            UpdateRowsEvent,
            WriteRowsEvent,
        )

        stream = BinLogStreamReader(
            connection_settings={
                "host": self.server.host,
                "port": self.server.port,
                "user": self.server.user,
                "passwd": "",
                "ssl_disabled": True,
            },
            server_id=4711,
            log_file=self.path.name,
            log_pos=4,
            resume_stream=True,
            is_mariadb=self.server.flavour == "mariadb",
            only_events=[DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent],
        )
        seen = 0
        for event in stream:
            seen += len(event.rows)
            if seen >= _INCUMBENT_ROWS:
                break
        stream.close()
        return seen


def command(arguments: list[str]) -> int:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks live")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--rows", action="store_true", help="rows in three ways, and nothing else")
    parser.add_argument("--transaction", type=int, metavar="MB", help="one transaction, two ways")
    parser.add_argument("--receive", action="store_true", help="copies, and nothing else")
    options = parser.parse_args(arguments)
    if options.receive:
        _receive(rounds=3 if options.quick else 9)
    elif options.transaction:
        _transaction(options.transaction, rounds=3 if options.quick else 5)
    else:
        run(quick=options.quick, rows_only=options.rows)
    return 0


def _transaction(megabytes: int, rounds: int) -> None:
    """Print how many times as long one transaction takes by GTID as by position, by round."""
    for name, options in _OPTIONS.items():
        with Server(name, options) as server:
            if server.flavour == "mariadb":
                server.execute("install soname 'ha_blackhole'")
            logs.fill(server, "even", megabytes * 1_000_000 // _ROW_SIZE)
            size = max(path.stat().st_size for path in server.binlogs())
            url = f"mysql://{server.user}@{server.host}:{server.port}/?ssl_mode=DISABLED"
            print(f"\n{name}: a transaction of {size / 1e6:.0f} MB; {rounds} rounds")
            for contender, read in _WAYS.items():
                times = _Times(), _Times()
                for number in range(rounds + 1):
                    for at, start in zip(times, ("start=oldest", "gtid="), strict=True):
                        wall, cpu = time.perf_counter(), time.process_time()
                        read(f"{url}&{start}")
                        if number:
                            at.wall.append(time.perf_counter() - wall)
                            at.cpu.append(time.process_time() - cpu)
                _compared(contender, *times)


def _receive(rounds: int) -> None:
    """Print how fast logs are copied, and the ratio to mysqlbinlog at equal syncing, by round."""
    cores = sorted(os.sched_getaffinity(0))
    for name, options in _OPTIONS.items():
        for kind, rows in _RECEIVED_ROWS[name].items():
            os.sched_setaffinity(0, cores)
            with Server(name, options) as server:
                logs.fill(server, kind, rows)
                _place(server, cores)
                log = _Log(server, kind)
                ways: dict[str, Callable[[Path], None]] = {
                    "mysqlbinlog --raw, synced": partial(log.tool_copy, sync=True),
                    "mysqlbinlog --raw": partial(log.tool_copy, sync=False),
                    "receive, synced at the end": partial(log.receive, sync=_SYNCED_AT_END),
                    "receive": partial(log.receive, sync="group"),
                }
                found = {way: _Times() for way in ways}
                for number in range(rounds + 1):
                    for way, copy in ways.items():
                        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
                            os.sync()
                            wall = time.perf_counter()
                            copy(Path(folder))
                            if number:
                                found[way].wall.append(time.perf_counter() - wall)
                print(f"\n{name}, {kind}: {log.size / 1e6:.0f} MB; medians of {rounds} rounds")
                for way, times in found.items():
                    _copied(way, log.size, times.wall, found["mysqlbinlog --raw, synced"].wall)


def _copied(way: str, size: int, walls: list[float], base: list[float]) -> None:
    seconds = statistics.median(walls)
    ratios = sorted(theirs / ours for ours, theirs in zip(walls, base, strict=True))
    print(
        f"  {way:26} {seconds:7.3f} s {size / seconds / 1e6:7.0f} MB/s"
        f" {statistics.median(ratios):5.2f} of mysqlbinlog's speed, synced"
        f" ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    )


def _compared(contender: str, position: _Times, gtid: _Times) -> None:
    ratios = sorted(a / b for a, b in zip(gtid.wall, position.wall, strict=True))
    ours = sorted(a / b for a, b in zip(gtid.cpu, position.cpu, strict=True))
    print(
        f"  {contender:10} by position {statistics.median(position.wall):6.2f} s, by GTID"
        f" {statistics.median(gtid.wall):6.2f} s: {statistics.median(ratios):.2f} times"
        f" ({ratios[0]:.2f} to {ratios[-1]:.2f}); of CPU {statistics.median(ours):.2f} times"
    )


def _feed(url: str) -> None:
    with Feed(Source.parse(url), follow=False, unframe=unframe) as feed:
        while feed.take() is not END:
            pass


def _changes(url: str) -> None:
    for _ in changes(url):
        pass


def _events(url: str) -> None:
    for _ in tailrace.open(url):
        pass


_WAYS: Final = {"feed": _feed, "changes": _changes, "open": _events}


def run(*, quick: bool, rows_only: bool = False) -> None:
    """Print a table for each server and log: MB/s, rows/s, and the ratios to the file by round."""
    cores = sorted(os.sched_getaffinity(0))
    for name, options in _OPTIONS.items():
        for kind, rows in _ROWS.items():
            os.sched_setaffinity(0, cores)
            with Server(name, options) as server:
                logs.fill(server, kind, rows)
                _place(server, cores)
                log, title, rounds = _Log(server, kind), f"{name}, {kind}", 3 if quick else 9
                if rows_only:
                    print(f"\n{title}: medians of {rounds} rounds")
                    _rows(log, rounds)
                else:
                    _one(log, title, rounds)


def _place(server: Server, cores: list[int]) -> None:
    """The server on one core, this process on another, if there are two."""
    for thread in Path(f"/proc/{server.pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {cores[0]})
    os.sched_setaffinity(0, {cores[-1]})


def _one(log: _Log, title: str, rounds: int) -> None:
    contenders: dict[str, Callable[[], object]] = {
        "file → Arrow": log.file,
        "live → Arrow": log.live,
        "live → Arrow, TLS": log.live_tls,
        "feed, thrown away": log.feed,
        "bare socket": log.sink,
        "mysqlbinlog --raw, remote": log.tool_raw,
    }
    found = {contender: _Times() for contender in contenders}
    for number in range(rounds + 1):
        for contender, work in contenders.items():
            wall, cpu = time.perf_counter(), time.process_time()
            work()
            if number:
                found[contender].wall.append(time.perf_counter() - wall)
                found[contender].cpu.append(time.process_time() - cpu)
    found["mysqlbinlog -v, remote"] = _Times([log.tool_text()], [0.0])
    print(f"\n{title}: {log.size / 1e6:.0f} MB, {log.rows:,} rows; medians of {rounds} rounds")
    base = found["file → Arrow"].wall
    for contender, times in found.items():
        _line(contender, log, times, base)
    _rows(log, rounds)


def _rows(log: _Log, rounds: int) -> None:
    """Print rows a second of each way to read rows, in turn, by the clock and by our processor."""
    ways: dict[str, Callable[[], int]] = {
        "changes (Arrow batches)": log.live,
        "rows (objects)": log.objects,
        "mysql-replication (dicts)": log.incumbent,
    }
    rates: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for number in range(rounds + 1):
        for way, read in ways.items():
            wall, cpu = time.perf_counter(), time.process_time()
            rows = read()
            if number:
                seconds = time.perf_counter() - wall, time.process_time() - cpu
                rates[way].append((rows / seconds[0], rows / seconds[1]))
    for way, found in rates.items():
        wall, cpu = (statistics.median(each) for each in zip(*found, strict=True))
        ratios = sorted(
            ours[1] / theirs[1]
            for ours, theirs in zip(found, rates["mysql-replication (dicts)"], strict=True)
        )
        print(
            f"  {way:26} {wall:12,.0f} rows/s {cpu:12,.0f} rows a CPU second,"
            f" {statistics.median(ratios):.1f} times mysql-replication's"
            f" ({ratios[0]:.1f} to {ratios[-1]:.1f})"
        )


def _line(contender: str, log: _Log, times: _Times, base: list[float]) -> None:
    seconds, cpu = statistics.median(times.wall), statistics.median(times.cpu)
    ratios = sorted(a / b for a, b in zip(base, times.wall, strict=False))
    ours = f"{log.size / cpu / 1e6:6.0f} MB a CPU second" if cpu > 0.01 else " " * 22
    print(
        f"  {contender:26} {seconds:7.3f} s {log.size / seconds / 1e6:7.0f} MB/s"
        f" {log.rows / seconds:12,.0f} rows/s {ours}"
        f"  {statistics.median(ratios):5.2f} of the file's speed"
        f" ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    )
