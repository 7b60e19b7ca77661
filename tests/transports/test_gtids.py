"""Beginning at the first transaction that is not in a set of GTIDs; the servers' tools agree."""

import re
import shutil
import subprocess

import pytest

import tailrace
from tailrace.errors import GtidError
from tailrace.gtid import Gtid, GtidList, GtidSet, MariadbGtid
from tests.cases import each_case
from tests.recorded import CORPUS
from tests.storage.test_index_search import read  # noqa: F401 - a fixture
from tools.servers import available, binlog_tool

MYSQL = ["mysql-9.7.gtids", "mysql-9.7.tagged-gtids"]
UUID = "ab3fb2ab-e590-11f1-af3c-02fc00000001"


def all_gtids(case, **options):
    """Where each transaction begins, and its GTID."""
    with tailrace.open(CORPUS / case, **options) as log:
        return [(one.start, one.gtid) for one in log.transactions()]


def from_(case, begin):
    return [gtid for _, gtid in all_gtids(case, start=begin)]


def tool(case, *arguments):
    """The GTIDs that the server's own tool prints."""
    name = case.rpartition(".")[0]
    if reason := available(name):
        pytest.skip(reason)
    files = sorted(str(path) for path in (CORPUS / case).glob("binlog.0*"))
    run = subprocess.run(
        [*binlog_tool(name), *arguments, *files], capture_output=True, text=True, check=False
    )
    # mariadb-binlog complains, at its end, of a domain that has nothing behind its state.
    assert run.returncode == 0 or "never reached expected GTID state" in run.stderr, run.stderr
    if name.startswith("mysql"):
        return re.findall(r"GTID_NEXT= '([0-9a-f][^']+:\d+)'", run.stdout)
    return re.findall(r"\tGTID (\d+-\d+-\d+)", run.stdout)


@each_case("case", MYSQL)
def test_mysql_sets(case):
    whole = all_gtids(case)
    done = GtidSet()
    for number, (start, gtid) in enumerate(whole):
        log = tailrace.open(CORPUS / case, start=done)
        assert log.position == start
        first = next(log.transactions())
        assert (first.start, first.gtid) == (start, gtid)
        excluded = tool(case, f"--exclude-gtids={done.text()}") if done else tool(case)
        assert from_(case, done) == [each for _, each in whole[number:]]
        assert excluded == [str(each) for _, each in whole[number:]]
        assert isinstance(gtid, Gtid)
        done.add(gtid)
    log = tailrace.open(CORPUS / case, start=done)
    assert list(log.transactions()) == []
    bare = tailrace.open(CORPUS / case)
    list(bare)
    assert tailrace.open(CORPUS / case, start=done).position == bare.position


@each_case("case", MYSQL)
def test_a_set_with_a_gap_begins_in_the_gap(case):
    whole = all_gtids(case)
    for left_out in range(len(whole)):
        done = GtidSet()
        for number, (_, gtid) in enumerate(whole):
            if number != left_out:
                done.add(gtid)
        log = tailrace.open(CORPUS / case, start=done)
        assert log.position == whole[left_out][0]
        assert [str(whole[left_out][1])] == tool(case, f"--exclude-gtids={done.text()}")


def test_mariadb_states():
    case = "mariadb-11.8.domains"
    whole = all_gtids(case)
    state = GtidList()
    for number, (start, gtid) in enumerate(whole):
        assert tailrace.open(CORPUS / case, start=state).position == start
        if number:
            text = ",".join(map(str, state.position.values()))
            assert tool(case, f"--start-position={text}") == [
                str(each) for _, each in whole[number:]
            ]
        assert isinstance(gtid, MariadbGtid)
        state.add(gtid)
    assert from_(case, state) == []


@each_case(
    "text",
    [
        "0-1-2",
        "0-1-4",
        "0-1-9",
        "5-4294967295-2",
        "0-1-3,5-1-1",
        "0-1-4,5-4294967295-1000000000000",
    ],
)
def test_mariadb_states_of_some_domains(text):
    """A domain that the state does not name is given from its begin."""
    case = "mariadb-11.8.domains"
    first = from_(case, GtidList.parse(text))[0]
    assert str(first) == tool(case, f"--start-position={text}")[0]


def test_the_file_is_found_by_the_lists_alone(read):  # noqa: F811
    """Of files before the one that is begun in only the head is read, of those behind nothing."""
    case = "mysql-9.7.gtids"
    whole = all_gtids(case)
    done = GtidSet()
    for _, gtid in whole[:6]:
        done.add(gtid)
    log = tailrace.open(CORPUS / case, start=done)
    assert log.position == whole[6][0]
    assert set(read) == {"binlog.000002"}
    read.clear()
    log.seek(GtidSet.parse(f"{UUID}:1"))
    assert log.position == whole[1][0]
    assert read["binlog.000002"] == 2


