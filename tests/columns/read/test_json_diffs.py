"""Partial JSON updates in `changes`: documents that the row kernel makes of the one before and diffs.

What is expected is the server's: the document in the next update's before image, and SELECT's.
"""

import ctypes
import json
import mmap
import random
import time
from collections import Counter
from functools import cache
from itertools import product
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest

from tailrace.columns import changes
from tailrace.columns.frames import plan as k
from tailrace.columns.native import kernel
from tailrace.columns.read import table
from tailrace.constants import ChecksumAlgorithm, EventType
from tailrace.errors import EventDecodeError
from tailrace.log import Log
from tailrace.storage import find
from tailrace.values.json_diff import Operation, changed_json
from tests.cases import each_case
from tests.columns.jsonb_made import jsonb, opaque
from tests.columns.oracle import assert_equal_paths
from tests.recorded import CORPUS
from tests.values.replay import since
from tools.campaign.verdicts import by_columns, by_objects

KEYS = [
    *("a", "b", "c", "dd", "zz", "$", "_x1", "1a", "", "a b"),
    *("é", "かな", "日本", "\u3000", "\u2003x"),
    *('quote"', "back\\slash", "line\n", "\x01", "k" * 300, "[0]", "a.b", "*", "last"),
]
SCALARS = [
    *("0", "-1", "32767", "32768", "65536", "-2147483649", "18446744073709551615", "1e300", "0.5"),
    *("true", "false", "null", '""', '"é😀"', '"quote \\" \\\\ \\n"', json.dumps("x" * 200)),
]
TYPED = ["CAST('2024-02-29' AS DATE)", "CAST('-12:34:56.5' AS TIME(1))", "1.50", "x'00ff'"]


def sql(text):
    """A literal, where backslashes are plain characters."""
    return "'" + text.replace("'", "''") + "'"


def document(rng, depth=0):
    """A random document."""
    shape = rng.random() + depth / 8
    count = rng.choice((0, 1, 2, 3, 7))
    if shape < 0.6:
        keys = rng.sample(KEYS, count)
        members = [f"{json.dumps(key)}: {document(rng, depth + 1)}" for key in keys]
        return "{" + ", ".join(members) + "}"
    if shape < 0.9:
        return "[" + ", ".join(document(rng, depth + 1) for _ in range(count)) + "]"
    return rng.choice(SCALARS)


def path(rng, inside):
    """A path to something in a document, or to where something can be put."""
    legs = ["$"]
    while isinstance(inside, (dict, list)) and (len(legs) == 1 or rng.random() < 0.6):
        if isinstance(inside, dict):
            key = rng.choice([*inside] * 3 + KEYS[:8] + [rng.choice(KEYS)])
            legs.append("." + json.dumps(key, ensure_ascii=False))
            inside = inside.get(key)
        else:
            index = rng.randrange(len(inside) + 1)
            legs.append(f"[{index}]" if rng.random() < 0.9 or not inside else "[last]")
            inside = inside[index] if index < len(inside) else None
    return "".join(legs)


def expression(rng, column, now):
    """The call of a function whose result is logged as diffs."""
    inside = json.loads(now)
    parts = []
    name = rng.choice(("JSON_SET", "JSON_SET", "JSON_REPLACE", "JSON_REMOVE"))
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = path(rng, inside)
        if name == "JSON_REMOVE":
            if place != "$":
                parts.append(sql(place))
            continue
        value = f"CAST({sql(document(rng, 2))} AS JSON)"
        parts += [sql(place), rng.choice(TYPED) if rng.random() < 0.15 else value]
    return f"{name}({', '.join([column, *parts])})" if parts else column


