"""Write src/tailrace/values/data/encodings.json: the codes that real servers write.

``python -m tests.values.make_encodings`` starts MySQL 9.7 and MariaDB 11.8 and has them convert every
character of the Basic Multilingual Plane to every character set. Kept is only what is not the first
code that is read as the character (single-byte sets), or Python's nearest codec's (the Asian ones).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tailrace.values.charsets import _by_server, _codes, _data, decode, decoder, single_byte_table
from tests.values.make_tables import DATA, runs, selected
from tools.servers import Server

if TYPE_CHECKING:
    from collections.abc import Iterable

PLANE = [chr(number) for number in range(0x10000) if not 0xD800 <= number < 0xE000]


def written(server: Server, charset: str, characters: Iterable[str] = PLANE) -> dict[str, bytes]:
    """The server's code of each character that it can write and read back."""
    codes = (ord(character).to_bytes(4, "big") for character in characters)
    columns = f"HEX(code), HEX(CONVERT(CONVERT(code USING utf32) USING {charset}))"
    result = {
        chr(int(character, 16)): bytes.fromhex(code)
        for character, code in selected(server, codes, columns)
    }
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
            result[charset] = runs((code, character) for character, code in other.items())
    return result


def main() -> None:
    with Server("mysql-9.7") as mysql, Server("mariadb-11.8") as mariadb:
        text = json.dumps(encodings(mysql, mariadb), indent=1, sort_keys=True)
    (DATA / "encodings.json").write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
