"""This checkout against another commit: the same work, in turn, on the same logs and machine.

``./run python -m benchmarks against REVISION``. The other commit is checked out next to the logs,
in ``.benchmarks/``, with an environment of its own. Only what both commits can do is compared.
Ratios are processor seconds, this checkout by the other one: below 1 is faster.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks import logs
from benchmarks.measure import CpuWorker, peak_of, pin
from tools.servers import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE: Final = Path(__file__).resolve().parent.parent
_DECODE: Final = "for _batch in tailrace.changes(source): pass"
_EVENTS: Final = "for _event in tailrace.open(source): pass"
_WRITE: Final = """
import pyarrow as pa, pathlib
table = tailrace.Table.parse(definition, flavour="mysql")
rows = pa.Table.from_batches(
    pa.RecordBatch.from_struct_array(batch["after"]) for batch in tailrace.changes(source)
)
batches = rows.combine_chunks().to_batches(max_chunksize=50_000)  # the same for both commits
target = pathlib.Path(folder) / "binlog.000001"
def write():
    with tailrace.create(target, flavour="mysql", server_id=7) as log:
        for batch in batches:
            with log.transaction() as trx:
                trx.insert(table, pa.Table.from_batches([batch]))
    for path in target.parent.iterdir():
        path.unlink()
"""
_MIRROR: Final = """
import pathlib, shutil
from tailrace.spark import mirror, session
spark = session(1)
lake = pathlib.Path(folder) / "lake"
def land():
    mirror(source, lake, spark=spark, incomplete="accept")
    shutil.rmtree(lake)
"""


def command(arguments: list[str]) -> int:
    """Print seconds of either checkout and their ratio, a line for each kind of work."""
    parser = argparse.ArgumentParser(prog="benchmarks against", description=__doc__)
    parser.add_argument("revision", help="the commit to compare with")
    parser.add_argument("--only", default="", help="the kinds of work with this text")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args(arguments)
    other = _checkout(chosen.revision)
    pin()
    print(f"against {chosen.revision}: {chosen.rounds} rounds in turn, one core, CPU seconds")
    with ExitStack() as stack:
        for title, setup, statement in _work(chosen.only, stack):
            _compare(title, setup, statement, other, chosen.rounds)
    return 0


def _checkout(revision: str) -> Path:
    """The other commit's Python, in a work tree that stays for the next time."""
    folder = logs.FOLDER / f"checkout-{revision}"
    if not folder.exists():
        logs.FOLDER.mkdir(exist_ok=True)
        subprocess.run(["git", "worktree", "add", "--detach", folder, revision], check=True)
    ours = str(Path(sys.executable).parent)  # has no pip, which the other's ./run may want
    path = os.pathsep.join(each for each in os.environ["PATH"].split(os.pathsep) if each != ours)
    without = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
    subprocess.run(["./run", "true"], cwd=folder, env={**without, "PATH": path}, check=True)
    return folder / ".venv" / "bin" / "python"


def _work(only: str, stack: ExitStack) -> Iterator[tuple[str, str, str]]:
    """Each kind of work: its title, what prepares it and what is timed."""
    begin = "import tailrace\n"
    for name in ("bulk", "single", "tables", "writes", "tpcc"):
        if only in f"decode {name}":
            yield f"decode {name}", f"{begin}source = {str(logs.log(name))!r}", _DECODE
    if only in "events single":
        yield "events single", f"{begin}source = {str(logs.log('single'))!r}", _EVENTS
    folder = tempfile.mkdtemp(prefix="tailrace-against-")
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    bulk = f"{begin}source = {str(logs.log('bulk'))!r}\nfolder = {folder!r}\n"
    if only in "write bulk":
        definition = logs.TABLE.format(name="bench.orders")
        yield "write bulk", f"{bulk}definition = {definition!r}\n{_WRITE}", "write()"
    if only in "mirror bulk":
        yield "mirror bulk", f"{bulk}{_MIRROR}", "land()"
    for name in ("bulk", "single"):
        if only in f"live {name}":
            server = stack.enter_context(Server("mysql-9.7", logs.OPTIONS))
            logs.fill(server, name)
            url = f"mysql://{server.user}@{server.host}:{server.port}/"
            yield f"live {name}", f"{begin}source = {url!r}", _DECODE


def _compare(title: str, setup: str, statement: str, other: Path, rounds: int) -> None:
    workers = [
        CpuWorker(setup, statement),
        CpuWorker(setup, statement, interpreter=str(other)),
    ]
    seconds: list[tuple[float, ...]] = []
    try:
        for number in range(rounds + 1):
            pair = tuple(worker("")[0] for worker in workers)
            if number:
                seconds.append(pair)
        peaks = [peak_of(worker.pid) / 1e6 for worker in workers]
    finally:
        for worker in workers:
            worker.close()
    ours, theirs = (statistics.median(side) for side in zip(*seconds, strict=True))
    ratios = sorted(first / second for first, second in seconds)
    print(
        f"  {title:16} {ours:7.3f} s and {theirs:7.3f} s: {statistics.median(ratios):5.2f} "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f}); peak {peaks[0]:.0f} and {peaks[1]:.0f} MB",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(command(sys.argv[1:]))