def recorded(server, seed, rows, updates):
    """A log of random partial updates, and at its end the rows as SELECT gives them."""
    rng = random.Random(seed)
    filler = json.dumps("y" * 700)
    with server.connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS diffs")
        cursor.execute("CREATE DATABASE diffs")
        cursor.execute("SET sql_mode = 'NO_BACKSLASH_ESCAPES'")
        first = server.rotate().name
        cursor.execute(
            "CREATE TABLE diffs.t (id INT PRIMARY KEY, j JSON, n INT, k JSON, s VARCHAR(20))"
        )
        for number in range(rows):
            inner = f'{{"filler": {filler}, "o": {document(rng)}, "a": {document(rng)}}}'
            if number == 0:  # a large container at the root, small and large ones in it
                many = ", ".join(f'"key{each}": {each}' for each in range(6000))
                inner = f'{{"filler": {filler}, "o": {{{many}}}, "a": [{many.count(",")}, "z"]}}'
            elif number == 1:  # an update may make a large container of a small one
                inner = f'{{"filler": "{"w" * 65000}", "o": [1, 2], "a": {{}}}}'
            other = "NULL" if number % 4 == 2 else sql(f"[{document(rng)}, {filler}]")
            cursor.execute(f"INSERT INTO diffs.t VALUES ({number}, {sql(inner)}, 1, {other}, 's')")
        cursor.execute("SET binlog_row_value_options = 'PARTIAL_JSON'")
        for _ in range(updates):
            number = rng.randrange(rows)
            cursor.execute("SELECT j, k FROM diffs.t WHERE id = %s", [number])
            j, k = cursor.fetchone()
            parts = [f"j = {expression(rng, 'j', j)}"]
            if k is not None and rng.random() < 0.5:
                parts.append(f"k = {expression(rng, 'k', k)}")
            if rng.random() < 0.3:
                parts.append("n = n + 1")
            cursor.execute(f"UPDATE diffs.t SET {', '.join(parts)} WHERE id = {number}")
        cursor.execute("SELECT id, j, k FROM diffs.t")
        last = {row[0]: row[1:] for row in cursor.fetchall()}
    return since(server, first), last


def documents(batches):
    """The rows after all changes; and how many updates were read.

    Each before image must be what was read of the row before it.
    """
    rows, updates = {}, 0
    found = [row for batch in batches for row in batch.to_pylist()]
    for row in sorted(found, key=lambda each: each["_seq"]):
        before, after = row["before"], row["after"]
        if row["_op"] == "update":
            assert rows[before["id"]] == (before["j"], before["k"]), row["_pos"]
            updates += 1
        rows[after["id"]] = after["j"], after["k"]
    return rows, updates


def test_random_updates(mysql97):
    """Nested documents, arrays, keys of all kinds, NULL, several columns, more than 64 KiB."""
    series, last = recorded(mysql97, seed=1, rows=12, updates=400)
    by_hand = []

    def counted(before, diffs):
        by_hand.append(diffs)
        return changed_json(before, diffs)

    with patch.object(table, "changed_json", counted):
        rows, updates = documents(changes(series))
    assert rows == last
    with_diffs = sum(event.type == EventType.PARTIAL_UPDATE_ROWS for event in Log(series))
    assert with_diffs > 200
    assert updates > 300
    # Keys with escapes, small containers that grow, and what an earlier diff of the row put there.
    assert 0 < len(by_hand) < with_diffs / 3
    assert_equal_paths(series)


def error_of_both(series):
    """The error of both paths; where there is none their rows are the same."""
    found, expected = by_columns(series, verify=True), by_objects(series, verify=True)
    assert (found.error, found.offset, found.rows) == (
        expected.error,
        expected.offset,
        expected.rows,
    )
    return found.error


# --- updates made by hand ------------------------------------------------------------------------


@cache
def recorded_events():
    (series,) = find(CORPUS / "mysql-9.7.json-partial-full")
    return list(Log(series))


def written(folder, document, diffs):
    """The recorded log up to its first partial update, which is of this document and these diffs."""
    events = [*recorded_events()]
    (at, *_) = [at for at, each in enumerate(events) if each.type == EventType.PARTIAL_UPDATE_ROWS]
    images = [
        b"\x1a\x01\0\0\0" + len(each).to_bytes(4, "little") + each for each in (document, diffs)
    ]
    events[at] = events[at].replace(row_data=b"\x01\x01".join(images))
    parts = [b"\xfebin", *(each.encode(ChecksumAlgorithm.CRC32) for each in events[: at + 2])]
    (folder / "binlog.000001").write_bytes(b"".join(parts))
    (series,) = find(folder)
    return series


