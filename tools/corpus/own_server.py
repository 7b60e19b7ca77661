"""Cases that need a server of their own: other options, a crash, encryption, a replica."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tools import dumps
from tools.applied.serve import address, follow
from tools.corpus.case import DATABASE, MARIADB, MYSQL, Recorder, Recording, add_own, log_files
from tools.corpus.images import changes
from tools.corpus.statements import load_data
from tools.corpus.transactions import savepoints
from tools.servers import NAMES, Options, Server
from tools.servers.encrypting import mariadb_with_keys, mysql_with_keyring

if TYPE_CHECKING:
    from collections.abc import Callable

_NO_GTIDS = {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}
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


def encrypted(name: str) -> Recording:
    """An encrypted log, with its key: component_keyring_file's (MySQL), file_key_management's."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        if name in MYSQL:
            server = mysql_with_keyring(folder, _NO_GTIDS)
        else:
            server = mariadb_with_keys(name, folder)
        server.rotate()
        Recorder(server).run(_TABLE, "INSERT INTO t (v) VALUES ('secret')")
        done = _recording(server, encrypted=True)
        done.logs = [(server.rotate().name, server.binlogs()[-2].read_bytes())]
        server.stop()
        for keys in folder.glob("key*"):  # so that the log can be read one day
            done.logs.append((keys.name, keys.read_bytes()))
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
add_own("encrypted", "an encrypted log, and its key", encrypted, NAMES)
add_own("relay-log", "a replica's relay logs", relay_log, NAMES)
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
