"""Random folders, and what may change logs in them: no byte of others' logs ever does.

A folder has logs of a server, of Tailrace, both in use and closed, compressed ones, links to logs,
indexes, files of other kinds; some are open in another process. `reset`, `append`, `create`,
`receive` or `purge` is tried on it. Whatever comes of it, a server's log, and one that another
process has open for writing, is as it was, and there. What `purge` deletes are whole old files of a
log that nobody writes to.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import warnings
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, Final

import tailrace
from tailrace.cli.reset import reset
from tailrace.errors import TailraceError
from tailrace.storage.purge import purge
from tools.campaign.report import Tries

SIZES: Final = {"small": 60, "full": 2_000}
"""Folders."""
_CORPUS: Final = Path("tests/corpus")
_WAYS: Final = ("reset", "append", "create", "receive", "purge")
OPENED: Final = (
    "import sys; f = open(sys.argv[1], 'r+b'); print('open', flush=True); sys.stdin.read()"
)


def _servers_log(rng: random.Random) -> Path:
    return rng.choice(sorted(_CORPUS.glob("*/*.000001")))


def _ours(folder: Path, name: str, rng: random.Random, *, flavour: str) -> None:
    """A log of Tailrace, of some files, closed or as a killed writer leaves it."""
    layers: Any = rng.choice((None, None, "zstd"))
    log = tailrace.create(folder / name, flavour=flavour, server_id=7, layers=layers)
    for number in range(rng.randrange(3)):
        with log.transaction() as transaction:
            transaction.query(f"INSERT INTO d.t VALUES ({number})", "d")
        log.rotate()
    log.close()
    if rng.random() < 0.3 and (last := sorted(folder.glob(f"{Path(name).stem}.0*")))[-1:]:
        data = bytearray(last[-1].read_bytes())
        if data[:4] == b"\xfebin":
            data[21] |= 1  # LOG_EVENT_BINLOG_IN_USE_F
            last[-1].write_bytes(data)


def _fill(folder: Path, away: Path, rng: random.Random) -> dict[Path, bytes]:
    """Make a folder; the files that must stay as they are."""
    kept: dict[Path, bytes] = {}
    number = rng.randrange(1, 4)
    for base in rng.sample(("binlog", "mysql-bin", "x"), rng.choice((1, 1, 2))):
        if rng.random() < 0.5:
            _ours(folder, f"{base}.{number:06}", rng, flavour=rng.choice(("mysql", "mariadb")))
        if rng.random() < 0.7:
            place = folder / f"{base}.{number + rng.randrange(3):06}"
            place.unlink(missing_ok=True)
            content = _servers_log(rng).read_bytes()
            if rng.random() < 0.3:
                target = away / place.name
                target.write_bytes(content)
                place.symlink_to(target)
                kept[target] = content
            else:
                place.write_bytes(content)
            kept[place] = content
        if rng.random() < 0.6:
            names = sorted(each.name for each in folder.glob(f"{base}.0*"))
            lines = "".join(f"./{each}\n" for each in names)
            (folder / f"{base}.index").write_text(lines, encoding="utf-8")
    if rng.random() < 0.2:
        (folder / "auto.cnf").write_text("[auto]\n", encoding="utf-8")
    return kept


def _try(way: str, folder: Path, rng: random.Random) -> None:
    names = sorted(each.name for each in folder.iterdir())
    name = rng.choice([*names, "binlog.000001", "x.000002"])
    if way == "reset":
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            reset(str(folder), yes=True)
    elif way == "append":
        target = rng.choice((folder, folder / name))
        with tailrace.append(target) as log, log.transaction() as transaction:
            transaction.query("INSERT INTO d.t VALUES (9)", "d")
        return
    elif way == "create":
        with (
            tailrace.create(
                rng.choice((folder, folder / name)), flavour="mysql", server_id=7
            ) as log,
            log.transaction() as transaction,
        ):
            transaction.query("INSERT INTO d.t VALUES (9)", "d")
    elif way == "receive":
        tailrace.receive("mysql://root@127.0.0.1:1/?retry-first=0", folder)
    else:
        purge(rng.choice((folder, folder / name)), to=rng.choice(names or ["x.000001"]))


def _one(rng: random.Random) -> tuple[str, str]:
    """One folder: what came of it, and what failed."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tailrace-owned-")))
        folder, away = place / "logs", place / "away"
        folder.mkdir()
        away.mkdir()
        kept = _fill(folder, away, rng)
        held: Path | None = None
        logs = sorted(each for each in folder.glob("*.0*") if not each.name.endswith(".json"))
        if logs and rng.random() < 0.4:
            held = rng.choice(logs)
            holder = subprocess.Popen(
                [sys.executable, "-S", "-c", OPENED, str(held)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            stack.callback(holder.wait)
            stack.callback(holder.stdin.close)  # type: ignore[union-attr]
            holder.stdout.readline()  # type: ignore[union-attr]
            kept[held] = held.read_bytes()
        way = rng.choice(_WAYS)
        before = {each.name: each.is_symlink() for each in folder.iterdir()}
        try:
            with warnings.catch_warnings(action="ignore"):
                _try(way, folder, rng)
            outcome = f"{way}: done"
        except TailraceError as error:
            outcome = f"{way}: {type(error).__name__}"
        whole = way == "purge" and held is None
        gone = [each for each in kept if not os.path.lexists(each)]
        changed = [
            each
            for each, content in kept.items()
            if each not in gone and each.read_bytes() != content
        ]
        wrong = [str(each.relative_to(place)) for each in (changed if whole else gone + changed)]
        return outcome, f"{way} in {before}, {held and held.name} open: {wrong}" if wrong else ""


def run(count: int, seed: int) -> Tries:
    """So many folders."""
    report = Tries("folders")
    for number in range(count):
        with report.noting(number):
            report.take(number, *_one(random.Random(f"{seed}-{number}")))
    return report