def diff(operation, path, value=b""):
    """One diff; ``value`` is JSONB."""
    parts = [path.encode()] + ([value] if operation is not Operation.REMOVE else [])
    sizes = [
        bytes([len(part)]) if len(part) < 251 else b"\xfe" + len(part).to_bytes(8, "little")
        for part in parts
    ]
    return bytes([operation]) + b"".join(
        size + part for size, part in zip(sizes, parts, strict=True)
    )


DAMAGED = [
    *(b"\x04\x03", b"\x0b" + b"\xff" * 8, b"\x0c\x02\xc3\x28", b"\x0f\xf6\x01\x01"),
    b"\x0f\x0c\x01\x01",
    *(b"\x00\x01\x00\x0c\x00\x0b\x00\x01\x00\x04\x03\x00a", b"\x02\x01\x00\x07\x00\x0c\x08\x00"),
    *(b"\x02\x01\x00\x08\x00\x04\x03\x00\x00", b"\x02\x01\x00\x0a\x00\x0c\x07\x00\x02\xc3\x28"),
]
"""Values that no server writes, but in a size that fits."""


PLACES = ["$.a", "$.o.x", "$.o.new", "$.l[1]", "$.l[9]", "$"]


@each_case(
    ("place", "value"),
    [
        *product(PLACES[:3:2], DAMAGED),
        *product(PLACES, DAMAGED[::8]),
    ],
)
@pytest.mark.slow
def test_a_damaged_value_that_is_dropped_again(value, place, tmp_path):
    """It is an error as well if a later diff of the row replaces or removes it, or what holds it."""
    operation = Operation.INSERT if "n" in place or "9" in place else Operation.REPLACE
    document = jsonb({"a": "some text", "l": [1, "two"], "o": {"x": "y", "z": [1]}})
    first, holder = diff(operation, place, value), place.split(".", 2)[:2]
    whole = diff(Operation.REPLACE, "$", jsonb({}))
    for later in (
        diff(Operation.REPLACE, place.replace("9", "2"), jsonb("sound")),
        diff(Operation.REMOVE, place.replace("9", "2")),
        diff(Operation.REMOVE, ".".join(holder).replace("[1]", "").replace("[9]", "")),
        diff(Operation.REPLACE, "$.a", jsonb("other")) + whole,
        whole,
    ):
        assert error_of_both(written(tmp_path, document, first + later)) == "EventDecodeError"


def test_a_document_larger_than_a_batch(tmp_path):
    """The row gets a batch of its own, with room for the document that the diffs make."""
    document = jsonb({"a": "x" * (26 << 20), "b": 1})
    diffs = diff(Operation.REPLACE, "$.b", jsonb("y" * 1000))
    assert error_of_both(written(tmp_path, document, diffs)) is None


def test_diffs_of_more_than_a_batch_can_have(tmp_path, monkeypatch):
    """No batch has room for what may become of 1 GiB of diffs: Python takes them, here an error.

    Their bytes are memory that is never touched.
    """
    claimed, diffs = 1 << 30, b"\x09"
    series = written(tmp_path, jsonb({"a": 1}), diffs)
    memory = mmap.mmap(-1, claimed + (1 << 16))
    start = np.frombuffer(memory, np.uint8).ctypes.data
    calls = []

    def claiming(name):
        decode = kernel(name)

        def decode_rows(address):
            calls.append(address)
            assert len(calls) < 20, "the same row is decoded again and again"
            frame = np.frombuffer((ctypes.c_int64 * k.DECODE_WORDS).from_address(address), np.int64)
            second = int(frame[k.D_ENTRIES]) + 8 * k.ENTRY_WORDS  # the first is the INSERT
            entry = np.frombuffer((ctypes.c_int64 * k.ENTRY_WORDS).from_address(second), np.int64)
            if entry[k.E_ROWS] != start:
                head = string_at(int(entry[k.E_ROWS]), int(entry[k.E_END] - entry[k.E_ROWS]))
                head = head[: -4 - len(diffs)] + claimed.to_bytes(4, "little") + diffs
                memory[: len(head)] = head
                entry[k.E_ROWS], entry[k.E_END] = start, start + len(head) - len(diffs) + claimed
            return decode(address)

        return decode_rows

    def some_bytes(address, size):
        sizes.append(size)
        return string_at(address, min(size, 100))

    sizes, string_at = [], ctypes.string_at
    monkeypatch.setattr(table, "reading", claiming)
    monkeypatch.setattr(table, "ctypes", SimpleNamespace(string_at=some_bytes))
    with pytest.raises(EventDecodeError, match="operation 9 does not exist"):
        list(changes(series, statements="skip"))
    assert claimed in sizes


