"""Strings and bytes: padding, lengths on both sides of 255, ENUM, SET, compressed columns."""

from __future__ import annotations

from tools.corpus.case import MARIADB, Recorder, add, add_with_metadata

_LONG = "REPEAT('é', {})"
_BYTES = "REPEAT(x'00FF10', {})"


def characters(recorder: Recorder) -> None:
    columns = {
        "c0": "CHAR(0)",
        "c1": "CHAR(1)",
        "c10": "CHAR(10)",
        "c63": "CHAR(63)",
        "c64": "CHAR(64)",  # 256 bytes: the length takes two
        "c255": "CHAR(255)",
        "cl": "CHAR(255) CHARACTER SET latin1",
        "v0": "VARCHAR(0)",
        "v10": "VARCHAR(10)",
        "v63": "VARCHAR(63)",
        "v64": "VARCHAR(64)",
        "vl": "VARCHAR(255) CHARACTER SET latin1",
        "vl2": "VARCHAR(256) CHARACTER SET latin1",
        "v": "VARCHAR(2000)",
    }
    rows = [
        ["''"] * 14,
        ["''", "'a'", "'a  '", "' b'", "'  '", "'c '", "'d '", "''", *["'e  '"] * 6],
        [
            "''",
            "'€'",
            *[_LONG.format(n) for n in (10, 63, 64, 255, 255)],
            "''",
            *[_LONG.format(n) for n in (10, 63, 64, 255, 256, 2000)],
        ],
        [
            "''",
            "'😀'",
            "'a\\0b'",
            "'line\\nbreak'",
            "'tab\\t\"q\"'",
            "'\\\\'",
            "'ÿ'",
            "''",
            "'日本語'",
            "'𝄞clef'",
            "'\\Z'",
            "'£'",
            "'Ÿ'",
            "'\u2028'",
        ],
    ]
    recorder.table("characters", columns, rows)


def binaries(recorder: Recorder) -> None:
    columns = {
        "b1": "BINARY(1)",
        "b16": "BINARY(16)",
        "b255": "BINARY(255)",
        "v1": "VARBINARY(1)",
        "v255": "VARBINARY(255)",
        "v256": "VARBINARY(256)",
        "v2000": "VARBINARY(2000)",
    }
    rows = [
        ["''"] * 7,
        ["x'00'", "x'6100'", "x'000000'", "x'00'", "x'6100'", "x'0000'", "x'612000'"],
        ["x'20'", "x'6120'", "x'20202020'", "x'20'", "x'6120'", "x'2020'", "x'00'"],
        [
            "x'FF'",
            "x'000102030405060708090A0B0C0D0E0F'",
            _BYTES.format(85),
            "x'80'",
            _BYTES.format(85),
            "REPEAT(x'AB', 256)",
            "REPEAT(x'CD00', 1000)",
        ],
    ]
    recorder.table("binaries", columns, rows)


def blobs(recorder: Recorder) -> None:
    sizes = ("TINY", "", "MEDIUM", "LONG")
    columns = {f"{size.lower() or 'plain'}_b": f"{size}BLOB" for size in sizes}
    columns |= {f"{size.lower() or 'plain'}_t": f"{size}TEXT" for size in sizes}
    rows = [
        ["''"] * 8,
        ["x'00'"] * 4 + ["'t  '"] * 4,
        [_BYTES.format(n) for n in (85, 86, 90, 300)] + [_LONG.format(n) for n in (127, 128, 9, 5)],
    ]
    recorder.table("blobs", columns, rows)


def big_values(recorder: Recorder) -> None:
    """Values whose length takes three bytes, and an event that is longer than 64 KiB."""
    rows = [["REPEAT('ab', 33000)", "REPEAT(x'00', 300)"]]
    recorder.table("big_values", {"t": "MEDIUMTEXT", "b": "LONGBLOB"}, rows)


def enums_and_sets(recorder: Recorder) -> None:
    many = ", ".join(f"'m{number}'" for number in range(300))
    columns = {
        "e": "ENUM('a', 'b,c', 'it''s', '', 'ü', '日本', 'x ')",
        "e1": "ENUM('only')",
        "em": f"ENUM({many})",
        "el": "ENUM('é', 'ß') CHARACTER SET latin1",
    }
    sizes = (1, 2, 8, 9, 16, 17, 24, 32, 33, 64)
    for size in sizes:
        members = ", ".join(f"'s{number}'" for number in range(size))
        columns[f"s{size}"] = f"SET({members})"
    columns["su"] = "SET('ä', '日', 'z') CHARACTER SET utf8mb4"
    rows = [
        ["'a'", "'only'", "'m0'", "'é'", *["0"] * 10, "''"],
        ["'b,c'", "1", "'m255'", "'ß'", *["1"] * 10, "'ä,z'"],
        ["'it\\'s'", "1", "'m256'", "2", *[str(1 << size - 1) for size in sizes], "'日'"],
        ["''", "1", "'m299'", "1", *[str((1 << size) - 1) for size in sizes], "7"],
        [
            "'ü'",
            "1",
            "'m254'",
            "1",
            *[str(0x5A5A5A5A5A5A5A5A % (1 << size)) for size in sizes],
            "1",
        ],
        ["'nothing like it'", "0", "0", "0", *["0"] * 10, "0"],  # the error value, index 0
        ["'日本'", "1", "'m1'", "1", *["1"] * 10, "2"],
    ]
    recorder.table("enums_and_sets", columns, rows)


