"""Every code unit that a server's character sets store: what is read of it is what SELECT gives.

Codes are given to the server as bytes; those that it stores as they are go into a table that is
logged. Each way of reading is held against ``SELECT`` of the value, and its bytes against
``HEX``; and what is read is written again.
"""

from __future__ import annotations

import json
import random
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from tailrace.columns import changes
from tailrace.columns.row_json import images_to_json
from tailrace.errors import ValueRefused
from tailrace.events import QueryEvent, RowsEvent
from tailrace.log import Log
from tailrace.rows.as_json import image_json
from tailrace.rows.charsets import encode
from tailrace.rows.row import RowSet
from tailrace.rows.surrogates import unescaped
from tailrace.schema.catalogue import Catalogue
from tailrace.storage import LogSeries
from tailrace.storage.file import LogFile
from tools.campaign.witnesses import json_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pymysql.cursors import Cursor

    from tailrace.rows.schema import TableSchema
    from tools.servers import Server

DATABASE: Final = "characters"
_UNICODE: Final = {
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
}
_EXACT: Final = frozenset(_UNICODE)
"""Sets in which a text has one form: what is written again are the same bytes."""
_ALWAYS: Final = (
    *("eda0bd", "edb880", "eda0bdedb880", "41edbfbf", "d83d", "de00", "d83dde00", "de00d83d"),
    *("00410042d83d", "3dd8", "3dd800de", "0000d83d", "0000d83d0000de00", "8ea0", "618ea0"),
    *("8ea1", "f09f9880", "0001f600", "f48fbfbf", "00110000"),
)
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SLICE: Final = 8192

Row = tuple[bytes, str]
"""A value's bytes, and its text."""


@dataclass
class Report:
    """What came of one server."""

    server: str
    seed: int
    values: dict[str, int] = field(default_factory=dict)
    surrogates: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)

    def line(self) -> str:
        """The report as Markdown: a line of a table."""
        return (
            f"| {self.server} | {self.seed} | {len(self.values)} | {sum(self.values.values())} | "
            f"{self.surrogates} | {self.seconds:.0f} | {len(self.failures)} |"
        )


HEADER: Final = (
    "| Server | Seed | Character sets | Values stored | With surrogates | Seconds | Failures |\n"
    "|---|---|---|---|---|---|---|"
)


def codes_of(charset: str, rng: random.Random, most: int | None) -> list[bytes]:
    """Codes of one character, some of two, some of none: all of them, or ``most`` by chance."""
    found = {bytes.fromhex(code) for code in _ALWAYS}
    found |= {bytes([byte]) for byte in range(256)}
    numbers = range(_count(charset))
    chosen = numbers if most is None or most >= len(numbers) else rng.sample(numbers, most)
    found |= {_code(charset, number) for number in chosen}
    some = sorted(found)
    found |= {rng.choice(some) + rng.choice(some) for _ in range(200)}
    return sorted(found)


def _count(charset: str) -> int:
    if charset in _UNICODE:
        return 0x110000
    if charset in {"ujis", "eucjpms"}:
        return 3 * 65536
    return 65536 + 126 * 10 * 126 * 10 if charset == "gb18030" else 65536


def _code(charset: str, number: int) -> bytes:
    if charset in _UNICODE:
        return chr(number).encode(_UNICODE[charset], "surrogatepass")
    if number < 65536:
        return number.to_bytes(2, "big")
    number -= 65536
    if charset != "gb18030":
        return bytes([0x8E + (number >> 16)]) + (number & 0xFFFF).to_bytes(2, "big")
    rest, fourth = divmod(number, 10)
    rest, third = divmod(rest, 126)
    first, second = divmod(rest, 10)
    return bytes([0x81 + first, 0x30 + second, 0x81 + third, 0x30 + fourth])


def run(server: Server, seed: int, most: int | None) -> Report:
    """Each character set of a server, with ``most`` codes by chance or with all."""
    report = Report(f"{server.name} ({server.version})", seed)
    began = time.monotonic()
    names = server.query("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS")
    for (charset,) in sorted(names):
        if charset == "binary":
            continue
        codes = codes_of(charset, random.Random(f"{seed}/{charset}"), most)
        with Stored(server, charset, codes) as stored:
            try:
                stored.check()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is looked for
                text = str(error).encode("ascii", "backslashreplace").decode()
                report.failures.append(f"{charset}: {type(error).__name__}: {text[:500]}")
            report.values[charset] = len(stored.rows)
            report.surrogates += sum(
                text.encode("utf-8", "ignore").decode() != text for _, text in stored.rows.values()
            )
    report.seconds = time.monotonic() - began
    return report


