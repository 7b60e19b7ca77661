"""Cases that need a server of their own: other options, a crash, encryption, a replica."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tools import dumps
from tools.applied.serve import address, follow
from tools.corpus.case import DATABASE, MARIADB, MYSQL, Recorder, Recording, add_own, log_files
from tools.corpus.images import changes
from tools.corpus.statements import load_data
from tools.corpus.transactions import savepoints
from tools.servers import NAMES, Options, Server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_TABLE = "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(300))"


def _recording(server: Server, **remarks: object) -> Recording:
    return Recording(
        server=server.version,
        logs=[],
        tables=dumps.dump_databases(server, DATABASE),
        remarks=remarks,
    )


def clean_shutdown(name: str) -> Recording:
    """Two lives of a server, each ended by a shutdown."""
    with Server(name) as server:
        Recorder(server).run(_TABLE, "INSERT INTO t (v) VALUES ('first life')")
        server.restart()
        Recorder(server).run("INSERT INTO t (v) VALUES ('second life')")
        done = _recording(server)
        server.stop(keep=True)
        done.logs = log_files(server.data)
    return done


def _crashed(name: str) -> Recording:
    with Server(name) as server:
        recorder = Recorder(server)
        recorder.run(_TABLE, "INSERT INTO t (v) VALUES ('one'), ('two')")
        recorder.run("UPDATE t SET v = REPEAT('x', 300)", "INSERT INTO t (v) VALUES ('last')")
        done = _recording(server, unclean=True)
        server.kill()
        done.logs = log_files(server.data)
    return done


def in_use(name: str) -> Recording:
    """The log of a server that was killed: complete, but never closed."""
    return _crashed(name)


def torn(name: str) -> Recording:
    """The same, cut in the middle of its last row event; what is whole is expected."""
    done = _crashed(name)
    ((file, content),) = done.logs
    done.logs = [(file, content[: content.rindex(b"last") + 2])]
    done.remarks["torn"] = True
    table = done.tables[f"{DATABASE}.t"]
    table["rows"] = table["rows"][:-1]
    table["count"] = len(table["rows"])
    table["sha256"] = dumps.digest(table["rows"])
    return done


def _with_options(
    options: Options, script: Callable[[Recorder], None]
) -> Callable[[str], Recording]:
    def record(name: str) -> Recording:
        with Server(name, options) as server:
            script(Recorder(server))
            done = _recording(server)
            server.rotate()
            done.logs = log_files(server.data)[:-1]
            files = [server.data / file for file, _ in done.logs]
            done.text = server.mysqlbinlog("-v", "-v", "--base64-output=DECODE-ROWS", *files).stdout
        return done

    return record


def incident(name: str) -> Recording:
    """A statement on a table without transactions that outgrows its cache is lost: an incident."""
    options: dict[str, str | int | bool] = {
        "max_binlog_stmt_cache_size": 4096,
        "binlog_stmt_cache_size": 4096,
    }
    if name in MYSQL:
        options |= {"binlog_error_action": "IGNORE_ERROR"}
    with Server(name, options) as server:
        recorder = Recorder(server)
        recorder.run("CREATE TABLE m (id INT PRIMARY KEY, v VARCHAR(2000)) ENGINE=MyISAM")
        rows = ", ".join(f"({number}, REPEAT('x', 1500))" for number in range(20))
        try:
            recorder.run(f"INSERT INTO m VALUES {rows}")
        except Exception as error:  # noqa: BLE001 - it is meant to fail
            print(f"      incident: {error}")
        done = _recording(server, incident=True, rows_complete=False)
        server.stop(keep=True)
        done.logs = log_files(server.data)
    return done


def encrypted_mariadb(name: str) -> Recording:
    """encrypt_binlog with the plugin file_key_management."""
    with Server(name) as server:  # makes the folder, in which the key can lie
        server.stop(keep=True)
        key = server.folder / "keys"
        key.write_text("1;770A8A65DA156D24EE2A093277530142\n", encoding="ascii")
        server.restart(
            [
                "--plugin-load-add=file_key_management",
                f"--file-key-management-filename={key}",
                "--encrypt-binlog=ON",
            ]
        )
        return _encrypted(server)


def encrypted_mysql(name: str) -> Recording:
    """binlog_encryption with component_keyring_file, which a manifest beside the data names."""
    with Server(name) as server:
        server.stop(keep=True)
        _write_keyring(server.prefix.path / "usr/sbin", server)
        try:
            server.restart(["--binlog-encryption=ON"])
        finally:
            (server.prefix.path / "usr/sbin/mysqld.my").unlink()
            (server.prefix.plugins / "component_keyring_file.cnf").unlink()
        return _encrypted(server)


def _write_keyring(programs: Path, server: Server) -> None:
    """MySQL looks for a manifest beside its program; both say to look in the data folder."""
    (programs / "mysqld.my").write_text('{"read_local_manifest": true}', encoding="ascii")
    component = '{"components": "file://component_keyring_file"}'
    (server.data / "mysqld.my").write_text(component, encoding="ascii")
    settings = server.prefix.plugins / "component_keyring_file.cnf"
    settings.write_text('{"read_local_config": true}', encoding="ascii")
    ring = server.folder / "keyring"
    text = f'{{"path": "{ring}", "read_only": false}}'
    (server.data / "component_keyring_file.cnf").write_text(text, encoding="ascii")


def _encrypted(server: Server) -> Recording:
    Recorder(server).run(_TABLE, "INSERT INTO t (v) VALUES ('secret')")
    done = _recording(server, encrypted=True)
    done.logs = [(server.rotate().name, server.binlogs()[-2].read_bytes())]
    for name in ("keys", "keyring"):  # so that the log can be read one day
        if (server.folder / name).is_file():
            done.logs.append((name, (server.folder / name).read_bytes()))
    return done


def relay_log(name: str) -> Recording:
    """A replica's relay logs: two format descriptions, the source's positions."""
    with Server(name, server_id=10) as source, Server(name, server_id=20) as replica:
        Recorder(source).run(_TABLE, "INSERT INTO t (v) VALUES ('before rotation')")
        source.rotate()
        Recorder(source).run("INSERT INTO t (v) VALUES ('after')", "DELETE FROM t WHERE id = 1")
        # MySQL removes relay logs that are applied: only the receiver is started.
        follow(replica, by_gtid=True, thread="IO_THREAD", **address(source))
        _wait_for_relay_log(replica, b"after")
        replica.execute("FLUSH RELAY LOGS")
        done = _recording(source, relay=True)
        replica.stop(keep=True)
        files = sorted(replica.data.glob("*relay-bin.[0-9]*"))
        done.logs = [(f"relay-bin.{file.suffix[1:]}", file.read_bytes()) for file in files]
        replica.stop()
    return done


def _wait_for_relay_log(replica: Server, wanted: bytes) -> None:
    for _ in range(200):
        files = replica.data.glob("*relay-bin.[0-9]*")
        if any(wanted in file.read_bytes() for file in files):
            time.sleep(0.5)
            return
        time.sleep(0.1)
    status = "SHOW REPLICA STATUS" if replica.flavour == "mysql" else "SHOW SLAVE STATUS"
    raise RuntimeError(f"nothing came to the replica: {replica.query(status)}")


add_own("clean-shutdown", "two lives of a server, STOP events", clean_shutdown, NAMES)
add_own("in-use", "the log of a server that was killed", in_use, NAMES)
add_own("torn", "the log of a server that was killed, cut within an event", torn, NAMES)
add_own("incident", "an INCIDENT event", incident, NAMES)
add_own("encrypted", "an encrypted log, and its key", encrypted_mysql, MYSQL)
add_own("encrypted", "an encrypted log, and its key", encrypted_mariadb, MARIADB)
add_own("relay-log", "a replica's relay logs", relay_log, NAMES)
_NO_GTIDS: Options = {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}
add_own(
    *("anonymous", "gtid_mode=OFF: anonymous transactions"),
    _with_options(_NO_GTIDS, changes),
    MYSQL,
)
add_own(
    *("savepoints", "savepoints, rollbacks, MyISAM in a transaction"),
    _with_options(_NO_GTIDS, savepoints),
    MYSQL,
)
add_own(
    *("load-data", "LOAD DATA as BEGIN_LOAD, APPEND_BLOCK and EXECUTE_LOAD"),
    _with_options({"read_buffer_size": 8192}, load_data),
    NAMES,
    rows_complete=False,
)
add_own(
    *("legacy-positions", "binlog_legacy_event_pos=ON"),
    _with_options({"binlog_legacy_event_pos": "ON"}, changes),
    MARIADB[:1],
)
add_own(
    *("small-events", "binlog_row_event_max_size=256: many events a statement"),
    _with_options({"binlog_row_event_max_size": 256}, changes),
    NAMES,
)
