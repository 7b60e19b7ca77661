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
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tailrace.columns import changes
from tailrace.columns.text.row_json import images_to_json
from tailrace.errors import ValueRejected
from tailrace.values.change_record import image_json
from tailrace.values.charsets import encode
from tailrace.values.row import RowSet
from tailrace.values.surrogates import has_surrogates, unescaped
from tools.campaign.recording import recording, rows_events
from tools.campaign.report import Report
from tools.campaign.witnesses import json_lines

if TYPE_CHECKING:
    from pymysql.cursors import Cursor

    from tailrace.storage import LogSeries
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
_TRIPLE: Final = frozenset({"ujis", "eucjpms"})
_EVERY: Final = 3 * 65536
"""Codes of two bytes, and of three."""
_OF_THE_REST: Final = 20_000

Row = tuple[bytes, str]
"""A value's bytes, and its text."""


@dataclass
class CharactersReport(Report):
    """What came of one server."""

    columns: ClassVar = "Server | Seed | Character sets | Values stored | With surrogates | Seconds"
    server: str
    seed: int
    values: dict[str, int] = field(default_factory=dict)
    surrogates: int = 0
    seconds: float = 0.0

    def cells(self) -> list[object]:
        counts = [len(self.values), sum(self.values.values()), self.surrogates]
        return [self.server, self.seed, *counts, f"{self.seconds:.0f}"]


def codes_of(charset: str, rng: random.Random, most: int | None) -> list[bytes]:
    """Codes of one character, some of two, some of none.

    ``most`` of them by chance; or (None) all of the basic plane, all of two bytes and all of three,
    and of the rest (characters past U+FFFF, gb18030's codes of four bytes) some.
    """
    found = {bytes.fromhex(code) for code in _ALWAYS}
    found |= {bytes([byte]) for byte in range(256)}
    first, numbers = _EVERY if charset in _TRIPLE else 65536, range(_count(charset))
    chosen = rng.sample(numbers, most or min(len(numbers), _OF_THE_REST))
    every = range(0 if most is not None else first)
    found |= {_code(charset, number) for number in (*chosen, *every)}
    some = sorted(found)
    found |= {rng.choice(some) + rng.choice(some) for _ in range(200)}
    return sorted(found)


def _count(charset: str) -> int:
    if charset in _UNICODE:
        return 0x110000
    if charset in _TRIPLE:
        return _EVERY
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


def run(server: Server, seed: int, most: int | None) -> CharactersReport:
    """Each character set of a server, with ``most`` codes by chance or with all."""
    report = CharactersReport(f"{server.name} ({server.version})", seed)
    began = time.monotonic()
    names = server.query("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS")
    charsets = sorted(charset for (charset,) in names if charset != "binary")
    for group in [charsets] if most is not None else [[charset] for charset in charsets]:
        with recording(server, DATABASE) as (cursor, series):
            stored = Stored(cursor, group)
            for charset in group:
                stored.add(charset, codes_of(charset, random.Random(seed), most))
            with report.noting("check"):
                stored.check(series())
        for charset, rows in stored.rows.items():
            report.values[charset] = len(rows)
            report.surrogates += sum(has_surrogates(text) for _, text in rows.values())
    report.seconds = time.monotonic() - began
    return report