def test_files_that_are_gone(tmp_path):
    for case, lacking, enough in (
        (
            "mysql-9.7.gtids",
            GtidSet.parse(f"{UUID}:1-2"),
            GtidSet.parse(
                f"{UUID}:1-4,11111111-2222-3333-4444-555555555555:7:9,aaaaaaaa-0000-0000-0000-000000000001:9223372036854775806"
            ),
        ),
        (
            "mariadb-11.8.domains",
            GtidList.parse("0-1-3,5-4294967295-1000000000000,4294967295-4294967295-1"),
            GtidList.parse("0-1-5,5-4294967295-1000000000000,4294967295-4294967295-1"),
        ),
        ("mariadb-11.8.domains", GtidList.parse("0-1-5"), None),
    ):
        second = tmp_path / case / "binlog.000002"
        second.parent.mkdir(exist_ok=True)
        shutil.copy(CORPUS / case / "binlog.000002", second)
        with pytest.raises(
            GtidError, match=r"no longer in the logs, which begin with binlog\.000002"
        ):
            tailrace.open(second.parent, start=lacking)
        if enough is not None:
            whole = all_gtids(case)
            opened = tailrace.open(second.parent, start=enough)
            assert [one.gtid for one in opened.transactions()] == [
                gtid for start, gtid in whole if start.file == "binlog.000002"
            ][1:]
    with pytest.raises(GtidError, match="1-3"):
        tailrace.open(tmp_path / "mysql-9.7.gtids", start=GtidSet())


def test_gtids_of_another_flavour():
    log = tailrace.open(CORPUS / "mariadb-11.8.domains")
    before = log.position
    with pytest.raises(GtidError, match=r"is a log of mariadb, the GTIDs are mysql's"):
        log.seek(GtidSet.parse(f"{UUID}:1"))
    assert log.position == before
    with pytest.raises(GtidError, match="is a log of mysql, the GTIDs are mariadb's"):
        tailrace.open(CORPUS / "mysql-9.7.gtids", start=GtidList.parse("0-1-1"))


OTHER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@each_case(
    ("case", "start", "lacking"),
    [
        ("mysql-9.7.gtids", f"{OTHER}:1-77", f"{OTHER}:1-77"),
        ("mysql-9.7.gtids", f"{UUID}:1-2,{OTHER}:1-77", f"{OTHER}:1-77"),
        ("mysql-9.7.gtids", f"{UUID}:1-2:5-9", f"{UUID}:6-9"),
        ("mysql-9.7.gtids", f"{UUID}:1-2,{UUID}:x:1", f"{UUID}:x:1"),
        ("mysql-9.7.anonymous", f"{UUID}:1-9", f"{UUID}:1-9"),
        ("mariadb-11.8.domains", "7-1-1", "7-1-1"),
        ("mariadb-11.8.domains", "0-1-4,7-1-1", "7-1-1"),
        ("mariadb-11.8.domains", "0-1-4,5-1-3000000000000", "5-1-3000000000000"),
    ],
)
def test_gtids_that_the_logs_do_not_hold(tmp_path, case, start, lacking):
    """As of a server (GtidsAhead): nothing is given; of a folder and of one file."""
    name = case.rpartition(".")[0]
    if name.startswith("mariadb") and not available(name):
        files = sorted(map(str, (CORPUS / case).glob("binlog.0*")))
        command = [*binlog_tool(name), f"--start-position={start}", *files]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode
        assert f"never reached expected GTID state of {lacking}" in run.stderr
    shutil.copy(CORPUS / case / "binlog.000001", tmp_path)
    for function in (tailrace.open, tailrace.changes):
        with pytest.raises(GtidError, match=f"^{lacking} is not in the logs"):
            function(CORPUS / case, start=start)
        with pytest.raises(GtidError, match="is not in the logs"):
            function(tmp_path, start=start)


def test_gtids_that_come_later_are_found_in_the_last_file_alone(
    read,  # noqa: F811
):
    def counts(start):
        read.clear()
        tailrace.open(CORPUS / "mysql-9.7.gtids", start=start)
        return read.copy()

    plain = counts(f"{UUID}:1")
    listed = counts(f"{UUID}:1:3")
    last = counts(f"{UUID}:1:5")
    assert plain["binlog.000001"] == listed["binlog.000001"] == last["binlog.000001"]
    assert listed["binlog.000002"] == 2 * plain["binlog.000002"]  # its head, once more
    assert last["binlog.000002"] > listed["binlog.000002"]
