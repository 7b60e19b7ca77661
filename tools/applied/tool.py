"""The binary log tool of a server, piped into its client."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tools.applied.status import ApplyFailed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tools.servers import Server

_SECONDS = 300.0


def by_tool(server: Server, files: Sequence[Path], *options: str) -> None:
    """``mysqlbinlog --verify-binlog-checksum FILE... | mysql`` into a running server.

    Rows arrive as BINLOG statements, transactions keep their GTIDs:

    - MySQL: the output says ``SET GTID_NEXT`` for each, ``'ANONYMOUS'`` where the log has none. A
      server with ``gtid_mode=ON`` refuses the latter, one with ``OFF`` all others: see
      `tools.applied.target.gtid_mode`. A GTID that the server has executed already is passed over
      in silence; see `tools.applied.target.forget`. GTIDs of PREVIOUS_GTIDS are not looked at.
    - MariaDB: the output says ``SET gtid_domain_id, server_id, gtid_seq_no``. Nothing is passed
      over: what is there already is an error, unless the server is in strict mode.

    The tool takes a file whose format description is still marked in use, and one that does not
    end with ROTATE or STOP. It refuses a wrong checksum and a file that ends inside an event.

    Raises `ApplyFailed` with what the tool or the client says.
    """
    reader = [*server.prefix.binlog_tool(), "--verify-binlog-checksum", *options]
    client = server.client("--default-character-set=utf8mb4")
    output = server.folder / "tmp" / "by_tool.sql"
    with output.open("wb") as sql:
        done = subprocess.run(
            [*reader, *map(str, files)],
            stdout=sql,
            stderr=subprocess.PIPE,
            timeout=_SECONDS,
            check=False,
        )
    complaint = _said(done.stderr)
    if done.returncode or "ERROR" in complaint:
        raise ApplyFailed(f"{server.name}: its tool: {complaint}")
    with output.open("rb") as sql:
        done = subprocess.run(client, stdin=sql, capture_output=True, timeout=_SECONDS, check=False)
    if done.returncode:
        raise ApplyFailed(f"{server.name}: the client: {_said(done.stderr)}")
    output.unlink()


def _said(stderr: bytes) -> str:
    lines = stderr.decode(errors="replace").splitlines()
    return "\n".join(line for line in lines if line and "[Warning]" not in line)[-2000:]
