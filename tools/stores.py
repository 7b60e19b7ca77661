"""Other object stores than rclone's on the loopback, for tests: moto's S3, Azurite's Azure.

Both come from package registries into the folder of the servers, with the packages that they needed
on one day; nothing is installed on the machine.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import closing
from email.utils import formatdate
from pathlib import Path
from typing import Final

from tools.s3 import LocalStore
from tools.servers import ServersUnavailable
from tools.servers.fetch import locked
from tools.servers.prefix import root_folder

_AS_OF: Final = "2026-11-01"
"""No package is newer, so that all machines have the same."""
_HOST: Final = "127.0.0.1"
_ACCOUNT: Final = "tailrace"
_BUCKET: Final = "landing"
_VERSION: Final = "2021-12-02"
"""Of Azure's protocol, for creating a container."""


class OtherStore(LocalStore):
    """A server of one bucket."""

    name: str
    scheme: str

    @property
    def url(self) -> str:
        """The bucket's URL."""
        return f"{self.scheme}://{_BUCKET}"

    @classmethod
    def program(cls) -> list[str]:
        """The command that starts it, fetched where it is not there yet.

        Raises ServersUnavailable.
        """
        target = root_folder() / "stores" / f"{cls.name}-{_AS_OF}"
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target.parent / f".{cls.name}.lock"):
            if not target.is_dir():
                with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as work:
                    print(f"servers: fetching {cls.name} ...", file=sys.stderr, flush=True)
                    made = Path(work) / cls.name
                    made.mkdir()
                    cls.fetch(made)
                    made.rename(target)
        return cls.command(target)

    @classmethod
    def available(cls) -> str | None:
        """None where the server is there or could be fetched just now, else the reason."""
        try:
            cls.program()
        except ServersUnavailable as error:
            return str(error)
        return None

    @classmethod
    def fetch(cls, folder: Path) -> None:
        """Fetch its packages into an empty folder."""
        raise NotImplementedError

    @classmethod
    def command(cls, folder: Path) -> list[str]:
        """What starts it, of what was fetched."""
        raise NotImplementedError

    def options(self) -> list[str]:
        """The options to start it with."""
        raise NotImplementedError

    def create(self) -> None:
        """Create the bucket."""
        raise NotImplementedError

    def argv(self) -> list[str]:
        return [*self.program(), *self.options()]

    def answers(self) -> bool:
        self.create()
        return True

    def put(self, path: str, headers: dict[str, str], expected: int) -> None:
        """A request without content. Raises ServersUnavailable for another status."""
        with closing(http.client.HTTPConnection(_HOST, self.port, timeout=30)) as connection:
            connection.request("PUT", path, headers={"Content-Length": "0", **headers})
            status = connection.getresponse().status
        if status != expected:
            raise ServersUnavailable(f"{self.name}: creating the bucket was answered with {status}")


class Moto(OtherStore):
    """S3 by moto, a Python implementation."""

    name = "moto"
    scheme = "s3"

    @property
    def environment(self) -> dict[str, str]:
        """Any key is let in."""
        return {
            "AWS_ACCESS_KEY_ID": "moto",
            "AWS_SECRET_ACCESS_KEY": "moto-takes-any",
            "AWS_ENDPOINT_URL": f"http://{_HOST}:{self.port}",
            "AWS_REGION": "us-east-1",
        }

    @classmethod
    def fetch(cls, folder: Path) -> None:
        """By uv."""
        uv = os.environ.get("UV") or shutil.which("uv")
        if uv is None:
            raise ServersUnavailable("moto is fetched by uv: use ./run")
        environment = str(folder / ".venv")
        _fetch([uv, "venv", "--quiet", "--python", sys.executable, environment])
        packages = ["moto[s3]==5.1.22", "flask", "flask-cors"]
        options = ["--quiet", "--link-mode=copy", "--exclude-newer", _AS_OF]
        _fetch([uv, "pip", "install", *options, "--python", environment, *packages])

    @classmethod
    def command(cls, folder: Path) -> list[str]:
        """Its Python, whose environment may have been moved."""
        return [str(folder / ".venv/bin/python"), "-m", "moto.server"]

    def options(self) -> list[str]:
        """The address."""
        return ["-H", _HOST, "-p", str(self.port)]

    def create(self) -> None:
        """Create the bucket."""
        self.put(f"/{_BUCKET}", {}, http.client.OK)


class Azurite(OtherStore):
    """Azure's blobs by Azurite, Microsoft's emulator."""

    name = "azurite"
    scheme = "az"

    def __init__(self) -> None:
        super().__init__()
        self._key = base64.b64encode(os.urandom(32)).decode()

    @property
    def environment(self) -> dict[str, str]:
        """The account and its key."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": self._key,
            "AZURE_STORAGE_ENDPOINT": f"http://{_HOST}:{self.port}/{_ACCOUNT}",
            "AZURITE_ACCOUNTS": f"{_ACCOUNT}:{self._key}",
        }

    @classmethod
    def fetch(cls, folder: Path) -> None:
        """By npm."""
        npm = shutil.which("npm")
        if npm is None:
            raise ServersUnavailable("azurite is fetched by npm, which is not on this machine")
        options = ["--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
        packages = ["--before", _AS_OF, "--prefix", str(folder), "azurite@3.35.0"]
        _fetch([npm, "install", *options, *packages])

    @classmethod
    def command(cls, folder: Path) -> list[str]:
        """Only its blobs."""
        node = shutil.which("node")
        if node is None:
            raise ServersUnavailable("azurite runs on Node.js, which is not on this machine")
        return [node, str(folder / "node_modules/azurite/dist/src/blob/main.js")]

    def options(self) -> list[str]:
        """The address; objects in memory."""
        return [
            *("--blobHost", _HOST, "--blobPort", str(self.port)),
            *("--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"),
        ]

    def create(self) -> None:
        """Create the container, by a request with a shared key's signature."""
        date = formatdate(usegmt=True)
        path = f"/{_ACCOUNT}/{_BUCKET}"
        headers = f"x-ms-date:{date}\nx-ms-version:{_VERSION}\n"
        signed = "PUT" + "\n" * 12 + headers + f"/{_ACCOUNT}{path}\nrestype:container"
        digest = hmac.digest(base64.b64decode(self._key), signed.encode(), hashlib.sha256)
        self.put(
            f"{path}?restype=container",
            {
                "x-ms-date": date,
                "x-ms-version": _VERSION,
                "Authorization": f"SharedKey {_ACCOUNT}:{base64.b64encode(digest).decode()}",
            },
            http.client.CREATED,
        )


def _fetch(argv: list[str]) -> None:
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ServersUnavailable(f"{argv[0]} {argv[1]}: {(done.stderr or done.stdout)[-1000:]}")
