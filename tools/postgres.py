"""A PostgreSQL server with a data folder of its own, from the machine's packages."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Final, Self

from tools.servers.server import free_port

_SECONDS: Final = 60.0
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


class Postgres:
    """A running server; a context manager. ``url`` is SQLAlchemy's."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="tailrace-postgres-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/postgres"

    def __enter__(self) -> Self:
        found = programs()
        if found is None:
            raise RuntimeError("there is no PostgreSQL on this machine")
        settings: dict[str, Any] = {}
        if os.getuid() == 0:
            user = pwd.getpwnam(_USER)
            os.chown(self._folder, user.pw_uid, user.pw_gid)
            settings = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        data = self._folder / "data"
        subprocess.run(
            [found / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "-N"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self._folder,
            **settings,
        )
        self.port = free_port()
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    found / "postgres",
                    "-D",
                    data,
                    "-p",
                    str(self.port),
                    "-k",
                    self._folder,
                    "-c",
                    "listen_addresses=127.0.0.1",
                    "-c",
                    "fsync=off",
                ],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                **settings,
            )
        deadline = time.monotonic() + _SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = (self._folder / "log").read_text(errors="replace")[-2000:]
                self.stop()
                raise RuntimeError(f"PostgreSQL did not start: {said}")
            time.sleep(0.1)
        return self

    def _answers(self) -> bool:
        return (
            subprocess.run(
                [str(programs() / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)],  # type: ignore[operator]
                check=False,
            ).returncode
            == 0
        )

    def stop(self) -> None:
        """End it at once; its data is removed."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def __exit__(self, *_: object) -> None:
        self.stop()
