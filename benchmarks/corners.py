"""`tailrace.changes` beside the server's own tool with ``-v``, for each setting that the owner of a
server can choose: formats of rows, compression, types, character sets, kinds of transactions.

A server of each flavour writes the logs, one after the other; they are kept in ``.benchmarks/``.
"""

from __future__ import annotations

import shutil
import statistics
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from benchmarks import logs
from benchmarks.measure import CpuWorker, run_for_cpu
from tools.servers import Server, binlog_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_MYSQL: Final = "mysql-9.7"
_MARIADB: Final = "mariadb-11.8"
_QUICK: Final = 10
"""With ``--quick`` there are as many times fewer rows."""
_DEFAULTS: Final = {
    _MYSQL: {
        "binlog_checksum": "'CRC32'",
        "binlog_row_image": "'FULL'",
        "binlog_row_metadata": "'FULL'",
        "binlog_row_value_options": "''",
        "binlog_rows_query_log_events": "OFF",
        "binlog_transaction_compression": "OFF",
    },
    _MARIADB: {
        "binlog_checksum": "'CRC32'",
        "binlog_row_image": "'FULL'",
        "binlog_row_metadata": "'FULL'",
        "binlog_annotate_row_events": "ON",
        "log_bin_compress": "OFF",
    },
}

_COMPRESS: Final = {"log_bin_compress": "ON", "log_bin_compress_min_len": "10"}


