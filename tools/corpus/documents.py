"""JSON: every type of MySQL's binary format, large documents, partial updates; MariaDB's text."""

# ruff: noqa: SIM905 - a line of numbers reads better than a list of strings

from __future__ import annotations

import json

from tools.corpus.case import MARIADB, MYSQL, Recorder, add, add_with_metadata

_NUMBERS = (
    "0 1 -1 127 128 255 256 32767 32768 -32768 -32769 65535 65536 2147483647 2147483648 "
    "-2147483648 -2147483649 4294967295 4294967296 9223372036854775807 9223372036854775808 "
    "-9223372036854775808 18446744073709551615 18446744073709551616 0.0 -0.0 1.0 0.1 1e15 1e16 "
    "1e17 1e20 1e21 1e22 1e100 1e308 1.7976931348623157e308 5e-324 2.2250738585072014e-308 1e-4 "
    "1e-5 1e-6 1e-7 3.141592653589793 0.30000000000000004 123456789.125 100000.0 -1.5e-10 "
    "1234567890123456.7 9007199254740993.0 1E5"
).split()
_STRINGS = (
    "",
    "a",
    "é日😀",
    'quote " backslash \\ slash /',
    "".join(chr(code) for code in range(32)),
    "\x7f\x80\u2028\ufeff",
    "x" * 127,
    "x" * 128,
    "ü" * 200,
)
_OPAQUE = (
    "CAST(CAST('2024-02-29' AS DATE) AS JSON)",
    "CAST(CAST('0000-00-00' AS DATE) AS JSON)",
    "CAST(CAST('12:34:56' AS TIME) AS JSON)",
    "CAST(CAST('-838:59:59.000000' AS TIME(6)) AS JSON)",
    "CAST(CAST('-00:00:00.000001' AS TIME(6)) AS JSON)",
    "CAST(CAST('2024-02-29 23:59:58.123456' AS DATETIME(6)) AS JSON)",
    "CAST(CAST('1000-01-01' AS DATETIME) AS JSON)",
    "CAST(TIMESTAMP'2026-11-21 09:08:07.5' AS JSON)",
    "CAST(FROM_UNIXTIME(1000000000) AS JSON)",
    "CAST(CAST(1.10 AS DECIMAL(5,2)) AS JSON)",
    "CAST(CAST(-0.000000000000000000000000000001 AS DECIMAL(65,30)) AS JSON)",
    "CAST(CAST(99999999999999999999999999999999999 AS DECIMAL(65,0)) AS JSON)",
    "CAST(CAST(0 AS DECIMAL(10,4)) AS JSON)",
    "CAST(x'00FF80' AS JSON)",
    "CAST(CAST('bytes' AS BINARY(8)) AS JSON)",
    "CAST(b'1010' AS JSON)",
    "CAST(CAST(2024 AS YEAR) AS JSON)",
    "CAST(ST_GeomFromText('POINT(1 2)') AS JSON)",
    "CAST(TRUE AS JSON)",
    "CAST(1 = 2 AS JSON)",
    "CAST(1e0 AS JSON)",
    "CAST(CAST(0.1 AS FLOAT) AS JSON)",
    (
        "JSON_OBJECT('d', CAST('2024-01-02' AS DATE), 't', CAST('01:02:03.5' AS TIME(1)), "
        "'n', 12.50, 'b', x'0102', 'nested', JSON_ARRAY(NOW(6) - NOW(6), CAST('x' AS BINARY)))"
    ),
)
_DOCUMENTS = (
    "null",
    "true",
    "false",
    "{}",
    "[]",
    "[[]]",
    "[{}]",
    '{"": ""}',
    '{"a": {}}',
    '{"b": 1, "a": 2, "bb": 3, "aa": 4, "é": 5, "B": 6}',
    '{"a": 1, "a": 2}',
    '[null, true, false, 1, 70000, -1, "x", 1.5, [], {}]',
    '{"mixed": [1, 65536, 4294967296, "s", null], "o": {"k": [true, {"z": -32769}]}}',
    '{"key with \\"quotes\\" and \\\\": 1, "\\u0000\\n": 2}',
    "[18446744073709551615, -9223372036854775808, 1e300]",
)


def _literal(document: str) -> str:
    text = document.replace("\\", "\\\\").replace("'", "''")
    return f"'{text}'"


