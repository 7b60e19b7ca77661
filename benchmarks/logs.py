"""Logs to measure on: written by a real MySQL 9.7, kept in ``.benchmarks/`` for the next run.

``bulk``: multi-row inserts, 8 KB rows events. ``plain``: the same without JSON. ``single``: a
transaction a row, inserts, updates and deletes mixed. ``tables``: one-row transactions spread over
400 tables. ``writes``: sysbench's ``oltp_write_only`` over 400 tables, ``many`` over 4,000.
``tpcc``: what sysbench-tpcc writes, over its nine tables. ``huge``: one transaction.

For the bounds on memory: ``wide`` (990 columns, nearly all NULL), ``even`` (rows of 8 KB that are
all the same, so that a payload of them is tiny), ``squeezed`` (MariaDB's compressed columns of 40
KB), ``values`` (single values of 60 MB; here ``rows`` is their size in MB), ``broad`` (many rows in
an event of 64 MB).
"""

from __future__ import annotations

import shutil
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.servers import Server

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER: Final = Path(__file__).resolve().parent.parent / ".benchmarks"

TABLE: Final = """
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

OPTIONS: Final = {
    "binlog_row_metadata": "FULL",
    "gtid_mode": "ON",
    "enforce_gtid_consistency": "ON",
    "sync_binlog": "0",
    "innodb_flush_log_at_trx_commit": "0",
    "max_binlog_size": "1G",
}


def _bulk(server: Server, rows: int) -> None:
    server.execute(TABLE.format(name="bench.orders"))
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
    table = TABLE.format(name="bench.orders").replace("attributes json not null,", "")
    server.execute(table.rstrip() + " engine = blackhole")
    source = numbers(server, 10_000)
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
    server.execute(TABLE.format(name="bench.orders"))
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
        server.execute(TABLE.format(name=name))
        body += f"when {number} then insert into {name} ({_COLUMNS}) values ({_ROW.format(n='n')});"
    _loop(server, body + " end case;", rows)


def _writes(server: Server, transactions: int, tables: int = 400) -> None:
    """What sysbench's ``oltp_write_only`` does: each transaction two updates, a delete and an
    insert, here all of one of ``tables`` tables.
    """
    digits = "concat_ws('-', repeat(n % 10, 11), repeat(n % 7, 11), repeat(n % 3, 11), {rest})"
    c = digits.format(rest="repeat(n % 9, 11), " * 6 + "repeat(n % 8, 11)")
    pad = digits.format(rest="repeat(n % 6, 11), repeat(n % 5, 11)")
    body = f"start transaction; case n % {tables} "
    source = numbers(server, 100)
    for number in range(tables):
        name = f"bench.sbtest{number:03}"
        server.execute(
            f"create table {name} (id int not null auto_increment primary key,"
            " k int not null default 0, c char(120) not null default '',"
            " pad char(60) not null default '', key k_1 (k))"
        )
        server.execute(f"insert into {name} select n + 1, n, {c}, {pad} from {source}")
        row = f"1 + n div {tables} % 100"
        body += (
            f"when {number} then update {name} set k = k + 1 where id = {row};"
            f" update {name} set c = {c} where id = {row};"
            f" delete from {name} where id = {row};"
            f" insert into {name} values ({row}, n, {c}, {pad});"
        )
    _loop(server, body + " end case; commit;", transactions)


_ADDRESS: Final = (
    "{0}_street_1 varchar(20), {0}_street_2 varchar(20), {0}_city varchar(20), {0}_state char(2),"
    " {0}_zip char(9)"
)
_TPCC: Final = {
    "warehouse": "w_id smallint primary key, w_name varchar(10), "
    + _ADDRESS.format("w")
    + ", w_tax decimal(4,2), w_ytd decimal(12,2)",
    "district": "d_id tinyint not null, d_w_id smallint not null, d_name varchar(10), "
    + _ADDRESS.format("d")
    + ", d_tax decimal(4,2), d_ytd decimal(12,2), d_next_o_id int, primary key (d_w_id, d_id)",
    "customer": "c_id int not null, c_d_id tinyint not null, c_w_id smallint not null,"
    " c_first varchar(16), c_middle char(2), c_last varchar(16), "
    + _ADDRESS.format("c")
    + ", c_phone char(16), c_since datetime, c_credit char(2), c_credit_lim bigint,"
    " c_discount decimal(4,2), c_balance decimal(12,2), c_ytd_payment decimal(12,2),"
    " c_payment_cnt smallint, c_delivery_cnt smallint, c_data text,"
    " primary key (c_w_id, c_d_id, c_id)",
    "history": "h_id int auto_increment primary key, h_c_id int, h_c_d_id tinyint not null,"
    " h_c_w_id smallint not null, h_d_id tinyint not null, h_w_id smallint not null,"
    " h_date datetime, h_amount decimal(6,2), h_data varchar(24)",
    "orders": "o_id int not null, o_d_id tinyint not null, o_w_id smallint not null, o_c_id int,"
    " o_entry_d datetime, o_carrier_id tinyint, o_ol_cnt tinyint, o_all_local tinyint,"
    " primary key (o_w_id, o_d_id, o_id)",
    "new_orders": "no_o_id int not null, no_d_id tinyint not null, no_w_id smallint not null,"
    " primary key (no_w_id, no_d_id, no_o_id)",
    "order_line": "ol_o_id int not null, ol_d_id tinyint not null, ol_w_id smallint not null,"
    " ol_number tinyint not null, ol_i_id int, ol_supply_w_id smallint, ol_delivery_d datetime,"
    " ol_quantity tinyint, ol_amount decimal(6,2), ol_dist_info char(24),"
    " primary key (ol_w_id, ol_d_id, ol_o_id, ol_number)",
    "stock": "s_i_id int not null, s_w_id smallint not null, s_quantity smallint, "
    + ", ".join(f"s_dist_{n:02} char(24)" for n in range(1, 11))
    + ", s_ytd decimal(8,0), s_order_cnt smallint, s_remote_cnt smallint, s_data varchar(50),"
    " primary key (s_w_id, s_i_id)",
    "item": "i_id int primary key, i_im_id int, i_name varchar(24), i_price decimal(5,2),"
    " i_data varchar(50)",
}
_TPCC_ADDRESS: Final = "'a street of it', 'the second line', 'some city', 'AB', '123451111'"
_TPCC_ROWS: Final = {
    "warehouse": (1, f"1, 'ware', {_TPCC_ADDRESS}, 0.1, 300000"),
    "district": (10, f"n + 1, 1, concat('dist', n), {_TPCC_ADDRESS}, 0.15, 30000, 1"),
    "customer": (
        3_000,
        (
            "n div 10 + 1, n % 10 + 1, 1, concat('first', n), 'OE', concat('BARBAR', n),"
            f" {_TPCC_ADDRESS}, '0123456789012345', '2026-01-01', if(n % 10, 'GC', 'BC'), 50000,"
            " 0.3, -10, 10, 1, 0, repeat('some data of it ', 20 + n % 10)"
        ),
    ),
    "stock": (
        10_000,
        "n + 1, 1, 10 + n % 90, "
        + ", ".join(f"concat(left(sha2(n, 256), 23), {place})" for place in range(10))
        + ", 0, 0, 0, repeat('data ', 6 + n % 5)",
    ),
    "item": (10_000, "n + 1, n % 1000, concat('item ', n), 1 + n % 100, 'data of an item'"),
}
_TPCC_WORK: Final = """
create procedure bench.work() begin
declare n int default 0; declare i int; declare d int; declare c int; declare o int;
declare many int; declare item int; declare pay decimal(6,2);
while n < {count} do
  set d = 1 + n % 10; set c = 1 + n * 7 % 300; start transaction;
  case when n % 92 % 23 < 11 then
    set many = 5 + n % 11; set i = 1;
    select d_next_o_id into o from district where d_w_id = 1 and d_id = d for update;
    update district set d_next_o_id = o + 1 where d_w_id = 1 and d_id = d;
    insert into orders values (o, d, 1, c, now(), null, many, 1);
    insert into new_orders values (o, d, 1);
    while i <= many do
      set item = 1 + (n * 31 + i * 977) % 10000;
      update stock set s_quantity = if(s_quantity > 20, s_quantity - 7, s_quantity + 84),
        s_ytd = s_ytd + 7, s_order_cnt = s_order_cnt + 1 where s_w_id = 1 and s_i_id = item;
      insert into order_line values (o, d, 1, i, item, 1, null, 7, item % 9000 / 3,
        'the district of the item');
      set i = i + 1;
    end while;
  when n % 92 % 23 < 22 then
    set pay = 1 + n % 5000;
    update warehouse set w_ytd = w_ytd + pay where w_id = 1;
    update district set d_ytd = d_ytd + pay where d_w_id = 1 and d_id = d;
    update customer set c_balance = c_balance - pay, c_ytd_payment = c_ytd_payment + pay,
      c_payment_cnt = c_payment_cnt + 1,
      c_data = if(c_credit = 'BC', left(concat(c, ' ', d, ' 1 ', pay, ' ', c_data), 500), c_data)
      where c_w_id = 1 and c_d_id = d and c_id = c;
    insert into history values (null, c, d, 1, d, 1, now(), pay, 'ware    dist');
  else
    set d = 1;
    while d <= 10 do
      set o = (select min(no_o_id) from new_orders where no_w_id = 1 and no_d_id = d);
      if o is not null then
        delete from new_orders where no_w_id = 1 and no_d_id = d and no_o_id = o;
        set c = (select o_c_id from orders where o_w_id = 1 and o_d_id = d and o_id = o);
        update orders set o_carrier_id = 1 + n % 10 where o_w_id = 1 and o_d_id = d and o_id = o;
        update order_line set ol_delivery_d = now()
          where ol_w_id = 1 and ol_d_id = d and ol_o_id = o;
        update customer set c_balance = c_balance + 100, c_delivery_cnt = c_delivery_cnt + 1
          where c_w_id = 1 and c_d_id = d and c_id = c;
      end if;
      set d = d + 1;
    end while;
  end case;
  commit; set n = n + 1;