@dataclass(frozen=True, slots=True)
class Corner:
    """A log: what writes it, by which server, under which settings.

    ``before`` is not logged. Both take the number of rows, or transactions, and ``{numbers}`` in
    what they give is a table of the numbers ``n`` from 0 on.
    """

    name: str
    release: str
    rows: int
    before: Callable[[int], Sequence[str]]
    work: Callable[[int], Sequence[str]]
    options: dict[str, str] = field(default_factory=dict)

    def count(self, *, quick: bool) -> int:
        """How many rows or transactions."""
        return max(self.rows // (_QUICK if quick else 1), 20)

    def path(self, *, quick: bool) -> Path:
        """Where the log is kept."""
        words = "-".join(self.name.replace("'", "").replace(",", "").split())
        folder = f"corner-{self.release}-{words}-{self.count(quick=quick)}".replace("/", "-")
        return logs.FOLDER / folder / "binlog.000001"


def _table(columns: str, name: str = "t") -> list[str]:
    return [f"create table bench.{name} ({columns})"]


def _filled(columns: str, row: str) -> Callable[[int], Sequence[str]]:
    """A table with that many rows."""
    return lambda rows: [*_table(columns), *_inserted(row)(rows)]


def _inserted(row: str) -> Callable[[int], Sequence[str]]:
    return lambda rows: [f"insert into bench.t select {row} from {{numbers}} where n < {rows}"]


def _each(body: str) -> Callable[[int], Sequence[str]]:
    """The statements ``body`` for each ``n``, by a procedure."""
    return lambda rows: [
        (
            f"create procedure bench.work() begin declare n int default 0; while n < {rows} do"
            f" {body} set n = n + 1; end while; end"
        ),
        "call bench.work()",
    ]


_ORDERS: Final = (
    "id bigint unsigned not null primary key, customer int unsigned not null,"
    " status enum('new','paid','shipped','returned') not null, total decimal(12,2) not null,"
    " weight double not null, name varchar(60) not null, note text, created datetime(6) not null,"
    " changed timestamp(3) not null, flags tinyint not null, country char(2) not null, quantity int"
)
_ORDER: Final = (
    "n, n * 7 % 1000003, 1 + n % 4, n % 1000000 / 100, n * 0.37, concat('customer number ', n),"
    " concat('a note on ', n), timestamp('2026-01-01') + interval n * 1003 microsecond,"
    " timestamp('2026-01-01') + interval n % 8000000 second, n % 127 - 50,"
    " elt(1 + n % 5, 'DE', 'AT', 'CH', 'FR', 'IT'), if(n % 10 = 0, null, n % 1000)"
)
_CHANGE: Final = "update bench.t set total = total + 1, quantity = id % 999 where id < {rows}"


def _updated(rows: int) -> Sequence[str]:
    return [_CHANGE.format(rows=rows)]


def _insert(
    name: str,
    columns: str,
    row: str,
    *,
    rows: int = 150_000,
    releases: Sequence[str] = (_MYSQL, _MARIADB),
    options: dict[str, str] | None = None,
) -> list[Corner]:
    """One statement inserts all rows."""
    return [
        Corner(name, each, rows, lambda _: _table(columns), _inserted(row), options or {})
        for each in releases
    ]


def _update(name: str, options: dict[str, str], *releases: str) -> list[Corner]:
    """One statement changes all rows of a table."""
    return [
        Corner(name, each, 80_000, _filled(_ORDERS, _ORDER), _updated, options) for each in releases
    ]


def _single(
    name: str,
    body: str = f"insert into bench.t select {_ORDER};",
    *,
    columns: str = _ORDERS,
    rows: int = 20_000,
    releases: Sequence[str] = (_MYSQL, _MARIADB),
    options: dict[str, str] | None = None,
    more: Sequence[str] = (),
) -> list[Corner]:
    """A transaction for each ``n``."""
    return [
        Corner(name, each, rows, lambda _: [*_table(columns), *more], _each(body), options or {})
        for each in releases
    ]


def _settings() -> list[Corner]:
    both = (_MYSQL, _MARIADB)
    found = _insert("bulk inserts", _ORDERS, _ORDER)
    found += _insert("no checksums", _ORDERS, _ORDER, options={"binlog_checksum": "'NONE'"})
    found += _insert(
        "minimal metadata", _ORDERS, _ORDER, options={"binlog_row_metadata": "'MINIMAL'"}
    )
    found += _insert(
        "no metadata",
        _ORDERS,
        _ORDER,
        releases=[_MARIADB],
        options={"binlog_row_metadata": "'NO_LOG'"},
    )
    found += _insert(
        "bulk, compressed",
        _ORDERS,
        _ORDER,
        releases=[_MYSQL],
        options={"binlog_transaction_compression": "ON"},
    )
    found += _insert(
        "bulk, compressed",
        _ORDERS,
        _ORDER,
        releases=[_MARIADB],
        options=_COMPRESS,
    )
    found += _update("updates, full images", {}, *both)
    for image in ("MINIMAL", "NOBLOB"):
        options = {"binlog_row_image": f"'{image}'"}
        found += _update(f"updates, {image.lower()} images", options, *both)
    found += _update("updates, full_nodup images", {"binlog_row_image": "'FULL_NODUP'"}, _MARIADB)
    found += _single("one-row")
    found += _single("one-row, no checksums", options={"binlog_checksum": "'NONE'"})
    found += _single(
        "one-row, compressed",
        releases=[_MYSQL],
        options={"binlog_transaction_compression": "ON"},
    )
    found += _single("one-row, compressed", releases=[_MARIADB], options=_COMPRESS)
    found += _single(
        "one-row, with statements",
        releases=[_MYSQL],
        options={"binlog_rows_query_log_events": "ON"},
    )
    found += _single(
        "one-row, without statements",
        releases=[_MARIADB],
        options={"binlog_annotate_row_events": "OFF"},
    )
    return found


def _transactions() -> list[Corner]:
    row = "insert into bench.t select {id}, concat('name ', n), n * 0.5; "
    columns = "id int primary key, name varchar(40), v double"
    rolled_back = (
        f"start transaction; {row.format(id='n * 3')} savepoint s; {row.format(id='n * 3 + 1')}"
        f" insert into bench.m values (n); rollback to s; {row.format(id='n * 3 + 2')} commit;"
    )
    ddl = (
        "create table bench.d (id int primary key, name varchar(40)) engine = memory;"
        " insert into bench.d values (n, 'a name');"
        " alter table bench.d add column more int;"
        " insert into bench.d values (n + 1, 'a name', 3); drop table bench.d;"
    )
    xa = (
        "xa start 'x'; insert into bench.t select n, concat('name ', n), n * 0.5; xa end 'x';"
        " xa prepare 'x'; xa commit 'x';"
    )
    return [
        *_single("DDL", ddl, columns=columns, rows=800),
        *_single(
            "rollback to savepoint",
            rolled_back,
            columns=columns,
            rows=15_000,
            more=["create table bench.m (id int) engine = myisam"],
        ),
        *_single("XA", xa, columns=columns, rows=10_000, releases=[_MARIADB]),
    ]


_DOCUMENT: Final = (
    "json_object('id', n, 'name', concat('customer ', n), 'tags', json_array('a', 'b', 'c', n),"
    " 'address', json_object('street', 'a street', 'number', n % 100, 'ok', true))"
)


def _json() -> list[Corner]:
    columns = "id int primary key, j json"
    filled = _filled(columns, f"n, {_DOCUMENT}")

    def change(rows: int) -> Sequence[str]:
        return [
            (
                "update bench.t set j = json_replace(j, '$.name', concat('CUSTOMER ', id),"
                f" '$.address.number', 100 - id % 100) where id < {rows}"
            )
        ]

    return [
        *_insert("JSON", columns, f"n, {_DOCUMENT}"),
        Corner("updates of JSON", _MYSQL, 80_000, filled, change),
        Corner("updates of JSON", _MARIADB, 80_000, filled, change),
        Corner(
            "updates with PARTIAL_JSON",
            _MYSQL,
            80_000,
            filled,
            change,
            {"binlog_row_value_options": "'PARTIAL_JSON'"},
        ),
    ]


def _types() -> list[Corner]:
    named = ",".join(f"'member{n}'" for n in range(20))
    found: list[Corner] = []
    for name, columns, row in (
        (
            "TIME BIT SET FLOAT DECIMAL(40,10)",
            (
                f"id int primary key, t time, t6 time(6), b bit(20), s set({named}), f float,"
                " d decimal(40,10)"
            ),
            (
                "n, sec_to_time(n % 80000), sec_to_time(n % 80000 + 0.123456), n, n % 1048576,"
                " n * 0.37, n * 123456789.0123456789"
            ),
        ),
        (
            "TIME",
            "id int primary key, a time, b time(3), c time(6)",
            "n, sec_to_time(n % 80000), sec_to_time(n % 8000 + 0.123), sec_to_time(n % 800 + 0.5)",
        ),
        ("BIT", "id int primary key, a bit(1), b bit(20), c bit(64)", "n, n % 2, n, n * 12345"),
        ("SET", f"id int primary key, a set({named}), b set('x','y','z')", "n, n % 1048576, n % 8"),
        (
            "ENUM",
            f"id int primary key, a enum({named}), b enum('x','y')",
            "n, 1 + n % 20, 1 + n % 2",
        ),
        ("FLOAT", "id int primary key, a float, b float, c double", "n, n * 0.37, n, n / 7"),
        (
            "DECIMAL(40,10)",
            "id int primary key, a decimal(40,10), b decimal(40,10)",
            "n, n * 123456789.0123456789, -n / 7",
        ),
        (
            "DECIMAL(65,30)",
            "id int primary key, a decimal(65,30), b decimal(65,0)",
            "n, n * 123456789.0123456789, -n",
        ),
        (
            "DECIMAL(18,4)",
            "id int primary key, a decimal(18,4), b decimal(9,2)",
            "n, n * 12.0123, -n / 7",
        ),
        (
            "integers",
            "id int primary key, a tinyint, b smallint unsigned, c mediumint, d bigint, e year",
            "n, n % 100, n % 60000, n - 50000, n * 123456789, 2000 + n % 100",
        ),
        (
            "DATE DATETIME TIMESTAMP",
            (
                "id int primary key, a date, b datetime, c datetime(6), d timestamp null,"
                " e timestamp(6) null"
            ),
            (
                "n, date('2026-01-01') + interval n % 9000 day,"
                " timestamp('2026-01-01') + interval n second,"
                " timestamp('2026-01-01') + interval n * 1003 microsecond,"
                " timestamp('2026-01-01') + interval n second,"
                " timestamp('2026-01-01') + interval n * 1003 microsecond"
            ),
        ),
        (
            "BINARY VARBINARY BLOB",
            "id int primary key, a binary(16), b varbinary(100), c blob",
            "n, concat('key ', n), repeat('x', n % 100), repeat('y', n % 200)",
        ),
        (
            "all NULL",
            "id int primary key, a int, b varchar(10), c datetime, d decimal(10,2), e text",
            "n, null, null, null, null, null",
        ),
        (
            "GEOMETRY",
            "id int primary key, a point, b geometry",
            "n, point(n, n + 1), st_geomfromtext(concat('linestring(0 0,1 ', n, ',2 2)'))",
        ),
    ):
        found += _insert(name, columns, row)
    vector = "'[" + ",".join(f"0.{n}" for n in range(10, 74)) + "]'"
    found += _insert(
        "VECTOR(64)",
        "id int primary key, v vector(64)",
        f"n, string_to_vector({vector})",
        rows=50_000,
        releases=[_MYSQL],
    )
    found += _insert(
        "VECTOR(64)",
        "id int primary key, v vector(64)",
        f"n, vec_fromtext({vector})",
        rows=50_000,
        releases=[_MARIADB],
    )
    found += _insert(
        "UUID INET4 INET6",
        "id int primary key, a uuid, b inet4, c inet6",
        "n, uuid(), concat('10.0.', n % 200, '.1'), concat('2001:db8::', n % 9999)",
        releases=[_MARIADB],
    )
    text = "repeat(concat('some text of ', n, ' '), 20)"
    short = "concat('short ', n)"
    for name, type_, value in (
        ("compressed columns", "text compressed", text),
        ("compressed columns, not deflated", "varchar(80) compressed", short),
        ("compressed columns, binary", "blob compressed", text),
        (
            "compressed columns of 40 KB",
            "mediumtext compressed",
            "repeat(concat('some ', n), 5000)",
        ),
    ):
        found += _insert(
            name,
            f"id int primary key, a {type_}",
            f"n, {value}",
            rows=3_000 if "KB" in name else 100_000,
            releases=[_MARIADB],
        )
    return found


def _texts() -> list[Corner]:
    found: list[Corner] = []
    ascii_ = "concat('customer number ', n, ' of the shop')"
    western = "concat('K\u00e4ufer Nummer ', n, ' sagt: sch\u00f6ne Gr\u00fc\u00dfe')"
    moscow = "\u041c\u043e\u0441\u043a\u0432\u0430"
    russian = f"concat('{moscow} ', n, ' {moscow} {moscow}')"
    chinese = "concat('\u987e\u5ba2 ', n, ' \u6765\u81ea\u5317\u4eac\u7684\u5546\u5e97')"
    japanese = "concat('\u304a\u5ba2\u69d8 ', n, ' \u6771\u4eac\u306e\u5e97')"
    korean = "concat('\uace0\uac1d ', n, ' \uc11c\uc6b8 \uac00\uac8c')"
    for name, text, releases in (
        ("utf8mb4", chinese, (_MYSQL, _MARIADB)),
        ("utf8mb3", western, (_MYSQL, _MARIADB)),
        ("latin1", western, (_MYSQL, _MARIADB)),
        ("latin1 of ASCII", ascii_, (_MYSQL, _MARIADB)),
        ("ascii", ascii_, (_MYSQL,)),
        ("cp1251", russian, (_MYSQL,)),
        ("koi8r", russian, (_MYSQL,)),
        ("utf16", chinese, (_MYSQL, _MARIADB)),
        ("utf16le", chinese, (_MYSQL,)),
        ("ucs2", chinese, (_MARIADB,)),
        ("utf32", chinese, (_MYSQL, _MARIADB)),
        ("gbk", chinese, (_MYSQL, _MARIADB)),
        ("gb18030", chinese, (_MYSQL,)),
        ("big5", "concat('\u9867\u5ba2 ', n, ' \u4f86\u81ea\u53f0\u5317')", (_MYSQL,)),
        ("sjis", japanese, (_MYSQL, _MARIADB)),
        ("cp932", japanese, (_MYSQL,)),
        ("ujis", japanese, (_MYSQL,)),
        ("euckr", korean, (_MYSQL,)),
    ):
        charset = f"character set {name.split()[0]}"
        columns = (
            f"id int primary key, a varchar(100) {charset}, b varchar(100) {charset},"
            f" c text {charset}"
        )
        found += _insert(
            name,
            columns,
            f"n, {text}, {text}, {text}",
            rows=80_000,
            releases=releases,
        )
    return found


def _sizes() -> list[Corner]:
    mixed = ", ".join(
        f"i{n} int, v{n} varchar(20), d{n} datetime, m{n} decimal(10,2), t{n} text"
        for n in range(100)
    )
    values = ", ".join(
        f"n + {n}, 'some text', '2026-01-01 10:00:00', {n}.25, null" for n in range(100)
    )
    empty = ", ".join(f"i{n} int, v{n} varchar(10)" for n in range(300))
    integers = ", ".join(f"i{n} int not null" for n in range(400))
    numbers = ", ".join(f"n + {n}" for n in range(400))
    found = _insert(
        "500 columns, mixed",
        f"id int primary key, {mixed}",
        f"n, {values}",
        rows=4_000,
    )
    found += _insert(
        "600 columns, nearly all NULL",
        f"id int primary key, {empty}",
        "n, " + ", ".join("7, 'some'" if n == 9 else "null, null" for n in range(300)),
        rows=40_000,
    )
    found += _insert(
        "400 columns of INT", f"id int primary key, {integers}", f"n, {numbers}", rows=12_000
    )
    found += _insert(
        "BLOB of 1 MB",
        "id int primary key, b longblob",
        "n, repeat(char(n % 256), 1048576)",
        rows=200,
    )
    found += _insert(
        "utf8mb4 text of 1 MB",
        "id int primary key, b longtext character set utf8mb4",
        "n, repeat('\u00e9 ', 349525)",
        rows=100,
    )
    found += _insert(
        "latin1 text of 1 MB",
        "id int primary key, b longtext character set latin1",
        "n, repeat('\u00e9 ', 500000)",
        rows=100,
    )
    found += _insert(
        "JSON of 100 KB",
        "id int primary key, j json",
        "n, concat('[', repeat(concat('{\"a\": ', n, ', \"b\": \"some text\"},'), 3500), 'null]')",
        rows=200,
    )
    return found


CORNERS: Final = [*_settings(), *_transactions(), *_json(), *_types(), *_texts(), *_sizes()]


def chosen(only: str) -> list[Corner]:
    """The corners whose name, or release, has that text."""
    return [each for each in CORNERS if only in f"{each.name} {each.release}"]


def make(only: str, *, quick: bool) -> None:
    """Have the servers write the logs that are not there yet."""
    for release, defaults in _DEFAULTS.items():
        missing = [
            each
            for each in chosen(only)
            if each.release == release and not each.path(quick=quick).exists()
        ]
        if not missing:
            continue
        usual = {"sync_binlog": "0", "innodb_flush_log_at_trx_commit": "0"}
        size = {"max_binlog_size": "1G", "binlog_cache_size": "1M", "innodb_strict_mode": "OFF"}
        # With GTIDs a transaction cannot mix engines, as that with ROLLBACK TO SAVEPOINT does.
        gtids = {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}
        options = {**usual, **size, **(gtids if release == _MYSQL else {})}
        with Server(release, options) as server:
            server.execute("create database bench")
            numbers = logs.numbers(server, 1_000_000)
            for corner in missing:
                _make(server, corner, defaults, numbers, quick=quick)


def _make(
    server: Server, corner: Corner, defaults: dict[str, str], numbers: str, *, quick: bool
) -> None:
    path = corner.path(quick=quick)
    print(f"making {path.parent.name}", file=sys.stderr)
    for name, value in {**defaults, **corner.options}.items():
        server.execute(f"set global {name} = {value}")
    server.disconnect()  # what a session begins with are the global settings
    rows = corner.count(quick=quick)
    server.execute("set session sql_log_bin = 0")
    for thing in ("procedure bench.work", "table bench.t", "table bench.m"):
        server.execute(f"drop {thing.replace(' ', ' if exists ', 1)}")
    work = corner.work(rows)
    for statement in (*corner.before(rows), *work[:-1]):
        server.execute(statement.replace("{numbers}", numbers))
    server.execute("set session sql_log_bin = 1")
    server.rotate()
    server.execute(work[-1].replace("{numbers}", numbers))
    log = server.rotate()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    shutil.copy(log, partial)
    partial.replace(path)


def run(only: str, *, quick: bool) -> None:
    """Print a line for each corner: its size, MB a CPU second of both, and the ratios of the CPU's
    and the wall's seconds; medians of rounds in turn.
    """
    print(
        f"\n{'setting':34} {'server':13} {'MB':>6} {'ours MB/s':>10} {'-v MB/s':>8}"
        f" {'CPU ratio':>10}  {'by round':>13} {'wall':>7}"
    )
    decode = CpuWorker(
        "from tailrace.columns import changes",
        "for batch in changes(_line.rstrip()): pass",
    )
    for corner in chosen(only):
        path = corner.path(quick=quick)
        tool = [*binlog_tool(corner.release), "-v", "--base64-output=DECODE-ROWS", str(path)]
        decode(str(path))  # compiles, and takes memory: does not count
        turns = [(run_for_cpu(tool), decode(str(path))) for _ in range(2 if quick else 3)]
        megabytes = path.stat().st_size / 1e6
        cpu, wall = (sorted(theirs[i] / ours[i] for theirs, ours in turns) for i in (0, 1))
        theirs, ours = (statistics.median(turn[i][0] for turn in turns) for i in (0, 1))
        print(
            f"{corner.name:34} {corner.release:13} {megabytes:6.1f} {megabytes / ours:10.0f}"
            f" {megabytes / theirs:8.0f} {statistics.median(cpu):10.2f}"
            f"  {f'{cpu[0]:.1f} to {cpu[-1]:.1f}':>13} {statistics.median(wall):7.2f}"
        )
    decode.close()
