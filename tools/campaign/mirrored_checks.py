"""Whether a lake is what its server has, has logged, and had at moments before."""

from __future__ import annotations

import datetime as dt
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

import tailrace
from tailrace.spark import session
from tailrace.spark.verify import verify
from tools.campaign.mirrored_lake import compare, variants
from tools.campaign.mirrored_log import Logged, logged
from tools.campaign.process import Wrong
from tools.dumps import dump_databases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.spark.manifest.manifest import Manifest, TableState
    from tools.campaign.mirrored_lake import LakeReader
    from tools.campaign.mirrored_process import Mirror
    from tools.dumps import TableDump
    from tools.load import Load
    from tools.servers import Server

    Dumps = dict[str, TableDump]

LOAD: Final = "random_load"
MARKS: Final = "mirrored"
OWN: Final = "own_"
"""How tables begin that may be refused: those of random columns, that are altered at random."""
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_OURS: Final = {"_valid_from", "_valid_to", "_is_current", "_seq", "_raw"}
_GENERATED: Final = re.compile(r"g\d+")
"""What `tools.campaign.tables` calls generated columns."""
_MILLION: Final = 1_000_000
_WAIT_SECONDS: Final = 300.0


@dataclass
class Found:
    """What was compared, and found equal."""

    tables: int = 0
    refused: int = 0
    changes: int = 0
    replayed: int = 0
    moments: int = 0
    versions: int = 0
    verified: int = 0


@dataclass(frozen=True)
class Moment:
    """What SELECT said when the log ended at ``place``, which is a file and an offset."""

    micros: int
    place: tuple[str, int]
    dumps: Dumps


@dataclass
class Moments:
    """What SELECT said at moments."""

    server: Server
    noted: list[Moment] = field(default_factory=list)

    def note(self, load: Load) -> None:
        """Pause the load, and note what all tables have then.

        MariaDB's log has whole seconds: all before the moment is in this one, all behind it in
        later ones.
        """
        with load.paused():
            now = self._now()
            if self.server.flavour == "mariadb":
                second = now // _MILLION
                while self._now() // _MILLION == second:
                    time.sleep(0.01)
                now = (second + 1) * _MILLION - 1
            log = self.server.binlogs()[-1]
            place = log.name, log.stat().st_size
            self.noted.append(Moment(now, place, dump_databases(self.server, LOAD)))
            time.sleep(0.002)

    def _now(self) -> int:
        sql = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
        return int(self.server.query(sql)[0][0])


def check(server: Server, mirror: Mirror, moments: Moments) -> Found:
    """Raise `Wrong` where the lake of a mirror that has come to the end is not right."""
    found = Found()
    manifest = mirror.manifest()
    refused = mirror.refused() | _with_gaps(manifest)
    expected = dump_databases(server, LOAD, MARKS)
    _check_refused(manifest)
    _check_current(mirror.reader, manifest, expected, found)
    said = logged(server)
    _check_changelogs(server, mirror.reader, said, found)
    _check_replayed(mirror.reader, expected, said, found)
    _check_histories(mirror.reader, moments.noted, said, refused, found)
    _check_verified(mirror, manifest, found)
    return found


def _with_gaps(manifest: Manifest) -> set[str]:
    """The tables whose histories are said to lack versions."""
    return {
        name
        for name, table in manifest.tables.items()
        if table.history is not None and table.history.gaps
    }


def _check_refused(manifest: Manifest) -> None:
    """Only tables that are altered at random may be without a state."""
    for name, table in manifest.tables.items():
        for state in (table.current, table.history):
            if state is not None and state.refused and not table.table.startswith(OWN):
                raise Wrong(f"{name} is refused: {state.refused}")
        if table.set_aside is not None and not table.table.startswith(OWN):
            raise Wrong(f"{name} is set aside: {table.set_aside.reason}")


def _stateless(state: TableState) -> bool:
    """Whether a table's state is not what it is on the server, and the lake says so."""
    refused = state.current is not None and state.current.refused is not None
    return refused or state.set_aside is not None


