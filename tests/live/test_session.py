"""A session: who the source is, what a replica says before its dump, and the dump."""

import subprocess
import sys

import pytest

from tailrace.constants import EventFlag, EventType, Flavour
from tailrace.errors import AccessDenied, DuplicateServerId, GtidsAhead, UsageError
from tailrace.gtid import Gtid, GtidList, GtidSet, MariadbGtid
from tailrace.live.session import OLDEST, Identity, dump_flags, free_server_id, untagged
from tailrace.live.url import Source
from tailrace.position import Position
from tailrace.wire.commands import DumpFlag
from tests.cases import each_case
from tests.live.feeding import executed, opened, source_of
from tests.waiting import DEADLINE, purge, wait_for
from tools.servers import ONE_OF_EACH

NOBODY = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
GTIDS = {"mysql-9.7": ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]}


@pytest.fixture(scope="module", params=ONE_OF_EACH)
def source_server(request, fresh_server):
    """A server with GTIDs and three transactions in its log."""
    server = fresh_server(request.param, GTIDS.get(request.param))
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (a INT)")
    server.execute("INSERT INTO d.t VALUES (1)")
    return server


def dump(given, start, identity=None):
    """All records from a start to the log's present end."""
    with opened(given, identity) as session:
        session.prepare(start)
        return [bytes(record) for record in session.request(start, block=False)]


def types(records):
    return [record[4] for record in records]


def is_artificial(record):
    return bool(int.from_bytes(record[17:19], "little") & EventFlag.ARTIFICIAL)


def registered(server):
    mysql = server.flavour == "mysql"
    return server.query("SHOW REPLICAS" if mysql else "SHOW SLAVE HOSTS")


def gtid_mode(server):
    return server.query("SELECT @@gtid_mode")[0][0]


# --- who the source is ---------------------------------------------------------------------------


def test_what_it_finds_out(server):
    with opened(source_of(server)) as session:
        assert session.server_version == server.version
        assert session.flavour == Flavour(server.flavour)
        assert session.server_id == 1
        assert session.has_gtids == (server.flavour == "mariadb" or gtid_mode(server) == "ON")
        assert abs(session.clock_ahead) < DEADLINE  # the machine may stand still meanwhile
        assert server.version.startswith(".".join(map(str, session.version)))
        assert session.name == f"mysql://root@127.0.0.1:{server.port}"
        if server.flavour == "mysql":
            assert session.server_uuid == server.query("SELECT @@server_uuid")[0][0]
        else:
            assert session.server_uuid is None
    session.close()
    assert not session.connection.open


def test_gtids_and_logs(source_server):
    source_server.rotate()
    source_server.execute("INSERT INTO d.t VALUES (2)")
    source_server.settle()
    with opened(source_of(source_server)) as session:
        assert session.has_gtids
        sizes = [(log.name, log.stat().st_size) for log in source_server.binlogs()]
        assert session.logs() == sizes
        assert session.end() == Position(*sizes[-1])
        executed = session.executed()
        if session.flavour is Flavour.MYSQL:
            assert executed.text() == source_server.query("SELECT @@gtid_executed")[0][0]
        else:
            position = ",".join(map(str, executed.position.values()))
            assert position == source_server.query("SELECT @@gtid_binlog_pos")[0][0]
        assert not len(session.purged())
        assert session.oldest_log() == sizes[0][0]
    purge_all_but_last(source_server)
    with opened(source_of(source_server)) as session:
        purged = session.purged()
        if session.flavour is Flavour.MYSQL:
            assert purged.text() == source_server.query("SELECT @@gtid_purged")[0][0]
        else:
            assert purged == executed
        assert session.oldest_log() == source_server.binlogs()[-1].name
    source_server.execute("INSERT INTO d.t VALUES (3)")


def purge_all_but_last(server):
    server.rotate()
    purge(server, server.binlogs()[-1].name)


# --- the dump ------------------------------------------------------------------------------------


def test_the_empty_set_is_of_either_flavour(source_server):
    wanted = GtidSet() if source_server.flavour == "mariadb" else GtidList()
    with opened(source_of(source_server)) as session:
        assert type(session.started(wanted)) is not type(wanted)
    wait_for(lambda: not source_server.dumps())
    source_server.execute("RESET MASTER" if wanted == GtidSet() else "RESET BINARY LOGS AND GTIDS")
    source_server.settle()  # nothing comes behind the transaction
    source_server.execute("INSERT INTO d.t VALUES (30)")
    assert dump(source_of(source_server), wanted)[-1][4] == EventType.XID


