"""JSON documents with every type of SQL that a server puts into them: what is read is SELECT's.

MySQL keeps dates, decimals, bits and bytes in documents as values of their own (opaque ones), made
here of columns of every type; MariaDB keeps a document's text, which is what is compared there.
"""

from __future__ import annotations

import base64
import json
import random
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pymysql.err import OperationalError

from tailrace.columns import changes
from tailrace.values.row import RowSet
from tailrace.values.surrogates import unescaped
from tools.campaign import selected, values
from tools.campaign.recording import recording, rows_events
from tools.campaign.report import Report
from tools.campaign.values import TEXTS, quoted
from tools.campaign.witnesses import json_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pymysql.cursors import Cursor

    from tailrace.storage import LogSeries
    from tools.servers import Server

DATABASE: Final = "documents"
_WIDE: Final = {
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
}
_KEPT_AS_TEXT: Final = ("latin1", "sjis", "gbk", "utf8mb3", "utf8mb4")


@dataclass
class DocumentsReport(Report):
    """What came of one server."""

    columns: ClassVar = (
        "Server | Seed | Documents | Values compared | Of them SELECT gives no UTF-8 | Seconds"
    )
    server: str
    seed: int
    documents: int = 0
    values: int = 0
    not_text: int = 0
    seconds: float = 0.0


def _sum(rng: random.Random) -> str:
    """Two decimals of 65 digits: the sum may have one more."""
    first, second = ("9" * rng.randrange(30, 36) for _ in range(2))
    part = "5" * rng.randrange(25, 31)
    return f"CAST('{first}.5' AS DECIMAL(65,30)) + CAST('{second}.{part}' AS DECIMAL(65,30))"


def _bytes(rng: random.Random) -> str:
    size = rng.choice((0, 1, 2, 56, 57, 58, 114, 115, 300))
    return "x'" + rng.randbytes(size).hex() + "'"


_COLUMNS: Final[dict[str, tuple[str, Any]]] = {
    "b1": ("BIT(1)", lambda rng: f"b'{rng.randrange(2)}'"),
    "b64": ("BIT(64)", lambda rng: str(rng.getrandbits(64))),
    "bin": ("BINARY(20)", lambda rng: values.binary(rng, 20)),
    "vb": ("VARBINARY(300)", _bytes),
    "tb": ("TINYBLOB", lambda rng: values.binary(rng, 99)),
    "bl": ("BLOB", _bytes),
    "mb": ("MEDIUMBLOB", _bytes),
    "lb": ("LONGBLOB", _bytes),
    "y": ("YEAR", values.year),
    "d": ("DATE", values.date),
    "t": ("TIME(6)", lambda rng: values.time(rng, 6)),
    "t0": ("TIME", lambda rng: values.time(rng, 0)),
    "dt": ("DATETIME(6)", lambda rng: values.datetime(rng, 6)),
    "dt3": ("DATETIME(3)", lambda rng: values.datetime(rng, 3)),
    "ts": ("TIMESTAMP(6)", lambda rng: values.timestamp(rng, 6, 2037)),
    "de": ("DECIMAL(65,30)", lambda rng: values.decimal(rng, 65, 30, unsigned=False)),
    "de2": ("DECIMAL(10,2)", lambda rng: values.decimal(rng, 10, 2, unsigned=False)),
    "f": ("FLOAT", lambda rng: values.float32(rng, unsigned=False)),
    "db": ("DOUBLE", lambda rng: values.float64(rng, unsigned=False)),
    "u": ("BIGINT UNSIGNED", lambda rng: values.integer(rng, 64, unsigned=True)),
    "i": ("BIGINT", lambda rng: values.integer(rng, 64, unsigned=False)),
    "e": ("ENUM('a','é','日')", lambda rng: str(rng.randrange(1, 4))),
    "s": ("SET('a','é','日')", lambda rng: str(rng.randrange(8))),
    "g": ("POINT", lambda rng: values.geometry(rng, "POINT")),
    **{
        f"c_{charset}": (
            f"VARCHAR(200) CHARACTER SET {charset}",
            lambda rng: quoted(rng.choice(TEXTS)),
        )
        for charset in _KEPT_AS_TEXT
    },
}
"""Columns out of which documents are made: type, and a literal by chance."""


