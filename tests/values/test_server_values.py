"""Edge values of every type, written on real servers: decoded, they are what SELECT gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.constants import Flavour
from tests.cases import each_case
from tests.values.dumped import check, stored
from tests.values.replay import Case, changes, same
from tools.dumps import dump_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tools.servers import Server


def integers(_: Flavour) -> Iterator[tuple[str, list[str]]]:
    sizes = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
    for name, bits in sizes.items():
        top = 2 ** (bits - 1)
        yield name, ["0", "1", "-1", str(top - 1), str(-top), "null"]
        yield f"{name} unsigned", ["0", "1", str(top), str(2 * top - 1)]
    yield "year", ["0", "1901", "2155", "null"]
    yield "bit(1)", ["0", "1"]
    yield "bit(13)", ["0", "5", "8191"]
    yield "bit(64)", ["0", "1", "~0", "1<<63"]


def decimals(flavour: Flavour) -> Iterator[tuple[str, list[str]]]:
    sizes = [(65, 30), (10, 0), (1, 0), (1, 1), (30, 30), (18, 9), (9, 9), (65, 0), (20, 3), (5, 2)]
    sizes += [(38, 38)] if flavour is Flavour.MARIADB else []
    for precision, scale in sizes:
        most = "9" * (precision - scale) + ("." + "9" * scale if scale else "")
        least = "0." + "0" * (scale - 1) + "1" if scale else "1"
        values = ["0", "-0.0", most, f"-{most}", least, f"-{least}", "null"]
        yield f"decimal({precision},{scale})", values


def floats(_: Flavour) -> Iterator[tuple[str, list[str]]]:
    values = ["0", "1.5", "-1.5", "3.4e38", "0.1", "1e-30", "123456.789"]
    yield "float", values
    yield "double", [*values, "1.7976931348623157e308", "5e-324", "0.1e0+0.2e0"]


def times(_: Flavour) -> Iterator[tuple[str, list[str]]]:
    dates = "0000-00-00 2024-00-10 2024-02-00 9999-12-31 1000-01-01 0001-01-01 2024-02-31"
    yield "date", [f"'{date}'" for date in dates.split()]
    for digits in range(7):
        some = f".{'123456'[:digits]}" if digits else ""
        most = f".{'9' * digits}" if digits else ""
        least = f".{'0' * (digits - 1)}1" if digits else ""
        clocks = [
            "00:00:00",
            "-00:00:01",
            "838:59:59",
            "-838:59:59",
            *(f"-00:00:00{fraction}" for fraction in (some, least, most)),
            f"12:34:56{some}",
            f"-12:34:56{some}",
            f"-01:00:00{most}",
            f"-00:59:59{most}",
            f"-838:59:58{most}",
            f"00:00:00{least}",
        ]
        yield f"time({digits})", [f"'{clock}'" for clock in clocks]
        moments = [
            "0000-00-00 00:00:00",
            f"0000-00-00 00:00:00{least}",
            f"2024-00-10 00:00:00{some}",
            f"9999-12-31 23:59:59{most}",
            f"2024-02-00 01:02:03{least}",
        ]
        yield f"datetime({digits})", [f"'{moment}'" for moment in moments]
        stamps = [
            "0000-00-00 00:00:00",
            f"1970-01-01 00:00:01{some}",
            f"2038-01-19 03:14:07{most}",
            f"2024-06-30 12:00:00{least}",
        ]
        yield f"timestamp({digits}) null", [f"'{stamp}'" for stamp in stamps]


def texts(flavour: Flavour) -> Iterator[tuple[str, list[str]]]:
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


def members(_: Flavour) -> Iterator[tuple[str, list[str]]]:
    yield "enum('a','b,c','d''e')", ["'a'", "'b,c'", "'d''e'", "'no such'", "null"]
    for charset in ("utf16", "latin1", "sjis"):
        yield f"enum('x','y\\\\','ÿ') character set {charset}", ["'x'", r"'y\\'"]
        yield f"set('x','z') character set {charset}", ["''", "'x'", "'z,x'"]
    many = [f"'m{number}'" for number in range(300)]
    yield f"enum({','.join(many)})", ["'m0'", "'m254'", "'m255'", "'m299'"]
    yield f"set({','.join(many[:64])})", ["''", "'m63,m0'", "~0", "'m40'"]


def others(flavour: Flavour) -> Iterator[tuple[str, list[str]]]:
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


def recorded(server: Server, name: str, declared: list[tuple[str, list[str]]]) -> str:
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


@each_case("metadata", ["FULL", "least"])
@each_case("family", FAMILIES, ids=lambda family: family.__name__)
def test_values_are_what_select_gives(
    flavour_server: Server, family: Callable[..., Any], metadata: str
) -> None:
    """And, dumped again, the bytes that the server logged. (Of 10.11, the corpus has values.)"""
    server, flavour = flavour_server, Flavour(flavour_server.flavour)
    least = "MINIMAL" if flavour is Flavour.MYSQL else "NO_LOG"
    server.rotate()
    server.execute(f"SET GLOBAL binlog_row_metadata = {metadata if metadata == 'FULL' else least}")
    declared = list(family(flavour))
    database = recorded(server, family.__name__, declared)
    log = server.rotate()
    dump = dump_table(server, database, "t")
    left = {row[0]: row for row in dump["rows"]}
    for schema, row in changes(Case(log, {"server": server.version})):
        if schema.database != database:
            continue
        values = row.values
        selected = left.pop(str(values[0]))
        for column, value, text, name in zip(
            schema.columns, values, selected, dump["columns"], strict=True
        ):
            assert same(column, value, text, name in dump["binary"]), (
                f"{declared[column.index - 1][0]}: {value!r}, SELECT gave {text!r}"
            )
        for column, raw in stored(row.after) if metadata == "FULL" else ():
            assert not check(schema, column, raw), declared[column.index - 1]
    assert not left
