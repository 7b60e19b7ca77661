"""Statements with large literals: the same text in pieces, and none that no server could take."""

from itertools import pairwise

import pytest

import tailrace
from tailrace.errors import EventDecodeError, UnsupportedType
from tailrace.log.changes import Changes
from tailrace.log.reader import Reader
from tailrace.sql import commands, statements, undo
from tailrace.sql.script import script_lines
from tailrace.sql.text import LargeSql
from tailrace.storage import find
from tests.cases import each_case

BYTES = bytes(range(256)) * 9000
UTF8 = "it's \u00e9\u20ac\U0001f600" * 100_000
LITERALS = {
    "longblob": (BYTES, f"X'{BYTES.hex()}'"),
    "longtext character set utf8mb4": (UTF8, "'" + UTF8.replace("'", "''") + "'"),
    "longtext character set latin1": (
        "it's \u00e9" * 200_000,
        f"_latin1 X'{'6974277320e9' * 200_000}'",
    ),
    "longtext character set sjis": ("a\u6771" * 500_000, f"_sjis X'{'61938c' * 500_000}'"),
    "longtext character set ascii": ("it's \n" * 200_000, "'" + "it''s \n" * 200_000 + "'"),
    "json": (f'["{"a" * 2_000_000}"]', f"'[\"{'a' * 2_000_000}\"]'"),
}
"""A value of each type, and the literal that says it."""


def changes_of(folder, kind, *rows):
    path = folder / "log.000001"
    create = f"create table d.t (id int primary key, body {kind})"
    log = tailrace.create(path, flavour="mysql", server_id=1, checksum="none")
    with log, log.transaction() as change:
        table = tailrace.Table.parse(create, flavour="mysql")
        change.insert(table, rows[:1])
        for before, after in pairwise(rows):
            change.update(table, [before], [after])
    return lambda: Changes(Reader(find(path)[0]))


@each_case("kind", LITERALS)
def test_large_literals(tmp_path, kind):
    value, literal = LITERALS[kind]
    changes = changes_of(tmp_path, kind, (1, None), (1, value))
    update = f"UPDATE `d`.`t` SET `body` = {literal} WHERE `id` = 1"
    assert update.encode() in commands(statements(changes()))
    found = [each for each in statements(changes()) if each.text == update]
    assert isinstance(found[0].sql, LargeSql)
    assert found[0].size == len(update.encode())


@each_case("kind", LITERALS)
def test_large_literals_that_come_back(tmp_path, kind):
    """Out of the pile's file, and written a piece at a time."""
    value, literal = LITERALS[kind]
    changes = changes_of(tmp_path, kind, (1, value), (1, None))
    found = script_lines(undo(changes()))
    lines = [[line] if isinstance(line, str) else list(line) for line in found]
    update = f"UPDATE `d`.`t` SET `body` = {literal} WHERE `id` = 1;"
    assert update in map("".join, lines)
    assert max(len(piece) for line in lines for piece in line) < 3 << 20


def test_a_statement_that_no_server_takes(tmp_path, monkeypatch):
    """Said before its text is made; how long is too long is less here than 1 GiB."""
    monkeypatch.setattr("tailrace.sql.rows._MOST", 1 << 21)
    changes = changes_of(tmp_path, "longblob", (1, bytes(1 << 18)), (1, bytes((1 << 20) + 1)))
    said = r"log\.000001 at \d+ \(.*\): d\.t\.body: its row makes a statement of 2,097,\d\d\d bytes"
    taken = statements(changes())
    with pytest.raises(UnsupportedType, match=said):
        list(taken)
    monkeypatch.undo()
    assert len(max(statements(changes()), key=lambda each: each.size).text) > 1 << 21


def test_an_update_that_changes_nothing_is_no_statement(tmp_path):
    changes = changes_of(tmp_path, "text", (1, "a"), (1, "a"))
    for make, word in ((statements, "INSERT"), (undo, "DELETE")):
        found = [each.text.split(" ")[0] for each in make(changes())]
        assert [each for each in found if each in {"INSERT", "UPDATE", "DELETE"}] == [word]


def test_large_text_that_is_none(tmp_path):
    changes = changes_of(tmp_path, "longtext character set utf8mb4", (1, "a" * (1 << 20)))
    path = tmp_path / "log.000001"
    data = bytearray(path.read_bytes())
    data[-1 << 19] = 0xFF
    path.write_bytes(data)
    with pytest.raises(EventDecodeError, match=r"log\.000001 at \d+ .*d\.t\.body: .* 0xff616161"):
        list(statements(changes()))
