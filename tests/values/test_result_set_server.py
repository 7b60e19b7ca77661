"""A row read out of the log and the same row read by SELECT are equal, value by value."""

from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from pymysql.cursors import DictCursor

from tailrace.constants import ColumnType, Flavour
from tailrace.errors import ValueRejected
from tailrace.schema.table import Table
from tailrace.values.converter import Converter
from tailrace.values.result_set import ResultSet
from tailrace.values.value import Value
from tests.cases import each_case
from tests.values.replay import changes


def integers(_):
    sizes = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
    for name, bits in sizes.items():
        top = 2 ** (bits - 1)
        yield name, ["0", "1", "-1", str(top - 1), str(-top), "null"]
        yield f"{name} unsigned", ["0", "1", str(top), str(2 * top - 1)]
    yield "year", ["0", "1901", "2155", "null"]
    yield "bit(1)", ["0", "1"]
    yield "bit(13)", ["0", "5", "8191"]
    yield "bit(64)", ["0", "1", "~0", "1<<63"]


def decimals(flavour):
    sizes = [(65, 30), (10, 0), (1, 0), (1, 1), (30, 30), (18, 9), (9, 9), (65, 0), (20, 3), (5, 2)]
    sizes += [(38, 38)] if flavour is Flavour.MARIADB else []
    for precision, scale in sizes:
        most = "9" * (precision - scale) + ("." + "9" * scale if scale else "")
        least = "0." + "0" * (scale - 1) + "1" if scale else "1"
        values = ["0", "-0.0", most, f"-{most}", least, f"-{least}", "null"]
        yield f"decimal({precision},{scale})", values


def floats(_):
    values = ["0", "1.5", "-1.5", "3.4e38", "0.1", "1e-30", "123456.789"]
    yield "float", values
    yield "double", [*values, "1.7976931348623157e308", "5e-324", "0.1e0+0.2e0"]


def times(_):
    yield "date", [f"'{date}'" for date in ("0000-00-00", "2024-02-00", "9999-12-31", "2024-02-31")]
    for digits in range(7):
        some, most = (f".{text[:digits]}" if digits else "" for text in ("123456", "999999"))
        clocks = [
            "838:59:59",
            "-838:59:59",
            *(f"-{clock}{most}" for clock in ("00:00:00", "838:59:58")),
        ]
        moments = [
            "0000-00-00 00:00:00",
            f"2024-00-10 00:00:00{some}",
            f"9999-12-31 23:59:59{most}",
        ]
        stamps = ["0000-00-00 00:00:00", f"1970-01-01 00:00:01{some}", f"2038-01-19 03:14:07{most}"]
        yield f"time({digits})", [f"'{clock}'" for clock in clocks]
        yield f"datetime({digits})", [f"'{moment}'" for moment in moments]
        yield f"timestamp({digits}) null", [f"'{stamp}'" for stamp in stamps]


def texts(flavour):
    charsets = (
        "latin1 utf8mb4 gbk sjis utf16 ucs2 utf32 utf16le ujis eucjpms cp932 big5 euckr gb2312"
    )
    for charset in f"{charsets} swe7 koi8r utf8mb3".split():
        values = ["''", "'a  '", "'  a'", r"'A~\\'", "'é'", "'日本語'", "'Ж'", "'한국어'", "'€'"]
        if charset in {"utf8mb4", "utf16", "utf32", "utf16le"}:
            values += ["'😀x'", "repeat('😀',20)"]
        for name in ("char(20)", "varchar(300)", "text"):
            yield f"{name} character set {charset}", values
    for name in ("binary(5)", "varbinary(500)", "tinyblob", "blob", "mediumblob", "longblob"):
        yield name, ["''", "x'00'", "x'610000'", "x'6120'", "x'00ff00'", "x'20'", "null"]
    yield "longtext", ["repeat('x', 70000)"]
    if flavour is Flavour.MARIADB:
        for name in ("varchar(400)", "text", "varchar(400) character set utf16"):
            kind = name.replace(")", ") compressed", 1) if "(" in name else f"{name} compressed"
            yield kind, ["''", "'abc'", "repeat('abc', 100)"]
        yield "blob compressed", ["''", "x'00ff'", "repeat('abc', 20000)"]


