"""An index that follows a server in another thread."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import cache

import pytest

from tailrace.search import Index, index
from tests.cli.conftest import run  # noqa: F401 - a fixture
from tests.waiting import DEADLINE, wait_for


class Followed:
    """A server and the index of its tables."""

    def __init__(self, server, folder):
        self.server = server
        self.folder = folder
        self.begin_again(folder.name)

    def begin_again(self, name):
        """Without tables, and with an index of another name."""
        server = self.server
        self.folder = self.folder.with_name(name)
        self.url = f"mysql://root@127.0.0.1:{server.port}/?ssl-mode=DISABLED"
        for database in ("shop", "other", "elsewhere"):
            server.execute(f"DROP DATABASE IF EXISTS {database}")
        server.execute("FLUSH BINARY LOGS")  # its files have these changes only
        server.execute(f"PURGE BINARY LOGS TO '{server.query('SHOW BINARY LOGS')[-1][0]}'")
        server.execute("CREATE DATABASE shop CHARACTER SET utf8mb4")

    def index(self, tables="shop.*", **options):
        """Index what there is now."""
        return index(self.url, self.folder, tables=tables, **options)

    def execute(self, *statements):
        """Statements on the server, committed together."""
        for each in statements:
            self.server.execute(each)
        self.server.connection.commit()

    def found(self, query, **options):
        """Table and key of each row that a query finds, and how many equal ones there are."""
        hits = Index(self.folder).search(query, **options).hits
        return sorted((hit.table, hit.key, hit.copies) for hit in hits)

    def matched(self, query, columns="t", table="shop.a"):
        """Table and key of each row that MySQL's own index finds in boolean mode."""
        rows = self.server.query(
            f"SELECT id FROM {table} WHERE MATCH ({columns}) AGAINST (%s IN BOOLEAN MODE)", [query]
        )
        return sorted((table, key, 1) for key in rows)

    def soon(self, query, *expected):
        """Wait until a query finds that."""
        wait_for(lambda: self.found(query) == sorted(expected), lambda: self.found(query))

    @contextmanager
    def follow(self, **options):
        """Index in another thread."""
        reading, errors, ready = [], [], threading.Event()

        def started(items):
            reading.append(items)
            ready.set()

        def work():
            try:
                self.index(follow=True, on_start=started, **options)
            except Exception as error:  # noqa: BLE001 - the test looks at it
                errors.append(error)
            finally:
                ready.set()

        thread = threading.Thread(target=work)
        thread.start()
        try:
            ready.wait(DEADLINE)
            yield errors
        finally:
            for each in reading:
                each.stop()
            thread.join(DEADLINE)
            assert not thread.is_alive()


@pytest.fixture(scope="module")
def running(fresh_server):
    """running(name) gives the server of a name, the same for all tests of a module."""
    return cache(lambda name: fresh_server(name, ["--binlog-row-metadata=FULL"]))


@pytest.fixture
def followed(running, tmp_path, request):
    """A server with an empty database, and its index: a MySQL, or one that the test names."""
    server = running(getattr(request, "param", "mysql-9.7"))
    server.disconnect()  # a session of the test before may be changed, or have locks
    server.execute("SET GLOBAL binlog_row_metadata = 'FULL'")
    return Followed(server, tmp_path / "index")
