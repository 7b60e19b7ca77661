"""What consumers of transactions, statements and rows cost, next to the plain reader, and what each
has made.

Two logs: ``bulk`` has few transactions of many rows, ``single`` one-row transactions. The plain
reader is `tailrace.transactions`, of which nothing is looked at; for the lines with images,
`tailrace.rows` whose images are read. The counts are those of the stack: a generator that made no
event had nothing decoded for one.
"""

from __future__ import annotations

from statistics import median

from benchmarks import logs
from benchmarks.measure import CpuWorker, pin

_SETUP = """
import tailrace
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
def plain():
    with tailrace.transactions({path!r}) as found:
        return sum(1 for _ in found)
def images():
    with tailrace.rows({path!r}) as found:
        for row in found: row.before, row.after
def run(kind):
    with g.EventStream({path!r}) as stream:
        if kind:
            stream.stack[kind.level].register(kind())
        stream.run()
        return stream.stack.counts
Transactions.level, Statements.level = "transaction", "statement"
Rows.level = Batches.level = "row"
"""
_PLAIN, _IMAGES = "the plain reader", "its rows and their images"
_ROWS = {"bulk": 50_000, "single": 5_000}
_CONTENDERS = {
    _PLAIN: ("plain()", _PLAIN),
    "nobody": ("run(None)", _PLAIN),
    "trx_commit": ("run(Transactions)", _PLAIN),
    "statements": ("run(Statements)", _PLAIN),
    "rows, not looked at": ("run(Rows)", _PLAIN),
    _IMAGES: ("images()", _IMAGES),
    "rows and their images": ("run(Images)", _IMAGES),
    "batches and their images": ("run(Batches)", _IMAGES),
}


def run(*, quick: bool) -> None:
    """Print a table for each log: milliseconds of the processor and of the wall, the processor's
    microseconds of a transaction, the ratio to the plain reader's, what each generator made.
    """
    pin()
    for name, rows in _ROWS.items():
        _log(name, rows, 5 if quick else 15)


def _log(name: str, rows: int, rounds: int) -> None:
    setup = _SETUP.format(path=str(logs.log(name, rows=rows)))
    known: dict[str, object] = {}
    exec(compile(f"{setup}\ntransactions = plain()", "<counts>", "exec"), known)
    transactions = int(str(known["transactions"]))
    made = {}
    for label, (call, _) in _CONTENDERS.items():
        if call.startswith("run"):
            exec(compile(f"counts = {call}", "<counts>", "exec"), known)
            counts = known["counts"]
            made[label] = {key: each.made for key, each in counts.items()}  # type: ignore[attr-defined]
    workers = {label: CpuWorker(setup, call) for label, (call, _) in _CONTENDERS.items()}
    found: dict[str, list[tuple[float, float]]] = {label: [] for label in workers}
    for number in range(rounds + 1):
        for label, worker in workers.items():
            seconds = worker("")
            if number:
                found[label].append(seconds)
    for worker in workers.values():
        worker.close()
    print(f"{name}: {rows:,} rows in {transactions:,} transactions; {rounds} rounds, one core")
    for label, (_, base) in _CONTENDERS.items():
        cpu, wall = (median(each[place] for each in found[label]) for place in (0, 1))
        ratios = sorted(a[0] / b[0] for a, b in zip(found[label], found[base], strict=True))
        print(
            f"  {label:26} {cpu * 1e3:7.0f} ms ({wall * 1e3:5.0f} by the wall)"
            f" {cpu / transactions * 1e6:9,.0f} us each {median(ratios):6.2f} of the plain reader's"
            f" ({ratios[0]:.2f} to {ratios[-1]:.2f})"
            + ("; made: " * (label in made))
            + ", ".join(f"{key} {count:,}" for key, count in made.get(label, {}).items())
        )