def members(_):
    yield "enum('a','b,c','d''e')", ["'a'", "'b,c'", "'d''e'", "'no such'", "null"]
    for charset in ("utf16", "latin1", "sjis"):
        yield f"enum('x','y\\\\','ÿ') character set {charset}", ["'x'", r"'y\\'"]
        yield f"set('x','z') character set {charset}", ["''", "'x'", "'z,x'"]
    many = [f"'m{number}'" for number in range(300)]
    yield f"enum({','.join(many)})", ["'m0'", "'m254'", "'m255'", "'m299'"]
    yield f"set({','.join(many[:64])})", ["''", "'m63,m0'", "~0", "'m40'"]


def others(flavour):
    shapes = ["POINT(1 2)", "GEOMETRYCOLLECTION EMPTY", "POLYGON((0 0,1 0,1 1,0 0))"]
    yield "geometry", [f"st_geomfromtext('{shape}')" for shape in shapes] + ["null"]
    yield "point", ["st_geomfromtext('POINT(-1.5 2)')"]
    if flavour is Flavour.MYSQL:
        yield "vector(3)", ["string_to_vector('[1,2.5,-3e10]')", "null"]
        return
    uuids = ("01234567-89ab-1def-8123-456789abcdef", "0" * 32, "f" * 30 + "00")
    yield "uuid", [f"'{uuid}'" for uuid in uuids]
    yield "inet4", ["'0.0.0.0'", "'1.2.3.0'", "'255.255.255.255'"]
    addresses = (
        ":: ::1 ::1.2.3.4 ::ffff:1.2.3.4 1:: 2001:db8::1 2001:db8:0:0:1:0:0:1 1:2:3:4:5:6:7:8 "
        "::2:3:4:5:6:7:8 0:0:1:: 1:0:2:3:4:5:6:7 fe80::1:0 ::ffff ::1:0 ::12:3456 ::ffff:0:0 "
        "0:0:0:0:0:fffe:1.2.3.4 ff00:: 1:0:0:2:0:0:0:3 0:1:2:3:4:5:6:7 1:2:3:4:5:6:7:0"
    )
    yield "inet6", [f"'{address}'" for address in addresses.split()]
    yield "json", ["'{\"a\": 1}'", r"'[1,\n 2]'", "null"]


FAMILIES = (integers, decimals, floats, times, texts, members, others)


def recorded(server, name, declared):
    """Columns of these types and values as a table ``t`` of a database of its own, which it gives."""
    database = f"values_{name}"
    columns = ", ".join(f"c{number} {kind}" for number, (kind, _) in enumerate(declared))
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'")
        cursor.execute(f"DROP DATABASE IF EXISTS {database}")
        cursor.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
        cursor.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, {columns})")
        for index in range(max(len(values) for _, values in declared)):
            row = [(*values, *["null"] * (index + 1))[index] for _, values in declared]
            cursor.execute(f"INSERT INTO {database}.t VALUES ({index}, {', '.join(row)})")
    return database


def documents(flavour):
    """What the families there leave out."""
    yield (
        "json",
        [
            '\'{"b": [1, -1.5, 1e100, null, true], "a": "é日"}\'',
            "'18446744073709551615'",
            "json_array(repeat('x', 70000), 65536, -32769)",
            "'{}'",
            "null",
        ],
    )
    if flavour is Flavour.MYSQL:
        yield "multipoint", ["st_geomfromtext('MULTIPOINT(1 2,3 4)', 4326)"]
        yield "tinyint(1)", ["true", "false"]


def selected(declared, name, mysql):
    """A column in the SELECT: of a FLOAT all digits, of a VECTOR what the driver can read."""
    if declared.startswith("float"):
        return f"{name} + 0e0 AS {name}"
    if declared.startswith("vector") and mysql:
        return f"CAST({name} AS BINARY) AS {name}"
    return name


