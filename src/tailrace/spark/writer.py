"""The data source ``binlog`` the other way: a DataFrame becomes a binary log.

    df.write.format("binlog").option("path", "/logs").option("create", "CREATE TABLE shop.t (…)")
        .option("server_id", 7).mode("append").save()

Tasks encode rows side by side; the commit puts what they wrote into log files, in the order of the
partitions. The options are described at `log_of`.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from tailrace.constants import Flavour
from tailrace.errors import PipelineError, UsageError
from tailrace.events.description import STANDARD_VERSIONS
from tailrace.gtid import parse_uuid
from tailrace.live.session import Identity, Session
from tailrace.live.url import Source
from tailrace.log_name import LogName
from tailrace.schema.table import Table
from tailrace.schema.tokens import quoted_name, quoted_table
from tailrace.spark.record.option import Option, choice, flag, number, parse
from tailrace.table_name import TableName
from tailrace.writing.options import RowMetadata, Sync, WriterOptions
from tailrace.writing.parts.log import LogOfParts, Part, assemble, clean
from tailrace.writing.parts.rows import AFTER, BEFORE, RECORD, write_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

_MOST: Final = (1 << 32) - 1
_OPTIONS: Final = {
    "path": Option(default=""),
    "name": Option(default="binlog"),
    "flavour": Option(choice(*Flavour), Flavour.MYSQL),
    "table": Option(),
    "create": Option(),
    "server": Option(),
    "server_id": Option(number(1, _MOST), 1),
    "uuid": Option(),
    "domain": Option(number(0, _MOST)),
    "transactionRows": Option(number(1, _MOST), 10_000),
    "fileSize": Option(number(4096, 1 << 30), 1 << 30),
    "checksum": Option(choice("crc32", "none"), "crc32"),
    "metadata": Option(choice(*RowMetadata), RowMetadata.FULL),
    "compress": Option(flag, False),
    "ddl": Option(flag, False),
}


def log_of(given: Mapping[str, str], *, images: bool) -> LogOfParts:
    """The log that was asked for by ``.option(…)``; names in any case. With ``images`` rows come as
    structs before and after.

    - ``path``: the log's folder, which tasks and driver share; a log that exists and is closed
      continues in a new file. ``name``: its files' base name (``binlog``).
    - ``flavour``: ``mysql`` (default) or ``mariadb``.
    - ``table``: its full name (``shop.orders``). Its definition is ``create``, a CREATE TABLE
      statement, or that of a ``server`` (a URL).
    - ``server_id``: of the server that the log is to be of (1).
    - ``uuid``: MySQL's GTIDs are of this source; without it transactions are anonymous.
      ``domain``: of MariaDB's GTIDs (0).
    - ``transactionRows``: rows of a transaction, at most (10,000). ``fileSize``: bytes after which
      the log continues in another file (1 GiB).
    - ``checksum``: ``crc32`` (default) or ``none``. ``metadata``: ``full`` (default), ``minimal``,
      ``none``. ``compress``: ``true`` for compressed transactions.
    - ``ddl``: ``true`` puts CREATE DATABASE IF NOT EXISTS and CREATE TABLE before the rows.

    Raises UsageError for an option that is not understood, SchemaError for a CREATE TABLE that is
    not, and what connecting to a server raises.
    """
    options = parse(given, _OPTIONS, "writing format binlog")
    path, name = options["path"], options["name"]
    flavour, named = options["flavour"], options["table"]
    if not path or "://" in path.removeprefix("file://"):
        raise UsageError(
            "writing format binlog: give the log's folder by save(…), one that tasks and "
            "driver share as a file system"
        )
    if flavour is Flavour.MARIADB and options["uuid"] is not None:
        raise UsageError("option uuid is of MySQL's GTIDs: MariaDB's have a domain")
    if flavour is Flavour.MYSQL and options["domain"] is not None:
        raise UsageError("option domain is of MariaDB's GTIDs: MySQL's have a uuid")
    create = _create(options)
    database = "" if named is None else TableName.parse(named).database
    version = STANDARD_VERSIONS[flavour]
    table = Table.parse(create, flavour=flavour, database=database, server_version=version)
    known = TableName(table.database, table.name)
    if named is not None and TableName.parse(named) != known:
        raise UsageError(f"option table is {named}, and option create makes {known}")
    made = WriterOptions(
        options["metadata"],
        compress=options["compress"],
        max_size=options["fileSize"],
        sync=Sync.NONE,
    )
    made.check(flavour)
    if LogName.parse(name) is not None or LogName.parse(f"{name}.000001") is None:
        raise UsageError(f"option name is the files' base name, as binlog, and not {name!r}")
    ddl = f"CREATE DATABASE IF NOT EXISTS {quoted_name(table.database)}", create
    return LogOfParts(
        Path(path.removeprefix("file://")),
        name,
        table,
        options["server_id"],
        int(time.time()),
        options["transactionRows"],
        options["checksum"],
        made,
        None if options["uuid"] is None else parse_uuid(options["uuid"]),
        options["domain"] or 0,
        ddl if options["ddl"] else (),
        images,
    )


def _create(options: Mapping[str, Any]) -> str:
    """The CREATE TABLE statement."""
    create, flavour = options["create"], options["flavour"]
    if (create is None) == (options["server"] is None):
        raise UsageError(
            "say what the table is: its CREATE TABLE by option create, or the server's"
        )
    if create is not None:
        return str(create)
    database, table = TableName.parse(options["table"] or ".")
    if not table:
        raise UsageError("which of the server's tables? Give option table, as shop.orders")
    source = Source.parse(options["server"])
    with Session.open(source, identity=Identity(source.server_id)) as session:
        if session.flavour is not flavour:
            raise UsageError(
                f"{source.name} is a server of {session.flavour}, the log of {flavour}"
            )
        found = session.ask(f"SHOW CREATE TABLE {quoted_table(database, table)}", 2, needs="SELECT")
        return found.text(1)


@dataclass
class PartMessage(WriterCommitMessage):
    """What a task wrote."""

    part: Part


class BinlogWriter(DataSourceArrowWriter):
    """Writes one job's rows; pickles, with the job's name and time, so that all tasks agree.

    Raises UsageError where it is to overwrite a log, and what `log_of` raises.
    """

    def __init__(self, given: Mapping[str, str], names: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise UsageError(
                'a log is not overwritten: mode("append"), into another folder or behind it'
            )
        self._job = uuid.uuid4().hex
        self._log = log_of(given, images=BEFORE in names.names and AFTER in names.names)
        _check_columns(self._log, names)
        folder = self._log.job(self._job)
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise PipelineError(f"cannot write {folder}: {error.strerror}") from error

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a partition into a file of its own; runs in a task."""
        context = TaskContext.get()
        if context is None:
            raise PipelineError("rows are written by Spark's tasks")
        number = context.partitionId()
        path = self._log.job(self._job) / f"part-{number:06}-{context.taskAttemptId()}"
        try:
            return PartMessage(Part(number, str(path), write_rows(self._log, iterator, path)))
        except OSError as error:
            raise PipelineError(f"cannot write {path}: {error.strerror}") from error

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make all tasks' rows part of the log, in one step."""
        parts = [each.part for each in messages if isinstance(each, PartMessage)]
        if len(parts) < len(messages):
            raise PipelineError("a task has not said what it wrote: the log stays as it was")
        try:
            assemble(self._log, self._job, parts)
        finally:
            clean(self._log, self._job)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - all goes
        """Forget what the tasks wrote; the log is as it was."""
        clean(self._log, self._job)


def _check_columns(log: LogOfParts, names: StructType) -> None:
    """Raises UsageError where the DataFrame's columns are not the table's."""
    columns = {column.name: column for column in log.table.schema.columns}
    table = log.table_name
    if log.images:
        if "_op" not in names.names:
            raise UsageError("structs before and after need a column _op, which says what they are")
        given = {
            field.name
            for side in (BEFORE, AFTER)
            for field in getattr(names[side].dataType, "fields", ())
        }
    else:
        given = {name for name in names.names if name in columns or name not in RECORD}
    if strange := sorted(given - set(columns)):
        raise UsageError(f"{table} has no column {strange[0]!r}: drop it, or name it as the table")
    needed = {name for name, column in columns.items() if not column.generated}
    if missing := sorted(needed - given):
        raise UsageError(f"column {missing[0]!r} of {table} is missing: give it, NULL where it is")