def test_without_checksums(source_server):
    source_server.execute("SET GLOBAL binlog_checksum = NONE")
    try:
        with opened(source_of(source_server)) as session:
            name = session.oldest_log()
            assert session.checksum == "NONE"
        assert name == source_server.binlogs()[0].name
    finally:
        source_server.execute("SET GLOBAL binlog_checksum = CRC32")


def test_a_dump_is_requested_behind_prepare(server):
    with opened(source_of(server)) as session, pytest.raises(UsageError, match="prepare"):
        session.request(OLDEST, block=False)


# --- GTIDs that do not fit -----------------------------------------------------------------------


def test_gtids_of_the_other_flavour(server):
    other = GtidSet.parse(f"{NOBODY}:1") if server.flavour == "mariadb" else GtidList.parse("0-1-1")
    with opened(source_of(server)) as session, pytest.raises(UsageError, match="begin"):
        session.prepare(other)


def test_gtids_that_the_source_never_had(source_server):
    if source_server.flavour == "mysql":
        starts = [GtidSet.parse(f"{NOBODY}:1-5")]
    else:
        starts = [
            GtidList.parse("7-1-1"),
            GtidList([*executed(source_server), MariadbGtid(9, 1, 1)]),
        ]
    for start in starts:
        with opened(source_of(source_server)) as session:
            with pytest.raises(GtidsAhead, match=rf"{NOBODY}:1-5|7-1-1|9-1-1"):
                session.prepare(start)
            assert session.lacking(start)
            assert not len(session.lacking(session.executed()))


def test_gtids_that_are_about_to_be_committed(mysql97):
    """A replica may have them before the source's gtid_executed does."""
    owned = GtidSet.parse(f"{NOBODY}:77")
    mysql97.execute(f"SET gtid_next = '{owned}'")
    try:
        mysql97.execute("BEGIN")
        with opened(source_of(mysql97)) as session:
            assert not session.lacking(owned)
            both = GtidSet.parse(f"{NOBODY}:77-78")
            assert session.lacking(both) == GtidSet.parse(f"{NOBODY}:78")
    finally:
        mysql97.execute("ROLLBACK")
        mysql97.execute("SET gtid_next = 'AUTOMATIC'")


# --- who we are ----------------------------------------------------------------------------------


def test_a_free_server_id_is_chosen_and_kept(source_server):
    identity = Identity()
    dump(source_of(source_server), OLDEST, identity)
    chosen = identity.server_id
    assert chosen >= 1 << 31
    dump(source_of(source_server), OLDEST, identity)
    assert identity.server_id == chosen


def test_free_ids_are_not_those_taken():
    class AllButOne:
        asked = 0

        def __contains__(self, value):
            self.asked += 1
            assert 1 << 31 <= value < (1 << 32) - 1
            return self.asked < 5

    assert free_server_id(AllButOne()) >= 1 << 31


def test_the_source_knows_us(source_server):
    identity = Identity()
    with opened(source_of(source_server, server_id=4711), identity) as session:
        session.prepare(OLDEST)
        rows = [row for row in registered(source_server) if row[0] == 4711]
        assert len(rows) == 1
        if source_server.flavour == "mysql":
            assert rows[0][-1] == identity.uuid
    wait_for(lambda: not any(row[0] == 4711 for row in registered(source_server)))


def test_a_given_id_that_another_replica_has(source_server):
    given = source_of(source_server, server_id=4712)
    other = Identity()
    with opened(given, other) as session:
        session.prepare(OLDEST)
        with opened(given) as second, pytest.raises(DuplicateServerId, match="4712"):
            second.prepare(OLDEST)
        with opened(given, other) as again:  # ourselves, connecting anew
            again.prepare(OLDEST)
        if source_server.flavour == "mysql":  # by the UUID it is ours in a new process, too
            with opened(given, Identity(uuid=other.uuid)) as restarted:
                restarted.prepare(OLDEST)
    wait_for(lambda: not any(row[0] == 4712 for row in registered(source_server)))


READER = """
import sys
from tailrace.live.feed import Feed
from tailrace.live.url import Source

feed = Feed(Source.parse(sys.argv[1]), start="now")
feed.take()
print("reads", flush=True)
while True:
    feed.take()
"""