@each_case("family", [*FAMILIES, documents], ids=lambda family: family.__name__)
def test_rows_of_the_log_are_rows_of_the_result(flavour_server, family):
    server, flavour = flavour_server, Flavour(flavour_server.flavour)
    declared = [("vector(3)", ["vec_fromtext('[1,2.5,-3e10]')"])]
    declared = declared if flavour is Flavour.MARIADB and family is documents else []
    declared += family(flavour)
    names = [f"c{number}" for number in range(len(declared))]
    server.rotate()
    server.execute("SET GLOBAL binlog_row_metadata = FULL")
    database = recorded(server, f"result_{family.__name__}", declared)
    log = server.rotate()
    found = changes(log)
    logged = [(schema, row) for schema, row in found if schema.database == database]
    listed = [
        selected(declaration, name, flavour is Flavour.MYSQL)
        for name, (declaration, _) in zip(names, declared, strict=True)
    ]
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        query = f"SELECT id, {', '.join(listed)} FROM {database}.t ORDER BY id"
        cursor.execute(query)
        given = cursor.fetchall()
        cursor.execute(query)
        result = list(ResultSet(cursor, logged[0][0]))
    assert len(result) == len(logged) == len(given)
    kinds = set()
    for (_, row), other, record in zip(logged, result, given, strict=True):
        assert len(row) == len(other) == len(declared) + 1
        assert row.keys() == other.keys()
        for (name, value), expected in zip(row.items(), record, strict=True):
            what = (name, name != "id" and declared[int(name[1:])][0])
            assert isinstance(value, Value)
            assert value == other[name], what
            assert hash(value) == hash(other[name])
            converted = Converter().to(type(expected), value)
            if isinstance(converted, datetime):
                converted = converted.replace(tzinfo=None)
            assert converted == expected, what
            kinds.add(type(expected))
        assert row.values == other.values
    assert len(kinds) > 1


def test_a_result_without_a_table(flavour_server):
    with flavour_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT 7 AS i, -1.50 AS d, 'é' AS t, x'00ff' AS b, NULL AS n, 1e0/3 AS f, b'101' AS bits,"
            " CAST('2024-01-31 01:02:03.5' AS DATETIME(3)) AS m, CAST('-01:02:03' AS TIME) AS c"
        )
        (row,) = ResultSet(cursor)
    to = Converter().to
    assert row.kind == "select"
    assert row.keys() == ["i", "d", "t", "b", "n", "f", "bits", "m", "c"]
    assert to(int, row["i"]) == 7
    assert to(Decimal, row["d"]) == Decimal("-1.50")
    assert to(str, row["t"]) == "é"
    assert to(bytes, row["b"]) == b"\0\xff"
    assert row["n"].is_null
    assert to(float, row["f"]) == 1 / 3
    assert to(datetime, row["m"]) == datetime.fromisoformat("2024-01-31T01:02:03.500")
    assert to(timedelta, row["c"]) == -timedelta(hours=1, minutes=2, seconds=3)
    assert row["m"].type is ColumnType.DATETIME2
    assert row["m"].metadata == 3


def test_dictionaries_are_rows_too(flavour_server):
    with flavour_server.connect() as connection, connection.cursor(DictCursor) as cursor:
        cursor.execute("SELECT 2 AS b, 1 AS a UNION SELECT 3, 4")
        assert [row.values for row in ResultSet(cursor)] == [(2, 1), (3, 4)]


def test_a_value_that_the_description_misjudges_is_told(flavour_server):
    with flavour_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 18446744073709551615 AS big")
        with pytest.raises(ValueRejected, match=r"row 1 of the result, big: .*give the table"):
            list(ResultSet(cursor))
        big = "CREATE TABLE x.t (Big BIGINT UNSIGNED)"
        cursor.execute("SELECT 18446744073709551615 AS big")
        (row,) = ResultSet(cursor, Table.parse(big, flavour=flavour_server.flavour))
        assert row["big"].as_uint64() == 18446744073709551615
        assert row["big"].as_int64() == -1


def test_members_of_the_character_set_binary_are_those_of_the_log(flavour_server):
    server = flavour_server
    server.execute("DROP DATABASE IF EXISTS result_bytes")
    server.execute("CREATE DATABASE result_bytes")
    server.rotate()
    server.execute(
        "CREATE TABLE result_bytes.t"
        " (e ENUM('a','é') CHARACTER SET binary, s SET('a','b') CHARACTER SET binary)"
    )
    server.execute("INSERT INTO result_bytes.t VALUES ('a', 'a,b'), (2, ''), (NULL, NULL)")
    server.connection.commit()
    logged = [each for each in changes(server.rotate()) if each[0].database == "result_bytes"]
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT e, s FROM result_bytes.t")
        assert [row.values for row in ResultSet(cursor, logged[0][0])] == [
            row.values for _, row in logged
        ]
