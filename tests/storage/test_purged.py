"""Logs that are purged while they are read."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import tailrace
from tailrace.errors import CannotOpen
from tests.cases import each_case
from tools.servers import ONE_OF_EACH


@each_case("read", (tailrace.open, tailrace.rows, tailrace.changes))
def test_a_file_that_was_purged_under_its_reader(tmp_path, read):
    """The error names the first file that is left, and what to do."""
    table = tailrace.Table("d.t", "a INT")
    with tailrace.create(tmp_path / "binlog.000001", flavour="mysql", server_id=3) as log:
        for number in range(3):
            with log.transaction() as transaction:
                transaction.insert(table, [(number,)])
            log.rotate()
    found = iter(read(str(tmp_path)))
    for number in (1, 2):
        (tmp_path / f"binlog.00000{number}").unlink()
    with pytest.raises(
        CannotOpen, match=r"it was purged, and the log now begins with binlog.000003"
    ):
        list(found)


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_a_servers_own_folder_while_it_rotates_and_purges(fresh_server, name):
    """Whatever a reader meets, it reads whole events, or says that a file was purged."""
    server = fresh_server(name)
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (a INT)")
    whole = 0
    with ThreadPoolExecutor(1) as threads:

        def purge():
            for number in range(60):
                server.execute(f"INSERT INTO d.t VALUES ({number})")
                server.execute("FLUSH BINARY LOGS")
                server.execute(f"PURGE BINARY LOGS TO '{server.binlogs()[-1].name}'")

        purging = threads.submit(purge)
        while not purging.done() or not whole:
            try:
                with tailrace.open(str(server.data)) as events:
                    whole += any(event.type for event in events)
            except CannotOpen as error:
                assert "it was purged" in str(error)  # noqa: PT017 - it may happen
        purging.result()
