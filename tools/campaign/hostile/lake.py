"""Lakes and streams that somebody else altered: journals, links, indices, offsets, tasks' files.

Each scenario begins with a small lake of the tests' golden files, alters it, and then reads it and
mirrors more of the logs into it.
"""

from __future__ import annotations

import copy
import functools
import json
import lzma
import os
import random
import shutil
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import TailraceError
from tailrace.spark.input.offset import Offset
from tailrace.spark.input.saved_index import SavedIndices
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.manifest.document import dump
from tailrace.spark.manifest.lake_options import FORMATS, KEEP
from tailrace.storage import find
from tools.campaign.hostile.scenario import Scenario, flipped, outside
from tools.campaign.mirrored_here import mirrored
from tools.campaign.process import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_GOLDEN: Final = ROOT / "tests" / "spark" / "lake" / "golden"
_LOGS: Final = ROOT / "examples" / "shop" / "mariadb"
_TABLES: Final = ("shop.*", "warehouse.stock", "co.*")
"""What the golden lakes were created with."""
_COUNTS: Final = {"small": 4, "full": 150}
"""Mutations of each kind and format."""
_SECONDS: Final = 60


# --- a lake, and what is done with it ------------------------------------------------------------


def _lake(folder: Path, kind: str) -> Path:
    """A lake, by a path that is good in every folder, and logs next to it."""
    with tarfile.open(_GOLDEN / f"layout-{5 if kind == 'parquet' else 4}.{kind}.tar.xz") as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
        packed.extractall(folder)
    logs = folder / "logs" / "mariadb"
    logs.mkdir(parents=True)
    shutil.copy(_LOGS / "binlog.000001", logs)
    shutil.copy(_LOGS / "binlog.000002", logs)
    os.chdir(folder)
    return Path("/proc/self/cwd", kind)


def _use(lake: Path, kind: str) -> None:
    """Read the lake, and mirror into it; raises the last error of both."""
    last: TailraceError | None = None
    for work in (_read, _mirror):
        try:
            work(lake, kind)
        except TailraceError as error:
            last = error
    if last is not None:
        raise last


def _read(lake: Path, _kind: str) -> None:
    view = LakeView.open(lake)
    for table in view.manifest.tables.values():
        for file in view.current(table):
            with suppress(FileNotFoundError):  # the view says that it may be so
                sum(rows.num_rows for rows in file.rows([]))


def _mirror(lake: Path, kind: str) -> None:
    mirrored(Path("logs", "mariadb"), lake, kind, tables=_TABLES, keep=KEEP)


def _documents(lake: Path) -> list[Path]:
    """What a lake has its state in."""
    return sorted((lake / "_tailrace" / "journal").iterdir())


# --- what is mutated -----------------------------------------------------------------------------

