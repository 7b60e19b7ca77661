"""What real replicas and tools say to real sources: read, and written again byte by byte."""

from typing import TYPE_CHECKING

import pytest

from tailrace.gtid import GtidSet
from tailrace.wire.commands import BinlogDump, BinlogDumpGtid, DumpFlag, RegisterReplica
from tailrace.wire.semisync import Acknowledgement, unwrap, wrap
from tests.waiting import wait_for
from tests.wire.recorder import Recorder
from tools.applied import address, follow, leave

if TYPE_CHECKING:
    from tools.servers import Server

    Pair = tuple[Server, Server]

REGISTER, DUMP, DUMP_GTID, ACKNOWLEDGE = b"\x15", b"\x12", b"\x1e", b"\xef"
SEMISYNC = {"mysql": {"plugin-load-add": "semisync_source.so"}, "mariadb": {}}
SEMISYNC_ENABLED = {
    "mysql": "rpl_semi_sync_source_enabled",
    "mariadb": "rpl_semi_sync_master_enabled",
}
SEMISYNC_REPLICA = {
    "mysql": {"plugin-load-add": "semisync_replica.so", "rpl_semi_sync_replica_enabled": True},
    "mariadb": {"rpl_semi_sync_slave_enabled": True, "log-slave-updates": True},
}
COMMON = {
    "mysql": {"gtid-mode": "ON", "enforce-gtid-consistency": True},
    "mariadb": {},
}
REPORT = {"report-host": "replica.example", "report-port": 4711, "report-user": "kö"}


def first(talks, command):
    return next((raw for talk in talks for raw in talk.commands() if raw[:1] == command), None)


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def pair(request, fresh_server):
    """A source and a replica of it, both with semi-synchronous replication at hand."""
    name = request.param
    flavour = name.partition("-")[0]
    source = fresh_server(name, {**COMMON[flavour], **SEMISYNC[flavour]})
    options = {**COMMON[flavour], **SEMISYNC_REPLICA[flavour], **REPORT}
    replica = fresh_server(name, options, server_id=77)
    source.execute("CREATE TABLE mysql.t (a INT PRIMARY KEY AUTO_INCREMENT, b LONGBLOB)")
    source.execute("INSERT INTO mysql.t (b) VALUES ('x')")
    source.settle()  # the log ends with what is acknowledged
    source.execute(f"SET GLOBAL {SEMISYNC_ENABLED[flavour]} = ON")  # before, commits wait in vain
    return source, replica


def check_register(raw):
    replica = RegisterReplica.decode(raw)
    assert replica.encode() == raw
    assert replica.server_id == 77
    assert (replica.host, replica.port) == ("replica.example", 4711)
    assert replica.user == "kö"


def test_a_replica_by_position_and_its_acknowledgements(pair):
    source, replica = pair
    with Recorder(source.port) as recorder:
        follow(
            replica,
            by_gtid=False,
            first="binlog.000001",
            **address(source) | {"PORT": recorder.port},
        )
        wait_for(lambda: first(recorder.talks, DUMP) is not None)
        source.execute("INSERT INTO mysql.t (b) VALUES (REPEAT('x', 100000))")
        wait_for(lambda: first(recorder.talks, ACKNOWLEDGE) is not None)
        dump = next(talk for talk in recorder.talks if first([talk], DUMP))
        end = source.end()
        wait_for(lambda: any(raw == Acknowledgement(*end).encode() for raw in dump.commands()))
        leave(replica)
    said = dump.commands()
    check_register(next(raw for raw in said if raw[:1] == REGISTER))
    asked = BinlogDump.decode(next(raw for raw in said if raw[:1] == DUMP))
    assert asked.encode() in said
    assert (asked.file, asked.position, asked.server_id) == ("binlog.000001", 4, 77)
    assert asked.flags == (
        DumpFlag.HEARTBEAT_V2 if source.flavour == "mysql" else DumpFlag.ANNOTATE_ROWS
    )
    _check_acknowledgements(source, dump)


def _check_acknowledgements(source, dump):
    """Each answers an event that wanted it: it names where that ends in the source's file."""
    sent = [raw for raw in dump.commands() if raw[:1] == ACKNOWLEDGE]
    wanted = []
    records = [raw for raw in dump.records() if raw[1:2] == ACKNOWLEDGE and len(raw) >= 22]
    for raw in records:
        want, event = unwrap(memoryview(raw)[1:])
        assert int.from_bytes(event[9:13], "little") == len(event)
        assert b"\0" + wrap(event, want) == raw
        if want:
            wanted.append(int.from_bytes(event[13:17], "little"))
    assert len(records) > 5
    assert wanted
    answered = [Acknowledgement.decode(raw) for raw in sent]
    assert [each.encode() for each in answered] == sent
    assert [each.position for each in answered] == wanted
    assert {each.file for each in answered} == {path.name for path in source.binlogs()}


def test_a_replica_by_gtid(pair):
    source, replica = pair
    replica.execute("RESET BINARY LOGS AND GTIDS" if source.flavour == "mysql" else "RESET MASTER")
    if source.flavour == "mysql":
        uuid = source.query("SELECT @@server_uuid")[0][0]
        mine = f"{uuid}:1:7-9:shop:5"
        replica.execute(f"SET GLOBAL gtid_purged = '{mine}'")
    else:
        replica.execute("SET GLOBAL gtid_slave_pos = ''")
    with Recorder(source.port) as recorder:
        follow(replica, by_gtid=True, **address(source) | {"PORT": recorder.port})
        command = DUMP_GTID if source.flavour == "mysql" else DUMP
        wait_for(lambda: first(recorder.talks, command) is not None)
        raw = first(recorder.talks, command)
        check_register(first(recorder.talks, REGISTER))
        leave(replica)
    if source.flavour == "mysql":
        asked = BinlogDumpGtid.decode(raw)
        assert asked.encode() == raw
        assert asked.gtids == GtidSet.parse(mine)
        assert (asked.server_id, asked.position) == (77, 4)
        assert asked.flags == DumpFlag.HEARTBEAT_V2
    else:
        asked = BinlogDump.decode(raw)
        assert asked.encode() == raw
        assert asked.server_id == 77
