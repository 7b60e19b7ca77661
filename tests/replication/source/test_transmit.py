"""Our dump, packet by packet, against that of the server that wrote the log."""

import pytest

from tailrace.constants import ChecksumAlgorithm
from tailrace.gtid import GtidList, GtidSet
from tests.cases import each_case
from tests.replication.logs import split
from tests.replication.source.dumping import asked, ours, shown, theirs
from tests.waiting import ended, in_thread
from tools.servers import NAMES

OPTIONS = {"mysql-9.7": ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]}


@pytest.fixture(scope="module", params=NAMES)
def source(request, fresh_server):
    """A server with three logs: definitions, rows, a large event, a gap of its own."""
    server = fresh_server(request.param, OPTIONS.get(request.param))
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (a INT PRIMARY KEY AUTO_INCREMENT, b LONGBLOB)")
    server.execute("INSERT INTO d.t (b) VALUES ('one')")
    server.rotate()
    for size in (1, 1000, 300_000, 2_000_000):
        server.execute(f"INSERT INTO d.t (b) VALUES (REPEAT('x', {size}))")
    server.execute("INSERT INTO d.t (b) SELECT REPEAT('y', 5000) FROM d.t a, d.t b, d.t c")
    if server.flavour == "mariadb":  # GTID events with a commit id
        server.execute("SET GLOBAL binlog_commit_wait_count = 3")
        server.execute("SET GLOBAL binlog_commit_wait_usec = 500000")
        ended(*[in_thread(insert_one, server) for _ in range(3)])
        server.execute("SET GLOBAL binlog_commit_wait_count = 0")
    server.rotate()
    if server.flavour == "mysql":
        server.execute("SET gtid_next = 'AUTOMATIC:blue'")
        server.execute("INSERT INTO d.t (b) VALUES ('tagged')")
        server.execute("SET gtid_next = 'AUTOMATIC'")
    else:
        server.execute("SET gtid_domain_id = 5")
        server.execute("INSERT INTO d.t (b) VALUES ('in a domain of its own')")
        server.execute("SET gtid_domain_id = 0, gtid_seq_no = 20")  # a hole before it
        server.execute("INSERT INTO d.t (b) VALUES ('after a hole')")
    server.execute("INSERT INTO d.t (b) VALUES ('last')")
    server.disconnect()
    server.settle()
    return server


@pytest.fixture
def mysql(source):
    if source.flavour != "mysql":
        pytest.skip("MySQL's GTIDs")
    return source


@pytest.fixture
def mariadb(source):
    if source.flavour != "mariadb":
        pytest.skip("MariaDB's GTIDs")
    return source


def insert_one(server):
    with server.connect() as client, client.cursor() as cursor:
        cursor.execute("INSERT INTO d.t (b) VALUES ('together')")


def same(server, request, **settings):
    """Both dumps are equal."""
    expected = theirs(server, request)
    got = ours(server.data, request, server_id=server.server_id, **settings)
    assert shown(got) == shown(expected)
    assert got == expected
    return got


def test_all_logs_by_file_and_position(source):
    """WL#4398: a dump from the first log's beginning, over all files, to the EOF packet."""
    packets = same(source, asked(flags=3 if source.flavour == "mariadb" else 1))
    assert sum(packet[5] == 4 for packet in packets[:-1]) == 5  # ROTATE: three artificial, two real


def test_from_the_middle_of_a_file(source):
    path = source.binlogs()[1]
    for place in split(path.read_bytes())[3:7]:
        same(source, asked(file=path.name, position=place))
    last = source.binlogs()[-1]  # and from its end
    same(source, asked(file=last.name, position=last.stat().st_size))


def test_annotations_only_if_asked_for(mariadb):
    without = same(mariadb, asked(flags=1))
    assert not any(packet[5] == 160 for packet in without[:-1])
    assert any(packet[5] == 160 for packet in same(mariadb, asked(flags=3))[:-1])


@each_case("capability", [0, 1, 2, 3])
@each_case("flags", [1, 3])
def test_mariadb_clients_that_do_not_know_gtids(mariadb, capability, flags):
    """`@mariadb_slave_capability`: what a client does not know is left out, or becomes a QUERY."""
    same(mariadb, asked(mariadb_capability=capability, flags=flags))


@each_case("checksum", [None, ChecksumAlgorithm.NONE, ChecksumAlgorithm.CRC32])
def test_what_the_replica_says_of_checksums(source, checksum):
    expected = theirs(source, asked(checksum=checksum))
    got = ours(source.data, asked(checksum=checksum))
    if checksum is None:
        assert got[:-1] == expected[:-1]
        assert got[-1].split(";")[0] == expected[-1].split(";")[0]
    else:
        assert got == expected


@each_case(("file", "position"), [("other.000001", 4), ("", 3), ("", 1 << 30)])
def test_a_start_that_is_not_there(source, file, position):
    request = asked(file=file or source.binlogs()[-1].name, position=position)
    assert ours(source.data, request)[-1] == theirs(source, request)[-1]


def uuid(server):
    return str(server.query("SELECT @@server_uuid")[0][0])


