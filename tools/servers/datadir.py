"""Initialised data folders, made once a server and copied for each start."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tools.servers.fetch import locked
from tools.servers.prefix import Prefix, ServersUnavailable, root_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

# What a start needs too, or the server would find its files other than it made them. Nothing is
# synced: what a killed process has written is there, and no test cuts the machine's power. The
# doublewrite buffer stays on: SIGKILL can end a write in the middle of InnoDB's page of 16 KiB, and
# without it the next start finds a corrupt page and ends. No native asynchronous I/O: the kernel
# has 65,536 requests of it for the whole machine, and each MySQL server keeps 2,305 of them.
ENGINE_OPTIONS: dict[str, tuple[str, ...]] = {
    "mysql": (
        "--innodb-redo-log-capacity=8M",
        "--innodb-buffer-pool-size=24M",
        "--innodb-flush-method=nosync",
        "--innodb-use-native-aio=OFF",
    ),
    "mariadb": (
        "--innodb-log-file-size=8M",
        "--innodb-buffer-pool-size=24M",
        "--innodb-flush-method=nosync",
        "--innodb-use-native-aio=OFF",
        "--debug-no-sync",
    ),
}

_ACCOUNTS = """\
CREATE USER IF NOT EXISTS root@'127.0.0.1';
GRANT ALL PRIVILEGES ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
"""


def user_option() -> list[str]:
    """Servers refuse to run as root unless told to."""
    return ["--user=root"] if os.geteuid() == 0 else []


def make(prefix: Prefix, target: Path, extra: Sequence[str] = ()) -> None:
    """Put a fresh data folder at `target`; `extra` are options that hold from its first day on."""
    _copy(_template(prefix, extra), target)
    (target / "auto.cnf").unlink(missing_ok=True)  # each server has an identity of its own


def _copy(folder: Path, target: Path) -> None:
    """A copy without the zeros that servers allocate: a third to a tenth of the disk."""
    target.parent.mkdir(parents=True, exist_ok=True)
    argv = ["cp", "--archive", "--sparse=always", "--no-target-directory"]
    subprocess.run([*argv, str(folder), str(target)], check=True)


def _template(prefix: Prefix, extra: Sequence[str]) -> Path:
    recipe = [*prefix.server(), *ENGINE_OPTIONS[prefix.release.flavour], *extra, _ACCOUNTS]
    key = hashlib.sha256("\0".join(recipe).encode()).hexdigest()[:12]
    folder = root_folder() / ".data"
    folder.mkdir(exist_ok=True)
    template = folder / f"{prefix.release.name}-{key}"
    if not template.is_dir():
        with locked(folder / f".{template.name}.lock"):
            if not template.is_dir():
                _initialise(prefix, template, extra)
    return template


def _initialise(prefix: Prefix, template: Path, extra: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{template.name}-", dir=template.parent) as work:
        data = Path(work) / "data"
        run = _initialise_mysql if prefix.release.flavour == "mysql" else _initialise_mariadb
        done = run(prefix, data, extra)
        if done.returncode:
            raise ServersUnavailable(
                f"{prefix.release.name} could not make a data folder: {done.stderr[-2000:]}"
            )
        sparse = data.with_name("sparse")
        _copy(data, sparse)
        sparse.rename(template)


def _options(prefix: Prefix, data: Path, extra: Sequence[str]) -> list[str]:
    return [
        *prefix.server(),
        f"--datadir={data}",
        f"--tmpdir={data.parent}",
        *user_option(),
        "--skip-log-bin",
        *ENGINE_OPTIONS[prefix.release.flavour],
        *extra,
    ]


def _initialise_mysql(
    prefix: Prefix, data: Path, extra: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    accounts = data.parent / "accounts.sql"
    accounts.write_text(_ACCOUNTS, encoding="utf-8")
    argv = [*_options(prefix, data, extra), "--initialize-insecure", f"--init-file={accounts}"]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def _initialise_mariadb(
    prefix: Prefix, data: Path, extra: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    """What mariadb-install-db does, less its shell: system tables fed to a bootstrap server."""
    (data / "mysql").mkdir(parents=True)
    brand = "mariadb" if (prefix.share / "mariadb_system_tables.sql").is_file() else "mysql"
    names = ("system_tables", "performance_tables", "system_tables_data")
    sql = ["CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n"]
    for name in names:
        path = prefix.share / f"{brand}_{name}.sql"
        if path.is_file():
            sql.append(path.read_text(encoding="utf-8"))
    sql.append("FLUSH PRIVILEGES;\n" + _ACCOUNTS)
    argv = [*_options(prefix, data, extra), "--bootstrap", "--log-warnings=0"]
    argv += ["--max-allowed-packet=8M", "--net-buffer-length=16K"]
    text = "\n".join(sql)
    return subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
