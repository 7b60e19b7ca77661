"""Builds the S3 server: rclone, which Debian packages without it, from its own Go module.

The versions and checksums are those of ``server/go.mod`` and ``go.sum``, the compiler Debian's,
fetched as the database servers are. Nothing is installed, and only the program stays.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.servers.fetch import fetch, locked
from tools.servers.prefix import ServersUnavailable, root_folder

_SOURCE: Final = Path(__file__).parent / "server"
_BUILD: Final = ("build", "-trimpath", "-mod=readonly", "-modcacherw", "-ldflags=-s -w")


def program() -> Path:
    """The server's program, built where it is not there yet. Raises ServersUnavailable."""
    target = root_folder() / "s3" / "rclone"
    if target.is_file():
        return target
    compiler = next((fetch("go") / "usr/lib").glob("go-*/bin/go"))
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.parent / ".lock"):
        if not target.is_file():
            with tempfile.TemporaryDirectory(prefix=".build-", dir=target.parent) as work:
                made = Path(work) / "rclone"
                _build(compiler, Path(work), made)
                made.rename(target)
    return target


def available() -> str | None:
    """None where the server is there or could be built just now, else the reason."""
    try:
        program()
    except ServersUnavailable as error:
        return str(error)
    return None


def _build(compiler: Path, work: Path, made: Path) -> None:
    print("servers: building the S3 server (a minute or two) ...", file=sys.stderr, flush=True)
    done = subprocess.run(
        [str(compiler), *_BUILD, "-o", str(made), "."],
        cwd=_SOURCE,
        env=os.environ
        | {
            "GOROOT": str(compiler.parents[1]),
            "GOTOOLCHAIN": "local",
            "GOPATH": str(work / "go"),
            "GOMODCACHE": str(work / "modules"),
            "GOCACHE": str(work / "cache"),
            "CGO_ENABLED": "0",
            "GOFLAGS": "",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ServersUnavailable(f"the S3 server could not be built: {done.stderr[-1000:]}")
