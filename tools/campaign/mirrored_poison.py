"""What goes wrong with one table of a lake: ways to poison it, and how each is mended.

Each `Poison` has a table of its own. It does what it does to the server (``sql``), to the lake's
folder (``lake``) or to Tailrace itself (``plant``: a mistake of ours, for this table alone), after
a first batch has landed; and says what the lake has to say of the table then.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from tailrace.columns.read import scan
from tailrace.columns.read.table import TableDecoder
from tailrace.spark.lake import plan
from tailrace.spark.lake.delta.tables import DeltaTables
from tailrace.spark.lake.iceberg.tables import IcebergTables
from tailrace.spark.state.current import build, jobs
from tailrace.spark.state.history import VersionsJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DATABASE: Final = "poisoned"
ALL: Final = ("parquet", "delta", "iceberg")
TABLES: Final = ("delta", "iceberg")
PLANTED: Final = "planted by the campaign"


@dataclass(frozen=True)
class Poison:
    """A way to poison a table, which is called so.

    ``columns`` are those of its CREATE TABLE; without ``before`` it is created with the second
    batch. ``sql`` are statements, ``lake`` is called with the lake's folder, the format, the name;
    ``plant`` is a context in which batches run. ``says`` is part of the reason. Where it is
    ``refused``, the table has no current state, by a rule, and is not set aside. ``cure`` is called
    as ``lake`` is, before the table is taken up; ``mends`` says whether it is the server's then.
    """

    name: str
    says: str
    columns: str = "id INT PRIMARY KEY, n INT, t VARCHAR(40)"
    before: bool = True
    sql: tuple[str, ...] = ()
    lake: Callable[[Path, str, str], None] | None = None
    plant: Callable[[str], Any] | None = None
    refused: bool = False
    cure: Callable[[Path, str, str], None] | None = None
    mends: bool = True
    formats: tuple[str, ...] = ALL
    flavours: tuple[str, ...] = ("mysql", "mariadb")
    becomes: str = ""
    """The name that RENAME TABLE gives it while it is set aside."""

    @property
    def table(self) -> str:
        """The table's full name."""
        return f"{DATABASE}.{self.name}"


# --- the lake's folder ------------------------------------------------------------------------


def _current(lake: Path, format: str, name: str) -> Path:  # noqa: A002
    """The folder of the data files of a table's current state."""
    if format == "parquet":
        return lake / "_tailrace" / "tables" / f"{DATABASE}.{name}" / "current"
    return lake / f"{DATABASE}.{name}" / ("data" if format == "iceberg" else "")


def _data_files(lake: Path, format: str, name: str) -> list[Path]:  # noqa: A002
    return sorted(_current(lake, format, name).glob("part-*.parquet"))


def _truncate(lake: Path, format: str, name: str) -> None:  # noqa: A002
    for path in _data_files(lake, format, name):
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])


def _folder_for_a_file(lake: Path, format: str, name: str) -> None:  # noqa: A002
    for path in _data_files(lake, format, name):
        path.unlink()
        path.mkdir()


def _remove(lake: Path, format: str, name: str) -> None:  # noqa: A002
    inner = lake / "_tailrace" / "tables" if format == "parquet" else lake
    shutil.rmtree(inner / f"{DATABASE}.{name}")


def _in_the_way(lake: Path, format: str, name: str) -> None:  # noqa: A002
    where = lake / f"{DATABASE}.{name}"
    if format == "iceberg":
        _catalog(lake).create_table((DATABASE, name), _foreign())
    elif format == "delta":
        where.write_text("a file")
    else:
        where.mkdir()


def _out_of_the_way(lake: Path, format: str, name: str) -> None:  # noqa: A002
    where = lake / f"{DATABASE}.{name}"
    if format == "iceberg":
        _catalog(lake).drop_table((DATABASE, name))
        shutil.rmtree(where, ignore_errors=True)
    elif format == "delta":
        where.unlink()
    else:
        where.rmdir()


def _drop_from_catalogue(lake: Path, format: str, name: str) -> None:  # noqa: A002
    """Whose files are gone, a catalogue's table cannot even be loaded."""
    if format == "iceberg":
        _catalog(lake).drop_table((DATABASE, name))


def _catalog(lake: Path) -> Any:
    from tailrace.spark.lake.iceberg.catalog import own_catalog  # noqa: PLC0415 - an extra's

    return own_catalog(lake)


def _foreign() -> Any:
    import pyarrow as pa  # noqa: PLC0415 - one place

    return pa.schema([("x", pa.int32())])


def _damage_the_log(lake: Path, format: str, name: str) -> None:  # noqa: A002
    """What a format keeps of a table's history is nonsense."""
    if format == "delta":
        log = lake / f"{DATABASE}.{name}" / "_delta_log"
        last = max(int(entry.stem) for entry in log.glob("*.json"))
        (log / f"{last + 1:020}.json").write_text('{"x": 1')
    else:
        with _catalog(lake).load_table((DATABASE, name)).transaction() as change:
            change.set_properties({"tailrace.batch": "x"})


