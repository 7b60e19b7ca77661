"""A PostgreSQL server with a data folder of its own, from the machine's packages."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, Final

from tools.s3 import LocalStore
from tools.servers import ServersUnavailable

_USER: Final = "nobody"
"""As whom it runs if this process is root's, as whom it does not start."""


def programs() -> Path | None:
    """The folder with PostgreSQL's programs; None if the machine has none."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("initdb")
    if found is not None:
        folders.append(Path(found).resolve().parent)
    return next(
        (each for each in folders if (each / "postgres").exists() and (each / "initdb").exists()),
        None,
    )


class Postgres(LocalStore):
    """A running server; a context manager. ``url`` is SQLAlchemy's."""

    ends_by = signal.SIGQUIT  # without waiting for clients

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://postgres@{self.host}:{self.port}/postgres"

    def start(self) -> None:
        """Make its data, start it, and wait until it answers."""
        if os.getuid() == 0:
            user = pwd.getpwnam(_USER)
            os.chown(self._work, user.pw_uid, user.pw_gid)
        options = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "-N")
        subprocess.run(
            [_program("initdb"), "-D", self._work / "data", *options],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self._work,
            **self.user(),
        )
        super().start()

    def argv(self) -> list[str]:
        options = ("-k", str(self._work), "-c", f"listen_addresses={self.host}", "-c", "fsync=off")
        data = str(self._work / "data")
        return [_program("postgres"), "-D", data, "-p", str(self.port), *options]

    def own_environment(self) -> dict[str, str]:
        return {}

    def user(self) -> dict[str, Any]:
        """As root it does not start."""
        if os.getuid():
            return {}
        user = pwd.getpwnam(_USER)
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

    def answers(self) -> bool:
        argv = [_program("pg_isready"), "-q", "-h", self.host, "-p", str(self.port)]
        return subprocess.run(argv, check=False).returncode == 0


def _program(name: str) -> str:
    found = programs()
    if found is None:
        raise ServersUnavailable("there is no PostgreSQL on this machine")
    return str(found / name)
