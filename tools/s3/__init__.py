"""Object stores on the loopback, for tests and benchmarks; of S3, rclone over a folder."""

from __future__ import annotations

import http.client
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, Self

from tools.s3.build import available, program
from tools.servers import ServersUnavailable, dies_with_parent, free_port

__all__ = ["LocalStore", "S3Server", "available"]

_START_SECONDS: Final = 300.0
_KINDS: Final = {
    "GET OBJECT Bucket": "get",
    "HEAD OBJECT": "head",
    "CREATE OBJECT": "put",
    "initiate multipart upload": "begin parts",
    "put multipart upload": "put part",
    "complete multipart upload": "end parts",
    "abort multipart upload": "abort parts",
    "delete multi": "delete",
    "LIST BUCKET": "list",
}


class LocalStore:
    """A server on the loopback with a folder of its own; a context manager."""

    host = "127.0.0.1"
    ends_by = signal.SIGTERM

    def __init__(self) -> None:
        self._work = Path(tempfile.mkdtemp(prefix="tailrace-store-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables by which a client finds it and is let in."""
        raise NotImplementedError

    def argv(self) -> list[str]:
        """What starts it. Raises ServersUnavailable."""
        raise NotImplementedError

    def own_environment(self) -> dict[str, str]:
        """The server's own environment variables."""
        return self.environment

    def user(self) -> dict[str, Any]:
        """As whom it runs: arguments of `subprocess.Popen`."""
        return {}

    def answers(self) -> bool:
        """Whether it answers by now; may raise OSError or ServersUnavailable instead."""
        raise NotImplementedError

    def start(self) -> None:
        """Start it on a free port, and wait until it answers."""
        for _ in range(3):
            self.port = free_port()  # which another process may take before the server does
            self._spawn()
            if self._comes_up():
                return
            self.stop(keep=True)
        said = self.log()[-1000:]
        self.stop()
        raise ServersUnavailable(f"{type(self).__name__} did not start: {said}")

    def stop(self, *, keep: bool = False) -> None:
        """End it, and remove its folder unless that is to be kept for another start."""
        if self._process:
            self._process.send_signal(self.ends_by)
            self._process.wait()
            self._process = None
        if not keep:
            shutil.rmtree(self._work, ignore_errors=True)

    def log(self, name: str = "log") -> str:
        """What it printed; or what it wrote to the file of that name."""
        path = self._work / name
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    def _spawn(self) -> None:
        own = {"HOME": str(self._work), "PATH": os.environ.get("PATH", "/usr/bin:/bin")}
        with (self._work / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*dies_with_parent(), *self.argv()],
                cwd=self._work,
                env=own | self.own_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self.user(),
            )

    def _comes_up(self) -> bool:
        deadline = time.monotonic() + _START_SECONDS
        while self._process and self._process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError, ServersUnavailable):
                if self.answers():
                    return True
            time.sleep(0.02)
        return False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class S3Server(LocalStore):
    """Serves the folders below ``folder`` as buckets; credentials are its own, made at random.

    ``requests`` counts what it was asked for since it started, by kind (get, head, list, put, begin
    parts, put part, end parts, abort parts, delete): not with ``log`` off, which costs it a third
    of its speed.
    """

    def __init__(self, *, log: bool = True) -> None:
        super().__init__()
        self.key = "AK" + secrets.token_hex(9).upper()
        self.secret = secrets.token_urlsafe(30)
        self._level = "DEBUG" if log else "ERROR"
        self.folder = self._work / "buckets"
        self.folder.mkdir()

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_ENDPOINT_URL": f"http://{self.host}:{self.port}",
            "AWS_REGION": "us-east-1",
        }

    def bucket(self, name: str) -> Path:
        """The folder of a bucket, made where it is not there.

        Once the server has looked into it, it does not see what is put there but by itself.
        """
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def requests(self) -> Counter[str]:
        """How many requests of each kind it has answered."""
        found: Counter[str] = Counter()
        for line in self.log("requests").splitlines():
            asked = line.partition("DEBUG : serve s3: ")[2]
            found.update(kind for begin, kind in _KINDS.items() if asked.startswith(begin))
        return found

    def argv(self) -> list[str]:
        return [
            *(str(program()), "serve", "s3", str(self.folder), f"--addr={self.host}:{self.port}"),
            *("--config=/dev/null", "--vfs-cache-mode=off", "--etag-hash=", "--vfs-read-wait=0"),
            *(f"--log-level={self._level}", f"--log-file={self._work / 'requests'}"),
        ]

    def own_environment(self) -> dict[str, str]:
        return {"RCLONE_AUTH_KEY": f'"{self.key},{self.secret}"'}

    def answers(self) -> bool:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        with closing(connection):
            connection.request("GET", "/")
            status = connection.getresponse().status
        return status == http.client.FORBIDDEN  # ours wants a key
