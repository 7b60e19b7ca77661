"""A real S3 server on the loopback, for tests and benchmarks: rclone over a folder."""

from __future__ import annotations

import http.client
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from tools.s3.build import available, program
from tools.servers import ServersUnavailable

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["S3Server", "available", "dies_with_parent", "free_port"]

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


class S3Server:
    """Serves the folders below ``folder`` as buckets; credentials are its own, made at random.

    A context manager. ``requests`` counts what it was asked for since it started, by kind (get,
    head, list, put, begin parts, put part, end parts, abort parts, delete): not with ``log`` off,
    which costs it a third of its speed.
    """

    host = "127.0.0.1"

    def __init__(self, *, log: bool = True) -> None:
        self.key = "AK" + secrets.token_hex(9).upper()
        self.secret = secrets.token_urlsafe(30)
        self._log = log
        self._work = Path(tempfile.mkdtemp(prefix="tailrace-s3-"))
        self.folder = self._work / "buckets"
        self.folder.mkdir()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables by which a client finds it and is let in."""
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_ENDPOINT_URL": f"http://{self.host}:{self.port}",
            "AWS_REGION": "us-east-1",
        }

    @property
    def pid(self) -> int | None:
        """The server's process."""
        return self._process.pid if self._process else None

    def bucket(self, name: str) -> Path:
        """The folder of a bucket, made where it is not there.

        Once the server has looked into it, it does not see what is put there but by itself.
        """
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return folder

    def start(self) -> None:
        """Start it on a free port, and wait until it answers."""
        for _ in range(3):
            self.port = free_port()
            self._spawn()
            if self._answers():
                return
            self.stop(keep=True)
        raise ServersUnavailable(f"the S3 server did not start: {self.log()[-1000:]}")

    def stop(self, *, keep: bool = False) -> None:
        """End it, and remove its folder unless that is to be kept for another start."""
        if self._process:
            self._process.terminate()
            self._process.wait()
            self._process = None
        if not keep:
            shutil.rmtree(self._work, ignore_errors=True)

    def log(self) -> str:
        """What it wrote to its log."""
        path = self._work / "log"
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    @property
    def requests(self) -> Counter[str]:
        """How many requests of each kind it has answered."""
        found: Counter[str] = Counter()
        for line in self.log().splitlines():
            asked = line.partition("DEBUG : serve s3: ")[2]
            found.update(kind for begin, kind in _KINDS.items() if asked.startswith(begin))
        return found

    def _spawn(self) -> None:
        argv = [
            *dies_with_parent(),
            str(program()),
            *("serve", "s3", str(self.folder)),
            f"--addr={self.host}:{self.port}",
            "--config=/dev/null",
            "--vfs-cache-mode=off",
            "--etag-hash=",
            "--vfs-read-wait=0",
            f"--log-level={'DEBUG' if self._log else 'ERROR'}",
            f"--log-file={self._work / 'log'}",
        ]
        self._process = subprocess.Popen(
            argv,
            cwd=self._work,
            env={
                "HOME": str(self._work),
                "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
                "RCLONE_AUTH_KEY": f'"{self.key},{self.secret}"',
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _answers(self) -> bool:
        deadline = time.monotonic() + _START_SECONDS
        while self._process and self._process.poll() is None and time.monotonic() < deadline:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
            try:
                connection.request("GET", "/")
                if connection.getresponse().status == http.client.FORBIDDEN:  # ours wants a key
                    return True
            except OSError:
                pass
            finally:
                connection.close()
            time.sleep(0.02)
        return False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def dies_with_parent() -> list[str]:
    """What to put before a command so that it ends with this process, where that can be had."""
    return ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