class Stored:
    """What a server stores of codes: ``rows`` by character set and number.

    One table has two columns of each set (making a table takes a server longer than all else), of
    which a row has those of one set.
    """

    def __init__(self, cursor: Cursor, charsets: list[str]) -> None:
        self.rows: dict[str, dict[int, Row]] = {}
        self._cursor = cursor
        short = ", ".join(f"v_{name} VARCHAR(20) CHARACTER SET {name}" for name in charsets)
        long = ", ".join(f"w_{name} TEXT CHARACTER SET {name}" for name in charsets)
        cursor.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {short}, {long})")
        cursor.execute("SET sql_mode = '', sql_log_bin = 0")
        cursor.execute(f"CREATE TABLE given (id INT PRIMARY KEY, code VARBINARY(40), {short})")

    def add(self, charset: str, codes: list[bytes]) -> None:
        """Give codes to the server; those that it stores go into the table that is logged."""
        cursor, short, long = self._cursor, f"v_{charset}", f"w_{charset}"
        base = len(self.rows) << 24
        cursor.execute("SET sql_log_bin = 0")
        for start in range(0, len(codes), _SLICE):
            rows = ",".join(
                f"({number},0x{code.hex()},0x{code.hex()})"
                for number, code in enumerate(codes[start : start + _SLICE], base + start)
            )
            cursor.execute(f"INSERT INTO given (id, code, {short}) VALUES {rows}")
        cursor.execute("SET sql_log_bin = 1")
        cursor.execute(
            f"INSERT INTO t (id, {short}, {long}) SELECT id, {short}, CONCAT({short}, {short}) "
            f"FROM given WHERE id >= {base} AND HEX({short}) = HEX(code)"
        )
        cursor.execute(f"SELECT id, HEX({short}), {short} FROM t WHERE id >= {base}")
        self.rows[charset] = {
            int(number): (bytes.fromhex(code.decode()), value.decode("utf-8", "surrogatepass"))
            for number, code, value in cursor.fetchall()
        }

    def check(self, series: LogSeries) -> None:
        """Hold all ways of reading against SELECT. Raises AssertionError, and what they raise."""
        self._expected = {
            number: (charset, *row)
            for charset, rows in self.rows.items()
            for number, row in rows.items()
        }
        documents = self._objects(series)
        self._arrow(series, documents)
        self._command(series)

    def _expect(self, way: str, number: int, found: Any, expected: Any) -> None:
        if found != expected:
            charset, code, _ = self._expected[number]
            raise AssertionError(f"{way} {charset} 0x{code.hex()}: {found!a}, SELECT {expected!a}")

    def _objects(self, series: LogSeries) -> dict[int, str]:
        """The object path; gives its images as JSON."""
        documents = {}
        for schema, event in rows_events(series):
            places = {column.name: column.index for column in schema.columns}
            for row in RowSet(event, schema):
                image = row.after
                assert image is not None
                number = image.at(0)
                charset, data, expected = self._expected[number]
                place = places[f"v_{charset}"]
                values = {
                    name: value
                    for name, value in zip(places, image.as_tuple(), strict=True)
                    if value is not None
                }
                self._expect("object", number, values, _values(number, charset, expected))
                self._expect("bytes", number, image.raw(place), data)
                self._again(charset, number, image.at(place), data)
                documents[number] = image_json(image)
        if len(documents) != len(self._expected):
            raise AssertionError(f"{len(documents)} rows, SELECT {len(self._expected)}")
        return documents

    def _again(self, charset: str, number: int, text: str, data: bytes) -> None:
        """What is written of a text; in Unicode sets it is the same bytes."""
        try:
            again = encode(charset, text)
        except ValueRejected:
            if charset in _EXACT:
                raise
            return  # a character that nothing is converted to
        if charset in _EXACT:
            self._expect("written", number, again, data)

    def _arrow(self, series: LogSeries, documents: dict[int, str]) -> None:
        """`tailrace.changes`, and the images as JSON that Spark gets."""
        schema = next(schema for schema, _ in rows_events(series))
        for batch in changes(series):
            images = batch.column("after").to_pylist()
            texts = images_to_json(batch, schema, "after").to_pylist()
            for image, raw, text in zip(
                images, batch.column("_raw").to_pylist(), texts, strict=True
            ):
                number = image["id"]
                charset, _, expected = self._expected[number]
                found = {name: value for name, value in image.items() if value is not None}
                for name, value in raw or ():
                    found[name.removeprefix("after.")] = unescaped(value)
                self._expect("arrow", number, found, _values(number, charset, expected))
                self._expect("arrow JSON", number, text, documents.pop(number))
        if documents:
            raise AssertionError(f"{len(documents)} rows are not in the batches")

    def _command(self, series: LogSeries) -> None:
        """``tailrace log --as json``, as readers of JSON have it: two halves are a pair."""
        for line in json_lines(series, None):
            image = json.loads(line)["after"]
            charset, _, expected = self._expected[image["id"]]
            found = image[f"v_{charset}"]
            self._expect("json", image["id"], found, _PAIR.sub(_joined, expected))


def _values(number: int, charset: str, text: str) -> dict[str, Any]:
    return {"id": number, f"v_{charset}": text, f"w_{charset}": text * 2}


def _joined(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16-be", "surrogatepass").decode("utf-16-be")