_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, -1, 0, 1 << 70, 1e308, "", "x", [], {}, [[]], {"": {}}),
    *("../../outside/x.000001", "/etc/passwd", "..", ".", "a\0b", "a\nb", "\ud800", "x" * 100_000),
    *([None] * 1000, {"version": 99}, "AAAA" * 100, "/dev/zero"),
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where every member of a JSON text is."""
    yield path
    pairs: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    for name, each in pairs:
        yield from _places(each, (*path, name))


def _altered(value: Any, rng: random.Random) -> Any:
    """A copy with one to three members replaced, removed, or added."""
    made = copy.deepcopy(value)
    for _ in range(rng.randint(1, 3)):
        *above, last = rng.choice(list(_places(made))[1:] or [("x",)])
        holder = made
        for name in above:
            holder = holder[name]
        match rng.randrange(4):
            case 0 if isinstance(holder, dict):
                holder.pop(last)
            case 1 if isinstance(holder, dict):
                holder[str(rng.choice(_VALUES))[:50]] = holder.pop(last)
            case _:
                holder[last] = copy.deepcopy(rng.choice(_VALUES))
        if not isinstance(made, dict) or not made:
            break
    return made


def _unaltered(folder: Path, kind: str) -> None:
    """Nothing is altered: the other scenarios come as far as what they altered."""
    try:
        _use(_lake(folder, kind), kind)
    except TailraceError as error:
        raise AssertionError(f"it was rejected: {error}") from error


def _mutated_document(folder: Path, kind: str, seed: str) -> None:
    """The lake's part of a document, or a table's, with which the rest fits together."""
    rng = random.Random(seed)
    lake = _lake(folder, kind)
    path = rng.choice(_documents(lake))
    data = path.read_bytes()
    if rng.random() < 0.3:
        path.write_bytes(flipped(data, rng))
    else:
        first, *lines = map(json.loads, data.splitlines())
        tables = dict(zip((key for key in first.pop("tables")), lines, strict=True))
        whole = {"lake": first, "tables": tables}
        if isinstance(made := _altered(whole, rng), dict):
            whole |= {name: each for name, each in made.items() if isinstance(each, dict)}
        path.write_bytes(dump(str(path), whole["lake"], whole["tables"]))
    _use(lake, kind)


def _mutated_file(folder: Path, kind: str, seed: str) -> None:
    """Any small file of the lake, whoever reads it: logs of Delta, metadata of Iceberg, steps."""
    rng = random.Random(seed)
    lake = _lake(folder, kind)
    if kind != "parquet" and rng.random() < 0.3:
        _documents(lake)[-2].unlink()  # then its last batch is to be finished
    files = [
        each
        for each in sorted(lake.rglob("*"))
        if each.is_file() and not each.is_symlink() and each.suffix in {".json", ".jsonl"}
    ]
    path = rng.choice(files)
    data = path.read_bytes()
    try:
        path.write_text(json.dumps(_altered(json.loads(data), rng)))
    except ValueError:  # lines of JSON
        lines = data.decode().splitlines()
        at = rng.randrange(len(lines))
        lines[at] = json.dumps(_altered(json.loads(lines[at]), rng))
        path.write_text("\n".join(lines))
    _use(lake, kind)


# --- what leads elsewhere ------------------------------------------------------------------------


def _linked(folder: Path, kind: str, name: str) -> None:
    """A folder or file of the lake is a link that leads outside, or to what its name says."""
    lake = _lake(folder, kind)
    name, _, target = name.partition(" -> ")
    victim = outside(folder)
    now = (lake / "_tailrace" / "now").resolve()
    path = lake / name.format(now=now.relative_to(lake.resolve()))
    if path.is_dir() and not path.is_symlink():
        path.rename(folder / "kept")
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    of_file = path.suffix in {".db", ".jsonl", ".parquet", ".tmp"}
    path.symlink_to(target or (victim / "authorized_keys" if of_file else victim))
    _use(lake, kind)


_WRONG: Final = ("co.b@0020d/000002", "warehouse.stock/current", "warehouse.stock/2", "../..")
"""Where no link to a folder of the table leads."""
_STOCK: Final = "_tailrace/tables/warehouse.stock"
_LINKS: Final = {
    "parquet": (
        *("_tailrace", "_tailrace/now", "_tailrace/versions", "_tailrace/staging"),
        *("_tailrace/sources", "_tailrace/claims", "{now}", "{now}/warehouse.stock"),
        *("_tailrace/versions/000003", "_tailrace/journal", "_tailrace/journal/000002.jsonl"),
        *("_tailrace/journal/000003.jsonl", "_tailrace/journal/.000003.jsonl.tmp"),
        *("_tailrace/versions/000001", "_tailrace/versions/000001 -> 000001"),
        *("_tailrace/versions/000001 -> 000002", "_tailrace/versions/000003 -> 000002"),
        *("{now}/warehouse.stock -> warehouse.stock", "{now}/x.y -> ../../tables/x.y/000001"),
        *(f"{{now}}/warehouse.stock -> ../../tables/{name}" for name in _WRONG),
        *("_tailrace/tables", "_tailrace/now.0000000001", "_tailrace/now.0000000001 -> now"),
        *(f"{_STOCK}{end}" for end in ("", " -> warehouse.stock", " -> co.b@0020d")),
        *(
            f"{_STOCK}/{name}{end}"
            for name in ("current", "000001", "000002", "000003", "current.spare")
            for end in ("", " -> changelog", f" -> {name}")
        ),
        *(f"{_STOCK}/{name}" for name in ("000002/current", "current/part-000001-000000.parquet")),
        f"{_STOCK}/000002/current/part-000001-000000.parquet",
    ),
    "delta": (
        *("_tailrace/journal", "warehouse.stock", "warehouse.stock/_delta_log"),
        *("warehouse.stock_history", "_tailrace/making.tmp"),
        *("warehouse.stock/_delta_log/.00000000000000000002.json.tmp",),
    ),
    "iceberg": (
        *("_tailrace/journal", "warehouse.stock", "warehouse.stock/data"),
        *("warehouse.stock/metadata", "catalog.db", "warehouse.stock/_leftovers.jsonl"),
    ),
}


def _to_remove(folder: Path, kind: str) -> None:
    """The note of folders with files to remove after a crash names others'."""
    lake = _lake(folder, kind)
    folders = [str(each) for each in outside(folder).rglob("*")]
    content = {"version": 3, "folders": folders}
    (lake / "_tailrace" / "making.x.json").write_text(json.dumps(content))
    _use(lake, kind)
    raise AssertionError("it was accepted")


