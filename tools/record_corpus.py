"""Records `tests/corpus` on real servers: `./run python -m tools.record_corpus [NAME-PART...]`."""

from __future__ import annotations

import gzip
import shutil
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools import dumps
from tools.corpus import CASES, Case, Recorder
from tools.corpus.case import DATABASE, Recording, log_files
from tools.expected import share, unshare, write_expected
from tools.servers import NAMES, Server

if TYPE_CHECKING:
    from collections.abc import Callable

_TARGET = Path(__file__).resolve().parents[1] / "tests" / "corpus"
_TEXT_LIMIT = 8 << 10
_TEXT_OPTIONS = ("-v", "-v", "--base64-output=DECODE-ROWS")
_README = """\
# Corpus

Binary logs that real servers wrote, a folder a case and server. In each: the logs, `expected.json`
and, where it is small, `mysqlbinlog.txt.gz`, what the server's own tool makes of the logs
(`-v -v --base64-output=DECODE-ROWS`).

`expected.json`: `server` (the version), `settings` (global variables it was recorded under),
`tables`: per `database.table` what SELECT gave after the last event, in the order of the key:
`columns`, `types`, `binary` (columns whose values are in base64, if any), `key`, `rows` (the text
that SELECT gives in time zone UTC; NULL is `null`). Where an earlier recording has equal tables,
`tables` is the name of its folder; `tools.expected.load_expected` follows it.

- `insert_only`: nothing was updated or deleted; `id` is the order of insertion.
- `rows_complete`: the tables' contents follow from the row events and the DDL alone; false where
  statements were logged as such, or something was lost.
- Under row images MINIMAL and NOBLOB an insert leaves out the columns it was not given: SELECT has
  their DEFAULT.
- `unclean`: the server was killed, the format description's IN_USE flag is still set; `torn`: the
  file ends within an event; `encrypted`, `incident`, `relay`: what they say.

To record again, all or the cases whose names contain one of the words:

    ./run python -m tools.record_corpus [WORD...]

| Case | What | Servers | KiB |
|---|---|---|---|
"""


def main(words: list[str]) -> int:
    """Record the cases whose name contains one of the words, or all; gives how many failed."""
    failed = 0
    unshare(_TARGET)
    chosen = [case for case in CASES if not words or any(word in case.name for word in words)]
    for name in NAMES:
        shared = [case for case in chosen if name in case.servers and case.script]
        if shared:
            with Server(name) as server:
                for case in shared:
                    failed += _try(name, case, partial(_record, server, case))
        for case in chosen:
            if name in case.servers and case.own:
                failed += _try(name, case, partial(case.own, name))
    share(_TARGET)
    _write_readme()
    return failed


def _try(name: str, case: Case, record: Callable[[], Recording]) -> int:
    try:
        _report(name, case, record())
    except Exception as error:  # noqa: BLE001 - the other cases are worth recording
        said = str(getattr(error, "stderr", ""))
        print(f"{name}.{case.name}: FAILED: {error} {said[-500:]}", flush=True)
        return 1
    return 0


def _report(name: str, case: Case, recording: Recording) -> None:
    folder = _TARGET / f"{name}.{case.name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file, content in recording.logs:
        (folder / file).write_bytes(content)
    expected: dict[str, Any] = {
        "server": recording.server,
        "settings": dict(case.settings),
        "insert_only": case.insert_only,
        "rows_complete": case.rows_complete,
        **recording.remarks,
        "tables": recording.tables,
    }
    write_expected(folder, expected)
    if recording.text:
        packed = gzip.compress(recording.text, mtime=0)
        if len(packed) <= _TEXT_LIMIT:
            (folder / "mysqlbinlog.txt.gz").write_bytes(packed)
    size = sum(len(content) for _, content in recording.logs)
    print(f"{folder.name}: {size / 1024:.1f} KiB, {len(recording.tables)} tables", flush=True)


def _record(server: Server, case: Case) -> Recording:
    """Run a case on a server that others use too, from a first log of its own on."""
    mysql = server.flavour == "mysql"
    server.execute("RESET BINARY LOGS AND GTIDS" if mysql else "RESET MASTER")
    for variable, value in case.settings.items():
        server.execute(f"SET GLOBAL {variable} = %s", (value,))
    if "binlog_checksum" in case.settings:
        server.execute("RESET BINARY LOGS AND GTIDS" if mysql else "RESET MASTER")
    recorder = Recorder(server)
    try:
        assert case.script
        case.script(recorder)
        recorder.connection.close()
        tables = dumps.dump_databases(server, DATABASE)
        server.rotate()
        logs = log_files(server.data)[:-1]
        text = None
        if case.with_text:
            files = [server.data / file for file, _ in logs]
            text = server.mysqlbinlog(*_TEXT_OPTIONS, *files).stdout
        return Recording(server.version, logs, tables, {}, text)
    finally:
        if recorder.connection.open:
            recorder.connection.close()
        for variable in case.settings:
            server.execute(f"SET GLOBAL {variable} = DEFAULT")
        server.execute(f"DROP DATABASE IF EXISTS {DATABASE}")


def _write_readme() -> None:
    rows: dict[tuple[str, str], list[tuple[str, int]]] = {}
    descriptions = {case.name: case.what for case in reversed(CASES)}
    for folder in sorted(_TARGET.iterdir()):
        if folder.is_dir():
            name = next(name for name in NAMES if folder.name.startswith(f"{name}."))
            case = folder.name.removeprefix(f"{name}.")
            size = sum(file.stat().st_size for file in folder.iterdir())
            key = (case, descriptions.get(case, "(no longer recorded)"))
            rows.setdefault(key, []).append((name, size))
    lines = []
    for (case, what), found in sorted(rows.items()):
        names = ", ".join(name for name, _ in sorted(found, key=lambda pair: NAMES.index(pair[0])))
        sizes = sum(size for _, size in found) / 1024
        lines.append(f"| `{case}` | {what} | {names} | {sizes:.0f} |\n")
    (_TARGET / "README.md").write_text(_README + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    started = time.monotonic()
    failures = main(sys.argv[1:])
    print(f"{failures} failed; {time.monotonic() - started:.0f} s")
    sys.exit(bool(failures))
