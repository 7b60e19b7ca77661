"""`python -m tools.wheel [EXTRA...]`: see `tools.wheel`."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from tools.s3 import S3Server
from tools.servers import Server
from tools.servers.python import newest
from tools.wheel.installed import (
    ROOT,
    UV,
    Failed,
    Installed,
    any_spark,
    built,
    check,
    locked,
    run,
    with_spark_built,
)
from tools.wheel.promises import PROMISES

if TYPE_CHECKING:
    from collections.abc import Callable

_ON_ONE: Final = {"delta": "newest", "iceberg": "oldest", "spark": "oldest"}
_BOUNDED: Final = {"delta", "iceberg"}
"""Extras that bound PySpark more tightly than the extra `spark`."""
_spark: Final = Lock()
_LOG: Final = ROOT / "examples" / "shop" / "mysql"


def main(wanted: list[str]) -> int:
    """Build, install, run; gives the exit status."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = ["", *project["optional-dependencies"]]
    check(sorted(PROMISES), sorted(extras), "extras with a check")
    if not set(wanted) <= set(extras):
        sys.stderr.write(f"usage: python -m tools.wheel [{'|'.join(extras[1:])}]...\n")
        return 2
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tailrace-wheel-")))
        wheel, versions = built(work), locked(work)
        pythons = {"oldest": _oldest(project["requires-python"]), "newest": str(newest())}
        spark = cache(partial(with_spark_built, work, versions, pythons["oldest"]))
        bounded = cache(partial(any_spark, work, versions))
        chosen_for = dict.fromkeys(_ON_ONE, spark) | dict.fromkeys(_BOUNDED, bounded)
        jobs: list[tuple[str, Callable[[], None]]] = []
        given = _servers(stack, wanted or extras)
        for extra in wanted or extras:
            for which, python in pythons.items():
                if _ON_ONE.get(extra, which) == which:
                    name = f"tailrace[{extra}]" if extra else "tailrace"
                    promise = partial(PROMISES[extra], **given.get(extra, {}))
                    what = f"{name} @ {wheel.as_uri()}"
                    chosen = chosen_for.get(extra, versions)
                    install = partial(_install, work, python, chosen, what)
                    jobs.append((f"{name} on the {which} Python", partial(_kept, install, promise)))
        if not wanted:
            jobs.append(
                ("uvx --from WHEEL", partial(_uvx, work, wheel, versions, pythons["oldest"]))
            )
            jobs.append(("pip install WHEEL", partial(_pip, work, wheel, pythons["oldest"])))
        jobs.sort(key=lambda job: not any(extra in job[0] for extra in _ON_ONE))  # long ones first
        with ThreadPoolExecutor(2) as pool:
            failed = sum(not good for good in pool.map(_told, *zip(*jobs, strict=True)))
    print(f"wheel: {len(jobs) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _told(name: str, job: Callable[[], None]) -> bool:
    """Run a job, and print how it went."""
    begun = time.monotonic()
    try:
        job()
    except Failed as error:
        print(f"{name}: FAILED: {error}", flush=True)
        return False
    print(f"{name}: {time.monotonic() - begun:.1f} s", flush=True)
    return True


def _oldest(requires: str) -> str:
    """The oldest supported Python on this machine. Raises Failed without one."""
    version = requires.partition(",")[0].removeprefix(">=")
    return run(UV, "python", "find", "--no-project", version, folder=ROOT).strip()


def _servers(stack: ExitStack, extras: list[str]) -> dict[str, dict[str, Any]]:
    """What the checks of these extras need running, by extra."""
    given: dict[str, dict[str, Any]] = {}
    if "live" in extras:
        server = stack.enter_context(Server("mysql-9.7"))
        server.execute("CREATE DATABASE wheel")
        server.execute("CREATE TABLE wheel.t (id INT PRIMARY KEY, note VARCHAR(9))")
        server.execute("INSERT INTO wheel.t VALUES (1, 'ä')")
        given["live"] = {"url": f"mysql://{server.user}@{server.host}:{server.port}"}
    if "objects" in extras:
        store = S3Server(log=False)
        for path in _LOG.iterdir():
            shutil.copy(path, store.bucket("logs"))
        given["objects"] = {"variables": stack.enter_context(store).environment}
    return given


def _install(work: Path, python: str, versions: Path | Callable[[], Path], what: str) -> Installed:
    """A new environment with this and what it needs, at these versions: with Spark, once built."""
    installed = _new(work)
    run(UV, "venv", "--quiet", "--python", python, installed.environment, folder=work)
    own = {}
    if not isinstance(versions, Path):
        own["UV_CACHE_DIR"] = str(work / "cache")  # half a gigabyte, which uv's own would keep
        with _spark:
            versions = versions()
    options = ("--quiet", "--no-config", "--python", installed.python, "--constraints", versions)
    run(UV, "pip", "install", *options, what, folder=work, **own)
    return installed


def _new(work: Path) -> Installed:
    folder = Path(tempfile.mkdtemp(dir=work))
    installed = Installed(folder / "environment", folder / "work")
    installed.work.mkdir()
    return installed


def _kept(install: Callable[[], Installed], promise: Callable[[Installed], None]) -> None:
    installed = install()
    promise(installed)
    shutil.rmtree(installed.environment.parent)


def _uvx(work: Path, wheel: Path, versions: Path, python: str) -> None:
    """`uvx tailrace log FILE`, from the wheel."""
    options = ("--no-config", "--isolated", "--python", python, "--constraints", versions)
    argv = (UV, "tool", "run", "--quiet", *options, "--from", wheel, "tailrace", "log", _LOG)
    check("shop.orders" in run(*argv, folder=_new(work).work), True, "rows from uvx")


def _pip(work: Path, wheel: Path, python: str) -> None:
    """`pip install WHEEL` with the Python's own pip, then an extra by the command of `doctor`."""
    installed = _new(work)
    run(python, "-m", "venv", installed.environment, folder=work)
    run(installed.python, "-m", "pip", "install", "--quiet", wheel, folder=work)
    PROMISES[""](installed)
    extra = json.loads(installed.tailrace("doctor", "--as", "json"))["extras"]["report"]
    installed.run(*shlex.split(extra["install"]))
    PROMISES["report"](installed)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Failed as error:
        sys.exit(f"wheel: {error}")
