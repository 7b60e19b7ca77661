"""Logs to measure on: written by a real MySQL 9.7, kept in ``.benchmarks/`` for the next run.

``bulk``: multi-row inserts, 8 KB rows events. ``plain``: the same without JSON. ``single``: a
transaction a row, inserts, updates and deletes mixed. ``tables``: one-row transactions spread over
400 tables. ``writes``: sysbench's ``oltp_write_only`` over 400 tables. ``huge``: one transaction.

For the bounds on memory: ``wide`` (990 columns, nearly all NULL), ``even`` (rows of 8 KB that are
all the same, so that a payload of them is tiny), ``squeezed`` (MariaDB's compressed columns of 40
KB), ``values`` (single values of 60 MB; here ``rows`` is their size in MB), ``broad`` (many rows in
an event of 64 MB).
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

from tools.servers import Server

FOLDER: Final = Path(__file__).resolve().parent.parent / ".benchmarks"

_TABLE: Final = """
create table {name} (
  id bigint unsigned not null auto_increment primary key,
  customer int unsigned not null, status enum('new','paid','shipped','returned') not null,
  total decimal(12,2) not null, weight double not null, name varchar(60) not null,
  attributes json not null, created datetime(6) not null, changed timestamp(3) not null,
  flags tinyint not null, country char(2) not null, quantity int
) character set utf8mb4
"""
_COLUMNS: Final = (
    "customer, status, total, weight, name, attributes, created, changed, flags, country, quantity"
)
_ROW: Final = """
  {n} * 7 % 1000003, 1 + {n} % 4, {n} % 1000000 / 100, {n} * 0.37,
  concat('customer number ', {n}), json_object('n', {n}, 'colour', 'green', 'ok', true),
  timestamp('2026-01-01') + interval {n} * 1000003 microsecond,
  timestamp('2026-01-01') + interval {n} % 8000000 second, {n} % 127 - 50,
  elt(1 + {n} % 5, 'DE', 'AT', 'CH', 'FR', 'IT'), if({n} % 10 = 0, null, {n} % 1000)
