"""One broken log tried in every way that Tailrace reads: what came of it."""

from __future__ import annotations

import io
import resource
import traceback
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Final

from tailrace import log as object_log
from tailrace.cli import app
from tailrace.cli.log.json import event_json
from tailrace.columns import changes, plan_splits, read_split
from tailrace.errors import TailraceError
from tailrace.events import DecodeContext, QueryEvent, RowsEvent
from tailrace.schema import Catalogue
from tailrace.storage import find
from tailrace.values.change_record import image_json
from tailrace.values.row import RowSet
from tools.campaign import source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MOST_GROWTH: Final = 300 << 10
"""KiB by which one log may make the process larger."""


class Trial:
    """Counts what came of each way; ``failures`` holds what ought not to be."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.failures: list[str] = []

    def run(self, path: Path, what: str) -> None:
        """Try the log at ``path``; ``what`` says how it was broken."""
        for way, read in WAYS.items():
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            try:
                read(path)
            except TailraceError as error:
                self.outcomes[f"{way}: {type(error).__name__}"] += 1
                if not str(error):
                    self.failures.append(f"{what}: {way}: an error without a message")
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is what is looked for
                last = traceback.extract_tb(error.__traceback__)[-1]
                self.outcomes[f"{way}: OTHER {type(error).__name__}"] += 1
                place = f"{last.filename.rpartition('/')[2]}:{last.lineno}"
                self.failures.append(f"{what}: {way}: {error!r:.200} ({place})")
            else:
                self.outcomes[f"{way}: read"] += 1
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            if grown > _MOST_GROWTH:
                self.failures.append(f"{what}: {way}: memory grew by {grown >> 10} MiB")


def _objects(path: Path, *, verify: bool) -> None:
    """Every event with all its fields, every row with all its values."""
    log = object_log.open(path, verify_checksums=verify)
    catalogue = Catalogue()
    for event in log:
        event.check()
        event_json(event)
        if isinstance(event, QueryEvent):
            catalogue.apply_event(event, log.format.flavour)
        elif isinstance(event, RowsEvent) and not event.is_dummy:
            schema = catalogue.resolve(event.table_map, log.format.flavour)
            for row in RowSet(event, schema):
                image_json(row.before)
                image_json(row.after)


def _rewritten(path: Path) -> None:
    """Every event made anew from its fields, and read again."""
    context = DecodeContext()
    for event in object_log.open(path, verify_checksums=False, expand_payloads=False):
        event.check()
        raw = event.replace().encode(context.checksum_algorithm)
        context.decode(raw).check()


def _columns(path: Path, *, verify: bool) -> None:
    for batch in changes(path, verify_checksums=verify, statements="skip"):
        batch.validate(full=True)


def _splits(path: Path) -> None:
    for series in find(path):
        for split in plan_splits(series, target_bytes=200):
            for batch in read_split(split, statements="skip"):
                batch.validate(full=True)


def _source(path: Path) -> None:
    """The data source without Spark: its images as JSON are made by a kernel of their own."""
    for batch in source.read(path, None, statements="skip"):
        batch.validate(full=True)


def _command(*arguments: str) -> Callable[[Path], None]:
    """The command line in this process; `tailrace.cli.main` makes a line of the tree's errors."""

    def run(path: Path) -> None:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            app(
                [arguments[0], str(path), *arguments[1:]],
                print_error=False,
                exit_on_error=False,
                result_action="return_value",
            )

    return run


WAYS: Final[dict[str, Callable[[Path], None]]] = {
    "objects": lambda path: _objects(path, verify=True),
    "objects, unverified": lambda path: _objects(path, verify=False),
    "rewritten": _rewritten,
    "columns": lambda path: _columns(path, verify=True),
    "columns, unverified": lambda path: _columns(path, verify=False),
    "splits": _splits,
    "data source": _source,
    "tailrace log": _command("log"),
    "tailrace log --as json": _command("log", "--as", "json", "--statements", "skip"),
    "tailrace check": _command("check"),
    "tailrace stat": _command("stat"),
}
