"""MariaDB's old TIME, DATETIME and TIMESTAMP, with every number of digits, as SELECT gives them."""

from __future__ import annotations

import json
import random
import shutil

import pyarrow as pa
import pytest

import tailrace
from tailrace.columns.arrays import table_of
from tailrace.columns.text.row_json import images_to_json
from tailrace.constants import Flavour
from tailrace.errors import EventDecodeError
from tailrace.events import RowsEvent
from tailrace.storage import find
from tailrace.values.resolve import resolve_table
from tailrace.values.row import RowSet
from tests.columns.oracle import assert_equal_paths

COLUMNS = [f"{kind}{digits}" for digits in range(7) for kind in "tds"]
TYPES = {"t": "TIME", "d": "DATETIME", "s": "TIMESTAMP"}
NUMBERS = {
    "t": "CAST(TIME_TO_SEC({0}) * 1000000 AS SIGNED)",
    "d": "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {0})",
    "s": "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {0})",
}
"""Microseconds, as the server reckons them."""
EDGES = {
    "t": ["00:00:00", "-00:00:00.9", "838:59:59.999999", "-838:59:59.999999", "-00:00:01", None],
    "d": [
        "0000-00-00 00:00:00",
        "9999-12-31 23:59:59.999999",
        "0001-01-01 00:00:00.000001",
        "2024-00-15 12:13:14.567891",
        "2024-02-00 00:00:00.1",
        None,
    ],
    "s": [
        "0000-00-00 00:00:00",
        "2038-01-19 03:14:07.999999",
        "1970-01-01 00:00:01",
        "2001-09-09 01:46:40.5",
        "2026-11-22 22:00:00.000009",
        None,
    ],
}


def drawn(rng):
    clock = f"{rng.randrange(60):02}:{rng.randrange(60):02}.{rng.randrange(1_000_000):06}"
    date = f"{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02} {rng.randrange(24):02}"
    return {
        "t": f"{rng.choice(['', '-'])}{rng.randrange(839)}:{clock}",
        "d": f"{rng.randrange(1, 10_000):04}-{date}:{clock}",
        "s": f"{rng.randrange(1971, 2038)}-{date}:{clock}",
    }


@pytest.fixture(scope="module")
def server(fresh_server):
    return fresh_server("mariadb-11.8", {"mysql56_temporal_format": "OFF"})


@pytest.fixture(scope="module")
def recorded(server, tmp_path_factory):
    """The log, and what SELECT gives: texts, and microseconds."""
    folder = tmp_path_factory.mktemp("old")
    rng = random.Random(9)
    made = [{kind: values[n] for kind, values in EDGES.items()} for n in range(6)]
    made += [drawn(rng) for _ in range(300)]
    path = server.rotate()
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
        cursor.execute("CREATE DATABASE old")
        declared = ", ".join(
            f"{kind}{digits} {TYPES[kind]}({digits}) NULL" for digits in range(7) for kind in "tds"
        )
        cursor.execute(f"CREATE TABLE old.t (id INT PRIMARY KEY, {declared})")
        holes = ", ".join(["%s"] * (1 + len(COLUMNS)))
        cursor.executemany(
            f"INSERT INTO old.t VALUES ({holes})",
            [[n, *(row[name[0]] for name in COLUMNS)] for n, row in enumerate(made)],
        )
        connection.commit()
        texts = ", ".join(f"CAST({name} AS CHAR)" for name in COLUMNS)
        cursor.execute(f"SELECT id, {texts} FROM old.t ORDER BY id")
        texts = cursor.fetchall()
        numbers = ", ".join(NUMBERS[name[0]].format(name) for name in COLUMNS)
        cursor.execute(f"SELECT id, {numbers} FROM old.t ORDER BY id")
        numbers = cursor.fetchall()
        cursor.execute("UPDATE old.t SET id = id + 1000 ORDER BY id DESC")
        connection.commit()
    path = server.rotate()
    shutil.copy(path, folder / path.name)
    return folder, texts, numbers


def test_values_are_those_of_select(recorded):
    folder, texts, numbers = recorded
    found, rows = [], []
    for batch in tailrace.changes(folder):
        for image in ("before", "after"):
            found += images_to_json(batch, table_of(batch.schema), image).to_pylist()
            column = batch.column(image)
            wide = [column.field(name).cast(pa.int64()).to_pylist() for name in COLUMNS]
            keys = column.field("id").to_pylist()
            rows += [each for each in zip(keys, *wide, strict=True) if each[0] is not None]
    found = [tuple(json.loads(each).values()) for each in found if each is not None]
    moved = [(row[0] + 1000, *row[1:]) for row in texts]
    assert sorted(found, key=repr) == sorted([*texts, *texts, *moved], key=repr)
    odd = {
        (row, at) for row, each in enumerate(texts) for at, text in enumerate(each) if _odd(text)
    }
    assert odd
    expected = [
        tuple(None if (row, at) in odd else value for at, value in enumerate(each))
        for row, each in enumerate(numbers)
    ]
    moved = [(row[0] + 1000, *row[1:]) for row in expected]
    assert sorted(rows, key=repr) == sorted([*expected, *expected, *moved], key=repr)


def _odd(text):
    """Dates that no calendar has are in ``_raw`` only."""
    return isinstance(text, str) and " " in text and ("0000-00-00" in text or "-00" in text[:10])


def test_both_paths_agree(recorded):
    (series,) = find(recorded[0])
    assert assert_equal_paths(series) == 612


def test_digits_that_nothing_tells_are_not_guessed(server):
    """These three rows were read as five, with no digits assumed: the bytes fit by chance."""
    server.execute("CREATE DATABASE guessed")
    server.execute("CREATE TABLE guessed.t (v TIME(3) NULL, x TINYINT)")
    first = server.rotate()
    server.execute("INSERT INTO guessed.t VALUES ('-00:00:01',0), ('00:00:00',NULL), (NULL,NULL)")
    server.rotate()
    path = first.with_name(f"{first.stem}.{int(first.suffix[1:]) + 1:06}")
    with pytest.raises(EventDecodeError, match=r"guessed\.t: .* digits .* \(--schema"):
        list(tailrace.changes(path))
    rows = next(event for event in tailrace.open(path) if isinstance(event, RowsEvent))
    schema = resolve_table(rows.table_map, Flavour.MARIADB)
    with pytest.raises(EventDecodeError, match=r"guessed\.t: .* digits .* \(--schema"):
        list(RowSet(rows, schema))
