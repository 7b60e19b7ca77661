"""What the campaigns found, kept from coming back."""

from unittest.mock import patch

import pytest

from tailrace.columns import plan_splits, read_split
from tailrace.columns.read import walk
from tailrace.errors import LogError
from tailrace.schema.user_schema import parse
from tailrace.storage import find
from tailrace.values.row import RowSet
from tests.cases import each_case
from tests.columns.oracle import assert_equal_paths
from tests.columns.random_log import payload
from tests.events.made import raw_event
from tests.recorded import CORPUS
from tests.values.replay import since
from tools.campaign.mutate import Parsed
from tools.campaign.recording import rows_events
from tools.campaign.witnesses import arrow_changes, json_changes, json_lines, typed_changes


def ids(changes):
    """The keys of the rows that are left, by operation."""
    left = set()
    for _, operation, before, after in changes:
        if operation != "insert":
            left.discard(before["id"])
        if operation != "delete":
            left.add(after["id"])
    return left


@each_case("compressed", ["ON", "OFF"])
@each_case("end", ["COMMIT", "ROLLBACK"])
@each_case("partial", [True, False], ids=["partial", "whole"])
def test_xa_transactions_taken_back(mysql97, compressed, end, partial):
    """Inside a payload, or with partial JSON updates."""
    with mysql97.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS found")
        cursor.execute("USE found")
        cursor.execute("DROP TABLE IF EXISTS t")
        first = mysql97.rotate().name
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, j JSON, v VARCHAR(200))")
        cursor.execute(f"SET binlog_transaction_compression = {compressed}")
        if partial:
            cursor.execute("SET binlog_row_value_options = 'PARTIAL_JSON'")
        document = "JSON_OBJECT('a', 1, 'filler', REPEAT('x', 100))"
        cursor.execute(f"INSERT INTO t VALUES (1, {document}, REPEAT('v', 150))")
        cursor.execute("XA START 'x'")
        cursor.execute(f"INSERT INTO t VALUES (2, {document}, REPEAT('v', 150))")
        cursor.execute("UPDATE t SET j = JSON_SET(j, '$.a', 2)")
        cursor.execute("DELETE FROM t WHERE id = 1")
        cursor.execute("XA END 'x'")
        cursor.execute("XA PREPARE 'x'")
        cursor.execute(f"XA {end} 'x'")
        cursor.execute(f"INSERT INTO t VALUES (3, {document}, 'w')")
        cursor.execute("SELECT id FROM t")
        expected = {str(row[0]) for row in cursor.fetchall()}
    series = since(mysql97, first)
    splits = [batch for split in plan_splits(series, target_bytes=1) for batch in read_split(split)]
    assert ids(arrow_changes(series, None, {})) == expected
    assert ids(typed_changes(splits, {})) == expected
    columns = {}
    lines = json_changes(json_lines(series, None), columns)
    assert {"".join(filter(str.isdigit, each)) for each in ids(lines)} == expected


def test_partial_updates_between_other_rows_of_a_payload(tmp_path):
    """A flush halfway through a payload must not let go of its bytes."""
    parsed = Parsed.of((CORPUS / "mysql-9.7.json-partial-full/binlog.000001").read_bytes())
    events, inner, out = parsed.events, [], []
    for event in events:
        code, body = event[4], bytes(event[19 : len(event) - parsed.tail])
        if code in {19, 30, 31, 32, 39}:
            inner.append(raw_event(code, body))
        elif code == 16:
            begin = next(e for e in events if e[4] == 2 and e.endswith(b"BEGIN" + bytes(e[-4:])))
            body = bytes(begin[19 : len(begin) - parsed.tail])
            done = [raw_event(2, body), *inner, raw_event(16, bytes(8))]
            out.append(raw_event(40, payload(b"".join(done)), checksum=True))
            inner = []
        elif code != 2 or not event[:-4].endswith(b"BEGIN"):
            out.append(bytes(event))
    (tmp_path / "binlog.000001").write_bytes(b"\xfebin" + b"".join(out))
    (made,) = find(tmp_path)
    assert assert_equal_paths(made) > 10


@each_case("case", ["compressed-big", "compressed-full-full"])
def test_more_compressed_rows_than_are_held(case):
    """What was decompressed last is not let go of before it is decoded."""
    (series,) = find(CORPUS / f"mariadb-11.8.{case}")
    with patch.object(walk, "_KEPT", 1):
        assert assert_equal_paths(series) > 10


@each_case("size", [0xFFFFFFFF, 0x80000000, 0x40000001, 18, 0])
def test_a_header_that_lies_about_its_length(tmp_path, size):
    """Its event is not looked at by that length."""
    parsed = Parsed.of((CORPUS / "mysql-9.7.checksum-none/binlog.000001").read_bytes())
    parsed.events[5][9:13] = size.to_bytes(4, "little")
    (tmp_path / "binlog.000001").write_bytes(parsed.bytes())
    (made,) = find(tmp_path)
    with pytest.raises(LogError, match="at "):
        plan_splits(made)


ADDRESSES = """
    ::12:3456 ::ffff:0:0 ::1.2.3.4 ::ffff ::1:0 ::2:3:4:5:6:7:8 0:0:0:0:0:fffe:1.2.3.4 0:0:1::
    0:1:2:3:4:5:6:7 1:0:2:3:4:5:6:7 1:0:0:2:0:0:0:3 2001:db8:0:0:1:0:0:1 1:2:3:4:5:6:7:0
    1:2:3:4:5:6:7:8 1:: ff00:: fe80::1:0
"""
"""Runs of zeros, also two of one length, and those that may be taken for an IPv4 address."""


def test_set_names_and_inet6_as_the_server_prints_them(mariadb118):
    """An empty name that comes first has no comma; one zero group alone is left out, too."""
    with mariadb118.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS found")
        cursor.execute("USE found")
        cursor.execute("DROP TABLE IF EXISTS s")
        first = mariadb118.rotate().name
        cursor.execute("CREATE TABLE s (id INT PRIMARY KEY, s SET('', 'a', 'b'), i INET6)")
        cursor.execute("SET sql_mode = ''")
        for number in range(8):
            address = f"{number % 2}:ffff:{number % 3}:2020:0:1:{number // 4}:1"
            cursor.execute(f"INSERT INTO s VALUES ({number}, {number}, '{address}')")
        for number, address in enumerate(ADDRESSES.split(), 8):
            cursor.execute(f"INSERT INTO s VALUES ({number}, NULL, '{address}')")
        cursor.execute("SELECT id, s, i FROM s")
        expected = {str(key): (names, address) for key, names, address in cursor.fetchall()}
    series = since(mariadb118, first)
    found = {after["id"]: (after["s"], after["i"]) for *_, after in arrow_changes(series, None, {})}
    assert found == expected
    rows = [row.values for schema, event in rows_events(series) for row in RowSet(event, schema)]
    assert {str(key): address for key, _, address in rows} == {k: i for k, (_, i) in found.items()}


def test_members_that_a_character_set_cannot_hold():
    """Servers keep them with question marks."""
    (table,) = parse("CREATE TABLE t (a SET('é', '日', 'Я')) CHARACTER SET sjis")
    assert table.definition.columns[0].members == ("?", "日", "Я")
