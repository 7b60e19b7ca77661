"""The law of the row codecs: what a server wrote, loaded and dumped again, is the same bytes."""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING, Any

import pymysql
import pytest

from tailrace.constants import ColumnType, Flavour
from tailrace.values.jsonb import TEXT, read_jsonb
from tailrace.values.registry import dumper_of, loader_of
from tests.recorded import has
from tests.values.replay import Case, cases, changes
from tests.values.test_server_values import FAMILIES
from tools.campaign.columns import Types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.values.family import Dumper, Loader
    from tailrace.values.image import Image
    from tailrace.values.schema import Column, TableSchema
    from tools.servers import Server


class _HasOpaque:
    """Finds out whether a document has a value that its text does not tell."""

    def leaf(self, text: str) -> bool:
        return False

    def opaque(self, field: int, data: bytes) -> bool:
        return True

    def array(self, values: list[bool]) -> bool:
        return any(values)

    def object(self, members: list[tuple[str, bool]]) -> bool:
        return any(value for _, value in members)


def excepted(column: Column, raw: bytes, value: Any, dumped: bytes) -> bool:
    """Is it one of the values that the object does not tell whole (`tailrace.values.registry`)?"""
    if column.type is ColumnType.ENUM:  # the error value, of an ENUM that has an empty name
        return value == "" and not any(raw) and "" in column.members
    if column.type is ColumnType.SET:  # an empty name that comes first is not seen in the text
        return "" in column.members and loader_of(column)(dumped) == value
    if column.type is ColumnType.JSON:
        if read_jsonb(raw, _HasOpaque()):
            return True
        # Holes of an update in place, integers out of SQL: the document is the same.
        return read_jsonb(dumped, TEXT) == read_jsonb(raw, TEXT)
    # Codes that stand for nothing, or for the same character as another code: the same text.
    return column.charset not in {"utf8mb4", "latin1"} and loader_of(column)(dumped) == value


def values(image: Image | None) -> Iterator[tuple[Column, bytes]]:
    for column, raw in zip(image.schema.columns, image.stored(), strict=True) if image else ():
        if isinstance(raw, bytes):
            yield column, raw


_codecs: dict[Column, tuple[Loader, Dumper]] = {}


def check(schema: TableSchema, column: Column, raw: bytes) -> bool:
    """The law; says whether it was an exception."""
    if column not in _codecs:
        _codecs[column] = loader_of(column), dumper_of(column)
    load, dump = _codecs[column]
    value = load(raw)
    dumped = dump(value)
    if dumped == raw:
        return False
    assert excepted(column, raw, value, dumped), (
        f"{schema.table}.{column.name}: {value!r}, logged as {raw.hex()}, dumped as {dumped.hex()}"
    )
    return True


EXCEPTIONS = {
    "json-full": 18,
    "json-min": 18,
    "enums-sets-full": 1,
    "enums-sets-min": 1,
    "byte-maps": 60,
    "json-partial-full": 50,
    "json-partial-noblob": 50,
}
"""How many values of a case are no law: no more may become so unnoticed."""


WHOLE = [case for case in cases() if not has(case.folder, "unknown-documents")]


@pytest.mark.parametrize("case", WHOLE, ids=lambda case: case.folder.name)
def test_every_value_of_the_corpus(case: Case) -> None:
    count = exceptions = 0
    for schema, row in changes(case):
        for image in (row.before, row.after):
            for column, raw in values(image):
                count += 1
                exceptions += check(schema, column, raw)
    allowed = (most for known, most in EXCEPTIONS.items() if case.folder.name.endswith(known))
    assert exceptions <= next(allowed, 0)
    assert count or not case.expected["insert_only"] or not case.expected["rows_complete"]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_edge_values_as_servers_write_them(server: Server, family) -> None:
    """The same on edge values of every type, written by three servers."""
    flavour = Flavour(server.flavour)
    database = f"dumped_{family.__name__}"
    server.rotate()
    server.execute("SET GLOBAL binlog_row_metadata = FULL")
    declared = list(family(flavour))
    columns = ", ".join(f"c{number} {kind}" for number, (kind, _) in enumerate(declared))
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'")
        cursor.execute(f"DROP DATABASE IF EXISTS {database}")
        cursor.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
        cursor.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, {columns})")
        for index in range(max(len(values) for _, values in declared)):
            row = [(*values, *["null"] * (index + 1))[index] for _, values in declared]
            cursor.execute(f"INSERT INTO {database}.t VALUES ({index}, {', '.join(row)})")
    count = 0
    for schema, row in changes(Case(server.rotate(), {"server": server.version})):
        if schema.database == database:
            for column, raw in values(row.after):
                assert not check(schema, column, raw), declared[column.index - 1]
                count += 1
    assert count > len(declared)


def random_table(server: Server, types: Types, chance: random.Random, name: str) -> int:
    """A table of random columns and rows; how many rows the server took."""
    kinds = [types.kind(chance) for _ in range(6)]
    columns = ", ".join(f"c{number} {kind.declared} NULL" for number, kind in enumerate(kinds))
    taken = 0
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES'")
        cursor.execute(f"CREATE TABLE dumped_random.{name} (id INT PRIMARY KEY, {columns})")
        for number in range(12):
            values = ", ".join(kind.literal(chance) for kind in kinds)
            with contextlib.suppress(pymysql.MySQLError):  # not all fits everywhere
                cursor.execute(f"INSERT INTO dumped_random.{name} VALUES ({number}, {values})")
                taken += 1
    return taken


def test_random_values_as_servers_write_them(server: Server) -> None:
    """Random types and values: what the server logs, loaded and dumped, is what it logged."""
    chance = random.Random(server.name)
    server.execute("DROP DATABASE IF EXISTS dumped_random")
    server.execute("CREATE DATABASE dumped_random CHARACTER SET utf8mb4")
    server.execute("SET GLOBAL binlog_row_metadata = FULL")
    server.rotate()
    types = Types(server)
    taken = sum(random_table(server, types, chance, f"t{number}") for number in range(60))
    count = exceptions = 0
    for schema, row in changes(Case(server.rotate(), {"server": server.version})):
        if schema.database == "dumped_random":
            for column, raw in values(row.after):
                exceptions += check(schema, column, raw)
                count += 1
    assert taken > 500
    assert count > 3 * taken
    assert exceptions < count / 20
