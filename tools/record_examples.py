"""Records `examples/shop` on real servers: `./run python -m tools.record_examples`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools import dumps
from tools.servers import Server
from tools.shop import mariadb, mysql

_TARGET = Path(__file__).resolve().parents[1] / "examples" / "shop"


def record(target: Path) -> None:
    """Record both servers' logs and what they hold at the end."""
    expected: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="tailrace-examples-") as work:
        for name, database, script in (
            ("mysql-9.7", "shop", mysql),
            ("mariadb-11.8", "warehouse", mariadb),
        ):
            flavour = name.partition("-")[0]
            server = Server(name, script.OPTIONS, server_id=100, folder=Path(work) / flavour)
            with server:
                script.run(server)
                expected[flavour] = {
                    "server": server.version,
                    "tables": dumps.dump_databases(server, database),
                }
            expected[flavour]["files"] = _copy_logs(server, target / flavour)
    dumps.write(target / "expected.json", expected)


def _copy_logs(server: Server, folder: Path) -> list[str]:
    """Copy the logs of a server that has stopped; gives their names."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    logs = server.binlogs()
    for log in logs:
        shutil.copyfile(log, folder / log.name)
    lines = [f"./{log.name}\n" for log in logs]
    (folder / "binlog.index").write_text("".join(lines), encoding="ascii")
    return [log.name for log in logs]


if __name__ == "__main__":
    record(Path(sys.argv[1]) if len(sys.argv) > 1 else _TARGET)
