"""What only MariaDB writes: domains, compressed events, two-phase ALTER."""

from __future__ import annotations

from tools.corpus.case import MARIADB, Recorder, add
from tools.corpus.images import big_statements, changes
from tools.corpus.statements import statement_format

_TABLE = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(30))"


def domains(recorder: Recorder) -> None:
    recorder.run(
        _TABLE,
        "INSERT INTO t VALUES (1, 'domain 0')",
        *("SET gtid_domain_id = 5", "INSERT INTO t VALUES (2, 'domain 5')"),
        *("SET server_id = 4294967295", "INSERT INTO t VALUES (3, 'server 4294967295')"),
        *("SET gtid_seq_no = 1000000000000", "INSERT INTO t VALUES (4, 'a far number')"),
        *("SET gtid_domain_id = 4294967295", "DELETE FROM t WHERE id = 1"),
        *("SET server_id = 1, gtid_domain_id = 0", "UPDATE t SET v = 'back' WHERE id = 2"),
        "FLUSH BINARY LOGS",
        *("SET skip_replication = 1", "INSERT INTO t VALUES (5, 'skipped by replicas')"),
        *("SET skip_replication = 0", "INSERT INTO t VALUES (6, 'not skipped')"),
        *("SET skip_parallel_replication = 1", "INSERT INTO t VALUES (7, 'not in parallel')"),
        "CREATE TABLE standalone (id INT)",
        "FLUSH BINARY LOGS DELETE_DOMAIN_ID=(99)",
        "INSERT INTO t VALUES (8, 'end')",
    )


def two_phase(recorder: Recorder) -> None:
    recorder.run(
        _TABLE,
        "INSERT INTO t VALUES (1, 'x'), (2, 'x')",
        "SET binlog_alter_two_phase = ON",
        "ALTER TABLE t ADD COLUMN n INT DEFAULT 3",
        "INSERT INTO t VALUES (3, 'y', 4)",
        "ALTER TABLE t MODIFY v VARCHAR(300), FORCE",
    )
    try:
        recorder.run("ALTER TABLE t ADD UNIQUE KEY (v), ALGORITHM=COPY")  # fails: rolled back
    except Exception as error:  # noqa: BLE001 - a duplicate key is what is wanted
        print(f"      two_phase: {error}")
    recorder.run("INSERT INTO t VALUES (4, 'z', 5)")


def not_annotated(recorder: Recorder) -> None:
    recorder.run(
        _TABLE,
        "INSERT /* é 😀 */ INTO t VALUES (1, 'annotated')",
        "SET binlog_annotate_row_events = OFF",
        "INSERT INTO t VALUES (2, 'not annotated')",
        "UPDATE t SET v = 'changed'",
    )


_COMPRESSED = {"log_bin_compress": "ON", "log_bin_compress_min_len": 10}
add("domains", "GTIDs of several domains and servers, header flags", domains, MARIADB)
add("two-phase-alter", "binlog_alter_two_phase: START, COMMIT, ROLLBACK", two_phase, MARIADB)
add("not-annotated", "with and without ANNOTATE_ROWS", not_annotated, MARIADB)
for _metadata in ("FULL", "NO_LOG"):
    for _image in ("FULL", "MINIMAL"):
        add(
            f"compressed-{_image.lower()}-{_metadata.lower().replace('_', '')}",
            f"log_bin_compress=ON; row image {_image}, metadata {_metadata}",
            changes,
            MARIADB,
            settings={
                **_COMPRESSED,
                "binlog_row_image": _image,
                "binlog_row_metadata": _metadata,
            },
        )
add(
    "compressed-big",
    "compressed events of many rows",
    big_statements,
    MARIADB[:1],
    settings=_COMPRESSED,
)
add(
    *("compressed-statements", "compressed statements", statement_format, MARIADB),
    settings=_COMPRESSED,
    rows_complete=False,
)
