"""Writers are killed at random moments: what each leaves is looked at, and gone on with.

After each kill, before anything puts the log right, it is read: whole transactions only, each as
it was written, none missing that was committed (with ``power``: synced). In every fourth case we
open it for appending ourselves, else the next writer does, which may be killed in doing so.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import tailrace
from tailrace.events import WriteRowsEvent
from tailrace.gtid import Gtid
from tailrace.storage import keyring
from tailrace.storage.index import LogIndex
from tailrace.storage.local import LocalFolder
from tailrace.values.row import RowSet
from tools.campaign.killed_writer import (
    MARIADB_KEY,
    MYSQL_KEY,
    UUID,
    Case,
    arguments,
    rows_of,
)
from tools.campaign.process import ROOT, Wrong
from tools.campaign.report import Report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.transaction import Transaction


@dataclass(frozen=True)
class Size:
    """The cases that are run, and the kills of each."""

    cases: tuple[Case, ...]
    kills: int


def _all() -> tuple[Case, ...]:
    flags = product(
        ("mysql", "mariadb"), ("transaction", "none"), (False, True), (False, True), ("", "yes")
    )
    return tuple(Case(*each) for each in flags)


SIZES: Final = {
    "small": Size(
        (
            Case("mysql", "transaction", compress=True),
            Case("mysql", "none", power=True, keyring="yes"),
            Case("mariadb", "none", compress=True, keyring="yes"),
            Case("mariadb", "transaction", power=True),
        ),
        6,
    ),
    "full": Size(_all(), 10),
}


@dataclass
class KilledReport(Report):
    """What a case came to."""

    columns: ClassVar = (
        "Case | Kills | opening | purging | closing | inside a transaction | Transactions"
    )
    counted: ClassVar = ("opening", "purging", "closing")
    case: Case
    phases: Counter[str] = field(default_factory=Counter)
    torn: int = 0
    transactions: int = 0

    @property
    def kills(self) -> int:
        """How many writers were killed."""
        return self.phases.total()


def run(size: Size, seed: int) -> list[KilledReport]:
    """All cases of a size."""
    reports = []
    for case in size.cases:
        with tempfile.TemporaryDirectory(prefix="tailrace-killed-") as folder:
            reports.append(run_case(case, Path(folder), seed, size.kills))
    return reports


def run_case(case: Case, place: Path, seed: int, kills: int) -> KilledReport:
    """Kill writers of one log, in ``place / "log"``; an error ends the case and is reported."""
    if case.keyring:
        ring = place / "keyring"
        keyring.make(ring).add(MYSQL_KEY if case.flavour == "mysql" else MARIADB_KEY)
        case = replace(case, keyring=str(ring))
    folder = place / "log"
    folder.mkdir()
    report = KilledReport(case)
    look = _Look(case, folder, seed, report)
    with (
        (place / "errors").open("w+") as errors,
        subprocess.Popen(
            arguments(folder, case, seed, kills),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        for kill in range(kills):
            try:
                found = json.loads(process.stdout.readline())
                report.phases[found["phase"]] += 1
                look.after(kill, found)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
                errors.seek(0)
                report.failures.append(f"{case} kill {kill}: {error!r} {errors.read()[-2000:]}")
                process.kill()
                return report
            process.stdin.write("\n")
            process.stdin.flush()
    try:
        look.at_end()
    except Exception as error:  # noqa: BLE001 - as above
        report.failures.append(f"{case} at the end: {error!r}")
    return report


class _Look:
    """Looks at a log after each kill."""

    def __init__(self, case: Case, folder: Path, seed: int, report: KilledReport) -> None:
        self._case = case
        self._folder = folder
        self._seed = seed
        self._report = report
        self._keyring = case.keyring or None
        self._safe = 0
        """The number of the last transaction that must be there, whatever comes."""
        self._checked = 0

    def after(self, kill: int, found: dict[str, Any]) -> None:
        """The log as the kill left it, and gone on with in every fourth case."""
        if found["failed"]:
            raise Wrong("the writer ended by itself")
        if not any(self._folder.glob("binlog.0*[0-9]")):
            return  # killed before the first file had its name
        whole = self._whole()
        numbers = [_number(each) for each in whole]
        acknowledged = found["committed"]
        lossy = self._case.power and self._case.sync == "none"
        self._safe = max(self._safe, found["synced"] if lossy else acknowledged)
        last = numbers[-1] if numbers else self._before()
        if not self._safe <= last <= max(self._safe, self._checked, acknowledged) + 1:
            raise Wrong(f"{last} is the last; {self._safe} was safe, {acknowledged} committed")
        if numbers and numbers != list(range(self._before() + 1, last + 1)):
            raise Wrong(f"{self._before()} lie before the first file, and then come {numbers}")
        self._check_content(whole)
        self._checked = last
        self._report.transactions = last
        if kill % 4 == 3:
            self._go_on(whole)

    def at_end(self) -> None:
        """The log put right and closed, and what lies in its folder."""
        whole = self._whole()
        self._go_on(whole)
        names = {path.name for path in self._folder.iterdir()}
        listed = LogIndex(LocalFolder(self._folder), "binlog").names
        if names != {*listed, "binlog.index"} or listed != sorted(listed):
            raise Wrong(f"the index lists {listed}, the folder has {sorted(names)}")

    def _whole(self) -> list[Transaction]:
        log = tailrace.open(self._folder, keyring=self._keyring, expand_payloads=False)
        found = list(log.transactions())
        self._report.torn += log.incomplete or log.torn_tail is not None
        if any(not each.complete for each in found[:-1]):
            raise Wrong("a transaction that is not the last has no end")
        return [each for each in found if each.complete]

    def _before(self) -> int:
        """The number of the last transaction before the first file, by that file's list."""
        first = min(self._folder.glob("binlog.0*[0-9]"))
        for event in tailrace.open(first, keyring=self._keyring):
            if event.name == "PREVIOUS_GTIDS":
                return len(event.gtids)  # type: ignore[attr-defined]
            if event.name == "GTID_LIST":
                return sum(each.seq_no for each in event.gtids)  # type: ignore[attr-defined]
        return 0

    def _check_content(self, whole: Sequence[Transaction]) -> None:
        """Those that are new since the last kill: their statements and rows."""
        for each in whole:
            number = _number(each)
            if number <= self._checked:
                continue
            rows = [event for event in each.all_events() if isinstance(event, WriteRowsEvent)]
            wanted = sum(rows_of(self._seed, number))
            count = sum(len(list(RowSet(event, event.table_map))) for event in rows)
            if count != wanted or (not wanted) != (each.kind == "ddl"):
                raise Wrong(f"transaction {number} has {count} rows of {wanted}, kind {each.kind}")

    def _go_on(self, whole: Sequence[Transaction]) -> None:
        """Open it for appending: it has all that was whole, but for files that were going."""
        if (self._folder / "binlog.~rec~").exists():
            listed = LogIndex(LocalFolder(self._folder), "binlog").names
            whole = [each for each in whole if each.start and each.start.file in listed]
        uuid = UUID if self._case.flavour == "mysql" else None
        given: dict[str, Any] = {"keyring": self._keyring, "server_uuid": uuid}
        tailrace.append(self._folder, recovered=lambda _: None, **given).close()
        again = self._whole()
        if _places(again) != _places(whole):
            raise Wrong("append changed what was whole")


def _places(whole: Sequence[Transaction]) -> list[tuple[object, ...]]:
    return [(_number(each), each.start, each.end, each.timestamp) for each in whole]


def _number(transaction: Transaction) -> int:
    gtid = transaction.gtid
    if gtid is None:
        raise Wrong(f"a transaction without a GTID at {transaction.start}")
    return gtid.gno if isinstance(gtid, Gtid) else gtid.seq_no