def run(server: Server, seed: int, rounds: int) -> DocumentsReport:
    """``rounds`` rows of every type, each made into documents, and these changed in part."""
    report = DocumentsReport(f"{server.name} ({server.version})", seed)
    began = time.monotonic()
    rng = random.Random(f"{seed}/{server.name}")
    write = _mysql if server.flavour == "mysql" else _mariadb
    with recording(server, DATABASE) as (cursor, series):
        cursor.execute("SET sql_mode = ''")
        cursor.execute("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, j JSON)")
        cursor.execute("INSERT INTO t (j) VALUES ('null'), (NULL), (' null '), ('[null]')")
        unlike = write(cursor, rng, rounds)
        cursor.execute("SELECT id, j FROM t")
        rows = {int(number): text for number, text in cursor.fetchall()}
        with report.noting("check"):
            _check(series(), rows, unlike, report)
    report.documents = len(rows)
    report.seconds = time.monotonic() - began
    return report


def _mysql(cursor: Cursor, rng: random.Random, rounds: int) -> dict[int, str]:
    """Give documents whose text SELECT cannot give as UTF-8, by id."""
    cursor.execute("SET sql_log_bin = 0")
    declared = ", ".join(f"{name} {kind}" for name, (kind, _) in _COLUMNS.items())
    cursor.execute(f"CREATE TABLE src ({declared})")
    unlike: dict[int, str] = {}
    for _ in range(rounds):
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute("DELETE FROM src")
        values = ", ".join(literal(rng) for _, literal in _COLUMNS.values())
        cursor.execute(f"INSERT INTO src VALUES ({values})")
        cursor.execute("SET sql_log_bin = 1")
        for name in _COLUMNS:
            cursor.execute(f"INSERT INTO t (j) SELECT JSON_OBJECT('{name}', {name}) FROM src")
        for _ in range(10):
            made = _made(rng, 0)
            cursor.execute(f"INSERT INTO t (j) SELECT {made} FROM src")
        for charset, codec in _WIDE.items():
            text = rng.choice(
                [
                    each
                    for each in TEXTS
                    if charset != "ucs2" or max(each, default="") < "\U00010000"
                ]
            )
            sql = f"JSON_ARRAY(CONVERT({quoted(text)} USING {charset}))"
            cursor.execute(f"INSERT INTO t (j) SELECT {sql}")
            data = text.encode(codec)
            try:
                data.decode()
            except UnicodeDecodeError:
                unlike[int(cursor.lastrowid or 0)] = f'["{_base64(data)}"]'
    cursor.execute("SET binlog_row_value_options = 'PARTIAL_JSON'")
    skipped = ", ".join(map(str, unlike)) or "0"
    for path in ("$.d", "$.de", "$.e", "$[0]", "$.new"):
        value = _made(rng, 5)
        sql = f"UPDATE t, src SET t.j = JSON_SET(t.j, '{path}', {value}) WHERE t.id % 3 = 0"
        cursor.execute(f"{sql} AND t.id NOT IN ({skipped})")
    return unlike


def _base64(data: bytes) -> str:
    text = base64.b64encode(data).decode("ascii")
    return "base64:type253:" + r"\n".join(text[at : at + 76] for at in range(0, len(text), 76))


def _made(rng: random.Random, depth: int) -> str:
    """An expression that is a document, or a value in one where ``depth`` is not 0."""
    kind = rng.randrange(2 if depth == 0 else 8)
    if kind == 0 and depth < 4:
        parts = (_made(rng, depth + 1) for _ in range(rng.randrange(5)))
        return f"JSON_ARRAY({', '.join(parts)})"
    if kind == 1 and depth < 4:
        pairs = (
            f"{quoted(rng.choice(TEXTS))}, {_made(rng, depth + 1)}" for _ in range(rng.randrange(5))
        )
        return f"JSON_OBJECT({', '.join(pairs)})"
    plain = ("NULL", "TRUE", "FALSE", "0", "-1", "65536", "1e0", "-0e0", "1e300")
    some: tuple[Callable[[], str], ...] = (
        lambda: rng.choice(list(_COLUMNS)),
        lambda: rng.choice(plain),
        lambda: values.decimal(rng, *rng.choice(((65, 30), (65, 0))), unsigned=False),
        lambda: _sum(rng),
        lambda: quoted(rng.choice(TEXTS)),
    )
    return rng.choice(some)()