def _check_current(reader: LakeReader, manifest: Manifest, expected: Dumps, found: Found) -> None:
    for name, dump in expected.items():
        state = manifest.tables.get(name)
        if state is not None and _stateless(state):
            found.refused += 1
            continue
        current = None if state is None else state.current
        table = None if current is None else reader.current(name)
        compare(name, table, dump, optional=() if current is None else current.unlogged)
        found.tables += table is not None


def logged_seqs(server: Server, **selection: Any) -> dict[str, Counter[int]]:
    """By table, the ``_seq`` of each change that a server's files hold, by our reader of files."""
    found: dict[str, Counter[int]] = {}
    for batch in tailrace.changes(server.data, statements="skip", **selection):
        first = batch.slice(0, 1)
        name = f"{first.column('_db')[0].as_py()}.{first.column('_table')[0].as_py()}"
        found.setdefault(name, Counter()).update(map(int, batch.column("_seq").to_pylist()))
    return found


def check_seqs(name: str, changelog: pa.Table | None, wanted: Counter[int]) -> None:
    """Raise `Wrong` where a changelog lacks one of these changes, has another, or one twice."""
    seqs = [] if changelog is None else changelog.column("_seq").to_pylist()
    there = Counter(map(int, seqs))
    twice = sum(count - 1 for count in there.values())
    if twice or there != wanted:
        raise Wrong(
            f"the changelog of {name} lacks {len(wanted - there)} changes, has "
            f"{len(there - wanted)} too many, {twice} of them twice"
        )


def _check_changelogs(server: Server, reader: LakeReader, said: Logged, found: Found) -> None:
    """By mysqlbinlog's count each change is there once; by our reader of files, which ones."""
    read = logged_seqs(server)
    counted: Counter[tuple[str, str]] = Counter()
    for name in sorted(read.keys() | set(reader.names())):
        table = reader.changelog(name, ["_seq", "_op"])
        if table is None:
            table = pa.table({"_seq": pa.array([], pa.int64()), "_op": pa.array([], pa.string())})
        check_seqs(name, table, read.get(name, Counter()))
        counted.update((name, operation) for operation in table.column("_op").to_pylist())
    keys = counted.keys() | said.changes.keys()
    if differing := [
        key
        for key in sorted(keys)
        if counted[key] != said.changes[key] and key[0] not in said.unread
    ]:
        texts = [f"{key} {counted[key]}, {said.changes[key]}" for key in differing]
        raise Wrong(f"changes in the lake, and by mysqlbinlog: {texts}")
    found.changes = counted.total()


def _check_replayed(reader: LakeReader, expected: Dumps, said: Logged, found: Found) -> None:
    """From where a table was made or emptied last, its changes make it."""
    for name, dump in expected.items():
        statements = said.statements[name.partition(".")[2]]
        words = {word for word, _, _ in statements}
        if not dump["key"] or not statements or words - {"CREATE", "TRUNCATE"}:
            continue
        table = reader.changelog(name)
        if table is None:
            if dump["rows"]:
                raise Wrong(f"{name} has no changelog")
            continue
        _, file, offset = max(statements, key=lambda each: each[1:])
        compare(
            f"{name}, replayed,",
            replay(name, table, dump["key"], file, offset),
            dump,
            image="after.",
        )
        found.replayed += 1


def replay(name: str, changes: pa.Table, key: list[str], file: str, offset: int) -> pa.Table:
    """The rows that changes behind a place leave, one after the other, in the order of ``_seq``.

    Raises `Wrong` where a change does not fit those before it.
    """
    later = pc.or_(
        pc.greater(changes.column("_file"), file),
        pc.and_(
            pc.equal(changes.column("_file"), file), pc.greater(changes.column("_pos"), offset)
        ),
    )
    changes = changes.filter(later).sort_by("_seq").combine_chunks()
    keys = {image: _keys(changes, image, key) for image in ("before", "after")}
    rows: dict[Any, int] = {}
    for number, operation in enumerate(changes.column("_op").to_pylist()):
        before, after = keys["before"][number], keys["after"][number]
        if operation != "insert" and rows.pop(before, None) is None:
            raise Wrong(f"{name}: a change, and no row {before}")
        if operation != "delete":
            if after in rows:
                raise Wrong(f"{name}: a second row {after}")
            rows[after] = number
    left = changes.take(pa.array(sorted(rows.values()), pa.int64()))
    images = left.column("after").combine_chunks()
    if isinstance(images, pa.ChunkedArray):
        images = pa.concat_arrays(images.chunks)
    names = [field.name for field in images.type]
    made = pa.Table.from_arrays([pc.struct_field(images, each) for each in names], names)
    return made.append_column("_raw", left.column("_raw"))