def compressed_columns(recorder: Recorder) -> None:
    columns = {
        "v": "VARCHAR(2000) COMPRESSED",
        "vl": "VARCHAR(200) COMPRESSED CHARACTER SET latin1",
        "vb": "VARBINARY(2000) COMPRESSED",
        "tb": "TINYBLOB COMPRESSED",
        "b": "BLOB COMPRESSED",
        "mb": "MEDIUMBLOB COMPRESSED",
        "t": "TEXT COMPRESSED",
        "lt": "LONGTEXT COMPRESSED CHARACTER SET utf8mb4",
    }
    rows = [
        ["''"] * 8,
        ["'short é'", "'é'", "x'00FF'", "x'00'", "x'8000'", "x'01'", "'t  '", "'😀'"],
        [_LONG.format(n) for n in (900, 200)]
        + [_BYTES.format(n) for n in (600, 80, 1000, 2300)]
        + [_LONG.format(n) for n in (1500, 3500)],
    ]
    recorder.table("compressed_columns", columns, rows)
    for wrap, strategy in ((1, "DEFAULT_STRATEGY"), (0, "HUFFMAN_ONLY")):
        recorder.run(
            f"SET GLOBAL column_compression_zlib_wrap = {wrap}",
            f"SET GLOBAL column_compression_zlib_strategy = {strategy}",
            f"INSERT INTO compressed_columns (id, v, b) VALUES "
            f"({10 + wrap}, REPEAT('wrapped or not ', 20), REPEAT(x'0102', 200))",
        )
    recorder.run(
        "SET GLOBAL column_compression_zlib_wrap = DEFAULT",
        "SET GLOBAL column_compression_zlib_strategy = DEFAULT",
    )


def network_types(recorder: Recorder) -> None:
    columns = {"u": "UUID", "i4": "INET4", "i6": "INET6"}
    rows = [
        ["'00000000-0000-0000-0000-000000000000'", "'0.0.0.0'", "'::'"],
        [
            "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
            "'255.255.255.255'",
            "'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'",
        ],
        ["'6ccd780c-baba-1026-9564-5b8c656024db'", "'192.168.0.1'", "'2001:db8::1'"],
        ["'11111111-2222-3333-4400-000000000000'", "'10.0.0.0'", "'2001:db8::'"],
        ["'018f3e2a-7b1c-7def-8abc-0123456789ab'", "'1.2.3.4'", "'::ffff:1.2.3.4'"],
        ["'12345678-9abc-4def-8123-456789abcdef'", "'127.0.0.1'", "'::1'"],
        ["'20202020-2020-2020-2020-202020202020'", "'32.32.32.32'", "'2020:2020::2020'"],
        ["'00000000-0000-0000-0000-000000000001'", "'0.0.0.1'", "'1:0:0:2::'"],
        ["'abcdef01-0000-1000-8000-00000000ff00'", "'10.1.0.0'", "'fe80::1:0:0:1'"],
    ]
    recorder.table("network_types", columns, rows)


add_with_metadata("characters", "CHAR and VARCHAR, padding, lengths", characters, insert_only=True)
add_with_metadata("binaries", "BINARY and VARBINARY, trailing zeros", binaries, insert_only=True)
add_with_metadata("blobs", "TINYBLOB to LONGBLOB, TINYTEXT to LONGTEXT", blobs, insert_only=True)
add(
    *("big-values", "a value and an event above 64 KiB", big_values, ("mysql-9.7", "mariadb-11.8")),
    insert_only=True,
    with_text=False,
)
add_with_metadata(
    *("enums-sets", "ENUM and SET, up to 64 members, the error value", enums_and_sets),
    insert_only=True,
)
add_with_metadata(
    *("compressed-columns", "MariaDB's COMPRESSED columns", compressed_columns),
    servers=MARIADB[:1],
    insert_only=True,
    with_text=False,
)
add_with_metadata(
    *("network-types", "UUID, INET4, INET6", network_types), servers=MARIADB, insert_only=True
)
