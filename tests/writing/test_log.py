"""`create`: files, positions, GTIDs, rotation, closing."""

import pickle

import pytest

import tailrace
from tailrace.constants import Flavour
from tailrace.errors import GtidError, StorageError, UsageError
from tailrace.gtid import Gtid, GtidList, GtidSet, MariadbGtid
from tailrace.storage.memory import forget_memory, memory_folder
from tailrace.writing import create
from tests.cases import each_case
from tests.writing.made import (
    FLAVOURS,
    START,
    UUID,
    check_files,
    ddl,
    events_of,
    log,
    transactions_of,
)

both = each_case("flavour", FLAVOURS)


@both
@each_case("checksum", ["crc32", "none"])
def test_head_and_end(tmp_path, flavour, checksum):
    with log(tmp_path / "copy" / "binlog.000001", flavour, checksum=checksum) as out:
        ddl(out, 3)
        live = next(iter(tailrace.open(tmp_path / "copy")))
        assert live.in_use
        assert live.created == live.timestamp == START // 1_000_000 + 1
        place = out.position
    names = [event.name for event in events_of(tmp_path / "copy")]
    head = ["FORMAT_DESCRIPTION", "PREVIOUS_GTIDS"]
    gtid = "GTID"
    if flavour == "mariadb":
        head = ["FORMAT_DESCRIPTION", "GTID_LIST", "BINLOG_CHECKPOINT"]
        gtid = "MARIADB_GTID"
    assert names == [*head, *[gtid, "QUERY"] * 3, "STOP"]
    file = tmp_path / "copy" / "binlog.000001"
    closed = tailrace.open(file)
    assert not next(iter(closed)).in_use
    assert file.stat().st_size == place.offset + (23 if checksum == "crc32" else 19)
    assert (tmp_path / "copy" / "binlog.index").read_text() == "./binlog.000001\n"
    assert sorted(path.name for path in file.parent.iterdir()) == ["binlog.000001", "binlog.index"]
    check_files(file)


@both
def test_rotation_by_size(tmp_path, flavour):
    with log(tmp_path / "binlog.000007", flavour, max_size=4096) as out:
        ddl(out, 200)
        assert len(out.files) > 3
        names = out.files
        gtids = out.gtids
    paths = [tmp_path / name for name in names]
    assert names[:2] == ["binlog.000007", "binlog.000008"]
    assert (tmp_path / "binlog.index").read_text() == "".join(f"./{name}\n" for name in names)
    check_files(*paths)
    for path, following in zip(paths, names[1:], strict=False):
        last = events_of(path)[-1]
        assert (last.name, last.next_file, last.next_offset) == ("ROTATE", following, 4)
        before = last.offset
        assert before >= 4096  # past the limit, and not by more than the transaction that passed it
        assert before - transactions_of(path)[-1].size < 4096
    assert events_of(paths[-1])[-1].name == "STOP"
    assert sum(len(transactions_of(path)) for path in paths) == 200
    if flavour == "mysql":
        assert gtids == GtidSet.parse(f"{UUID}:1-200")
    else:
        assert gtids == GtidList.parse("0-7-200")


@both
@each_case("listed", [False, True], ids=["created", "listed"])
def test_a_next_file_that_cannot_be_created_is_tried_again(tmp_path, flavour, listed):
    """The file before it has ended then: nothing is committed meanwhile, and nothing is lost."""
    file = tmp_path / "binlog.000001"
    out = log(file, flavour)
    ddl(out, 1)
    in_the_way = tmp_path / ("binlog.index.new" if listed else "binlog.000002.new")
    in_the_way.mkdir()
    for _ in range(2):
        with pytest.raises(StorageError, match=in_the_way.name.removesuffix(".new")):
            out.rotate()
        with pytest.raises(StorageError, match=in_the_way.name.removesuffix(".new")):
            ddl(out, 1)
    assert events_of(file)[-1].name == "ROTATE"
    in_the_way.rmdir()
    ddl(out, 2)
    out.close()
    assert out.files == ["binlog.000001", "binlog.000002"]
    paths = [tmp_path / name for name in out.files]
    check_files(*paths)
    assert [len(transactions_of(path)) for path in paths] == [1, 2]


@both
def test_in_memory(flavour):
    forget_memory("here")
    with log("memory:here", flavour, max_size=4096) as out:
        ddl(out, 100)
        names = out.files
    folder = memory_folder("here")
    assert set(folder.names()) == {*names, "binlog.index"}
    assert folder.read("binlog.000001", 0, 4) == b"\xfebin"
    assert bytes(folder.files["binlog.index"]).decode() == "".join(f"./{n}\n" for n in names)
    with pytest.raises(StorageError, match=r"memory:here/binlog\.000001 exists"):
        log("memory:here", flavour)
    with pytest.raises(StorageError, match="has a name"):
        log("memory:", flavour)
    forget_memory("here")