def _keys(changes: pa.Table, image: str, key: list[str]) -> list[tuple[Any, ...]]:
    raws = [dict(each or ()) for each in changes.column("_raw").to_pylist()]
    columns = [pc.struct_field(changes.column(image), each).to_pylist() for each in key]
    return [
        tuple(
            raw.get(f"{image}.{name}", str(value)) for name, value in zip(key, values, strict=True)
        )
        for raw, values in zip(raws, zip(*columns, strict=True), strict=True)
    ]


def _check_histories(
    reader: LakeReader,
    moments: Sequence[Moment],
    said: Logged,
    refused: set[str],
    found: Found,
) -> None:
    """The histories, at each moment, are what SELECT said then.

    A table without a key has none. One that was refused at some time has all versions from before
    it was altered first.
    """
    found.moments = len(moments)
    names = {name for moment in moments for name in moment.dumps} | set(reader.names("history"))
    for name in sorted(name for name in names if name.startswith(f"{LOAD}.")):
        versions = reader.history(name)
        for moment in moments:
            dump = moment.dumps.get(name)
            if dump and not dump["key"]:
                continue
            if name in refused and _altered(name, moment.place, said):
                continue
            rows = None if versions is None else at(versions, moment.micros)
            _compare_then(f"{name} at {moment.micros}", rows, dump, found)


def _altered(name: str, place: tuple[str, int], said: Logged) -> bool:
    """Whether a statement before a place may be why a table is refused."""
    return any(
        word in {"ALTER", "RENAME"} and (file, offset) < place
        for word, file, offset in said.statements[name.partition(".")[2]]
    )


def _compare_then(name: str, rows: pa.Table | None, dump: TableDump | None, found: Found) -> None:
    """Generated columns may be left out: MariaDB 11 leaves them out of updates."""
    columns = [] if dump is None else dump["columns"]
    compare(name, rows, dump, optional=[each for each in columns if _GENERATED.fullmatch(each)])
    if rows is None or not rows.num_rows:
        return
    there = {each for column in columns for each in variants(rows, column)}
    for column in set(rows.schema.names) - there - _OURS:
        if rows.column(column).null_count != rows.num_rows:
            raise Wrong(f"{name}: {column} has values, and was not there")
    found.versions += rows.num_rows


def at(versions: pa.Table, micros: int) -> pa.Table:
    """The versions that were valid at a moment."""
    moment = pa.scalar(_EPOCH + dt.timedelta(microseconds=micros), pa.timestamp("us", "UTC"))
    begun = pc.less_equal(versions.column("_valid_from"), moment)
    ended = pc.fill_null(pc.less_equal(versions.column("_valid_to"), moment), False)
    return versions.filter(pc.and_(begun, pc.invert(ended)))


def _check_verified(mirror: Mirror, manifest: Manifest, found: Found) -> None:
    """`tailrace verify` says so too; it may pass over only what has no state."""
    report = verify(
        mirror.url,
        mirror.lake,
        spark=lambda: session(2),
        tables=[f"{LOAD}.*", f"{MARKS}.*"],
        wait=_WAIT_SECONDS,
    )
    for table in report.tables:
        known = manifest.tables.get(table.name)
        if table.compared:
            found.verified += 1
        elif known is not None and known.current is not None and not _stateless(known):
            raise Wrong(f"verify did not compare {table.name}: {table.reason}")
        if table.compared and (table.differing or table.reason):
            raise Wrong(
                f"verify: {table.name}: {table.missing} missing, {table.extra} extra, "
                f"{table.changed} changed, {table.doubled} doubled, {table.reason}: {table.first}"
            )
    if report.verdict == "differs" or report.transactions:
        raise Wrong(f"verify says {report.verdict}, {report.transactions} transactions behind")