def _mend_the_log(lake: Path, format: str, name: str) -> None:  # noqa: A002
    if format == "delta":
        log = lake / f"{DATABASE}.{name}" / "_delta_log"
        max(log.glob("*.json")).unlink()
    else:
        with _catalog(lake).load_table((DATABASE, name)).transaction() as change:
            change.set_properties({"tailrace.batch": "1"})


# --- mistakes of ours -------------------------------------------------------------------------


def _raises(target: Any, attribute: str, concerns: Callable[..., bool]) -> Any:
    """A function that raises where it is about the table."""
    real = getattr(target, attribute)

    def planted(*arguments: Any, **more: Any) -> Any:
        if concerns(*arguments):
            raise ZeroDivisionError(PLANTED)
        return real(*arguments, **more)

    return mock.patch.object(target, attribute, planted)


def _has_column(name: str) -> Callable[..., bool]:
    return lambda job, *_: name in job.target.columns.names


def _plan(name: str) -> Any:
    def concerns(life: Any, *_: Any) -> bool:
        return any(each.table == f"{DATABASE}.{name}" for each in life.segments)

    return _raises(build, "plan_table", concerns)


def _fold(name: str) -> Any:
    return _raises(jobs.FoldJob, "do", _has_column(f"own_{name}"))


def _history(name: str) -> Any:
    return _raises(VersionsJob, "do", _has_column(f"own_{name}"))


def _decode(name: str) -> Any:
    return _raises(TableDecoder, "decode", lambda self, *_: self.table.table == name)


def _alter(name: str) -> Any:
    def concerns(*given: Any) -> bool:
        return f"«ALTER TABLE {name} " in given[-1]  # the statement, as reasons quote it

    return _raises(scan, "altered", concerns)


def _put(name: str) -> Any:
    """The batch's part for a table cannot be worked out."""

    def of_a_file(_self: Any, states: Any, *_: Any) -> bool:
        return any(state.table == name for state in states.values())

    return _raises(plan.TableBatch, "_changelog", of_a_file)


@contextmanager
def _commit(name: str) -> Iterator[None]:
    """A table cannot take its part of a batch that is prepared."""

    def of_the_table(_self: Any, step: Any, *_: Any) -> bool:
        return bool(step.table == f"{DATABASE}.{name}")

    with (
        _raises(DeltaTables, "commit", of_the_table),
        _raises(IcebergTables, "commit", of_the_table),
    ):
        yield


def _own(name: str) -> str:
    return f"id INT PRIMARY KEY, n INT, t VARCHAR(40), own_{name} INT"


POISONS: Final = (
    Poison(
        "partial",
        "partial JSON update without the document before",
        columns="id INT PRIMARY KEY, n INT, t VARCHAR(40), doc JSON",
        sql=(
            "SET SESSION binlog_row_image = 'MINIMAL', binlog_row_value_options = 'PARTIAL_JSON'",
            "UPDATE {table} SET doc = JSON_SET(doc, '$.a', 7)",
            "SET SESSION binlog_row_image = 'FULL', binlog_row_value_options = ''",
        ),
        mends=False,
        flavours=("mysql",),
    ),
    Poison(
        "in_the_way",
        "in_the_way",
        before=False,
        lake=_in_the_way,
        cure=_out_of_the_way,
    ),
    Poison(
        "retyped",
        "changed from",
        columns="id INT PRIMARY KEY, n INT, t VARCHAR(40), g DOUBLE",
        sql=("UPDATE {table} SET g = 1.5", "ALTER TABLE {table} MODIFY g VARCHAR(20)"),
        mends=False,
    ),
    Poison("truncated", "cannot read", lake=_truncate),
    Poison("a_folder", "", lake=_folder_for_a_file),
    Poison("removed", "", lake=_remove, cure=_drop_from_catalogue),
    Poison(
        "log_damaged",
        "cannot be read",
        lake=_damage_the_log,
        cure=_mend_the_log,
        formats=TABLES,
    ),
    Poison("no_key", "no primary key", columns="n INT, t VARCHAR(40), id INT", refused=True,
           sql=("DELETE FROM {table} WHERE n > 0 LIMIT 1",), mends=False),
    Poison("our_name", "a name that the lake needs",
           columns="id INT PRIMARY KEY, n INT, t VARCHAR(40), _SEQ INT", refused=True, mends=False),
    Poison("planning", PLANTED, plant=_plan),
    Poison("folding", PLANTED, columns=_own("folding"), plant=_fold),
    Poison("versions", PLANTED, columns=_own("versions"), plant=_history),
    Poison("decoding", PLANTED, plant=_decode),
    Poison("altering", PLANTED, sql=("ALTER TABLE {table} ADD late INT DEFAULT 4",), plant=_alter),
    Poison("putting", PLANTED, plant=_put),
    Poison("committing", PLANTED, plant=_commit, formats=TABLES),
    Poison(
        "renamed",
        PLANTED,
        columns=_own("renamed"),
        plant=_fold,
        becomes="renamed_since",
    ),
)  # fmt: skip