def test_mysql_gtids(tmp_path):
    other = "11111111-2222-3333-4444-555555555555"
    with log(tmp_path / "binlog.000001", "mysql", gtids=f"{UUID}:1-5,{other}:7") as out:
        ddl(out, 1)
        for gtid in (f"{other}:9", Gtid(other, "", 8), f"{UUID}:blue:4"):
            with out.transaction(gtid) as trx:
                trx.query("create table x (a int)", "shop")
            assert str(trx.gtid) == str(gtid)
        with out.transaction(tag="Blue") as trx:
            trx.query("create table y (a int)", "shop")
        assert trx.gtid == Gtid(UUID, "blue", 5)
        written = out.gtids
        assert written == GtidSet.parse(f"{UUID}:1-6:blue:4-5,{other}:7-9")
        for known in (f"{UUID}:3", f"{UUID}:6", f"{other}:7", f"{UUID}:blue:5"):
            with pytest.raises(GtidError, match=r"is in the log already: it holds .*blue:4-5"):
                out.transaction(known)
        with pytest.raises(GtidError, match="not a GTID"):
            out.transaction("0-1-1")
        with pytest.raises(GtidError, match="no GTID of MySQL"):
            out.transaction(MariadbGtid(0, 1, 1))
        with pytest.raises(UsageError, match="domain_id"):
            out.transaction(domain_id=3)
        assert out.gtids == written
    check_files(tmp_path / "binlog.000001")
    names = [event.name for event in events_of(tmp_path / "binlog.000001")]
    assert names.count("GTID_TAGGED") == 2


def test_anonymous(tmp_path):
    with log(tmp_path / "binlog.000001", "mysql", server_uuid=None) as out:
        ddl(out, 2)
        with pytest.raises(UsageError, match="server_uuid"):
            out.transaction(tag="x")
    check_files(tmp_path / "binlog.000001")
    assert [event.name for event in events_of(tmp_path)][2::2] == ["ANONYMOUS_GTID"] * 2 + ["STOP"]


def test_anonymous_among_gtids_is_refused(tmp_path):
    """Replicas with GTIDs on would stop there."""
    with log(tmp_path / "binlog.000001", "mysql", server_uuid=None) as out:
        ddl(out, 1)
        with out.transaction(f"{UUID}:1") as trx:
            trx.query("create table x (a int)", "shop")
        with pytest.raises(GtidError, match="anonymous in a log that holds GTIDs"):
            out.transaction()
    with (
        tailrace.append(tmp_path, sync="none") as out,
        pytest.raises(GtidError, match="open the log with server_uuid"),
    ):
        out.transaction()


def test_mariadb_gtids(tmp_path):
    with log(tmp_path / "binlog.000001", "mariadb", domain_id=4, gtids="4-7-10,5-1-3") as out:
        ddl(out, 1)
        with out.transaction(domain_id=5) as trx:
            trx.query("create table x (a int)", "shop")
        assert trx.gtid == MariadbGtid(5, 7, 4)
        with out.transaction("4-9-20") as trx:
            trx.query("create table y (a int)", "shop")
        assert out.gtids.position == {4: MariadbGtid(4, 9, 20), 5: MariadbGtid(5, 7, 4)}
        assert str(out.gtids) == "4-7-11,4-9-20,5-1-3,5-7-4"
        for late in ("4-9-20", "4-1-5", "5-1-4"):
            with pytest.raises(GtidError, match=r"does not come after .*the log holds 4-7-11"):
                out.transaction(late)
        with pytest.raises(UsageError, match="tag"):
            out.transaction(tag="x")
        with pytest.raises(UsageError, match="its own domain"):
            out.transaction("6-1-1", domain_id=6)
    check_files(tmp_path / "binlog.000001")


def test_two_transactions_at_once(tmp_path):
    """They are written in the order of their commits, and a GTID is given out once."""
    with log(tmp_path / "binlog.000001", "mysql") as out:
        first, second = out.transaction(), out.transaction()
        third, fourth = out.transaction(f"{UUID}:9"), out.transaction(f"{UUID}:9")
        for number, trx in enumerate((first, second, third, fourth)):
            trx.query(f"create table t{number} (a int)", "shop")
        second.commit()
        first.commit()
        third.commit()
        place = out.position
        with pytest.raises(GtidError, match="in the log already"):
            fourth.commit()
        assert out.position == place
        assert [trx.gtid.gno for trx in (second, first, third)] == [1, 2, 9]
        assert third.position == place
    check_files(tmp_path / "binlog.000001")


