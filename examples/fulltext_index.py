# ruff: noqa: INP001, T201 - a script
"""A full-text indexer of one file, by content handlers: WL#3283's reference application.

    python examples/fulltext_index.py examples/shop/mysql INDEX 'shop.*'
    python examples/fulltext_index.py mysql://root@db1/ INDEX 'shop.*' --follow
    tailrace search INDEX 'again'

Rows events and the results of queries are rows of the same kind, so the rows that a server had
before (`ResultSet`) and those of its log (`RowSet`) take the same way into the index.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import tailrace
from tailrace.errors import BoundaryError
from tailrace.events import QueryEvent, RowsEvent
from tailrace.handlers import Assembler
from tailrace.live.scheme import names_server
from tailrace.live.snapshot import snapshot, wanted_tables
from tailrace.live.url import Source
from tailrace.schema import Catalogue
from tailrace.search import Manifest, ShardWriter
from tailrace.transaction import Transaction, TransactionKind
from tailrace.transaction.statements import savepoint_of_rollback
from tailrace.values.row import RowSet


class Indexer(Assembler):
    """A content handler that takes the transactions of a log into an index, one by one."""

    def __init__(self, writer: ShardWriter, manifest: Manifest, *, at_once: bool) -> None:
        super().__init__(self.index)
        self.writer = writer
        self.wants = manifest.wants
        self.at_once = at_once
        self.catalogue = Catalogue()

    def index(self, transaction: Transaction) -> None:
        """Take in what a transaction did; readers see it once it is committed."""
        if transaction.kind is TransactionKind.XA_PREPARE:
            raise BoundaryError(f"{transaction.start}: XA is for `tailrace index`")
        if transaction.kind in {None, TransactionKind.ROLLBACK}:
            return
        for event in transaction.all_events():
            if isinstance(event, QueryEvent):
                self.statement(event, transaction)
            elif isinstance(event, RowsEvent) and not event.is_dummy:
                table = event.table_map
                if self.wants(table.database, table.table):
                    schema = self.catalogue.resolve(table, event.form.flavour)
                    self.writer.change(schema, RowSet(event, schema))
        if self.at_once:
            self.writer.commit(transaction.end)
        self.position = transaction.end

    def statement(self, event: QueryEvent, transaction: Transaction) -> None:
        """DDL, which is a transaction of its own."""
        if savepoint_of_rollback(event.sql) is not None:
            raise BoundaryError(f"{transaction.start}: savepoints are for `tailrace index`")
        if not self.catalogue.apply_event(event, event.form.flavour):
            return
        if self.writer.pending:
            self.writer.commit(transaction.start)
        if self.writer.statement(event, self.wants, transaction.start):
            raise BoundaryError(f"{transaction.start}: {event.sql}: build the index again")
        if self.writer.pending:
            self.writer.commit(transaction.end)


def main() -> None:
    """Index a source's tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", help="logs, or a server's URL")
    parser.add_argument("index", type=Path)
    parser.add_argument("tables")
    parser.add_argument("--follow", action="store_true")
    given = parser.parse_args()
    manifest = Manifest.agreed(given.index, Manifest((given.tables,)))
    writer = ShardWriter(given.index / manifest.shards[0], manifest.analyser)
    if writer.state.position is None and names_server(given.source):
        server = Source.parse(given.source)
        with snapshot(server, wanted_tables(server, manifest.wants)) as found:
            for table in found.tables:
                writer.change(table.schema, table.rows)
        writer.commit(found.position)
    indexer = Indexer(writer, manifest, at_once=given.follow)
    start = writer.state.position
    with tailrace.open(given.source, start=start, follow=given.follow) as log:
        log.handlers.append(indexer)
        for _ in log:
            pass
        writer.commit(log.position)
    writer.close()
    print(f"the index is at {writer.state.position}")


if __name__ == "__main__":
    main()
