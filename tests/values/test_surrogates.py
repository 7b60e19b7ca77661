"""Surrogates that servers store: delivered on every path, told apart, and written as they were."""

import json

import pytest

from tailrace.cli import app
from tailrace.columns import changes
from tailrace.values.row import RowSet
from tests.columns.oracle import assert_equal_paths
from tests.columns.text.test_row_json_corpus import compare
from tests.columns.write.encode_oracle import by_objects, encoded, prefix_of, rows_events
from tests.values.replay import since
from tools.campaign.recording import recording
from tools.campaign.witnesses import json_lines

MARIADB = {
    "v": ("VARCHAR(40) CHARACTER SET utf8mb4", "_utf8mb4 x'61EDA0BDEDB88062'"),
    "c": ("CHAR(10) CHARACTER SET utf8mb3", "_utf8mb3 x'EDA0BD'"),
    "t": ("TEXT CHARACTER SET ucs2", "_ucs2 x'D83DDE00005C0022000A'"),
    "u": ("VARCHAR(10) CHARACTER SET utf32", "_utf32 x'0000D83D0001F600'"),
    "z": ("VARCHAR(400) COMPRESSED CHARACTER SET utf8mb4", "REPEAT(_utf8mb4 x'EDA0BD', 100)"),
    "j": ("JSON", "CONCAT('{\"a\": [1,\\n\"', _utf8mb4 x'EDA0BD', '\"]}')"),
    "k": ("JSON", "CONCAT('no JSON ', _utf8mb4 x'EDA0BD')"),
    "e": ("ENUM('a', '{}b') CHARACTER SET utf8mb4", "2"),
    "s": ("SET('a', '{}b') CHARACTER SET utf8mb4", "3"),
    "d": ("DATE", "'0000-00-00'"),
}
MYSQL = {
    "v": ("VARCHAR(40) CHARACTER SET ucs2", "_ucs2 x'0061D83DDE000062'"),
    "c": ("CHAR(10) CHARACTER SET ucs2", "_ucs2 x'D83D'"),
    "t": ("TEXT CHARACTER SET ucs2", "_ucs2 x'D83DDE00005C0022000A'"),
    "g": ("VARCHAR(10) CHARACTER SET ujis", "_ujis x'A4A28EA0'"),
    "d": ("DATE", "'0000-00-00'"),
}


@pytest.fixture(scope="module", params=["mysql97", "mariadb118"])
def logged(request):
    """A log of one row before and after an update, and SELECT's texts of it after."""
    server = request.getfixturevalue(request.param)
    columns = MYSQL if server.flavour == "mysql" else MARIADB
    first = server.rotate().name
    with server.connect(use_unicode=False) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SET sql_mode = '', check_constraint_checks = 0"
            if "e" in columns
            else "SET sql_mode = ''"
        )
        cursor.execute("DROP DATABASE IF EXISTS halves")
        cursor.execute("CREATE DATABASE halves")
        declared = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
        statement = f"CREATE TABLE halves.t (id INT PRIMARY KEY, {declared})".encode()
        cursor.execute(statement.replace(b"{}", b"\xed\xa0\xbd"))
        values = ", ".join(value for _, value in columns.values())
        cursor.execute(f"INSERT INTO halves.t VALUES (1, {values})")
        cursor.execute("UPDATE halves.t SET id = 2")
        cursor.execute(f"SELECT CONCAT({'), CONCAT('.join(columns)}) FROM halves.t")
        texts = [value.decode("utf-8", "surrogatepass") for value in cursor.fetchone()]
        connection.commit()
    return since(server, first), dict(zip(columns, texts, strict=True))


def test_objects_have_them_as_characters(logged):
    series, texts = logged
    for event, schema, _ in rows_events(series):
        for row in RowSet(event, schema):
            values = dict(zip([c.name for c in schema.columns], row.after.as_tuple(), strict=True))
            values.pop("id")
            assert values == texts


def test_names_are_escaped(fresh_server):
    """A column that the DDL names so: names are UTF-8 wherever they go."""
    with recording(fresh_server("mariadb-11.8"), "named") as (cursor, series):
        cursor.execute("CREATE TABLE t (id INT, `c\ud83d` INT)".encode("utf-8", "surrogatepass"))
        cursor.execute("INSERT INTO t VALUES (1, 2)")
        log = series()
        (batch,) = changes(log)
        assert batch.column("after").to_pylist() == [{"id": 1, r"c\ud83d": 2}]
        assert assert_equal_paths(log) == 1


def test_json_has_them_escaped(logged):
    series, texts = logged
    (line, _) = json_lines(series, None)
    after = json.loads(line.encode().decode())["after"]
    assert r'"v":"a\ud83d\ude00b"' in line
    for name in set(texts) - {"v", "t", "j"}:
        assert after[name] == texts[name]
    if "j" in texts:
        assert after["j"] == {"a": [1, "\ud83d"]}


def test_the_command_counts_them(logged, capsys):
    (file,) = logged[0].files
    app(["log", file.path, "--as", "json"], exit_on_error=False, result_action="return_value")
    printed = capsys.readouterr()
    assert r'"v":"a\ud83d\ude00b"' in printed.out
    assert (
        r"2 records hold surrogates, which are not valid UTF-8: they are escaped, as \ud83d"
        in printed.err
    )
    app(["log", file.path], exit_on_error=False, result_action="return_value")
    assert r" v='a\ud83d\ude00b'" in capsys.readouterr().out


def test_batches_and_their_images_as_json_have_what_objects_have(logged):
    assert assert_equal_paths(logged[0]) == 2
    compare(logged[0])


def test_they_are_written_as_they_were(logged):
    """But for the code that stands for nothing, and for what zlib makes of the same bytes."""
    series, texts = logged
    for event, schema, records in rows_events(series):
        (data,) = (bytes(each) for each in encoded(event, schema, records, filler="e" in texts))
        rows = data[len(prefix_of(event)) :]
        assert rows == by_objects(event, schema, filler="e" in texts)
        if "g" not in texts:
            assert rows == event.row_data
