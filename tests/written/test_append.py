"""A log that a crash cut short, gone on with by `append`: servers take what was whole."""

import tailrace
from tailrace.constants import Flavour
from tailrace.schema.table import Table
from tests.cases import each_case
from tools.applied import as_relay_log, by_tool, forget, gtid_mode
from tools.campaign.written_manner import WRITER_ID

UUID = "7a11ace0-0000-4000-8000-000000000008"
SQL = "CREATE TABLE cut.t (id INT PRIMARY KEY, note VARCHAR(40)) CHARACTER SET utf8mb4"


@each_case("way, lost", [(by_tool, 1), (as_relay_log, 30), (by_tool, 60)])
def test_a_torn_log_goes_on(taker, tmp_path, way, lost):
    """``lost`` bytes of the last transaction are: of its XID, of its rows, of its table map."""
    flavour = Flavour(taker.flavour)
    uuid = UUID if flavour is Flavour.MYSQL else None
    forget(taker, "cut")
    if flavour is Flavour.MYSQL:
        gtid_mode(taker, "ON")
    table = Table.parse(SQL, flavour=flavour)
    log = tailrace.create(
        tmp_path / "cut.000001",
        flavour=flavour,
        server_id=WRITER_ID,
        server_version=taker.version,
        server_uuid=uuid,
    )
    for statement in ("CREATE DATABASE cut", SQL):
        with log.transaction() as trx:
            trx.query(statement)
    with log.transaction() as trx:
        trx.insert(table, [(1, "whole"), (2, "ganz")])
    with log.transaction() as trx:
        trx.update(table, [(1, "whole")], [(1, "lost with the power")])
    torn = (tmp_path / "cut.000001").read_bytes()[:-lost]
    log.close()
    (tmp_path / "cut.000001").write_bytes(torn)

    said = []
    with (
        tailrace.append(tmp_path, server_uuid=uuid, recovered=said.append) as log,
        log.transaction() as trx,
    ):
        trx.insert(table, [(3, "après")])

    assert said == [log.recovery]
    way(taker, [tmp_path / name for name in log.files])
    assert taker.query("SELECT id, note FROM cut.t ORDER BY id") == [
        (1, "whole"),
        (2, "ganz"),
        (3, "après"),
    ]
    forget(taker, "cut")
