"""Broken logs, tried in a process of their own: a crash or a hang is a finding, not the end."""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.campaign import endings, verdicts
from tools.campaign.mutate import MUTATIONS
from tools.campaign.process import ROOT
from tools.campaign.report import Tries

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES: Final = (
    "mysql-9.7.checksum-crc32",
    "mysql-9.7.checksum-none",
    "mysql-9.7.image-minimal-full",
    "mysql-9.7.json-full",
    "mysql-9.7.json-partial-full",
    "mysql-9.7.payload-full",
    "mysql-9.7.payload-minimal",
    "mysql-9.7.decimals-full",
    "mysql-9.7.datetimes-full",
    "mysql-9.7.times-min",
    "mysql-9.7.enums-sets-full",
    "mysql-9.7.characters-full",
    "mysql-9.7.binaries-full",
    "mysql-9.7.geometries-full",
    "mysql-9.7.vectors-full",
    "mysql-9.7.tagged-gtids",
    "mysql-9.7.xa",
    "mysql-9.7.savepoints",
    "mysql-9.7.statement-format",
    "mysql-9.7.ddl",
    "mariadb-11.8.checksum-crc32",
    "mariadb-11.8.checksum-none",
    "mariadb-11.8.network-types-min",
    "mariadb-11.8.compressed-columns-full",
    "mariadb-11.8.compressed-full-full",
    "mariadb-11.8.old-temporal-full",
    "mariadb-11.8.image-nodup",
    "mariadb-11.8.json-text-full",
    "mariadb-10.11.compressed-minimal-nolog",
    "mariadb-10.11.xa",
)
_SECONDS: Final = 120
"""Longer than any small log takes: a hang."""
_ADDRESS_SPACE: Final = 8 << 30


def logs() -> list[tuple[str, bytes]]:
    """The sound logs, by name."""
    corpus = ROOT / "tests" / "corpus"
    paths = [(case, path) for case in CASES for path in sorted((corpus / case).glob("*.0*"))]
    return [(case, path.read_bytes()) for case, path in paths]


def broken(
    seed: int, first: int, sound: list[tuple[str, bytes]]
) -> Iterator[tuple[int, str, bytes]]:
    """Broken logs without end: number, what was done, bytes. Each depends on its number only."""
    number = first
    while True:
        rng = random.Random(f"{seed}/{number}")
        name, data = rng.choice(sound)
        _, other = rng.choice(sound)
        mutation = rng.choice(MUTATIONS)
        yield number, f"{number} {mutation.__name__} {name}", mutation(rng, data, other)
        number += 1


def run(seed: int, *, seconds: float, most: int = 1 << 40, first: int = 0) -> Tries:
    """Try broken logs for so long, or so many of them."""
    report = Tries("broken logs")
    began = time.monotonic()
    number, last = first, first + most
    with tempfile.TemporaryDirectory(prefix="tailrace-badinput-", dir=_memory()) as folder:
        while number < last and time.monotonic() - began < seconds:
            left = seconds - (time.monotonic() - began)
            number = _child(report, Path(folder), seed, number, last, left)
    report.tried = number - first
    return report


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _child(report: Tries, folder: Path, seed: int, first: int, last: int, seconds: float) -> int:
    """Run a process on the logs from ``first`` on; gives the number to go on with."""
    progress, results = folder / "progress", folder / "results"
    progress.write_text(f"{first - 1} nothing yet")
    results.write_text("")
    argv = [sys.executable, "-m", "tools.campaign.badinput"]
    argv += [str(folder), str(seed), str(first), str(last), str(seconds)]
    done = subprocess.run(argv, cwd=ROOT, check=False, capture_output=True)
    for line in results.read_text().splitlines():
        outcome = json.loads(line)
        report.outcomes.update(outcome["outcomes"])
        report.failures += outcome["failures"]
    at = progress.read_text()
    number = int(at.split(maxsplit=1)[0])
    if done.returncode != 0:
        how = f"exit status {done.returncode}"
        if done.returncode < 0:
            how = signal.Signals(-done.returncode).name
        how = how.replace("SIGALRM", f"longer than {_SECONDS} s")
        text = done.stderr.decode(errors="replace").strip()
        report.failures.append(f"{at}: {how}\n{text[:1500]}")
    return number + 1


def _work(folder: Path, seed: int, first: int, last: int, seconds: float) -> None:
    """The child: try one after another, saying before each which it is."""
    import faulthandler  # noqa: PLC0415 - the child's alone

    from tools.campaign import guard  # noqa: PLC0415 - replaces memory in the whole process
    from tools.campaign.trial import Trial  # noqa: PLC0415

    faulthandler.enable()
    guard.install()
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    path = folder / "binlog.000001"
    began = time.monotonic()
    with (folder / "progress").open("r+") as progress, (folder / "results").open("a") as results:
        path.write_bytes(logs()[0][1])
        Trial().run(path, "warming up")  # so that no kernel is compiled within a log's time
        for number, what, data in broken(seed, first, logs()):
            if number >= last or time.monotonic() - began > seconds:
                return
            path.write_bytes(data)
            progress.seek(0)
            progress.truncate()
            progress.write(what)
            progress.flush()
            trial = Trial()
            signal.setitimer(signal.ITIMER_REAL, _SECONDS)
            trial.run(path, what)
            signal.setitimer(signal.ITIMER_REAL, 0)
            results.write(json.dumps(vars(trial)) + "\n")
            results.flush()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--verdicts", type=int, help="compare the two paths on so many small logs")
    parser.add_argument(
        "--endings", type=int, metavar="N", help="cut small logs at one in N places"
    )
    parser.add_argument("--first", type=int, default=0, help="number of the first")


def reports(given: argparse.Namespace) -> Iterator[Tries]:
    if given.endings:
        yield endings.run(given.seed, given.endings)
    elif given.verdicts:
        yield verdicts.run(given.seed, given.verdicts, first=given.first)
    else:
        yield run(given.seed, seconds=60 * given.minutes, first=given.first)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for word, kind in (("folder", Path), ("seed", int), ("first", int), ("last", int)):
        parser.add_argument(word, type=kind)
    parser.add_argument("seconds", type=float)
    given = parser.parse_args()
    _work(given.folder, given.seed, given.first, given.last, given.seconds)
