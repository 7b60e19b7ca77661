"""An environment with the wheel in it, and commands that run there."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
UV: Final = os.environ.get("UV", "uv")
"""The uv of `./run`."""
_SECONDS: Final = 1800


class Failed(Exception):
    """A command failed, or printed something else than it should."""


@dataclass(frozen=True)
class Installed:
    """An environment's folder, and a folder to work in."""

    environment: Path
    work: Path

    @property
    def python(self) -> Path:
        """Its Python."""
        return self.environment / "bin" / "python"

    def tailrace(self, *arguments: object, **variables: str) -> str:
        """What the command prints."""
        return self.run(self.environment / "bin" / "tailrace", *arguments, **variables)

    def evaluate(self, code: str) -> str:
        """What a Python program prints."""
        return self.run(self.python, "-c", code)

    def run(self, *argv: object, **variables: str) -> str:
        """What a command prints. Raises Failed if its status is not 0."""
        return run(*argv, folder=self.work, **variables)


def run(*argv: object, folder: Path, **variables: str) -> str:
    """What a command prints, in a folder, without the variables of `./run`'s own environment."""
    done = subprocess.run(
        list(map(str, argv)),
        cwd=folder,
        env=environment() | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    if done.returncode:
        command = " ".join(map(str, argv))
        raise Failed(f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def built(work: Path) -> Path:
    """The wheel, built by the backend of the lock file."""
    run(UV, "build", "--wheel", "--no-build-isolation", "-o", work / "dist", ROOT, folder=ROOT)
    return next((work / "dist").glob("*.whl"))


def locked(work: Path) -> Path:
    """The versions and hashes of the lock file, as constraints."""
    target = work / "constraints.txt"
    options = ("--locked", "--all-extras", "--no-default-groups", "--no-emit-project", "--quiet")
    run(UV, "export", *options, "--output-file", target, folder=ROOT)
    return target


def any_spark(work: Path, versions: Path) -> Path:
    """The same constraints without PySpark: an extra's own bound decides its version."""
    given = work / "constraints-any-spark.txt"
    given.write_text(versions.read_text().replace(_pyspark(versions), ""))
    return given


def _pyspark(versions: Path) -> str:
    """PySpark's lines in constraints."""
    return "".join(re.findall(r"^pyspark==(?:.*\\\n)*.*\n", versions.read_text(), re.MULTILINE))


def with_spark_built(work: Path, versions: Path, python: str) -> Path:
    """The same constraints with PySpark as a wheel, built from what the lock file names.

    There is none to be had, and uv builds one for each environment, for half a minute.
    """
    target, one = work / "pyspark", work / "pyspark.txt"
    one.write_text(_pyspark(versions))
    options = ("--quiet", "--no-cache-dir", "--no-deps", "--require-hashes", "--use-pep517")
    run(python, "-m", "venv", work / "pip", folder=work)
    run(work / "pip/bin/pip", "wheel", *options, "--wheel-dir", target, "-r", one, folder=work)
    (wheel,) = target.iterdir()
    given = work / "constraints-spark.txt"
    given.write_text(versions.read_text().replace(one.read_text(), f"pyspark @ {wheel.as_uri()}\n"))
    return given


def check(found: object, expected: object, what: str) -> None:
    """Raise Failed if they differ."""
    if found != expected:
        raise Failed(f"{what}: {found!r}, expected {expected!r}")


def environment() -> dict[str, str]:
    """The environment variables, without those of `./run`'s own environment."""
    ours = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT"}
    return {name: value for name, value in os.environ.items() if name not in ours}
