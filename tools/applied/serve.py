"""Log files in a source server's own index, served to a real replica."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tools.applied.status import ApplyFailed, error_text, replica_status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.servers import Server

_SECONDS: Final = 300.0


def insert_files(source: Server, files: Sequence[Path], *, alone: bool = False) -> list[Path]:
    """Stop the source, put these files behind its own in its index, start it again.

    Gives where they lie. The next file that the server opens comes behind them, so that all of
    its own that is to lie before them is written before, all that is to lie behind them after.
    ``alone`` removes its own first: theirs are then the first of the index. What it demands:

    - Files lie in the folder of the logs, named as its own are. It opens its next under the
      highest number in the *folder* plus one.
    - At the start MySQL takes the PREVIOUS_GTIDS and GTIDs of the index's last file for what was
      executed, whatever its mode. MariaDB writes its state to ``binlog.state`` at a clean stop and
      believes that; where it is missing (it is removed here), the last file's GTID_LIST and GTIDs.
    - A replica that asks by GTID is given the newest file whose PREVIOUS_GTIDS (GTID_LIST) it
      has all of: each file's must hold all that the files before it have, those of the other
      writer included. Setting ``gtid_purged`` does not make MySQL write them: what is known
      through it alone is left out of PREVIOUS_GTIDS (`gtids_only_in_table`).
    - MariaDB 11.4 and later keep an index of GTIDs beside each file (``binlog.000001.idx``); where
      there is none, they read the file.
    - The ROTATE at a file's end may name any file: the server goes by its index, and its replica
      by the ROTATE that is sent before each file.
    """
    source.stop(keep=True)
    index = source.data / "binlog.index"
    own = [source.data / Path(line).name for line in index.read_text("utf-8").splitlines()]
    base, _, highest = own[-1].name.rpartition(".")
    start = 1 if alone else int(highest) + 1
    if alone:
        for path in own:
            path.unlink()
            Path(f"{path}.idx").unlink(missing_ok=True)
        own.clear()
    put = [source.data / f"{base}.{start + at:06}" for at, _ in enumerate(files)]
    for file, target in zip(files, put, strict=True):
        shutil.copyfile(file, target)
    index.write_text("".join(f"./{path.name}\n" for path in [*own, *put]), encoding="utf-8")
    (source.data / f"{base}.state").unlink(missing_ok=True)
    source.start()
    return put


def replicate(source: Server, replica: Server, *, by_gtid: bool) -> None:
    """Have a replica without data take all of the source's logs, from the first file on.

    ``by_gtid``: with auto position (MariaDB: ``slave_pos``); both servers must have
    ``gtid_mode=ON``, and no file an anonymous transaction. Else from the first file's position 4;
    MySQL's replica needs a mode that allows what is in it (see `tools.applied.target.gtid_mode`).

    A statement of the source's own marks the end; when it has been applied, the replica is
    stopped and forgets its source. Raises `ApplyFailed` with the error of either of its threads.
    """
    (first, *_), *_ = source.query("SHOW BINARY LOGS")
    source.execute("CREATE DATABASE IF NOT EXISTS end_of_logs")
    source.settle()  # else what the source writes by itself may take the replica past the end
    end = source.end()
    follow(replica, by_gtid=by_gtid, first=str(first), **address(source))
    try:
        _wait(replica, end)
    finally:
        leave(replica)


def address(source: Server) -> dict[str, Any]:
    """What `follow` is given to follow a server."""
    return {"HOST": source.host, "PORT": source.port, "USER": source.user, "SSL": 0}


def follow(
    replica: Server, *, by_gtid: bool, first: str = "", thread: str = "", **given: Any
) -> None:
    """Have a replica follow a source, by GTID or from the beginning of its file ``first``.

    ``given`` is what CHANGE REPLICATION SOURCE (CHANGE MASTER) takes, without SOURCE_ (MASTER_).
    """
    mysql = replica.flavour == "mysql"
    word, verb = ("SOURCE", "REPLICA") if mysql else ("MASTER", "SLAVE")
    if mysql:
        given["AUTO_POSITION"] = int(by_gtid)
    if not by_gtid:
        given |= {"LOG_FILE": first, "LOG_POS": 4}
    settings = ", ".join(f"{word}_{name} = {value!r}" for name, value in given.items())
    if mysql:
        replica.execute(f"CHANGE REPLICATION SOURCE TO {settings}")
    else:
        gtid = "slave_pos" if by_gtid else "no"
        replica.execute(f"CHANGE MASTER TO {settings}, MASTER_USE_GTID = {gtid}")
    replica.execute(f"START {verb} {thread}")


def _wait(replica: Server, end: tuple[str, int]) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        status = replica_status(replica)
        if status["io_error"] or status["sql_error"]:
            place = f"{status['source_log_file']} at {status['source_log_pos']}"
            raise ApplyFailed(f"{replica.name} behind {place}: {error_text(replica, status)}")
        if (status["source_log_file"], int(status["source_log_pos"])) == end:
            return
        if time.monotonic() > deadline:
            raise ApplyFailed(f"{replica.name} did not reach {end} in {_SECONDS:.0f} s: {status}")
        time.sleep(0.02)


def leave(replica: Server) -> None:
    """Have a replica forget its source."""
    word = "REPLICA" if replica.flavour == "mysql" else "SLAVE"
    replica.execute(f"STOP {word}")
    replica.execute(f"RESET {word} ALL")
