"""Write src/tailrace/values/data/: what real servers say of their collations and character sets.

``python -m tests.values.make_tables`` starts MySQL 9.7 and MariaDB 11.8 and 10.11 and asks for every
collation's id, and for the Unicode of every code of every character set. Single-byte sets are kept
whole; of the others, only what Python's nearest codec does otherwise.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.servers import Server

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DATA = Path(__file__).parents[2] / "src" / "tailrace" / "values" / "data"
UNICODE = {"utf8mb3", "utf8mb4", "utf16", "utf16le", "utf32", "ucs2", "binary"}
CODECS = {
    "big5": "big5",
    "cp932": "cp932",
    "eucjpms": "euc_jp",
    "euckr": "cp949",
    "gb18030": "gb18030",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "sjis": "shift_jis",
    "ujis": "euc_jp",
}


def collations(servers: list[Server]) -> dict[str, Any]:
    """Ids by name for each flavour (they differ in a few), character sets by id ranges."""
    names: dict[str, dict[str, int]] = {"mysql": {}, "mariadb": {}}
    charset_of: dict[int, str] = {}
    defaults: dict[str, dict[str, str]] = {"mysql": {}, "mariadb": {}}
    for server in servers:
        rows = server.query(
            "SELECT COLLATION_NAME, CHARACTER_SET_NAME, ID FROM information_schema.COLLATIONS"
            if server.flavour == "mysql"
            else "SELECT FULL_COLLATION_NAME, CHARACTER_SET_NAME, ID"
            " FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
        )
        for name, charset, number in rows:
            if names[server.flavour].setdefault(name, number) != number:
                raise SystemExit(f"{name} has two numbers")
            if charset_of.setdefault(number, charset) != charset:
                raise SystemExit(f"{number} is of two character sets")
        for charset, name in server.query(
            "SELECT CHARACTER_SET_NAME, DEFAULT_COLLATE_NAME FROM information_schema.CHARACTER_SETS"
        ):
            defaults[server.flavour][charset] = name  # the last asked wins: MariaDB 11.8
    charsets: dict[str, list[list[int]]] = {}
    for number, charset in sorted(charset_of.items()):
        ranges = charsets.setdefault(charset, [])
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return {"charsets": charsets, "names": names, "defaults": defaults}


def selected(server: Server, codes: Iterable[bytes], columns: str) -> Iterator[tuple[Any, ...]]:
    """What the server says of each code, which is the column ``code``."""
    everything = list(codes)
    with (
        server.connect(init_command="SET sql_mode='', sql_log_bin=0") as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("CREATE DATABASE IF NOT EXISTS test")
        cursor.execute("CREATE TEMPORARY TABLE test.codes (code VARBINARY(4))")
        for start in range(0, len(everything), 16384):
            values = ",".join(f"(0x{code.hex()})" for code in everything[start : start + 16384])
            cursor.execute(f"INSERT INTO test.codes VALUES {values}")
            cursor.execute(f"SELECT {columns} FROM test.codes")
            yield from cursor.fetchall()
            cursor.execute("DELETE FROM test.codes")
        cursor.execute("DROP TEMPORARY TABLE test.codes")


def converted(server: Server, charset: str, codes: Iterable[bytes]) -> dict[bytes, str]:
    """What the server makes of each code, as Unicode."""
    columns = f"code, CONVERT(CONVERT(code USING {charset}) USING utf8mb4)"
    return dict(selected(server, codes, columns))


def codes_of(charset: str) -> Iterator[bytes]:
    """Every code that could be one character, whatever the set."""
    high = range(0x80, 0x100)
    yield from (bytes([i]) for i in range(0x100))
    yield from (bytes([i, j]) for i in high for j in range(0x30, 0x100))
    if charset in {"ujis", "eucjpms"}:
        yield from (bytes([0x8F, i, j]) for i in high for j in high)
    if charset == "gb18030":
        digits, letters = range(0x30, 0x3A), range(0x81, 0xFF)
        yield from (
            bytes([a, b, c, d]) for a in letters for b in digits for c in letters for d in digits
        )


def characters(table: dict[bytes, str]) -> dict[bytes, str]:
    """Only the codes that are one character: not the ill-formed ones, nor two in a row."""
    return {
        code: text
        for code, text in table.items()
        if len(text) == 1 and (len(code) == 1 or len(table[code[:1]]) == 0)
    }


def runs(codes: Iterable[tuple[bytes, str]]) -> dict[str, str]:
    """Runs of codes: the first one's hex to their characters."""
    found: list[tuple[bytes, str]] = []
    for code, text in sorted(codes):
        if found and int.from_bytes(found[-1][0]) + len(found[-1][1]) == int.from_bytes(code):
            found[-1] = (found[-1][0], found[-1][1] + text)
        else:
            found.append((code, text))
    return {code.hex(): text for code, text in found}


def deviations(codec: str, table: dict[bytes, str]) -> dict[str, str]:
    """Runs of codes that the codec decodes otherwise."""
    known = characters(table).items()
    return runs((code, text) for code, text in known if _decoded(code, codec) != text)


def _decoded(code: bytes, codec: str) -> str:
    try:
        return code.decode(codec)
    except UnicodeDecodeError:
        return "?"


def charsets(mysql: Server, mariadb: Server) -> dict[str, Any]:
    sql = "SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS"
    names = {name for (name,) in mysql.query(sql)}
    single: dict[str, str] = {}
    multi: dict[str, Any] = {}
    for charset in sorted(names - UNICODE):
        codes = codes_of(charset) if charset in CODECS else (bytes([i]) for i in range(256))
        table = converted(mysql, charset, codes)
        if charset != "gb18030":
            other = converted(mariadb, charset, table)
            if differing := [
                code for code, text in characters(table).items() if text != other[code]
            ]:
                raise SystemExit(f"{charset}: the servers differ in {differing[:10]}")
        if charset in CODECS:
            codec = CODECS[charset]
            multi[charset] = {"codec": codec, "deviations": deviations(codec, table)}
        else:
            text = "".join(table[bytes([code])] or "?" for code in range(256))
            ascii_below = text[:128] == bytes(range(128)).decode()
            single[charset] = text[128:] if ascii_below else text
    return {"single": single, "multi": multi}


def main() -> None:
    DATA.mkdir(exist_ok=True)
    with (
        Server("mysql-9.7") as mysql,
        Server("mariadb-11.8") as new,
        Server("mariadb-10.11") as old,
    ):
        for name, content in (
            ("collations", collations([mysql, old, new])),
            ("charsets", charsets(mysql, new)),
        ):
            text = json.dumps(content, indent=1, sort_keys=True)
            (DATA / f"{name}.json").write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
