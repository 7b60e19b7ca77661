"""Documents to JSONB: the very bytes that MySQL writes of the same text, or of the same values."""

import json
import random
from datetime import date, time, timedelta
from decimal import Decimal

import pymysql
import pytest
from hypothesis import given

from tailrace.errors import ValueRejected
from tailrace.values.json_diff import changed_json
from tailrace.values.jsonb import dump_json, load_json
from tests.cases import each_case
from tests.columns.random_columns import DOCUMENTS
from tests.values.replay import logged_json
from tests.values.test_dumpers import naive
from tools.campaign.values import json_value

TEXTS = [
    *("-0", "0", "1e2", "1.0", "-0.0", "1E-400", "1e308", "0.1", "123456789012345678901234567890"),
    *("32767", "32768", "-32768", "-32769", "65535", "2147483647", "2147483648", "-2147483649"),
    *("4294967295", "4294967296", "-4294967296", "9223372036854775808", "18446744073709551615"),
    *("18446744073709551616", "-9223372036854775808", "-9223372036854775809", "null", "true"),
    *('""', '"a\\u0000b"', '"\\ud83d\\ude00"', '"\\/\\b"', "[]", "{}", "[[],{}]", " [1 ,\n2 ]\t"),
    *('{"a":1,"a":2,"b":[1,{"x":null}],"":true}', '{"bb":1,"a":2,"é":3,"z":4,"aaa":false}'),
    *("[-1,-32769,2147483648]", "[" * 100 + "]" * 100, json.dumps({"k" * 65535: 1})),
    *(json.dumps("x" * size) for size in (127, 128, 16383, 16384, 70_000)),
    *(json.dumps(["x" * size]) for size in (65520, 65525, 65526, 65527, 65528, 65529, 65530)),
    json.dumps([-1, 40_000, -40_000, 3_000_000_000, None, "x" * 70_000, [-1, 40_000]]),
    json.dumps({"a": {"b": ["x" * 70_000, -1]}, "c": [1, -70_000], "d": {}}),
    json.dumps([1] * 21_843),
    json.dumps([1] * 21_844),
    json.dumps([1] * 65_536),
    json.dumps({f"key{number}": -number for number in range(9000)}),
]
REFUSED = [
    *('"\\ud800"', '"\\ud800\\u0041"', '{"a":NaN}', "Infinity", "1e400", '"a\tb"', "[1,]", "[1] x"),
    *("01", "+1", ".5", "1.", "\ufeff1", "", " ", "'a'", "{1:2}", "[" * 101 + "]" * 101),
    json.dumps({"k" * 65536: 1}),
]


def made_table(server):
    server.execute("DROP DATABASE IF EXISTS jsonb")
    server.execute("CREATE DATABASE jsonb")
    server.execute("CREATE TABLE jsonb.t (id INT PRIMARY KEY, j JSON)")


def test_text_becomes_what_mysql_writes(mysql97):
    chance = random.Random(11)
    texts = TEXTS + [
        json.dumps(json_value(chance), ensure_ascii=chance.random() < 0.5) for _ in range(400)
    ]
    texts += [repr(chance.uniform(-1, 1) * 10 ** chance.uniform(-300, 300)) for _ in range(300)]
    server = mysql97
    made_table(server)
    server.rotate()
    for number, text in enumerate(texts):
        server.execute("INSERT INTO jsonb.t VALUES (%s, %s)", [number, text])
    logged = logged_json(server.rotate())
    assert len(logged) == len(texts)
    for number, text in enumerate(texts):
        assert dump_json(text) == logged[number], text[:200]


def test_what_mysql_refuses_is_refused(mysql97):
    made_table(mysql97)
    for text in REFUSED:
        with pytest.raises(ValueRejected, match="JSON"):
            dump_json(text)
        with pytest.raises(pymysql.MySQLError, match=r"Invalid JSON|too long|maximum depth"):
            mysql97.execute("INSERT INTO jsonb.t VALUES (1, %s)", [text])


