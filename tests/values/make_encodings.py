"""Write src/tailrace/values/data/encodings.json: the codes that real servers write.

``python -m tests.values.make_encodings`` starts MySQL 9.7 and MariaDB 11.8 and has them convert every
character of the Basic Multilingual Plane to every character set. Kept is only what is not the first
code that is read as the character (single-byte sets), or Python's nearest codec's (the Asian ones).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tailrace.values.charsets import _by_server, _codes, _data, decode, decoder, single_byte_table
from tests.values.make_tables import DATA
from tools.servers import Server

if TYPE_CHECKING:
    from collections.abc import Iterable

PLANE = [chr(number) for number in range(0x10000) if not 0xD800 <= number < 0xE000]


def written(server: Server, charset: str, characters: Iterable[str] = PLANE) -> dict[str, bytes]:
    """The server's code of each character that it can write and read back."""
    everything = list(characters)
    result: dict[str, bytes] = {}
    with (
        server.connect(init_command="SET sql_mode='', sql_log_bin=0") as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("CREATE DATABASE IF NOT EXISTS test")
        cursor.execute("CREATE TEMPORARY TABLE test.characters (code VARBINARY(4))")
        for start in range(0, len(everything), 16384):
            part = everything[start : start + 16384]
            values = ",".join(f"(0x{ord(character):08x})" for character in part)
            cursor.execute(f"INSERT INTO test.characters VALUES {values}")
            cursor.execute(
                "SELECT HEX(code), HEX(CONVERT(CONVERT(code USING utf32) USING "
                f"{charset})) FROM test.characters"
            )
            for character, code in cursor.fetchall():
                result[chr(int(character, 16))] = bytes.fromhex(code)
            cursor.execute("DELETE FROM test.characters")
        cursor.execute("DROP TEMPORARY TABLE test.characters")
    return {
        character: code
        for character, code in result.items()
        if (code != b"?" or character == "?") and decode(charset, code) == character
    }


def expected(charset: str) -> dict[str, bytes]:
    """What is written without the table that this makes."""
    if (table := single_byte_table(charset)) is not None:
        return {table[code]: bytes([code]) for code in reversed(range(256))} | {"?": b"?"}
    known = _data()["multi"][charset]
    codes = dict(reversed([*_codes(known["deviations"])]))
    for character in PLANE:
        if code := _by_server(decoder(charset), known["codec"], character):
            codes[character] = code
    return codes


def runs(codes: dict[str, bytes]) -> dict[str, str]:
    """Runs of codes: the first one's hex to their characters."""
    found: list[tuple[bytes, str]] = []
    for code, character in sorted((code, character) for character, code in codes.items()):
        if found and int.from_bytes(found[-1][0]) + len(found[-1][1]) == int.from_bytes(code):
            found[-1] = (found[-1][0], found[-1][1] + character)
        else:
            found.append((code, character))
    return {code.hex(): text for code, text in found}


def encodings(mysql: Server, mariadb: Server) -> dict[str, dict[str, str]]:
    result = {}
    for charset in [*_data()["single"], *_data()["multi"]]:
        codes = written(mysql, charset)
        if charset != "gb18030" and codes != written(mariadb, charset):
            raise SystemExit(f"{charset}: the servers differ")
        usual = expected(charset)
        other = {
            character: code for character, code in codes.items() if usual.get(character) != code
        }
        if other:
            result[charset] = runs(other)
    return result


def main() -> None:
    with Server("mysql-9.7") as mysql, Server("mariadb-11.8") as mariadb:
        text = json.dumps(encodings(mysql, mariadb), indent=1, sort_keys=True)
    (DATA / "encodings.json").write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
