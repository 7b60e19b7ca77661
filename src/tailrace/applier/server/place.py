"""The table in which a server keeps how far it has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.applier.target import LONGEST_CHANNEL, Progress, place_of
from tailrace.gtid import GtidList, GtidSet
from tailrace.position import Position
from tailrace.schema.tokens import quoted_name, quoted_table
from tailrace.sql.text import string

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.applier.transaction import Transaction


class Place:
    """The row of a channel. ``table`` is ``database.name``."""

    def __init__(self, table: str, channel: str) -> None:
        self.table = place_of(table, channel)
        self.channel = channel
        self._name = quoted_table(*self.table)
        self._where = f"WHERE channel = {string(channel)}"

    @property
    def lock(self) -> str:
        """The name of the lock that one applier at a time holds."""
        return string(f"tailrace apply {self.channel}")

    def turn(self, number: int) -> str:
        """The name of a lock by which workers commit in their order."""
        return string(f"tailrace apply {self.channel} {number}")

    def create(self, query: Callable[[str], list[tuple[object, ...]]]) -> None:
        """Create the table and the row, where they are not."""
        database, table = map(string, self.table)
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
        channel = string(self.channel)
        query(f"INSERT IGNORE INTO {self._name} (channel) VALUES ({channel})")  # noqa: S608 - as above

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
            pending,
            mark=mark,
        )

    def note(
        self, transaction: Transaction, *, with_gtids: bool, after: Position | None = None
    ) -> bytes:
        """The statement that notes a transaction as applied; ``after``: if the row says that the
        one which ends there is.
        """
        parts = ["pending = NULL"]
        for prefix, position in (("log", transaction.position), ("resume", transaction.resume)):
            if position is not None and position.file:
                parts.append(f"{prefix}_file = {string(position.file)}")
                parts.append(f"{prefix}_pos = {position.offset}")
        if transaction.resume is not None:
            parts.append(f"log_mark = {_text(transaction.mark)}")
        if with_gtids and transaction.gtids is not None:
            flavour = transaction.gtids.flavour.value
            parts.append(f"{flavour}_gtids = {string(str(transaction.gtids))}")
        where = self._where
        if after is not None:
            where += f" AND log_file = {string(after.file)} AND log_pos = {after.offset}"
        return f"UPDATE {self._name} SET {', '.join(parts)} {where}".encode()  # noqa: S608 - quoted

    def start(self, resume: Position, mark: str | None, *, forgets: bool) -> bytes:
        """The statement of `Target.start`."""
        parts = f"resume_file = {string(resume.file)}, resume_pos = {resume.offset}"
        parts += f", log_mark = {_text(mark)}"
        if forgets:
            parts += ", log_file = NULL, log_pos = NULL"
        return f"UPDATE {self._name} SET {parts} {self._where}".encode()  # noqa: S608 - quoted

    def pending(self, transaction: Transaction | None) -> bytes:
        """The statement that notes what is about to be executed, and commits by itself; None: it
        was not executed.
        """
        text = _text(None if transaction is None else pending_name(transaction))
        return f"UPDATE {self._name} SET pending = {text} {self._where}".encode()  # noqa: S608 - quoted


def _text(text: str | None) -> str:
    return "NULL" if text is None else string(text)


def pending_name(transaction: Transaction) -> str:
    """A transaction in the table: its GTID, or its position."""
    return str(transaction.gtid or transaction.position)