def documents(recorder: Recorder) -> None:
    rows = [[_literal(number)] for number in _NUMBERS]
    recorder.table("numbers", {"j": "JSON"}, rows)
    strings = [
        json.dumps(text, ensure_ascii=bool(place % 2)) for place, text in enumerate(_STRINGS)
    ]
    recorder.table("strings", {"j": "JSON"}, [[_literal(text)] for text in strings])
    keys = json.dumps({f"{'k' * (number % 5)}{number}": number * 1000 for number in range(70)})
    deep = "[" * 98 + "1" + "]" * 98
    objects = '{"a":' * 60 + '"deep"' + "}" * 60
    long = json.dumps({"k" * 300: "v" * 300, "s": "x" * 2000})
    every = (*_DOCUMENTS, keys, deep, objects, long)
    recorder.table("documents", {"j": "JSON", "n": "INT"}, [[_literal(d), "7"] for d in every])
    if recorder.mysql:
        recorder.table("opaque", {"j": "JSON"}, [[value] for value in _OPAQUE])


def large_documents(recorder: Recorder) -> None:
    """Documents above 64 KiB, whose offsets and numbers take four bytes."""
    array: list[object] = [1, -1, 40000, 2**31 - 1, -(2**31), 2**32 - 1, 2**40, True, None, [], {}]
    document = {f"key{number}": number * 7000 for number in range(60)} | {"array": array}
    array.append("g" * 66000)  # makes the array large, and so what it lies in
    rows = [[_literal(json.dumps(document))]]
    recorder.table("large_documents", {"j": "JSON"}, rows)


def partial_updates(recorder: Recorder) -> None:
    filler = "'filler', REPEAT('x', 200)"
    recorder.run(
        "CREATE TABLE partial (id INT PRIMARY KEY, n INT, j JSON, s VARCHAR(20), k JSON)",
        "INSERT INTO partial SELECT v, v, "
        f"JSON_OBJECT('a', v, 'b', JSON_ARRAY(1, 2, 3), 'c', 'some text', {filler}, "
        "'o', JSON_OBJECT('p', 1.5, 'key \"q\"', TRUE)), 'text', "
        f"JSON_ARRAY(1, 'two', JSON_OBJECT('three', 3), {filler}) "
        "FROM (VALUES ROW(1), ROW(2), ROW(3), ROW(4), ROW(5), ROW(6), ROW(7), ROW(8)) AS x(v)",
        "UPDATE partial SET j = JSON_SET(j, '$.a', 100) WHERE id = 1",
        "UPDATE partial SET j = JSON_REPLACE(j, '$.c', 'short', '$.b[1]', 'x') WHERE id <= 2",
        "UPDATE partial SET j = JSON_REMOVE(j, '$.b[0]', '$.o.p') WHERE id = 3",
        "UPDATE partial SET j = JSON_SET(j, '$.new', JSON_OBJECT('deep', JSON_ARRAY(1, NULL))), "
        "k = JSON_SET(k, '$[1]', 2, '$[2].three', 'drei') WHERE id = 4",
        'UPDATE partial SET j = JSON_SET(j, \'$.o."key \\\\"q\\\\""\', FALSE) WHERE id = 4',
        "UPDATE partial SET n = 55 WHERE id = 5",
        "UPDATE partial SET n = n + 1, j = JSON_SET(j, '$.a', n, '$.b[10]', 'end') WHERE id = 6",
        "UPDATE partial SET j = '[]', k = JSON_SET(k, '$[0]', CAST(1.50 AS DECIMAL(4,2))) "
        "WHERE id = 7",
        "UPDATE partial SET j = NULL, k = JSON_REMOVE(k, '$[0]', '$[0]') WHERE id = 8",
        "UPDATE partial SET j = JSON_SET(COALESCE(j, '{}'), '$.z', 26)",
        "UPDATE partial SET k = JSON_ARRAY_APPEND(k, '$', JSON_OBJECT()) WHERE id IN (1, 2)",
        "DELETE FROM partial WHERE id = 2",
    )


def json_as_text(recorder: Recorder) -> None:
    """MariaDB's JSON is a LONGTEXT: what was written is what is read."""
    rows = [["'{\"a\" : [1,2 , 3]}'"], ["'[]'"], ["'null'"], ['\'{"é":"😀"}\''], ["' 1.0 '"]]
    recorder.table("json_as_text", {"j": "JSON"}, rows)
    recorder.run("UPDATE json_as_text SET j = JSON_SET(j, '$.b', 1) WHERE id = 1")


add_with_metadata("json", "JSON: every type, opaque values", documents, MYSQL, insert_only=True)
add(
    *("json-large", "JSON documents above 64 KiB", large_documents, MYSQL),
    insert_only=True,
    with_text=False,
)
for _image in ("FULL", "MINIMAL", "NOBLOB"):
    add(
        f"json-partial-{_image.lower()}",
        f"binlog_row_value_options=PARTIAL_JSON, row image {_image}",
        partial_updates,
        MYSQL,
        settings={"binlog_row_value_options": "PARTIAL_JSON", "binlog_row_image": _image},
    )
add_with_metadata("json-text", "MariaDB's JSON", json_as_text, MARIADB)