@pytest.mark.slow
def test_random_diffs_of_damaged_values(tmp_path):
    """What several diffs make of each other's values is the same on both paths."""
    rng = random.Random(7)
    places = [".a", ".l", ".o", ".o.x", ".o.é", ".l[0]", ".l[1]", ".o.l", ".o.l[0]", ".zz"]
    places.append('."\\n"')
    values = ["", "é" * 20, 7, 70000, None, 0.5, [], {}, [1, "x"], {"x": "y"}, {"l": ["x", []]}]
    seen = Counter()
    for _ in range(300):
        document = {
            "a": rng.choice(values),
            "l": rng.choices(values, k=3),
            "o": {"x": 1, "l": [[]]},
        }
        diffs = []
        for _ in range(rng.choice((2, 3, 5))):
            value = bytearray(jsonb(rng.choice(values)))
            if rng.random() < 0.15:
                value[rng.randrange(len(value))] = rng.randrange(256)
            elif rng.random() < 0.05:
                value = rng.choice(DAMAGED)
            elif rng.random() < 0.1:
                value = opaque(246, b"\x02\x00\x81") if rng.random() < 0.5 else opaque(252, b"\0")
            path = ("$" + rng.choice(places)) if rng.random() < 0.98 else "$"
            diffs.append(diff(rng.choice(list(Operation)), path, bytes(value)))
        error = error_of_both(written(tmp_path, jsonb(document), b"".join(diffs)))
        seen[error is None] += 1
    assert min(seen[True], seen[False]) > 15


def many_replaced(count):
    """Values in an object that stands before many others."""
    document = {"a": {"x": 1}, **{f"key{number:06}": "value" for number in range(count)}}
    return jsonb(document), diff(Operation.REPLACE, "$.a.x", jsonb("a text")) * count


def many_inserted(count):
    keys = [f"$.key{number:06}" for number in range(2 * count)]
    document = jsonb({key[2:]: 1 for key in keys[::2]})
    return document, b"".join(diff(Operation.INSERT, key, jsonb(1)) for key in keys[1::2])


def many_removed(count):
    keys = [f"$.key{number:06}" for number in range(2 * count)]
    document = jsonb({key[2:]: 1 for key in keys})
    return document, b"".join(diff(Operation.REMOVE, key) for key in keys[1::2])


def many_appended(count):
    values = [
        diff(Operation.INSERT, f"$[{number}]", jsonb(1)) for number in range(count, 2 * count)
    ]
    return jsonb([1] * count), b"".join(values)


@pytest.mark.slow
@each_case("made", [many_replaced, many_inserted, many_removed, many_appended])
def test_many_diffs_of_a_large_document(made, tmp_path):
    """Eight times as many diffs of a document eight times as large take some eight times as long,
    not 64 times; the bound leaves room for caches and a busy machine.
    """
    series = []
    for count in (500, 2_500, 20_000):
        (tmp_path / str(count)).mkdir()
        series.append(written(tmp_path / str(count), *made(count)))
    assert error_of_both(series[0]) is None

    def seconds(each):
        start = time.process_time()
        rows = sum(batch.num_rows for batch in changes(each, statements="skip"))
        assert rows > 1
        return time.process_time() - start

    times = [[seconds(each) for each in series[1:]] for _ in range(3)]
    small, large = (min(column) for column in zip(*times, strict=True))
    assert large < 24 * small
