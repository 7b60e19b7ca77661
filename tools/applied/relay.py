"""Log files as the relay log of a running server, run by its own applier thread."""

from __future__ import annotations

import itertools
import shutil
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tools.applied.status import ApplyFailed, error_text, replica_status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.servers import Server

_SECONDS: Final = 300.0
_LOOKS: Final = 100
"""So many answers in a row that it waits, which is two seconds where the server is not held up."""
_MAGIC: Final = b"\xfebin"
_HEADER: Final = struct.Struct("<9xI6x")  # of it, the event's length
_TYPE_AT: Final = 4
_STOP: Final = 3
_channels = itertools.count(1)


def as_relay_log(server: Server, files: Sequence[Path]) -> None:
    """Have a running server's applier thread run these files.

    A channel of its own (MariaDB: a named connection) takes them, so that the server need not
    be stopped: relay logs and their index are looked for under ``<relay_log>-<channel>`` at the
    moment the channel is made. What the servers demand:

    - the index names the files (`./name`, a line each) before CHANGE REPLICATION SOURCE is run,
      or it fails ("Could not find target log"); the names are free, the channel's own are used;
    - a host must be given, it is never asked;
    - both append a new, empty relay log to the index at once, and remove each file once it is
      applied (they are copies here);
    - events of the server's own id are passed over in silence: the log's must be another;
    - no flag needs to say that the events are a relay log's (0x40), the format description may be
      marked in use or not, a file need not end with ROTATE or STOP (which MySQL's position stays
      before): at its end, the next of the index is opened;
    - MySQL: an anonymous log needs ``gtid_mode`` other than ON, one with GTIDs other than OFF
      (see `tools.applied.target.gtid_mode`); GTIDs that are known already are passed over. The
      status says only that a worker failed, also with ``replica_parallel_workers=0``: the error's
      text is in the server's log. An event whose checksum is wrong is no error to it, it waits;
    - MariaDB: ``relay_log`` must have been set when the server was started; by default its value is
      NULL and the index is looked for elsewhere. A checksum is verified
      (``slave_sql_verify_checksum``). `gtid_slave_pos` advances, also with ``MASTER_USE_GTID=NO``.

    Raises `ApplyFailed` with the applier's own error.
    """
    channel = f"files{next(_channels)}"
    base = _relay_log(server)
    named = {f"{base.name}-{channel}.{at:06}": file for at, file in enumerate(files, 1)}
    _put(base, channel, named)
    _change(server, channel, next(iter(named)))
    try:
        _run(server, channel, {name: _end_of(file) for name, file in named.items()})
    finally:
        _end(server, channel)
        for left in base.parent.glob(f"{base.name}-{channel}.*"):
            left.unlink()


def _relay_log(server: Server) -> Path:
    name = server.query("SELECT @@relay_log_basename")[0][0]
    if not name:
        raise ApplyFailed(f"{server.name} has no relay log: start it with --relay-log=relay")
    return Path(str(name))


def _put(base: Path, channel: str, named: dict[str, Path]) -> None:
    """Copy the files under these names and write their index."""
    for name, file in named.items():
        shutil.copyfile(file, base.parent / name)
    index = base.parent / f"{base.name}-{channel}.index"
    index.write_text("".join(f"./{name}\n" for name in named), encoding="utf-8")


def _change(server: Server, channel: str, first: str) -> None:
    if server.flavour == "mysql":
        server.execute(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='nobody', SOURCE_USER='nobody', "
            f"RELAY_LOG_FILE='{first}', RELAY_LOG_POS=4 FOR CHANNEL '{channel}'"
        )
        server.execute(f"START REPLICA SQL_THREAD FOR CHANNEL '{channel}'")
    else:
        server.execute(
            f"CHANGE MASTER '{channel}' TO MASTER_HOST='nobody', MASTER_USER='nobody', "
            f"MASTER_USE_GTID=NO, RELAY_LOG_FILE='{first}', RELAY_LOG_POS=4"
        )
        server.execute(f"START SLAVE '{channel}' SQL_THREAD")


def _run(server: Server, channel: str, ends: dict[str, int]) -> None:
    """Wait for the applier to reach the end of the last file; ``ends`` are by name, see `_end_of`.

    An applier that waits for more before it is there, and goes on waiting, has met an event that
    it cannot read or the end of an unfinished transaction. MySQL's does not call that an error.
    """
    began = time.monotonic()
    waits = 0
    while True:
        status = replica_status(server, channel)
        if status["sql_error"] or status["sql_running"] != "Yes":
            raise ApplyFailed(f"{server.name}: {_place(status)}: {error_text(server, status)}")
        if "has read all" not in (status["sql_state"] or ""):
            waits = 0
        elif _ended(status, ends):
            return
        waits += 1
        if waits > _LOOKS:
            raise ApplyFailed(
                f"{server.name} waits at {_place(status)} of {ends}: what follows it cannot read"
            )
        if time.monotonic() - began > _SECONDS:
            raise ApplyFailed(f"{server.name} did not end in {_SECONDS:.0f} s: {status}")
        time.sleep(0.02)


def _end_of(file: Path) -> int:
    """Where the applier's position is at the end of a file: STOP does not move it."""
    data = file.read_bytes()
    start, last = len(_MAGIC), 0
    while start + _HEADER.size <= len(data):
        last = start
        start += max(_HEADER.unpack_from(data, start)[0], _HEADER.size)
    return last if last and data[last + _TYPE_AT] == _STOP else len(data)


def _ended(status: dict[str, Any], ends: dict[str, int]) -> bool:
    """Whether the applier is in the next file, or, where no ROTATE ends it, at the last's end."""
    file, position = status["relay_log_file"], int(status["relay_log_pos"])
    return file not in ends or (file == list(ends)[-1] and position >= ends[file])


def _place(status: dict[str, Any]) -> str:
    return f"relay log {status['relay_log_file']} at {status['relay_log_pos']}"


def _end(server: Server, channel: str) -> None:
    if server.flavour == "mysql":
        server.execute(f"STOP REPLICA FOR CHANNEL '{channel}'")
        server.execute(f"RESET REPLICA ALL FOR CHANNEL '{channel}'")
    else:
        server.execute(f"STOP SLAVE '{channel}'")
        server.execute(f"RESET SLAVE '{channel}' ALL")
