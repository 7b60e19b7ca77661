"""Writers that are killed: python -m tools.campaign.killed_writer FOLDER CASE SEED KILLS.

Forks a writer that goes on with the log in the folder, kills it at a random moment, and prints what
it had said by then, as JSON; then waits for a line before the next. What goes to a file goes there
slowly, in small pieces, and so does each step of opening and purging, so that a kill finds a writer
within them more often than not.

With ``power`` what was written and not synced is lost with the process, but for what chance had
written back before, in whole or in part: so a power cut looks whose disk keeps the order of writes.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import tailrace
from tailrace.constants import Flavour
from tailrace.events.description import STANDARD_VERSIONS
from tailrace.gtid import GtidList
from tailrace.schema.table import Table
from tailrace.storage.local import LocalFolder
from tailrace.storage.streams.file import FileOutput

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.storage.streams.base import Data
    from tailrace.writing import LogWriter

UUID: Final = "896e7882-18fe-11ef-ab88-22222d34d411"
MYSQL_KEY: Final = "MySQLReplicationKey_896e7882-18fe-11ef-ab88-22222d34d411_1"
MARIADB_KEY: Final = "1"
TABLE_SQL: Final = (
    "create table shop.orders (id int primary key, name varchar(40), note text, price decimal(9,2))"
)
_SLICE: Final = 97
_FILE_SIZE: Final = 1 << 14
_KEPT_FILES: Final = 2


@dataclass(frozen=True)
class Case:
    """What is written, and how. ``keyring`` is its path, "" for a plain log."""

    flavour: str
    sync: str
    compress: bool = False
    power: bool = False
    keyring: str = ""

    def __str__(self) -> str:
        words = [self.flavour, f"sync={self.sync}"]
        words += [name for name in ("compress", "power") if getattr(self, name)]
        return " ".join([*words, "encrypted"] if self.keyring else words)


def rows_of(seed: int, number: int) -> list[int]:
    """How many rows each statement of a transaction inserts; none for a definition."""
    chance = random.Random(f"{seed}/{number}")
    if chance.random() < 0.2:
        return []
    return [chance.randrange(1, 100) for _ in range(chance.randrange(1, 4))]


def row(number: int) -> dict[str, Any]:
    """One row."""
    return {
        "id": number,
        "name": f"name {number}",
        "note": None if number % 3 == 0 else "note " * (number % 7),
        "price": f"{number}.25",
    }


def opened(folder: Path, case: Case) -> LogWriter:
    """The log, new or gone on with."""
    options: dict[str, Any] = {
        "sync": case.sync,
        "max_size": _FILE_SIZE,
        "cache_limit": 5000,
        "compress": case.compress,
    }
    mysql = case.flavour == "mysql"
    if mysql:
        options["server_uuid"] = UUID
    if any(folder.glob("binlog.0*[0-9]")):
        options["keyring"] = case.keyring or None
        return tailrace.append(folder, recovered=lambda _: None, **options)
    if case.keyring:
        options |= {"encrypt": True, "keyring": case.keyring}
        options["key_id"] = MYSQL_KEY if mysql else None
    target = folder / "binlog.000001"
    return tailrace.create(target, flavour=case.flavour, server_id=7, **options)


class Writer:
    """Commits transactions for ever, and says what it does: a line for each step to ``told``."""

    def __init__(
        self, folder: Path, case: Case, seed: int, chance: random.Random, told: int
    ) -> None:
        self._folder = folder
        self._case = case
        self._seed = seed
        self._chance = chance
        self._told = told
        self._table = Table.parse(
            TABLE_SQL, flavour=case.flavour, server_version=STANDARD_VERSIONS[Flavour(case.flavour)]
        )

    def run(self) -> None:
        """Never ends by itself."""
        while True:
            self._say("opening")
            log = opened(self._folder, self._case)
            gtids = log.gtids
            number = len(gtids)
            if isinstance(gtids, GtidList):
                number = sum(each.seq_no for each in gtids)
            while self._chance.random() > 0.03:
                self._say("writing")
                number += 1
                self._write(log, number)
                self._say("committed", number)
                self._between(log, number)
            self._say("closing")
            log.close()
            self._say("synced", number)

    def _write(self, log: LogWriter, number: int) -> None:
        statements = rows_of(self._seed, number)
        with log.transaction() as transaction:
            if not statements:
                transaction.query(f"create table t{number} (a int)", "shop")
            for count in statements:
                transaction.insert(self._table, [row(each) for each in range(count)])

    def _between(self, log: LogWriter, number: int) -> None:
        if self._chance.random() < 0.2:
            log.flush()
            self._say("synced", number)
        if len(log.files) > _KEPT_FILES and self._chance.random() < 0.5:
            self._say("purging")
            log.purge(to=log.files[-_KEPT_FILES])

    def _say(self, what: str, number: int = 0) -> None:
        os.write(self._told, f"{what} {number}\n".encode())


class SlowDisk:
    """Takes the place of `FileOutput`'s methods and slows `LocalFolder`'s, in this process."""

    def __init__(self, chance: random.Random, *, power: bool) -> None:
        self._chance = chance
        self._power = power
        self._waiting: dict[int, list[tuple[int, bytes | None]]] = {}
        self._close: Callable[[FileOutput], None] = FileOutput.close

    def install(self) -> None:
        """From now on."""
        for name in ("write", "update", "truncate", "sync", "close"):
            method = getattr(self, name)
            setattr(FileOutput, name, lambda *given, method=method: method(*given))
        for name in ("replace", "remove"):
            setattr(LocalFolder, name, self._slow(getattr(LocalFolder, name)))

    @staticmethod
    def _slow(method: Callable[..., None]) -> Callable[..., None]:
        def slow(*given: object) -> None:
            time.sleep(1e-3)
            method(*given)
            time.sleep(1e-3)

        return slow

    def write(self, output: FileOutput, data: Data) -> None:
        """Append, in pieces."""
        self._put(output, output.size, bytes(data))
        output.size += len(data)

    def update(self, output: FileOutput, offset: int, data: Data) -> None:
        """Overwrite."""
        self._put(output, offset, bytes(data))

    def truncate(self, output: FileOutput, size: int) -> None:
        """Cut."""
        self._put(output, size, None)
        output.size = size

    def sync(self, output: FileOutput) -> None:
        """Write what waits, and sync the file."""
        self._write_back(output)
        os.fsync(output._handle)  # noqa: SLF001 - it stands in for its methods
        time.sleep(1e-3)

    def close(self, output: FileOutput) -> None:
        """Write what waits: whoever reads the file sees it."""
        self._write_back(output)
        self._waiting.pop(id(output), None)
        self._close(output)

    def _put(self, output: FileOutput, offset: int, data: bytes | None) -> None:
        self._waiting.setdefault(id(output), []).append((offset, data))
        temporary = type(output) is not FileOutput  # and is read again by its writer
        if not self._power or temporary or self._chance.random() < 0.4:
            self._write_back(output)

    def _write_back(self, output: FileOutput) -> None:
        handle = output._handle  # noqa: SLF001 - as above
        waiting = self._waiting.get(id(output), [])
        while waiting:
            offset, data = waiting[0]
            if data is None:
                os.ftruncate(handle, offset)
                time.sleep(1e-3)
            for at in range(0, len(data or b""), _SLICE):
                os.pwrite(handle, (data or b"")[at : at + _SLICE], offset + at)
                time.sleep(1e-4)
            waiting.pop(0)


def _kill_one(folder: Path, case: Case, seed: int, kill: int) -> dict[str, object]:
    """Fork a writer, kill it, and give what it had said."""
    chance = random.Random(f"{seed}/{case}/{kill}")
    hear, tell = os.pipe()
    child = os.fork()
    if not child:
        try:
            SlowDisk(chance, power=case.power).install()
            Writer(folder, case, seed, chance, tell).run()
        except Exception:  # noqa: BLE001 - it is told, and the parent calls it a failure
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(tell)
    early = kill > 0 and chance.random() < 0.35
    with os.fdopen(hear, "rb") as lines:
        said = [lines.readline()]
        while not early and said[-1] and not said[-1].startswith(b"committed"):
            said.append(lines.readline())
        time.sleep(chance.uniform(0, 0.02 if early else 0.12))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        said += lines
    found: dict[str, object] = {"failed": not os.WIFSIGNALED(status), "committed": 0, "synced": 0}
    for line in said:
        if line.endswith(b"\n"):
            phase, number = line.decode().split()
            found["phase"] = phase
            found[phase] = int(number)
    return found


def arguments(folder: Path, case: Case, seed: int, kills: int) -> list[str]:
    """The command that runs `main`."""
    given = [str(folder), json.dumps(asdict(case)), str(seed), str(kills)]
    return [sys.executable, "-m", "tools.campaign.killed_writer", *given]


def main(folder: str, case: str, seed: str, kills: str) -> None:
    """Kill so many writers, one after the other."""
    for kill in range(int(kills)):
        print(json.dumps(_kill_one(Path(folder), Case(**json.loads(case)), int(seed), kill)))
        sys.stdout.flush()
        sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