def test_mysql_by_gtid(mysql):
    """Gaps, nothing, all: what is left out, and the heartbeats of both forms where it ends.

    The flag SKIP_TAGGED_GTIDS (4) changes no dump: it says how the replica wrote its set.
    """
    own = uuid(mysql)
    for flags in (1, 3, 5):
        for text in (
            "",
            f"{own}:1",
            f"{own}:1-2:5",
            f"{own}:2:4-6:8-9",
            f"{own}:1-7",
            f"{own}:3-5",
        ):
            same(mysql, asked(gtids=GtidSet.parse(text), flags=flags))
        every = GtidSet.parse(mysql.query("SELECT @@gtid_executed")[0][0])
        same(mysql, asked(gtids=every, flags=flags))
        for text in (f"{own}:blue:1", f"{own}:1-3:blue:1"):
            same(mysql, asked(gtids=GtidSet.parse(text), flags=flags))
        other = GtidSet.parse("11111111-2222-3333-4444-555555555555:1-5")
        same(mysql, asked(gtids=every | other, flags=flags))


def test_mysql_gtids_that_the_source_does_not_have(mysql):
    own = uuid(mysql)
    request = asked(gtids=GtidSet.parse(f"{own}:1-1000"))
    (got,) = ours(mysql.data, request, server_uuid=own)
    assert got[:500] == theirs(mysql, request)[0][:500]
    assert ours(mysql.data, request)[-1] == bytes.fromhex("fe00000200")  # another's: it may have


def test_mysql_gtids_of_another_server_beyond_those_in_the_logs(mysql):
    """A server checks the GTIDs of its own UUID only, also where its logs have lower ones of that
    other server, as a relay's have of the primary: so do we.
    """
    other = "22222222-2222-3333-4444-555555555555"
    for sql in (f"SET gtid_next = '{other}:1'", "INSERT INTO d.t (b) VALUES ('from another')"):
        mysql.execute(sql)
    mysql.execute("SET gtid_next = 'AUTOMATIC'")
    mysql.settle()
    executed = GtidSet.parse(mysql.query("SELECT @@gtid_executed")[0][0])
    assert f"{other}:1" in executed.text()
    ahead = GtidSet.parse(f"{other}:1-100000")
    for gtids in (ahead, executed | ahead):
        packets = same(mysql, asked(gtids=gtids), server_uuid=uuid(mysql))
        assert packets[-1] == bytes.fromhex("fe00000200")


def test_mariadb_by_gtid(mariadb):
    """From each GTID of the log. MariaDB 11.4 and later begin at the transaction, by an index of
    GTIDs: there the transactions and what follows them are compared.
    """
    every = GtidList.parse(mariadb.query("SELECT @@gtid_binlog_state")[0][0])
    last = every.position[0]
    texts = [f"0-1-{number}" if number else "" for number in range(last.seq_no + 1)]
    for text in [*texts, "5-1-1", "0-1-3,5-1-1", f"{last},5-1-1", "0-1-3,7-1-1"]:
        for strict in (False, True):
            request = asked(gtids=GtidList.parse(text), flags=3, gtid_strict=strict)
            got, expected = (
                in_order(packets)
                for packets in (ours(mariadb.data, request), theirs(mariadb, request))
            )
            if mariadb.name == "mariadb-10.11":
                if "5-" in text:  # its lists have only what it saw since the file's beginning
                    got, expected = without_lists(got), without_lists(expected)
                assert shown(got) == shown(expected)
            assert from_first(got) == from_first(expected)
            assert got[-1] == expected[-1]


def in_order(packets):
    """The packets, with the GTIDs of artificial lists in one order: the server has none."""
    found = []
    for packet in packets:
        if isinstance(packet, bytes) and packet[5:6] == b"\xa3" and packet[18] & 0x20:
            entries = sorted(packet[at : at + 16] for at in range(24, len(packet) - 4 - 15, 16))
            found.append(packet[:24] + b"".join(entries))
        else:
            found.append(packet)
    return found


def without_lists(packets):
    """The packets without artificial GTID_LISTs."""
    return [
        packet
        for packet in packets
        if isinstance(packet, str) or packet[5:6] != b"\xa3" or not packet[18] & 0x20
    ]


def from_first(packets):
    """The packets from the first GTID on."""
    for number, packet in enumerate(packets):
        if isinstance(packet, bytes) and packet[0] == 0 and packet[5] == 162:
            return shown(packets[number:])
    return []


@each_case("text", ["0-1-99", "0-2-3", "0-2-99"])
@each_case("strict", [False, True])
def test_mariadb_gtids_that_the_source_does_not_have(mariadb, text, strict):
    request = asked(gtids=GtidList.parse(text), gtid_strict=strict)
    assert ours(mariadb.data, request) == theirs(mariadb, request)


def test_mariadb_until(mariadb):
    """START SLAVE UNTIL: the dump ends with a GTID_LIST that is flagged for that."""
    for begin, end in ((1, 3), (2, 5), (4, 4)):
        request = asked(
            gtids=GtidList.parse(f"0-1-{begin}"), until_gtids=GtidList.parse(f"0-1-{end}"), flags=3
        )
        got, expected = ours(mariadb.data, request), theirs(mariadb, request)
        assert from_first(got) == from_first(expected)
        assert got[-2:] == expected[-2:]