def test_mariadb_order_is_kept_between_open_transactions(tmp_path):
    with log(tmp_path / "binlog.000001", "mariadb") as out:
        late = out.transaction("0-7-1")
        late.query("create table a (a int)", "shop")
        ddl(out, 2)
        with pytest.raises(GtidError, match="does not come after"):
            late.commit()
    check_files(tmp_path / "binlog.000001")


@both
def test_what_is_there_is_kept(tmp_path, flavour):
    with log(tmp_path / "binlog.000001", flavour) as out:
        ddl(out, 1)
    held = (tmp_path / "binlog.000001").read_bytes()
    for name in ("binlog.000001", "binlog.000002", ""):
        with pytest.raises(StorageError, match=r"continue that log with tailrace\.append"):
            log(tmp_path / name, flavour)
    assert (tmp_path / "binlog.000001").read_bytes() == held
    with log(tmp_path / "other.000001", flavour):
        pass


@each_case(
    ("given", "message"),
    [
        ({"flavour": "oracle"}, "flavour: 'oracle'"),
        ({"server_id": 0}, "server_id: 0"),
        ({"server_id": 1 << 32}, "server_id"),
        ({"checksum": "md5"}, "checksum: 'md5'"),
        ({"max_size": 100}, "max_size: 100"),
        ({"max_size": 2 << 30}, "max_size"),
        ({"metadata": "none"}, "metadata: MySQL's"),
        ({"metadata": "all"}, "metadata: 'all' is none of 'full', 'minimal', 'none'"),
        ({"image": "half"}, "image: 'half' is none of 'full', 'minimal', 'noblob'"),
        ({"sync": "never"}, "sync: 'never'"),
        ({"max_rows_event_size": 1}, "max_rows_event_size: 1"),
        ({"cache_limit": 0}, "cache_limit: 0"),
        ({"colour": "red"}, "colour: no such option"),
        ({"gtids": GtidList()}, "gtids: a log of mysql holds a GtidSet"),
        ({"flavour": "mariadb", "server_uuid": UUID}, "server_uuid"),
    ],
)
def test_refused_options(tmp_path, given, message):
    arguments = {"flavour": "mysql", "server_id": 1, **given}
    with pytest.raises(UsageError, match=message):
        create(tmp_path / "binlog.000001", **arguments)
    assert not list(tmp_path.iterdir())


@both
def test_version_is_told(tmp_path, flavour):
    version = {"mysql": "8.4.3", "mariadb": "10.11.6-MariaDB"}[flavour]
    with log(tmp_path / "binlog.000001", flavour, server_version=version) as out:
        ddl(out, 1)
        assert out.server_version == version
        assert out.flavour is Flavour(flavour)
    events = events_of(tmp_path)
    assert events[0].server_version == version
    if flavour == "mysql":
        assert events[2].immediate_server_version == 80403


def test_mariadb_without_strict_mode(tmp_path):
    """Servers without ``gtid_strict_mode`` leave logs whose numbers go back and forth."""
    with log(tmp_path / "binlog.000001", "mariadb", gtid_strict_mode=False) as out:
        for gtid in ("0-1-10", "0-2-4", "0-1-7"):
            with out.transaction(gtid) as trx:
                trx.query("create table t (a int)", "shop")
        with pytest.raises(GtidError, match="does not come after 0-1-7"):
            out.transaction("0-1-7")
        assert str(out.gtids) == "0-2-4,0-1-7"
        ddl(out, 1)
        assert out.gtids.position[0] == MariadbGtid(0, 7, 8)
    assert [str(each.gtid) for each in transactions_of(tmp_path)][:3] == [
        "0-1-10",
        "0-2-4",
        "0-1-7",
    ]


def test_closed(tmp_path):
    out = log(tmp_path / "binlog.000001", "mysql")
    trx = out.transaction()
    trx.query("create table t (a int)", "shop")
    out.close()
    out.close()
    for action in (out.transaction, out.rotate, out.flush, trx.commit):
        with pytest.raises(UsageError, match="the log is closed"):
            action()


def test_a_second_writer_is_refused(tmp_path):
    with log(tmp_path / "binlog.000001", "mysql"), pytest.raises(StorageError, match="another"):
        tailrace.append(tmp_path)
    for name in ("a", "a"):
        forget_memory(name)
    with log("memory:a", "mysql"), pytest.raises(StorageError, match="another"):
        tailrace.append("memory:a")
    forget_memory("a")


def test_position_and_gtids_are_copies(tmp_path):
    with log(tmp_path / "binlog.000001", "mysql") as out:
        out.gtids.add(Gtid(UUID, "", 1))
        ddl(out, 1)
        assert pickle.loads(pickle.dumps(out.position)) == out.position
        assert len(out.gtids) == 1
