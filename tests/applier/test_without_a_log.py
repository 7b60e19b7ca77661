"""Local transactions and materialised streams are applied to a server, without a log in between."""

import io

import pytest

import tailrace
from tailrace import generators
from tailrace.applier import Applier, target_of
from tailrace.errors import ServerError
from tests.waiting import wait_for
from tools.load import Load


def test_local_transactions_that_interleave_are_applied(pair):
    """Those that are committed, each once, though two are open at a time."""
    flavour = pair.target.flavour
    columns = "id INT PRIMARY KEY, note VARCHAR(40) CHARACTER SET utf8mb4"
    table = tailrace.Table("d.t", columns, flavour=flavour)
    uuid = "896e7882-18fe-11ef-ab88-22222d34d411" if flavour == "mysql" else None
    target = target_of(pair.url, conflicts="stop")
    with (
        tailrace.local(flavour=flavour, server_id=9, server_uuid=uuid) as server,
        Applier(target) as applier,
    ):
        applier.register(server)
        server.query("CREATE DATABASE d", "d")
        server.query(f"CREATE TABLE d.t ({columns})", "d")
        first, second, third = (server.transaction() for _ in range(3))
        first.insert(table, [(1, "ä"), (2, "b")])
        second.insert(table, [(3, "c")])
        first.savepoint("here")
        third.insert(table, [(4, "rolled back")])
        first.insert(table, [(5, "rolled back")])
        first.rollback(to="here")
        second.update(table, [(3, "c")], [(3, "d")])
        second.commit()
        third.rollback()
        first.query("INSERT INTO d.t VALUES (6, 'as a statement')", "d")
        first.commit()
        applier.flush()
        assert applier.applied.transactions == 4
    rows = pair.target.query("SELECT * FROM d.t ORDER BY id")
    assert list(map(tuple, rows)) == [(1, "ä"), (2, "b"), (3, "d"), (6, "as a statement")]


def test_close_applies_what_waits_and_raises_what_no_other_call_raised(pair):
    """``applied`` is what the target has, also after an error and though nothing was flushed."""
    flavour = pair.target.flavour
    pair.target.execute("CREATE DATABASE d")
    pair.target.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    table = tailrace.Table("d.t", "id INT PRIMARY KEY", flavour=flavour)
    uuid = "896e7882-18fe-11ef-ab88-22222d34d412" if flavour == "mysql" else None
    with tailrace.local(flavour=flavour, server_id=8, server_uuid=uuid) as server:

        def change(*ids):
            for each in ids:
                with server.transaction() as transaction:
                    transaction.insert(table, [(each,)])

        first = Applier(target_of(pair.url, conflicts="stop"))
        registration = first.register(server)
        change(*range(200))
        registration.cancel()
        first.close()
        first.close()
        assert pair.target.query("SELECT COUNT(*) FROM d.t") == [(200,)]
        assert (first.applied.transactions, first.applied.row_events) == (200, 200)

        second = Applier(target_of(pair.url, conflicts="stop"))

        def interrupted():
            with second:
                registration = second.register(server)
                change(200, 201, 202, 7, 203)
                registration.cancel()
                raise KeyError("an error of somebody else")

        with pytest.raises(ServerError, match="in the transaction"):
            interrupted()
        second.close()
        assert second.applied.transactions == 3
        assert pair.target.query("SELECT MAX(id) FROM d.t") == [(202,)]


def materialised(source):
    """What a log holds, as bytes."""
    out = io.BytesIO()
    with generators.EventStream(source) as stream, generators.Materialiser(out) as materialiser:
        materialiser.register(stream.row)
        stream.run()
    return out.getvalue()


def test_a_materialised_stream_gives_the_same_tables(pair):
    """Rows, definitions, and statements with their sessions; of MySQL, random types.

    MariaDB's log lacks generated columns, of which such a stream does not know that they are.
    """
    own = pair.source.flavour == "mysql"
    with Load(
        pair.source, seed=5, clients=2, tables=2, large=0.2, huge=0, statements=True, own=own
    ) as load:
        wait_for(lambda: load.counts["small"] > 30)
    data = materialised(pair.log())
    target = target_of(pair.url, conflicts="stop")
    with generators.MaterialisedStream(io.BytesIO(data)) as stream, Applier(target) as applier:
        applier.register(stream)
        stream.run()
        applier.flush()
        assert applier.applied.transactions > 10
    pair.check("random_load", checksums=False)
