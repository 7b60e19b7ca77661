"""Which rows of a series of files count, found by the kernel that scans event headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.columns.read.scan import Scan, TransactionContinues
from tailrace.errors import LogError
from tailrace.log.events import Log
from tailrace.schema.catalogue import Catalogue
from tailrace.transaction import State
from tailrace.transaction.committed import TO_THE_END, Committed

if TYPE_CHECKING:
    from tailrace.storage import LogSeries


def committed_in(series: LogSeries) -> Committed:
    """The rows of a series that do not count. All files are scanned, up to damage, which whoever
    reads the rows reports.
    """
    found = Committed()
    state = int(State.OUTSIDE)
    try:
        for log in series.files:
            scan = Scan(series.name, log, Catalogue(), found.rollbacks, TO_THE_END, 4, state=state)
            try:
                scan.run()
            finally:
                if scan.unfinished is not None:
                    found.unfinished.append((log.name, scan.unfinished, TO_THE_END))
            state = scan.state
    except TransactionContinues:
        return _by_events(series)
    except LogError:  # what was found before it is valid
        pass
    return _by_events(series) if found.rollbacks.unmatched else found


def _by_events(series: LogSeries) -> Committed:
    """The same, including transactions that continue in the next file, and XA in payloads."""
    return Committed.of(Log(series, verify_checksums=False, expand_payloads=False))
