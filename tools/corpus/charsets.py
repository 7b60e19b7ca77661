"""Character sets: texts in each that the server has, and whole maps of them."""

from __future__ import annotations

from tools.corpus.case import MYSQL, Recorder, add, add_with_metadata

# Each is stored as far as a character set can: what it can't is `?` on the server, too.
_TEXTS = (
    "plain ASCII ~ \\\\ {}",
    "àéîõüÿ ÄÖÜß ñ ¿¡ £ ¥ €",
    "Příliš žluťoučký kůň; Zażółć gęślą jaźń",
    "Съешь же ещё этих мягких булок; їєґ",
    "Ταχίστη αλώπηξ βαφής ψημένη γη",
    "שלום עולם",
    "مرحبا بالعالم",
    "สวัสดีชาวโลก",
    "日本語テキスト、表示ソ能 ｶﾀｶﾅ",
    "简体中文测试 汉字",
    "繁體中文測試 漢字",
    "한국어 텍스트",
    "Հայերեն ტექსტი",
    "Šiaulių žąsys ēģļ",
    "😀 𝄞 𠀀",
)
_SINGLE_BYTE_LIMIT = 1
_WHOLE_MAPS = ("big5", "euckr", "gb2312", "gbk", "sjis", "cp932", "ujis", "eucjpms", "gb18030")
_ROW = 100  # characters a row
_SYMBOLS = 900  # what is at odds between libraries stands at the beginning


def _names(recorder: Recorder) -> list[tuple[str, int]]:
    found = recorder.query(
        "SELECT character_set_name, maxlen FROM information_schema.character_sets "
        "WHERE character_set_name <> 'binary' ORDER BY 1"
    )
    return [(str(name), int(longest)) for name, longest in found]


def texts(recorder: Recorder) -> None:
    for name, _ in _names(recorder):
        columns = {
            "c": "CHAR(60)",
            "v": "VARCHAR(100)",
            "t": "TEXT",
            "e": "ENUM('a', 'é', 'ж', '日', '한')",
            "s": "SET('x', 'ü', 'я', '本')",
        }
        rows = [
            [f"'{text} '"] * 3 + [str(number % 2 + 1), str(number % 2)]
            for number, text in enumerate(_TEXTS)
            if _worth(recorder, name, text)
        ]
        members = _members(recorder, name, ("a", "é", "ж", "日", "한"))
        columns["e"] = f"ENUM({members})"
        columns["s"] = f"SET({_members(recorder, name, ('x', 'ü', 'я', '本'))})"
        recorder.table(f"cs_{name}", columns, rows, f"CHARACTER SET {name}")


def _worth(recorder: Recorder, charset: str, text: str) -> bool:
    """Whether the character set can hold the text, or nearly."""
    ((lost,),) = recorder.query(
        f"SELECT CHAR_LENGTH(s) - CHAR_LENGTH(REPLACE(s, '?', '')) FROM "
        f"(SELECT CONVERT(CONVERT('{text}' USING {charset}) USING utf8mb4) AS s) x"
    )
    return int(lost) <= 2


def _members(recorder: Recorder, charset: str, wanted: tuple[str, ...]) -> str:
    """The members that the character set can hold; at least the first."""
    held = [
        member
        for member in wanted
        if recorder.query(f"SELECT CONVERT(CONVERT('{member}' USING {charset}) USING utf8mb4)")
        == [(member,)]
    ]
    return ", ".join(f"'{member}'" for member in (held or wanted[:1]))


def byte_maps(recorder: Recorder) -> None:
    """Every byte of every single-byte character set, sixteen a row."""
    for name, longest in _names(recorder):
        if longest == _SINGLE_BYTE_LIMIT:
            first = 0 if name in {"swe7", "ascii", "latin1"} else 128
            last = 128 if name in {"swe7", "ascii"} else 256
            rows = [
                [f"_{name} x'{bytes(range(start, start + 16)).hex()}'"]
                for start in range(first, last, 16)
            ]
            column = {"v": f"VARCHAR(16) CHARACTER SET {name}"}
            recorder.table(f"map_{name}", column, rows)


def character_maps(recorder: Recorder) -> None:
    """What a character set holds of the BMP: the first 900, and every fourth of the others."""
    recorder.run("SET sql_log_bin = 0", "CREATE TABLE bmp (u CHAR(1) CHARACTER SET utf8mb4)")
    points = [*range(0xA0, 0xD800), *range(0xE000, 0xFFFE)]
    for start in range(0, len(points), 8192):
        values = ", ".join(f"(_utf16 x'{point:04x}')" for point in points[start : start + 8192])
        recorder.run(f"INSERT INTO bmp VALUES {values}")
    held: dict[str, list[str]] = {}
    for name in _WHOLE_MAPS:
        found = recorder.query(
            f"SELECT u FROM bmp WHERE CONVERT(CONVERT(u USING {name}) USING utf8mb4) = BINARY u "
            f"ORDER BY CONVERT(u USING {name}) COLLATE {name}_bin"
        )
        every = [str(u) for (u,) in found]
        held[name] = every[:_SYMBOLS] + every[_SYMBOLS :: 9 if name == "gb18030" else 4]
    recorder.run("DROP TABLE bmp", "SET sql_log_bin = 1")
    for name, characters in held.items():
        rows = [
            [f"'{''.join(characters[start : start + _ROW])}'"]
            for start in range(0, len(characters), _ROW)
        ]
        recorder.table(f"map_{name}", {"v": f"VARCHAR({_ROW}) CHARACTER SET {name}"}, rows)


_RECENT = ("mysql-9.7", "mariadb-11.8")
add_with_metadata("charsets", "texts in every character set", texts, _RECENT, insert_only=True)
add(
    *("byte-maps", "every byte of every single-byte character set", byte_maps, _RECENT),
    insert_only=True,
)
add(
    *("character-maps", "the characters of the East Asian character sets", character_maps, MYSQL),
    insert_only=True,
    with_text=False,
)
