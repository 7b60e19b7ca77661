"""Events per second to consumers of transactions, statements and rows, and what each has decoded.

Two logs: ``bulk`` has few transactions of many rows, ``single`` one-row transactions. The counts
are those of the stack: of a generator that made no event, nothing was decoded for one.
"""

from __future__ import annotations

from benchmarks import logs
from benchmarks.measure import Worker, compare, pin, ratio

_SETUP = """
from tailrace import generators as g
class Transactions(g.TransactionConsumer):
    def trx_commit(self, event): pass
class Statements(g.StatementConsumer):
    def stmt_start(self, event): pass
    def stmt_query(self, event): pass
class Rows(g.RowConsumer):
    def row_write(self, event): pass
    def row_update(self, event): pass
    def row_delete(self, event): pass
class Images(Rows):
    def row_write(self, event): event.after_image
    def row_update(self, event): event.before_image, event.after_image
    def row_delete(self, event): event.before_image
class Batches(g.RowConsumer):
    def row_batch(self, event): event.before_images, event.after_images
def run(kind):
    with g.EventStream({path!r}) as stream:
        if kind:
            stream.stack[kind.level].register(kind())
        stream.run()
        return stream.stack.counts
Transactions.level, Statements.level = "transaction", "statement"
Rows.level = Batches.level = "row"
"""
_NOBODY = "nobody"
_ROWS = {"bulk": 50_000, "single": 5_000}
_CONTENDERS = {
    _NOBODY: "None",
    "trx_commit": "Transactions",
    "statements": "Statements",
    "rows, not looked at": "Rows",
    "rows and their images": "Images",
    "batches and their images": "Batches",
}


def run(*, quick: bool) -> None:
    """Print a table for each log: seconds, changes per second, events that each generator made."""
    pin()
    for name, rows in _ROWS.items():
        _log(name, rows, 3 if quick else 7)


def _log(name: str, rows: int, rounds: int) -> None:
    path = str(logs.log(name, rows=rows))
    setup = _SETUP.format(path=path)
    counts = {}
    for label, kind in _CONTENDERS.items():
        known: dict[str, object] = {}
        exec(compile(setup + f"found = run({kind})", "<counts>", "exec"), known)
        counts[label] = known["found"]
    workers = {label: Worker(setup, f"run({kind})") for label, kind in _CONTENDERS.items()}
    found = compare(dict(workers), rounds)
    for worker in workers.values():
        worker.close()
    print(f"{name}: {rows:,} rows; medians of {rounds} rounds, one core")
    for label, series in found.items():
        made = {key: each.made for key, each in counts[label].items()}  # type: ignore[attr-defined]
        _, middle, _ = ratio(found[_NOBODY], series)
        events = sum(made.values())
        print(
            f"  {label:26} {series.median:7.3f} s {events / series.median:12,.0f} events/s"
            f" {middle:6.2f} of nobody's speed; made: "
            + ", ".join(f"{key} {count:,}" for key, count in made.items())
        )
