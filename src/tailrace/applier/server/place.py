"""The table in which a server keeps how far it has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.applier.server.steps import found_one
from tailrace.applier.target import (
    LONGEST_CHANNEL,
    NOTE_COMMENT,
    Progress,
    began,
    place_of,
    without_began,
)
from tailrace.gtid import GtidList, GtidSet
from tailrace.position import Position
from tailrace.schema.tokens import quoted_name, quoted_table
from tailrace.sql.text import ascii_string
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.applier.server.steps import Step
    from tailrace.applier.transaction import Transaction


class Place:
    """The row of a channel. ``table`` is ``database.name``.

    Its statements have no text that is not ASCII but the table's name: sessions may have any
    character set in which that is read.
    """

    def __init__(self, table: str, channel: str) -> None:
        self.table = place_of(table, channel)
        self.channel = channel
        self._name = quoted_table(*self.table)
        self.is_ascii = self._name.isascii()
        self._where = f"WHERE channel = {ascii_string(channel)}"

    @property
    def lock(self) -> str:
        """The name of the lock that one applier at a time holds."""
        return ascii_string(f"tailrace apply {self.channel}")

    def turn(self, number: int) -> str:
        """The name of a lock by which workers commit in their order."""
        return ascii_string(f"tailrace apply {self.channel} {number}")

    def create(self, query: Callable[[str], list[tuple[object, ...]]]) -> None:
        """Create the table and the row, where they are not."""
        database, table = map(ascii_string, self.table)
        found = query(
            "SELECT 1 FROM information_schema.tables"  # noqa: S608 - literals of our own
            f" WHERE table_schema = {database} AND table_name = {table}"
        )
        if found and query(self.query):
            return
        query(f"CREATE DATABASE IF NOT EXISTS {quoted_name(self.table[0])}")
        query(
            f"CREATE TABLE IF NOT EXISTS {self._name} (channel VARCHAR({LONGEST_CHANNEL})"
            " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY,"
            " log_file VARCHAR(512), log_pos BIGINT, resume_file VARCHAR(512), resume_pos BIGINT,"
            " log_mark VARCHAR(64), mysql_gtids MEDIUMTEXT, mariadb_gtids MEDIUMTEXT,"
            " pending VARCHAR(255)) ENGINE=InnoDB CHARACTER SET utf8mb4"
        )
        channel = ascii_string(self.channel)
        query(f"INSERT IGNORE INTO {self._name} (channel) VALUES ({channel}) {NOTE_COMMENT}")  # noqa: S608 - as above

    @property
    def query(self) -> str:
        """The statement that reads the row."""
        return (
            "SELECT log_file, log_pos, resume_file, resume_pos, log_mark, mysql_gtids,"  # noqa: S608 - quoted
            " mariadb_gtids, pending"
            f" FROM {self._name} {self._where}"
        )

    @staticmethod
    def read(row: tuple[object, ...]) -> Progress:
        """What the row says."""
        file, at, resume_file, resume_at, mark, mysql, mariadb, pending = (
            None if each is None else str(each) for each in row
        )
        return Progress(
            None if file is None else Position(file, int(at or 0)),
            None if resume_file is None else Position(resume_file, int(resume_at or 0)),
            GtidSet.parse(mysql or ""),
            GtidList.parse(mariadb or ""),
            None if pending is None else without_began(pending),
            mark=mark,
        )

    def note(
        self, transaction: Transaction, *, with_gtids: bool, after: Position | None = None
    ) -> Step:
        """Note a transaction as applied; ``after``: if the row says that the one which ends there
        is.
        """
        parts = ["pending = NULL"]
        for prefix, position in (("log", transaction.position), ("resume", transaction.resume)):
            if position is not None and position.file:
                parts.append(f"{prefix}_file = {ascii_string(position.file)}")
                parts.append(f"{prefix}_pos = {position.offset}")
        if transaction.resume is not None:
            parts.append(f"log_mark = {_text(transaction.mark)}")
        if with_gtids and transaction.gtids is not None:
            flavour = transaction.gtids.flavour.value
            parts.append(f"{flavour}_gtids = {ascii_string(str(transaction.gtids))}")
        where = self._where
        if after is not None:
            where += f" AND log_file = {ascii_string(after.file)} AND log_pos = {after.offset}"
        return self._update(", ".join(parts), where)

    def _update(self, parts: str, where: str) -> Step:
        """An UPDATE of the row, which fails unless it finds it: without it, all that is applied
        would be applied again.
        """
        text = f"UPDATE {self._name} SET {parts} {where} {NOTE_COMMENT}"  # noqa: S608 - quoted
        return found_one(
            text.encode(), place=f"the row {self.channel!r} of {TableName(*self.table)}"
        )

    def start(self, resume: Position, mark: str | None, *, forgets: bool) -> Step:
        """What `Target.start` notes."""
        parts = f"resume_file = {ascii_string(resume.file)}, resume_pos = {resume.offset}"
        parts += f", log_mark = {_text(mark)}"
        if forgets:
            parts += ", log_file = NULL, log_pos = NULL"
        return self._update(parts, self._where)

    def pending(self, transaction: Transaction | None) -> Step:
        """Note what is about to be executed, in a transaction of its own; None: it was not
        executed.
        """
        name = None if transaction is None else pending_name(transaction)
        if transaction is not None and transaction.gtid is None:
            name = f"{name}{began(transaction.origin)}"
        text = _text(name)
        return self._update(f"pending = {text}", self._where)


def _text(text: str | None) -> str:
    return "NULL" if text is None else ascii_string(text)


def pending_name(transaction: Transaction) -> str:
    """A transaction in the table: its GTID, or its position."""
    return str(transaction.gtid or transaction.position)