"""

_OPTIONS: Final = {
    "binlog_row_metadata": "FULL",
    "gtid_mode": "ON",
    "enforce_gtid_consistency": "ON",
    "sync_binlog": "0",
    "innodb_flush_log_at_trx_commit": "0",
    "max_binlog_size": "1G",
}


def _bulk(server: Server, rows: int) -> None:
    server.execute(_TABLE.format(name="bench.orders"))
    server.execute("create table bench.digits (d int primary key)")
    server.execute("insert into bench.digits values (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)")
    server.rotate()
    step = 10_000
    source = " cross join ".join(f"bench.digits d{i}" for i in range(4))
    number = "(d0.d + d1.d * 10 + d2.d * 100 + d3.d * 1000 + {base})"
    for base in range(0, rows, step):
        row = _ROW.format(n=number.format(base=base))
        server.execute(f"insert into bench.orders ({_COLUMNS}) select {row} from {source}")


def _plain(server: Server, rows: int) -> None:
    """As ``bulk``, into a table that stores nothing: rows are logged all the same."""
    table = _TABLE.format(name="bench.orders").replace("attributes json not null,", "")
    server.execute(table.rstrip() + " engine = blackhole")
    source = _numbers(server, 10_000)
    server.rotate()
    columns = _COLUMNS.replace("attributes, ", "")
    json = "json_object('n', {n}, 'colour', 'green', 'ok', true),"
    for base in range(0, rows, 10_000):
        row = _ROW.replace(json, "").format(n=f"(n + {base})")
        server.execute(f"insert into bench.orders ({columns}) select {row} from {source}")


def _loop(server: Server, body: str, count: int) -> None:
    server.execute("drop procedure if exists bench.work")
    server.execute(
        f"create procedure bench.work() begin declare n int default 0; "
        f"while n < {count} do {body} set n = n + 1; end while; end"
    )
    server.rotate()
    server.execute("call bench.work()")


def _single(server: Server, rows: int) -> None:
    server.execute(_TABLE.format(name="bench.orders"))
    insert = f"insert into bench.orders ({_COLUMNS}) values ({_ROW.format(n='n')});"
    body = (
        f"if n % 10 < 6 then {insert} "
        "elseif n % 10 < 9 then update bench.orders set total = total + 1, quantity = n "
        "where id = 1 + n div 2; else delete from bench.orders where id = n div 3; end if;"
    )
    _loop(server, body, rows)


def _tables(server: Server, rows: int) -> None:
    body = "case n % 400 "
    for number in range(400):
        name = f"bench.t{number:03}"
        server.execute(_TABLE.format(name=name))
        body += f"when {number} then insert into {name} ({_COLUMNS}) values ({_ROW.format(n='n')});"
    _loop(server, body + " end case;", rows)


def _writes(server: Server, transactions: int) -> None:
    """What sysbench's ``oltp_write_only`` does: each transaction two updates, a delete and an
    insert, here all of one of 400 tables.
    """
    digits = "concat_ws('-', repeat(n % 10, 11), repeat(n % 7, 11), repeat(n % 3, 11), {rest})"
    c = digits.format(rest="repeat(n % 9, 11), " * 6 + "repeat(n % 8, 11)")
    pad = digits.format(rest="repeat(n % 6, 11), repeat(n % 5, 11)")
    body = "start transaction; case n % 400 "
    source = _numbers(server, 100)
    for number in range(400):
        name = f"bench.sbtest{number:03}"
        server.execute(
            f"create table {name} (id int not null auto_increment primary key,"
            " k int not null default 0, c char(120) not null default '',"
            " pad char(60) not null default '', key k_1 (k))"
        )
        server.execute(f"insert into {name} select n + 1, n, {c}, {pad} from {source}")
        row = "1 + n div 400 % 100"
        body += (
            f"when {number} then update {name} set k = k + 1 where id = {row};"
            f" update {name} set c = {c} where id = {row};"
            f" delete from {name} where id = {row};"
            f" insert into {name} values ({row}, n, {c}, {pad});"
        )
    _loop(server, body + " end case; commit;", transactions)


def _huge(server: Server, rows: int) -> None:
    """One transaction, into a table that stores nothing: rows are logged all the same."""
    server.execute(_TABLE.format(name="bench.orders").rstrip() + " engine = blackhole")
    server.execute("create table bench.digits (d int primary key)")
    server.execute("insert into bench.digits values (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)")
    server.rotate()
    source = " cross join ".join(f"bench.digits d{i}" for i in range(7))
    number = "(" + " + ".join(f"d{i}.d * {10**i}" for i in range(7)) + ")"
    row = _ROW.format(n=f"({number} + d7.d * 10000000)")
    more = f"(select d from bench.digits where d < {rows // 10_000_000}) d7"
    server.execute(
        f"insert into bench.orders ({_COLUMNS}) select {row} from {source} cross join {more}"
    )


def _numbers(server: Server, rows: int) -> str:
    """The numbers from 0 on, as a table to select from."""
    server.execute("create table bench.digits (d int primary key)")
    server.execute("insert into bench.digits values (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)")
    places = range(len(str(rows - 1)))
    number = " + ".join(f"d{i}.d * {10**i}" for i in places)
    source = " cross join ".join(f"bench.digits d{i}" for i in places)
    return f"(select {number} n from {source} having n < {rows}) numbers"


def _wide(server: Server, rows: int) -> None:
    columns = [f"i{n} int" for n in range(490)] + [f"v{n} varchar(10)" for n in range(499)]
    server.execute(
        f"create table bench.wide (id int primary key, {', '.join(columns)}) character set latin1"
    )
    source = _numbers(server, rows)
    server.rotate()
    server.execute(f"insert into bench.wide (id, i7, v7) select n, n, 'some' from {source}")


def _even(server: Server, rows: int) -> None:
    server.execute("create table bench.even (id int, body longtext) engine = blackhole")
    source = _numbers(server, rows)
    server.rotate()
    server.execute(f"insert into bench.even select 1, repeat('a', 8192) from {source}")


def _squeezed(server: Server, rows: int) -> None:
    server.execute("create table bench.squeezed (id int primary key, body mediumtext compressed)")
    source = _numbers(server, rows)
    server.rotate()
    server.execute(f"insert into bench.squeezed select n, repeat('some ', 8000) from {source}")


def _values(server: Server, megabytes: int) -> None:
    server.execute(
        "create table bench.parts (id int, b longblob, u longtext character set utf8mb4,"
        " l longtext character set latin1, j json) engine = blackhole"
    )
    server.rotate()
    size = megabytes << 20
    for column, value in (
        ("b", f"repeat(x'fe', {size})"),
        ("u", f"repeat('\u20ac', {size // 3})"),
        ("l", f"repeat('\u00e9', {size})"),
        ("j", f"json_array(repeat('a', {size - 100}))"),
    ):
        for number in range(3):
            server.execute(f"insert into bench.parts (id, {column}) values ({number}, {value})")


def _broad(server: Server, rows: int) -> None:
    server.execute("create table bench.broad (id int, n tinyint) engine = blackhole")
    source = _numbers(server, rows)
    server.rotate()
    server.execute(f"insert into bench.broad select n, n % 100 from {source}")


_MAKERS: Final = {
    "bulk": (_bulk, 1_000_000),
    "plain": (_plain, 1_000_000),
    "single": (_single, 60_000),
    "tables": (_tables, 60_000),
    "writes": (_writes, 60_000),
    "huge": (_huge, 20_000_000),
    "wide": (_wide, 100_000),
    "even": (_even, 131_072),
    "squeezed": (_squeezed, 65_000),
    "values": (_values, 60),
    "broad": (_broad, 10_000_000),
}
_MARIADB: Final = frozenset({"squeezed"})
_MADE_WITH: Final = {
    "even": {"binlog_transaction_compression": "ON"},
    "values": {"max_allowed_packet": "1G"},
    "broad": {"binlog_row_event_max_size": "64M"},
}


def fill(server: Server, name: str, rows: int) -> None:
    """Have a server write the log ``name``; it is the largest of its logs then."""
    server.execute("create database bench")
    _MAKERS[name][0](server, rows)
    server.rotate()


def log(name: str, *, rows: int | None = None, options: dict[str, str] | None = None) -> Path:
    """Give the path of the log ``name``, making it on a real server where it is not there yet."""
    usual = _MAKERS[name][1]
    count = rows or usual
    suffix = "".join(f"-{key}-{value}" for key, value in sorted((options or {}).items()))
    path = FOLDER / f"{name}-{count}{suffix}" / "binlog.000001"
    if not path.exists():
        release = "mariadb-11.8" if name in _MARIADB else "mysql-9.7"
        print(f"making {path.parent.name} on {release}", file=sys.stderr)
        general = {} if name in _MARIADB else _OPTIONS
        given = {**general, **_MADE_WITH.get(name, {}), **(options or {})}
        with Server(release, given) as server:
            fill(server, name, count)
            largest = max(server.binlogs(), key=lambda file: file.stat().st_size)
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".partial")
            shutil.copy(largest, partial)
            partial.replace(path)
    return path