def _mariadb(cursor: Cursor, rng: random.Random, rounds: int) -> dict[int, str]:
    for _ in range(rounds * 20):
        text = json.dumps(_document(rng, 0), ensure_ascii=rng.random() < 0.3)
        text = rng.choice(("", " ", "\n\t")) + text + rng.choice(("", "  "))
        data = text.encode("utf-8", "surrogatepass")
        with suppress(OperationalError):  # what JSON_VALID does not take
            cursor.execute(f"INSERT INTO t (j) VALUES (_utf8mb4 x'{data.hex()}')")
    cursor.execute("UPDATE t SET j = JSON_SET(j, '$.new', 1) WHERE id % 3 = 0")
    return {}


def _document(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(7 if depth < 4 else 5)
    if kind == 5:
        return [_document(rng, depth + 1) for _ in range(rng.randrange(5))]
    if kind == 6:
        return {rng.choice(TEXTS): _document(rng, depth + 1) for _ in range(rng.randrange(5))}
    if kind == 4:
        return rng.choice(TEXTS) + rng.choice(("\ud83d", "\ude00", "\ud83d\ude00", ""))
    return rng.choice((None, True, False, rng.uniform(-1e9, 1e9), rng.getrandbits(64), -1, 0))


def _check(
    series: LogSeries, rows: dict[int, bytes], unlike: dict[int, str], report: DocumentsReport
) -> None:
    expected = {
        number: unlike[number]
        if number in unlike
        else None
        if text is None
        else text.decode("utf-8", "surrogatepass")
        for number, text in rows.items()
    }
    report.not_text = len(unlike)
    ways: dict[str, Iterator[tuple[int, Any]]] = {
        "object": _objects(series),
        "arrow": _arrow(series),
    }
    for way, found in ways.items():
        _compare(way, dict(found), expected, report)
    parsed = {number: _parsed(text) for number, text in expected.items()}
    _compare("json", dict(_records(series)), parsed, report)


def _compare(
    way: str, found: dict[int, Any], expected: dict[int, Any], report: DocumentsReport
) -> None:
    for number, value in expected.items():
        if found.get(number) != value:
            text = f"{way} {number}: {found.get(number)!a}, SELECT {value!a}"
            raise AssertionError(text)
    if len(found) != len(expected):
        raise AssertionError(f"{way}: {len(found)} rows, SELECT {len(expected)}")
    report.values += len(found)


def _objects(series: LogSeries) -> Iterator[tuple[int, Any]]:
    for schema, event in rows_events(series):
        for row in RowSet(event, schema):
            assert row.after is not None
            yield row.after.at(0), row.after.at(1)


def _arrow(series: LogSeries) -> Iterator[tuple[int, Any]]:
    records = [
        (record["_seq"], record["after"], dict(record["_raw"] or ()))
        for batch in changes(series)
        for record in batch.to_pylist()
    ]
    for _, after, raw in sorted(records, key=lambda record: record[0]):
        beside = raw.get("after.j")
        yield after["id"], after["j"] if beside is None else unescaped(beside)


def _records(series: LogSeries) -> Iterator[tuple[int, Any]]:
    """Documents as JSON's reader has them, NULL told from null, whatever their white space."""
    for line in json_lines(series, None):
        record = selected.parse(line)
        document = record["after"]["j"]
        is_null = document is None and "after.j" not in record.get("_raw", {})
        yield int(record["after"]["id"].text), None if is_null else (document,)


def _parsed(text: str | None) -> tuple[Any] | None:
    if text is None:
        return None
    pairs = text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    return (selected.parse(pairs),)
