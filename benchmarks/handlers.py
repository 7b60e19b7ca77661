"""Events per second through the handler pipeline, against the bare reader, in one run.

The log has a one-row transaction after the other: five events each, of which a filter drops none,
so that all of its cost shows. ``connected`` reads by the background thread: what its queue costs.
"""

from __future__ import annotations

from benchmarks import logs
from benchmarks.measure import Series, Worker, compare, pin, ratio

_SETUP = """
from collections import deque
import tailrace
from tailrace.handlers import *
from tailrace.storage import EventReader
class Generic(Handler):
    def on_event(self, event):
        return event
class Rotates(Handler):
    def on_rotate(self, event):
        return CONSUMED
path = {path!r}
def run(*handlers, connect=False, check=False, **options):
    with tailrace.open(path, handlers=handlers, **options) as log:
        if connect:
            log.connect()
        if check:
            for event in log:
                event.check()
        else:
            deque(log, 0)
"""
_BARE = "bare reader"
_CONTENDERS = {
    "bytes only": "deque(EventReader(path), 0)",
    _BARE: "run()",
    "one filter: on_rotate": "run(Rotates())",
    "one filter: ByTable": "run(ByTable(['bench.*']))",
    "one filter: ByServerId": "run(ByServerId(without=[9]))",
    "on_event, called each time": "run(Generic())",
    "Rename, every event": "run(Rename({'bench': 'other'}))",
    "every body decoded": "run(check=True)",
    "bare reader, connected": "run(connect=True)",
}


def run(*, quick: bool) -> None:
    """Print a table: seconds, events per second, and the ratio to the bare reader."""
    path = logs.log("single")
    import tailrace  # noqa: PLC0415 - only to count

    count = sum(1 for _ in tailrace.open(path))
    pin()
    workers = {
        name: Worker(_SETUP.format(path=str(path)), statement)
        for name, statement in _CONTENDERS.items()
    }
    rounds = 3 if quick else 7
    found = compare(dict(workers), rounds)
    for worker in workers.values():
        worker.close()
    size = path.stat().st_size
    print(f"single: {size / 1e6:.0f} MB, {count:,} events; medians of {rounds} rounds, one core")
    for series in found.values():
        _line(series, count, found[_BARE])


def _line(series: Series, count: int, bare: Series) -> None:
    low, middle, high = ratio(bare, series)
    print(
        f"  {series.name:28} {series.median:7.3f} s {count / series.median:12,.0f} events/s "
        f"{middle:6.2f} of the bare reader's speed ({low:.2f} to {high:.2f})"
    )