VALUES = [
    ("CAST(DATE'2024-02-29' AS JSON)", date(2024, 2, 29)),
    ("CAST(TIME'-12:34:56.5' AS JSON)", -timedelta(hours=12, minutes=34, seconds=56.5)),
    ("CAST(TIME'838:59:59' AS JSON)", timedelta(hours=838, minutes=59, seconds=59)),
    ("CAST(TIME'01:02:03' AS JSON)", time(1, 2, 3)),
    ("CAST(TIMESTAMP'2024-02-29 01:02:03.25' AS JSON)", naive(2024, 2, 29, 1, 2, 3, 250_000)),
    (
        "JSON_ARRAY(1.50, 0.05, 0.0, -0.5, 12.5, 12345678901234567890.5)",
        [
            Decimal(text)
            for text in ("1.50", "0.05", "0.0", "-0.5", "12.5", "12345678901234567890.5")
        ],
    ),
    (
        f"JSON_ARRAY({'9' * 65}, 1{'0' * 29}.{'1' * 30}, 0.{'0' * 29}1)",
        [Decimal("9" * 65), Decimal(f"1{'0' * 29}.{'1' * 30}"), Decimal(f"0.{'0' * 29}1")],
    ),
    (
        f"JSON_ARRAY(1{'2' * 35}.{'1' * 30}, {'9' * 81}, 0.{'1' * 40}, -{'9' * 63}.{'1' * 18})",
        [
            Decimal(f"1{'2' * 35}.{'1' * 30}"),
            Decimal("9" * 81),
            Decimal(f"0.{'1' * 40}"),
            Decimal(f"-{'9' * 63}.{'1' * 18}"),
        ],
    ),
    (
        "JSON_OBJECT('b', 1.10, 'a', JSON_ARRAY(TRUE, NULL, 'x', 1e0, -5))",
        {"b": Decimal("1.10"), "a": (True, None, "x", 1.0, -5)},
    ),
]


def test_values_become_what_mysql_writes(mysql97):
    server = mysql97
    made_table(server)
    server.rotate()
    for number, (expression, _) in enumerate(VALUES):
        server.execute(f"INSERT INTO jsonb.t VALUES ({number}, {expression})")
    logged = logged_json(server.rotate())
    for number, (expression, value) in enumerate(VALUES):
        assert dump_json(value) == logged[number], expression


@each_case(
    ("value", "message"),
    [
        ({1: 2}, "the name 1 is not text"),
        ([b"x"], "no bytes like b'x'"),
        ({1, 2}, "no set"),
        (2**64, "64 bits"),
        ([float("nan")], "no number nan"),
        (["\ud800"], "surrogate"),
        (Decimal("1E+81"), "more digits than MySQL's numbers"),
        (Decimal("1E-73"), "more digits than MySQL's numbers"),
        (Decimal("1E-999999"), "more digits than MySQL's numbers"),
        (Decimal("NaN"), "no number"),
        (timedelta(days=40), "838:59:59"),
    ],
)
def test_objects_that_json_has_not(value, message):
    with pytest.raises(ValueRejected, match=message):
        dump_json(value)


@given(DOCUMENTS)
def test_objects_and_their_text_are_the_same_document(value):
    dumped = dump_json(json.dumps(value))
    text = load_json(dumped)
    assert json.loads(text) == value
    assert dump_json(text) == dumped
    if not isinstance(value, str):  # a str is a document's text
        assert dump_json(value) == dumped


def test_diffs_keep_opaque_values():
    before = dump_json([Decimal("1.50"), {"d": date(2024, 1, 2), "n": 1}])
    two = b"\x05\x02\x00"
    diffs = b"\x00\x06$[1].n" + bytes([len(two)]) + two
    after = changed_json(before, diffs)
    assert after == dump_json([Decimal("1.50"), {"d": date(2024, 1, 2), "n": 2}])
    assert load_json(changed_json(before, b"\x02\x04$[0]")) == '[{"d": "2024-01-02", "n": 1}]'