end while; end
"""


def _tpcc(server: Server, transactions: int) -> None:
    """Of sysbench-tpcc: new orders and payments, 11 of 23 each, and a delivery; what only reads is
    not logged. One warehouse, with 10,000 items and 300 customers a district.
    """
    source = numbers(server, 10_000)
    server.execute("set session sql_log_bin = 0")
    server.execute("use bench")
    for name, columns in _TPCC.items():
        server.execute(f"create table bench.{name} ({columns})")
        if name in _TPCC_ROWS:
            count, row = _TPCC_ROWS[name]
            server.execute(f"insert into bench.{name} select {row} from {source} where n < {count}")
    server.execute(_TPCC_WORK.format(count=transactions))
    server.execute("set session sql_log_bin = 1")
    server.rotate()
    server.execute("call bench.work()")


def _huge(server: Server, rows: int) -> None:
    """One transaction, into a table that stores nothing: rows are logged all the same."""
    server.execute(TABLE.format(name="bench.orders").rstrip() + " engine = blackhole")
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


def numbers(server: Server, rows: int) -> str:
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
    source = numbers(server, rows)
    server.rotate()
    server.execute(f"insert into bench.wide (id, i7, v7) select n, n, 'some' from {source}")


def _even(server: Server, rows: int) -> None:
    server.execute("create table bench.even (id int, body longtext) engine = blackhole")
    source = numbers(server, rows)
    server.rotate()
    server.execute(f"insert into bench.even select 1, repeat('a', 8192) from {source}")


def _squeezed(server: Server, rows: int) -> None:
    server.execute("create table bench.squeezed (id int primary key, body mediumtext compressed)")
    source = numbers(server, rows)
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
    source = numbers(server, rows)
    server.rotate()
    server.execute(f"insert into bench.broad select n, n % 100 from {source}")


_MAKERS: Final[dict[str, tuple[Callable[[Server, int], None], int]]] = {
    "bulk": (_bulk, 1_000_000),
    "plain": (_plain, 1_000_000),
    "single": (_single, 60_000),
    "tables": (_tables, 60_000),
    "writes": (_writes, 60_000),
    "many": (partial(_writes, tables=4_000), 60_000),
    "tpcc": (_tpcc, 40_000),
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


def fill(server: Server, name: str, rows: int | None = None) -> None:
    """Have a server write the log ``name``; it is the largest of its logs then."""
    server.execute("create database bench")
    _MAKERS[name][0](server, rows or _MAKERS[name][1])
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
        general = {} if name in _MARIADB else OPTIONS
        given = {**general, **_MADE_WITH.get(name, {}), **(options or {})}
        with Server(release, given) as server:
            fill(server, name, count)
            largest = max(server.binlogs(), key=lambda file: file.stat().st_size)
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".partial")
            shutil.copy(largest, partial)
            partial.replace(path)
    return path