class Stored:
    """What a server stores of codes: a table of it that is logged; gone when the block ends."""

    def __init__(self, server: Server, charset: str, codes: list[bytes]) -> None:
        self._server = server
        self.charset = charset
        first = server.rotate().name
        connection = server.connect(use_unicode=False, autocommit=True)
        with connection, connection.cursor() as cursor:
            self.rows = self._store(cursor, codes)
        last = server.rotate().name
        paths = [path for path in server.binlogs() if first < path.name <= last]
        self.series = LogSeries("characters", tuple(LogFile.at(path) for path in paths))

    def _store(self, cursor: Cursor, codes: list[bytes]) -> dict[int, Row]:
        cursor.execute("SET sql_mode = '', sql_log_bin = 0")
        cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        cursor.execute(f"CREATE DATABASE {DATABASE}")
        cursor.execute(f"USE {DATABASE}")
        kind = f"VARCHAR(20) CHARACTER SET {self.charset}"
        cursor.execute(f"CREATE TABLE given (id INT PRIMARY KEY, code VARBINARY(40), v {kind})")
        for start in range(0, len(codes), _SLICE):
            rows = ",".join(
                f"({number},0x{code.hex()},0x{code.hex()})"
                for number, code in enumerate(codes[start : start + _SLICE], start)
            )
            cursor.execute(f"INSERT INTO given VALUES {rows}")
        cursor.execute("SET sql_log_bin = 1")
        text = f"TEXT CHARACTER SET {self.charset}"
        cursor.execute(f"CREATE TABLE {DATABASE}.t (id INT PRIMARY KEY, v {kind}, w {text})")
        cursor.execute(
            "INSERT INTO t SELECT id, v, CONCAT(v, v) FROM given WHERE HEX(v) = HEX(code)"
        )
        cursor.execute("SELECT id, HEX(v), v FROM t")
        return {
            int(number): (bytes.fromhex(code.decode()), value.decode("utf-8", "surrogatepass"))
            for number, code, value in cursor.fetchall()
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.execute("SET sql_log_bin = 0")
        self._server.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        self._server.execute("SET sql_log_bin = 1")
        self._server.execute(f"PURGE BINARY LOGS TO '{self._server.binlogs()[-1].name}'")

    def check(self) -> None:
        """Hold all ways of reading against SELECT. Raises AssertionError, and what they raise."""
        documents = self._objects()
        self._arrow(documents)
        self._command()

    def _expect(self, way: str, number: int, found: Any, expected: Any) -> None:
        if found != expected:
            code = self.rows[number][0].hex()
            raise AssertionError(f"{way} {self.charset} 0x{code}: {found!a}, SELECT {expected!a}")

    def _objects(self) -> dict[int, str]:
        """The object path, and its images as JSON."""
        documents = {}
        for schema, event in rows_events(self.series):
            for row in RowSet(event, schema):
                assert row.after is not None
                number, text, twice = row.after.as_tuple()
                data, expected = self.rows[number]
                self._expect("object", number, text, expected)
                self._expect("object", number, twice, expected * 2)
                self._expect("bytes", number, row.after.raw(1), data)
                self._again(number, text, data)
                documents[number] = image_json(row.after)
        if len(documents) != len(self.rows):
            raise AssertionError(f"{len(documents)} rows, SELECT {len(self.rows)}")
        return documents

    def _again(self, number: int, text: str, data: bytes) -> None:
        """What is written of a text is read as it; in Unicode sets it is the same bytes."""
        try:
            again = encode(self.charset, text)
        except ValueRefused:
            if self.charset in _EXACT:
                raise
            return  # a character that nothing is converted to
        if self.charset in _EXACT:
            self._expect("written", number, again, data)

    def _arrow(self, documents: dict[int, str]) -> None:
        """`tailrace.changes`, and the images as JSON that Spark gets."""
        schemas = {schema.table: schema for schema, _ in rows_events(self.series)}
        for batch in changes(self.series):
            images = batch.column("after").to_pylist()
            texts = images_to_json(batch, schemas["t"], "after").to_pylist()
            for image, raw, text in zip(
                images, batch.column("_raw").to_pylist(), texts, strict=True
            ):
                beside = {name: unescaped(value) for name, value in raw or ()}
                number = image["id"]
                found = beside.get("after.v", image["v"]), beside.get("after.w", image["w"])
                expected = self.rows[number][1]
                self._expect("arrow", number, found, (expected, expected * 2))
                self._expect("arrow JSON", number, text, documents.pop(number))
        if documents:
            raise AssertionError(f"{len(documents)} rows are not in the batches")

    def _command(self) -> None:
        """``tailrace log --as json``, as readers of JSON have it: two halves are a pair."""
        for line in json_lines(self.series, None):
            image = json.loads(line)["after"]
            expected = _PAIR.sub(_joined, self.rows[image["id"]][1])
            self._expect("json", image["id"], image["v"], expected)


def _joined(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16-be", "surrogatepass").decode("utf-16-be")


def rows_events(series: LogSeries) -> Iterator[tuple[TableSchema, RowsEvent]]:
    """The rows events of a log with their tables."""
    known = Catalogue()
    log = Log(series)
    for event in log:
        if isinstance(event, QueryEvent):
            known.apply_event(event, log.format.flavour)
        elif isinstance(event, RowsEvent) and not event.is_dummy:
            yield known.resolve(event.table_map, log.format.flavour), event
