"""A shop to search in, what an index of it has, and an index that follows in a thread."""

from __future__ import annotations

import json

from tailrace.search import Index
from tailrace.spark.search import index as on_spark
from tests.spark.following import InThread

QUERIES = ["red", "+red +car", "blue -car", "b*", '"slow red"', "müde", "+car +(red blue)", "lost"]
WORDS = ["slow red car", "blue car", "red bicycle", "müde boat"]


def begin(server):
    """A database with a table of forty rows."""
    server.execute("CREATE DATABASE shop CHARACTER SET utf8mb4")
    server.execute("CREATE TABLE shop.things (id INT PRIMARY KEY, name VARCHAR(99), more TEXT)")
    for number in range(40):
        words = WORDS[number % 4]
        server.execute(f"INSERT INTO shop.things VALUES ({number}, '{words}', 'old {number}')")


def change(server, statements):
    """Carry statements out, and commit."""
    for each in statements:
        server.execute(each)


def rows_of(place):
    """All rows of an index."""
    opened = Index(place)
    return {
        table: sorted(
            (json.dumps(hit.row, sort_keys=True), str(hit.key), hit.copies)
            for hit in opened.rows(table)
        )
        for table in opened.tables
    }


def hits_of(place):
    """What each query finds."""
    opened = Index(place)
    found = {query: opened.search(query, limit=1000) for query in QUERIES}
    return {
        query: (each.total, each.tables, sorted((hit.table, str(hit.key)) for hit in each.hits))
        for query, each in found.items()
    }


class Following(InThread):
    """`on_spark` with ``follow``."""

    def __init__(self, *args, **options):
        super().__init__(lambda stop: on_spark(*args, follow=True, stop=stop, **options))