def _endless(folder: Path, kind: str, target: str) -> None:
    """A document is a device, or a pipe that nobody writes to."""
    lake = _lake(folder, kind)
    path = _documents(lake)[-1]
    path.unlink()
    if target:
        path.symlink_to(target)
    else:
        os.mkfifo(path)
    _use(lake, kind)
    raise AssertionError("it was accepted")


def _catalogue(folder: Path) -> None:
    """The database of an Iceberg lake is none."""
    lake = _lake(folder, "iceberg")
    (lake / "catalog.db").write_bytes(b"no database" * 500)
    _use(lake, "iceberg")
    raise AssertionError("it was accepted")


# --- streams -------------------------------------------------------------------------------------


def _index(folder: Path, seed: str) -> None:
    """A stream's saved index is damaged: it is made anew, never believed."""
    rng = random.Random(seed)
    (series,) = find(_LOGS)
    log = series.files[0]
    data = lzma.decompress((_GOLDEN / "index.layout-3.npz.xz").read_bytes())
    (folder / f"{log.name}.npz").write_bytes(flipped(data, rng))
    SavedIndices(folder).load(log)


def _offset(_folder: Path, seed: str) -> None:
    """An offset in a checkpoint is altered."""
    rng = random.Random(seed)
    begin = {"file": "binlog.000002", "position": 4, "mark": "", "since": "binlog.000001:4"}
    behind = {"bytes": 5, "since": "2026-01-01T00:00:00+00:00"}
    given = _altered({**begin, "gtid": "0-1-5", "read": 7, "behind": behind}, rng)
    json.dumps(Offset.of(given).json())


# --- all of them ---------------------------------------------------------------------------------


def scenarios(size: str, seed: int) -> Iterator[Scenario]:
    """Those of a size; which inputs are drawn depends on ``seed`` only."""
    part = functools.partial

    def of(name: str, run: Callable[[Path], None]) -> Scenario:
        return Scenario(name, run, seconds=_SECONDS)

    for kind in FORMATS:
        yield of(f"{kind} unaltered", part(_unaltered, kind=kind))
        for name in _LINKS[kind]:
            yield of(f"{kind} link {name}", part(_linked, kind=kind, name=name))
        for number in range(_COUNTS[size]):
            drawn = f"{seed}-{kind}-{number}"
            yield of(f"{kind} document {number}", part(_mutated_document, kind=kind, seed=drawn))
            if kind != "parquet":
                yield of(f"{kind} file {number}", part(_mutated_file, kind=kind, seed=drawn))
    for kind in ("delta", "iceberg"):
        yield of(f"{kind} files to remove", part(_to_remove, kind=kind))
    for name, target in (("zeros", "/dev/zero"), ("pipe", "")):
        yield of(f"document of {name}", part(_endless, kind="parquet", target=target))
    yield of("catalogue", _catalogue)
    for number in range(_COUNTS[size] * 2):
        yield of(f"index {number}", part(_index, seed=f"{seed}-{number}"))
        yield of(f"offset {number}", part(_offset, seed=f"{seed}-{number}"))