def sends_nothing(server):
    """Whether each dump has sent all that there is, and waits."""
    dumps = [row for row in server.query("SHOW PROCESSLIST") if "Binlog Dump" in row[4]]
    return all("waiting for more updates" in str(row[6]) for row in dumps)


def test_a_given_id_that_a_reader_had_who_was_killed(source_server):
    """Its source takes the connection for one that lives until it has something to send."""
    source_server.settle()  # or the checkpoint of an earlier rotation may be what it sends
    url = f"mysql://root@127.0.0.1:{source_server.port}/?server_id=4722&heartbeat=60"
    argv = [sys.executable, "-c", READER, url]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as reader:
        assert reader.stdout.readline() == b"reads\n"
        given = Source.parse(url)
        with opened(given) as session, pytest.raises(DuplicateServerId, match="4722"):
            session.prepare(OLDEST)
        wait_for(lambda: sends_nothing(source_server))
        reader.kill()
    assert any(row[0] == 4722 for row in registered(source_server))
    with opened(given) as session:
        session.prepare(OLDEST)
        assert session.identity.server_id == 4722
    source_server.rotate()
    wait_for(lambda: not any(row[0] == 4722 for row in registered(source_server)))


def test_the_sources_own_id(source_server):
    own_id = opened(source_of(source_server, server_id=1))
    with own_id as session, pytest.raises(DuplicateServerId, match="own"):
        session.prepare(OLDEST)
    if source_server.flavour == "mysql":
        own = source_server.query("SELECT @@server_uuid")[0][0]
        with pytest.raises(DuplicateServerId, match="UUID"):
            opened(source_of(source_server), Identity(uuid=own))


# --- privileges ----------------------------------------------------------------------------------


def test_the_oldest_needs_replication_slave_alone(source_server):
    source_server.execute("CREATE USER slave@'127.0.0.1'")
    source_server.execute("GRANT REPLICATION SLAVE ON *.* TO slave@'127.0.0.1'")
    given = source_of(source_server, user="slave")
    assert types(dump(given, OLDEST))[1] == EventType.FORMAT_DESCRIPTION
    monitor = "REPLICATION CLIENT" if source_server.flavour == "mysql" else "BINLOG MONITOR"
    with opened(given) as session:
        assert len(session.executed())
        for asked in (session.logs, session.end):
            with pytest.raises(AccessDenied, match=f"GRANT {monitor}") as caught:
                asked()
            assert caught.value.code == 1227
        assert session.oldest_log() == source_server.binlogs()[0].name
    dump(given, executed(source_server) if source_server.flavour == "mariadb" else GtidSet())


def test_a_user_without_privileges(source_server):
    source_server.execute("CREATE USER nobody@'127.0.0.1'")
    with opened(source_of(source_server, user="nobody")) as session:
        with pytest.raises(AccessDenied, match="GRANT REPLICATION SLAVE") as caught:
            session.prepare(OLDEST)
        assert caught.value.code == 1045


# --- what depends on the version alone -----------------------------------------------------------


@each_case(
    ("flavour", "version", "flags"),
    [
        (Flavour.MYSQL, (5, 7, 44), DumpFlag.SKIP_TAGGED_GTIDS),
        (Flavour.MYSQL, (8, 0, 25), DumpFlag.SKIP_TAGGED_GTIDS),
        (Flavour.MYSQL, (8, 0, 26), DumpFlag.SKIP_TAGGED_GTIDS | DumpFlag.HEARTBEAT_V2),
        (Flavour.MYSQL, (8, 3, 0), DumpFlag.HEARTBEAT_V2),
        (Flavour.MYSQL, (9, 7, 4), DumpFlag.HEARTBEAT_V2),
        (Flavour.MARIADB, (10, 11, 18), DumpFlag.ANNOTATE_ROWS),
    ],
)
def test_flags(flavour, version, flags):
    assert dump_flags(flavour, version, block=True) == flags
    assert dump_flags(flavour, version, block=False) == flags | DumpFlag.NON_BLOCK


def test_a_set_without_tags():
    both = GtidSet.parse(f"{NOBODY}:1-3:tag:4")
    assert untagged(both) == GtidSet.parse(f"{NOBODY}:1-3")
    assert Gtid(NOBODY, "tag", 4) in both
