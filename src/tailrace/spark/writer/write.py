"""The data source ``binlog`` the other way: a DataFrame becomes a binary log.

    df.write.format("binlog").option("path", "/logs").option("create", "CREATE TABLE shop.t (…)")
        .option("server_id", 7).mode("append").save()

Tasks encode rows side by side; the commit puts what they wrote into log files, in the order of the
partitions. The options are described at `WriteOptions`.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from tailrace.constants import ChecksumAlgorithm, Flavour
from tailrace.errors import PipelineError, UsageError
from tailrace.events.description import STANDARD_VERSIONS
from tailrace.gtid import parse_uuid
from tailrace.live.session import Identity, Session
from tailrace.live.url import Source
from tailrace.log_name import LogName
from tailrace.schema.table import Table
from tailrace.schema.tokens import quoted_name, quoted_table
from tailrace.spark.record.option import Option, choice, number, parse
from tailrace.spark.writer.log import Part, Target, assemble, clean
from tailrace.spark.writer.rows import AFTER, BEFORE, RECORD, Form, write_rows
from tailrace.table_name import TableName
from tailrace.writing.options import RowMetadata, WriterOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

_VERSIONS: Final = {
    Flavour.MYSQL: "9.7.0-tailrace",
    Flavour.MARIADB: "11.8.0-MariaDB-tailrace",
}
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
    "compress": Option(choice("false", "true"), "false"),
    "ddl": Option(choice("false", "true"), "false"),
}


@dataclass(frozen=True)
class WriteOptions:
    """The options of a write, understood; names in any case.

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
    """

    path: Path
    name: str
    flavour: Flavour
    table: Table
    create: str
    server_id: int
    uuid: str | None
    domain: int
    rows: int
    ddl: bool
    checksum: ChecksumAlgorithm
    writer: WriterOptions

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """Understand what was given to ``.option(…)``.

        Raises UsageError for an option that is not understood, SchemaError for a CREATE TABLE that
        is not, and what connecting to a server raises.
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
        source, create = options["uuid"], _create(options)
        database = "" if named is None else TableName.parse(named).database
        table = Table.parse(
            create,
            flavour=flavour,
            database=database,
            server_version=STANDARD_VERSIONS[flavour],
        )
        known = TableName(table.database, table.name)
        if named is not None and TableName.parse(named) != known:
            raise UsageError(f"option table is {named}, and option create makes {known}")
        made = WriterOptions(
            metadata=options["metadata"],
            compress=options["compress"] == "true",
            max_size=options["fileSize"],
        )
        made.check(flavour)
        if LogName.parse(name) is not None or LogName.parse(f"{name}.000001") is None:
            raise UsageError(f"option name is the files' base name, as binlog, and not {name!r}")
        return cls(
            Path(path.removeprefix("file://")),
            name,
            flavour,
            table,
            create,
            options["server_id"],
            None if source is None else parse_uuid(source),
            options["domain"] or 0,
            options["transactionRows"],
            options["ddl"] == "true",
            ChecksumAlgorithm[options["checksum"].upper()],
            made,
        )

    @property
    def statements(self) -> tuple[str, ...]:
        """What comes before the rows."""
        if not self.ddl:
            return ()
        return f"CREATE DATABASE IF NOT EXISTS {quoted_name(self.table.database)}", self.create


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
    with Session.open(source, source.hosts[0], Identity(source.server_id)) as session:
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
    """Writes one job's rows; pickles, with the job's name and time, so that all tasks agree."""

    def __init__(self, options: WriteOptions, names: StructType) -> None:
        images = BEFORE in names.names and AFTER in names.names
        _check_columns(options, names, images=images)
        self._job = uuid.uuid4().hex
        self._target = Target(
            options.path,
            options.name,
            Form(
                options.table,
                options.flavour,
                _VERSIONS[options.flavour],
                options.server_id,
                int(time.time()),
                options.rows,
                images,
                options.checksum,
                options.writer,
            ),
            options.uuid,
            options.domain,
            options.statements,
        )
        self._make_folder()

    def _make_folder(self) -> None:
        folder = self._target.job(self._job)
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
        folder = self._target.job(self._job)
        path = folder / f"part-{number:06}-{context.taskAttemptId()}"
        try:
            written = write_rows(self._target.form, iterator, path)
        except OSError as error:
            raise PipelineError(f"cannot write {path}: {error.strerror}") from error
        return PartMessage(Part(number, str(path), tuple(written)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make all tasks' rows part of the log, in one step."""
        parts = [each.part for each in messages if isinstance(each, PartMessage)]
        if len(parts) < len(messages):
            raise PipelineError("a task has not said what it wrote: the log stays as it was")
        try:
            assemble(self._target, self._job, parts)
        finally:
            clean(self._target, self._job)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - all goes
        """Forget what the tasks wrote; the log is as it was."""
        clean(self._target, self._job)


def _check_columns(options: WriteOptions, names: StructType, *, images: bool) -> None:
    """Raises UsageError where the DataFrame's columns are not the table's."""
    columns = {column.name: column for column in options.table.schema.columns}
    table = f"{options.table.database}.{options.table.name}"
    if images:
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


def writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BinlogWriter:
    """The writer of a job; raises UsageError where it is to overwrite a log."""
    if overwrite:
        raise UsageError(
            'a log is not overwritten: mode("append"), into another folder or behind it'
        )
    return BinlogWriter(WriteOptions.of(options), schema)
