"""Row images, and changes of all kinds under each: FULL, MINIMAL, NOBLOB."""

from __future__ import annotations

from tools.corpus.case import MARIADB, MYSQL, NEWEST, Recorder, add


def changes(recorder: Recorder) -> None:
    recorder.run(
        "CREATE TABLE keyed (id INT PRIMARY KEY, n INT UNSIGNED, s VARCHAR(40), b BLOB, t TEXT, "
        "d DATETIME(3) DEFAULT '2026-01-01', z INT NULL)",
        "CREATE TABLE composite (a INT, b CHAR(5), c BLOB, v INT, x CHAR(9), PRIMARY KEY (b, a))",
        "CREATE TABLE prefixed (t TEXT, n INT, PRIMARY KEY (t(4)))",
        "CREATE TABLE uniquely (id INT NOT NULL, u VARCHAR(10) NOT NULL UNIQUE, b BLOB)",
        "CREATE TABLE keyless (a INT, t TEXT, c CHAR(3))",
    )
    recorder.run(
        "INSERT INTO keyed VALUES (1, 10, 'one', x'01', 'text', '2026-01-02 03:04:05.678', NULL)",
        "INSERT INTO keyed (id) VALUES (2)",
        "INSERT INTO keyed (id, s, b) VALUES (3, 'three', x'030303'), (4, NULL, NULL)",
        "INSERT INTO keyed (id, t) VALUES (5, REPEAT('long ', 100)), (6, ''), (7, 'seven')",
        "UPDATE keyed SET n = 4294967295 WHERE id = 1",
        "UPDATE keyed SET s = NULL, z = 5 WHERE id = 1",
        "UPDATE keyed SET b = x'00', t = NULL WHERE id = 3",
        "UPDATE keyed SET b = x'0404' WHERE id IN (2, 4)",
        "UPDATE keyed SET id = id + 100 WHERE id > 5 ORDER BY id DESC",
        "UPDATE keyed SET n = 1, s = 'many', d = '2026-05-05 05:05:05.005' WHERE id < 5",
        "UPDATE keyed SET n = n WHERE id = 1",
        "DELETE FROM keyed WHERE id IN (2, 106)",
    )
    recorder.run(
        "INSERT INTO composite VALUES (1, 'a', x'AA', 1, 'x'), (2, 'a', NULL, 2, NULL), "
        "(1, 'b', x'', NULL, '')",
        "UPDATE composite SET v = 7 WHERE a = 1",
        "UPDATE composite SET a = 9, x = 'moved' WHERE a = 2",
        "UPDATE composite SET c = x'CC' WHERE b = 'b'",
        "DELETE FROM composite WHERE a = 1 AND b = 'a'",
        "INSERT INTO prefixed VALUES ('abcdefgh', 1), ('abxx', 2), ('', 3)",
        "UPDATE prefixed SET n = 10 WHERE n = 1",
        "DELETE FROM prefixed WHERE n = 2",
        "INSERT INTO uniquely VALUES (1, 'one', x'11'), (2, 'two', NULL)",
        "UPDATE uniquely SET id = 20 WHERE u = 'two'",
        "UPDATE uniquely SET b = x'22' WHERE u = 'one'",
        "DELETE FROM uniquely WHERE u = 'one'",
        "INSERT INTO keyless VALUES (1, 'x', 'abc'), (2, NULL, NULL), (NULL, NULL, NULL)",
        "INSERT INTO keyless (c) VALUES ('def')",
        "UPDATE keyless SET a = 5 WHERE c = 'abc'",
        "UPDATE keyless SET t = 'y' WHERE a = 2",
        "DELETE FROM keyless WHERE c = 'def'",
    )


def replaced(recorder: Recorder) -> None:
    """REPLACE, which servers log as an update where they can."""
    recorder.run(
        "CREATE TABLE replaced (id INT PRIMARY KEY, u INT UNIQUE, s VARCHAR(20), b BLOB, "
        "d INT DEFAULT 7)",
        "INSERT INTO replaced VALUES (1, 10, 'one', x'01', 1), (2, 20, 'two', x'02', 2)",
        "REPLACE INTO replaced (id, s) VALUES (1, 'replaced'), (3, 'new')",
        "REPLACE INTO replaced (id, u, s) VALUES (4, 20, 'takes the place of 2')",
        "INSERT INTO replaced (id, u) VALUES (3, 9) ON DUPLICATE KEY UPDATE u = 99, s = 'dup'",
        "INSERT IGNORE INTO replaced VALUES (1, 1, 'ignored', NULL, NULL), (5, 5, 'x', NULL, 5)",
    )


def big_statements(recorder: Recorder) -> None:
    """Statements whose rows fill several events."""
    recorder.run(
        "CREATE TABLE big (id INT AUTO_INCREMENT PRIMARY KEY, s VARCHAR(90), n BIGINT)",
        "INSERT INTO big (s, n) VALUES "
        + ", ".join(
            f"('row {number} {'x' * (number % 60)}', {number**3})" for number in range(250)
        ),
        "UPDATE big SET n = -n WHERE id % 3 = 0",
        "DELETE FROM big WHERE id % 4 = 0",
    )


for _image in ("FULL", "MINIMAL", "NOBLOB"):
    for _metadata in ("FULL", "MINIMAL"):
        add(
            f"image-{_image.lower()}-{_metadata.lower()}",
            f"changes of all kinds; row image {_image}, metadata {_metadata}",
            changes,
            NEWEST,
            settings={"binlog_row_image": _image, "binlog_row_metadata": _metadata},
        )
add("replace", "REPLACE and ON DUPLICATE KEY UPDATE; row image FULL", replaced)
add(
    *("replace-minimal", "REPLACE and ON DUPLICATE KEY UPDATE; row image MINIMAL", replaced, MYSQL),
    settings={"binlog_row_image": "MINIMAL"},
)
add(
    "replace-minimal",
    "the same on MariaDB: what REPLACE resets is not in the log, not even its own replica gets it",
    replaced,
    MARIADB[:1],
    settings={"binlog_row_image": "MINIMAL"},
    rows_complete=False,
)
add(
    "image-nodup",
    "changes of all kinds; row image FULL_NODUP, metadata NO_LOG",
    changes,
    servers=("mariadb-11.8",),
    settings={"binlog_row_image": "FULL_NODUP"},
)
for _checksum in ("CRC32", "NONE"):
    add(
        f"checksum-{_checksum.lower()}",
        f"changes of all kinds; binlog_checksum={_checksum}",
        changes,
        settings={"binlog_checksum": _checksum, "binlog_row_metadata": "FULL"},
    )
add("big-statements", "statements whose rows fill several events", big_statements, NEWEST)
_COMPRESSED = {"binlog_transaction_compression": "ON"}
for _metadata in ("FULL", "MINIMAL"):
    add(
        f"payload-{_metadata.lower()}",
        f"changes of all kinds in compressed transactions; metadata {_metadata}",
        changes,
        servers=MYSQL,
        settings={**_COMPRESSED, "binlog_row_metadata": _metadata},
    )
add(
    *("payload-big", "a compressed transaction of many events", big_statements, MYSQL),
    settings={**_COMPRESSED, "binlog_transaction_compression_level_zstd": 19},
)
add(
    *("payload-no-checksum", "compressed transactions without checksums", changes, MYSQL),
    settings={**_COMPRESSED, "binlog_checksum": "NONE"},
)
