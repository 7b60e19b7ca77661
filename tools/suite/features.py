"""One broken line in each feature that the README names: the quick suite must fail each time.

Each line is broken in the working tree and put back, so nobody else may work in it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple


class Break(NamedTuple):
    """A line of a file below ``src/tailrace``, and what takes its place."""

    feature: str
    path: str
    line: str
    broken: str


BREAKS: Final = (
    Break(
        "rows", "log/rows.py", "return _values(self.row.after)", "return _values(self.row.before)"
    ),
    Break(
        "undo scripts",
        "sql/undo.py",
        "return None if after is None else table.delete(after, whole=True)",
        "return None if after is None else table.insert(after, whole=True)",
    ),
    Break(
        "a lake's current rows",
        "spark/state/current/fold.py",
        "return table.filter(table.column(ALIVE)).drop_columns([ALIVE, SEEN]), unseen",
        "return table.drop_columns([ALIVE, SEEN]), unseen",
    ),
    Break(
        "a lake of Delta",
        "spark/lake/delta/actions.py",
        'return {"add": content | _with(vector)}',
        'return {"txn": content | _with(vector)}',
    ),
    Break(
        "a lake of Iceberg",
        "spark/lake/iceberg/commit.py",
        "come = [*(files.entry(folder / name, top + name) for name in sorted(adds)), *deletes]",
        "come = [*(files.entry(folder / name, top + name) for name in sorted(adds)[1:]), *deletes]",
    ),
    Break(
        "the Spark source",
        "spark/stream/datasource.py",
        "return read_changes(partition, self._options, self._target, self._conditions)",
        "return iter(())",
    ),
    Break(
        "reading a running server",
        "live/chunks.py",
        "yield file, offset + start, data[start:end]",
        "yield file, offset + start, data[start : end - 1]",
    ),
    Break(
        "the receiver",
        "replication/copy/writer.py",
        "self.copy.write(chunk.data, chunk.starts)",
        "self.copy.write(chunk.data[:-1], chunk.starts)",
    ),
    Break(
        "a source for replicas",
        "replication/source/transmit.py",
        "self._artificial(RotateEvent, next_file=file.name, next_offset=position)",
        "self._artificial(RotateEvent, next_file=file.name, next_offset=position + 1)",
    ),
    Break(
        "the applier",
        "applier/database.py",
        "return sa.and_(*(table.c[name] == image[name] for name in key))",
        "return sa.and_(*(table.c[name] != image[name] for name in key))",
    ),
    Break(
        "the index",
        "search/boolean.py",
        "return Query.term_query(self._schema, field, tokens[0])",
        "return Query.term_query(self._schema, field, tokens[0][::-1])",
    ),
    Break(
        "writing a log",
        "writing/rows.py",
        "            present_before=before,\n            present_after=after,\n",
        "            present_before=after,\n            present_after=before,\n",
    ),
)


def main() -> int:
    """Break each, run the quick suite, and print the first test that failed; 1 if none did."""
    unnoticed = 0
    sources = {each: Path("src/tailrace", each.path).read_text(encoding="utf-8") for each in BREAKS}
    for each, source in sources.items():
        if source.count(each.line) != 1:
            sys.exit(f"{each.path} does not contain this line once: {each.line}")
    for each, source in sources.items():
        path = Path("src/tailrace", each.path)
        path.write_text(source.replace(each.line, each.broken), encoding="utf-8")
        start = time.monotonic()
        try:
            argv = ("./run", "pytest", "-x", "-q")
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
        finally:
            path.write_text(source, encoding="utf-8")
        lines = done.stdout.splitlines()
        failed = next(
            (each for each in lines if each.startswith(("FAILED", "ERROR"))), "nothing failed"
        )
        unnoticed += done.returncode == 0
        print(f"{each.feature}: {failed[:120]} ({time.monotonic() - start:.0f} s)", flush=True)
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
