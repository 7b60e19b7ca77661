"""`mirror` of a running server: the same lake as from the server's files, run after run."""

import shutil
import subprocess
import threading
from unittest import mock

import pytest

from tailrace.cli.mirror.command import mirror as command
from tailrace.errors import GtidsAhead, LogPurged, PipelineError, TailraceError, UsageError
from tailrace.live.session import Session
from tailrace.live.url import Source
from tailrace.position import Position
from tailrace.spark import mirror
from tailrace.spark.input.server_log import Room
from tailrace.spark.input.start_position import load
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.manifest.lake_options import FORMATS
from tailrace.spark.manifest.manifest import INCOMPLETE
from tailrace.spark.mirror.batches import Batches
from tailrace.spark.verify import verify
from tests.spark.following import FLAVOURS, Follow, read, url_of, values
from tests.spark.history.landing import in_this_process
from tests.waiting import purge

WORK = (
    ("CREATE DATABASE shop", "USE shop"),
    ("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(50), c DECIMAL(9,2))",),
    ("INSERT INTO t VALUES (1,'x',1.5),(2,'y',NULL)", "UPDATE t SET b='z' WHERE a=1"),
    ("FLUSH BINARY LOGS", "DELETE FROM t WHERE a=2", "INSERT INTO t VALUES (3,'ß',-7)"),
    ("FLUSH BINARY LOGS", "INSERT INTO t VALUES (4,REPEAT('w',40),0)"),
)
MORE = (
    "ALTER TABLE t ADD COLUMN d INT",
    "UPDATE t SET d = a",
    "FLUSH BINARY LOGS",
    "CREATE TABLE u (a INT PRIMARY KEY)",
    "INSERT INTO u VALUES (1),(2),(3)",
)


GTIDS = {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"}


def rows(lake, table, kind):
    """The rows of a lake's table, whatever files they are in."""
    return sorted(map(str, read(lake, table, kind).to_pylist()))


def current(lake, table="d.t", columns="a"):
    found = read(lake, table)
    return sorted(zip(*(found.column(each).to_pylist() for each in columns), strict=True))


def assert_same(ours, theirs):
    tables = sorted(path.name for path in theirs.iterdir() if path.is_symlink())
    assert sorted(path.name for path in ours.iterdir() if path.is_symlink()) == tables
    for table in tables:
        for kind in ("changelog", "current"):
            assert rows(ours, table, kind) == rows(theirs, table, kind), (table, kind)


def kept(lake):
    """The copy of the server's logs that the lake keeps."""
    (folder,) = (lake / "_tailrace" / "sources").iterdir()
    return sorted(path for path in folder.iterdir() if path.suffix[1:].isdigit())


@pytest.mark.parametrize("name", FLAVOURS)
def test_the_lake_of_a_server_is_that_of_its_files(fresh_server, tmp_path, name):
    server = fresh_server(name, {"binlog_row_metadata": "FULL"})
    for sql in sum(WORK, ()):
        server.execute(sql)
    server.settle()
    url = f"mysql://root@127.0.0.1:{server.port}"
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    told = []
    report = mirror(url, ours, progress=lambda *each: told.append(each))
    assert report.changes == 6
    assert list(report.positions) == [f"127.0.0.1_{server.port}"]
    assert told[0][0] == "receive"
    files = mirror(server.data, theirs)
    assert list(report.positions.values()) == list(files.positions.values())
    assert_same(ours, theirs)
    copy = kept(ours)  # of what the lake has whole nothing is kept
    assert [path.name for path in copy] == ["binlog.000003"]
    assert mirror(url, ours).log_bytes == 0

    for sql in MORE:
        server.execute(sql)
    again = mirror(url, ours)
    assert again.changes == 3 + 3
    mirror(server.data, theirs)
    assert_same(ours, theirs)
    assert [path.name for path in kept(ours)] == ["binlog.000004"]

    shutil.rmtree(kept(ours)[0].parent)  # lost: the file where the lake ends comes anew
    server.execute("INSERT INTO u VALUES (9)")
    assert mirror(url, ours).changes == 1
    mirror(server.data, theirs)
    assert_same(ours, theirs)

    server.execute("FLUSH BINARY LOGS")
    server.execute("INSERT INTO u VALUES (10)")
    server.execute("FLUSH BINARY LOGS")
    purge(server, "binlog.000006")
    before = (ours / "_tailrace" / "now").readlink()
    with pytest.raises(LogPurged, match=r"binlog\.000004|binlog\.000005"):
        mirror(url, ours)
    assert (ours / "_tailrace" / "now").readlink() == before


def test_a_run_that_dies_keeps_what_it_received(fresh_server, tmp_path):
    """Received logs stay where making the lake failed: the next run asks for what is new only."""
    server = fresh_server("mariadb-11.8", {"binlog_row_metadata": "FULL"})
    for sql in sum(WORK, ()):
        server.execute(sql)
    server.settle()
    url = f"mysql://root@127.0.0.1:{server.port}"

    dies = mock.patch.object(Batches, "commit", side_effect=PipelineError("no Spark today"))
    with dies, pytest.raises(PipelineError, match="no Spark today"):
        mirror(url, tmp_path / "lake")
    assert [path.name for path in kept(tmp_path / "lake")] == [
        "binlog.000001",
        "binlog.000002",
        "binlog.000003",
    ]
    told = []
    report = mirror(url, tmp_path / "lake", progress=lambda *each: told.append(each))
    assert report.changes == 6
    assert max(done for phase, done, _ in told if phase == "receive") == 0


def test_what_a_server_refuses(mariadb118, tmp_path):
    port = mariadb118.port
    with pytest.raises(GtidsAhead, match=r"lacks GTIDs .*7-7-7"):
        mirror(f"mysql://root@127.0.0.1:{port}/?gtid=7-7-7", tmp_path / "c", spark=None)
    with pytest.raises(UsageError, match="decrypted"):
        mirror(f"mysql://root@127.0.0.1:{port}", tmp_path / "d", keyring="keys.json")
    assert not (tmp_path / "d").exists()


def test_renamed_between_runs_in_a_log_without_names(fresh_server, lake):
    """What a later run reads in the middle of a file has the names of before; RENAME keeps rows."""
    server = fresh_server("mysql-9.7")

    def check():
        rows = server.query("SELECT * FROM renamed ORDER BY a")
        assert current(lake, "shop.renamed", "abc") == rows

    for sql in sum(WORK[:3], ()):
        server.execute(sql)
    mirror(server.data, lake)
    server.execute("RENAME TABLE t TO renamed")
    assert mirror(server.data, lake).changes == 0
    check()
    server.execute("INSERT INTO renamed VALUES (7, 'seven', 7)")
    mirror(server.data, lake)
    check()
    assert not (lake / "shop.t" / "current").exists()


@pytest.mark.parametrize(("name", "settings"), [("mysql-9.7", GTIDS), ("mariadb-11.8", {})])
def test_a_new_lake_begins_where_the_url_says(name, settings, fresh_server, tmp_path):
    """With the present end, a position, after GTIDs; then it continues where it ends."""
    server = fresh_server(name, {**settings, "binlog_row_metadata": "FULL"})
    for sql in sum(WORK, ()):
        server.execute(sql)
    url = f"mysql://root@127.0.0.1:{server.port}/"
    source = Source.parse(url)
    with Session.open(source) as session:
        place, gtids = session.end(), str(session.executed())
    older = r"shop\.t is incomplete: rows from before binlog"
    with pytest.raises(PipelineError, match=older):
        mirror(f"{url}?start=now", tmp_path / "now")
    now = mirror(f"{url}?start=now", tmp_path / "now", incomplete="accept")
    assert now.changes == 0
    server.execute("INSERT INTO shop.t VALUES (9, 'new', 9)")
    starts = {"now": "start=now", "position": f"position={place}", "gtid": f"gtid={gtids}"}
    for kind, start in starts.items():
        lake = tmp_path / kind
        if kind != "now":
            with pytest.raises(PipelineError, match=older):
                mirror(f"{url}?{start}", lake)
        report = mirror(f"{url}?{start}", lake, incomplete="accept")
        assert report.changes == 1, kind
        assert current(lake, "shop.t", "ab") == [(9, "new")]
    server.execute("FLUSH BINARY LOGS")
    server.execute("UPDATE shop.t SET b = 'newer' WHERE a = 9")
    said = []
    report = mirror(f"{url}?position={place}", lake, notice=said.append)
    assert report.changes == 1
    assert len(said) == 1
    assert "is for a new lake" in said[0]
    with pytest.raises(UsageError, match="no transaction begins at"):
        mirror(f"{url}?position={place.file}:{place.offset + 30}", tmp_path / "no")


def test_a_place_between_what_the_server_itself_writes(fresh_server, tmp_path):
    """MariaDB notes checkpoints between transactions, at any time: the end of before is a place."""
    server = fresh_server("mariadb-11.8", {"binlog_row_metadata": "FULL"})
    server.execute("CREATE DATABASE shop")
    server.execute("FLUSH BINARY LOGS")
    server.settle()
    file = server.binlogs()[-1].name
    events = server.query(f"SHOW BINLOG EVENTS IN '{file}'")
    places = [event[1] for event in events if event[2] == "Binlog_checkpoint"]
    server.execute("CREATE TABLE shop.t (a INT PRIMARY KEY)")
    server.execute("INSERT INTO shop.t VALUES (1)")
    for at in places:
        url = f"mysql://root@127.0.0.1:{server.port}/?position={file}:{at}"
        assert mirror(url, tmp_path / str(at)).changes == 1
    wrong = f"mysql://root@127.0.0.1:{server.port}/?position={file}:{places[0] + 1}"
    with pytest.raises(UsageError, match=f"as {file}:{places[0] + 40}"):
        mirror(wrong, tmp_path / "no")


@pytest.fixture(scope="module")
def created_before(fresh_server):
    """A server; where its log ends after a table's first row; another row comes after that."""
    server = fresh_server("mysql-9.7", {"binlog_row_metadata": "FULL"})
    for sql in ("CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)"):
        server.execute(sql)
    server.execute("INSERT INTO d.t VALUES (1)")
    source = Source.parse(f"mysql://root@127.0.0.1:{server.port}/")
    with Session.open(source) as session:
        place = session.end()
    server.execute("INSERT INTO d.t VALUES (2)")
    return server, place


def incomplete(report):
    return [
        each.name
        for each in report.tables
        if any(status.kind == INCOMPLETE for status in each.states)
    ]


def test_a_start_that_was_rejected_is_forgotten(created_before, tmp_path):
    server, place = created_before
    url = f"mysql://root@127.0.0.1:{server.port}/"
    inside = f"{place.file}:{place.offset + 30}"
    for number, start in enumerate((f"position={inside}", f"position={place}")):
        lake = tmp_path / str(number)
        with pytest.raises(TailraceError):
            mirror(f"{url}?{start}", lake)
        assert not lake.exists()
        mirror(url, lake)
        assert current(lake) == [(1,), (2,)]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_run_with_nothing_new_creates_the_lake(created_before, tmp_path, kind):
    """With where it begins and its options, which the next run need not be given."""
    server, _ = created_before
    lake, url = tmp_path / "lake", f"mysql://root@127.0.0.1:{server.port}/"
    options = {"format": kind, "keep": "current", "tables": "d.*"}
    with pytest.raises(PipelineError, match=r"d\.t is incomplete: rows from before binlog"):
        mirror(f"{url}?start=now", lake, **options)
    assert not lake.exists()
    report = mirror(f"{url}?start=now", lake, incomplete="accept", **options)
    assert (report.changes, report.tables) == (0, ())
    found = verify(url, lake)
    assert [(each.name, each.reason) for each in found.tables] == [("d.t", "it is not in the lake")]
    server.execute("INSERT INTO d.t VALUES (4)")
    report = mirror(f"{url}?start=oldest", lake)
    server.execute("DELETE FROM d.t WHERE a = 4")
    assert incomplete(report) == ["d.t"]
    assert [(each.name, each.rows) for each in report.tables] == [("d.t", 1)]
    assert mirror(url, lake).changes == 1
    manifest = LakeView.open(lake).manifest
    wanted = manifest.options.tables
    assert (manifest.options.keep, wanted("d", "t"), wanted("e", "t")) == (
        ("current",),
        True,
        False,
    )


def test_following_what_has_nothing_creates_the_lake(created_before, tmp_path):
    server, _ = created_before
    lake, url = tmp_path / "lake", f"mysql://root@127.0.0.1:{server.port}/?start=now"
    with Follow(url, lake, incomplete="accept", keep="current") as follow:
        follow.wait_for(lambda: LakeView.is_there(lake))
    assert LakeView.open(lake).manifest.options.keep == ("current",)


OTHER = "bbbbbbbb-0000-0000-0000-000000000001"


@pytest.mark.parametrize(
    ("name", "other", "back"),
    [
        ("mysql-9.7", f"SET gtid_next = '{OTHER}:1'", "SET gtid_next = 'AUTOMATIC'"),
        ("mariadb-11.8", "SET gtid_domain_id = 7", "SET gtid_domain_id = 0"),
    ],
)
def test_gtids_that_come_after_the_place(fresh_server, tmp_path, name, other, back):
    """A lake that begins at the first transaction that was not read would take later ones again."""
    settings = {"binlog_row_metadata": "FULL"}
    server = fresh_server(name, settings | (GTIDS if name.startswith("mysql") else {}))
    server.execute("CREATE DATABASE shop")
    server.execute("CREATE TABLE shop.t (a INT PRIMARY KEY)")
    for number, before in enumerate(("DO 0", other, back)):
        server.execute(before)
        server.execute(f"INSERT INTO shop.t VALUES ({number})")
        server.execute("COMMIT")
    held = "@@gtid_executed" if name.startswith("mysql") else "@@gtid_binlog_pos"
    ((gtids,),) = server.query(f"SELECT {held}")
    mine = [each.strip() for each in gtids.split(",")]
    mine = [each for each in mine if not each.startswith((OTHER, "7-"))]
    url = f"mysql://root@127.0.0.1:{server.port}/?gtid={','.join(mine)}"
    with pytest.raises(UsageError, match="the GTIDs to begin after have a gap"):
        mirror(url, tmp_path / "lake", spark=None)


def test_where_a_lake_begins(tmp_path):
    path = tmp_path / "db.begin.json"
    written = '{"version": 1, "file": "binlog.000003", "offset": 1234, "start": "now"}'
    path.write_text(written)
    assert load(path)[0] == Position("binlog.000003", 1234)
    for text in (
        written.replace('"version": 1', '"version": 9'),
        written.replace("1234", "Infinity"),
        written.replace('"binlog.000003"', "3"),
        written.replace(', "start": "now"', ""),
        written.replace('"now"', "null"),
        "[]",
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(PipelineError, match="create a new lake"):
            load(path)


# --- small disks, and statements -----------------------------------------------------------------

DISK, TAKES = 16 << 20, 48 << 20


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own, which has no room for all of a log."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)]
    if subprocess.run(options, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(scope="module")
def with_a_long_log(fresh_server):
    """A server with a table of three rows, and a log that other tables fill."""
    server = fresh_server("mysql-9.7", {"max_binlog_size": 2 << 20})
    for sql in ("CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)"):
        server.execute(sql)
    server.execute("CREATE TABLE d.other (a INT PRIMARY KEY AUTO_INCREMENT, v MEDIUMBLOB)")
    server.execute("INSERT INTO d.t VALUES (1), (2), (3)")
    for _ in range(TAKES >> 20):
        server.execute(f"INSERT INTO d.other (v) VALUES (REPEAT('x', {1 << 20}))")
    server.execute("INSERT INTO d.t VALUES (4)")
    assert sum(log.stat().st_size for log in server.binlogs()) > TAKES
    return server


@pytest.mark.parametrize("follow", [False, True])
def test_a_disk_that_does_not_hold_all_of_the_log(with_a_long_log, small_disk, follow):
    """The log is received in parts, each after the lake has taken the one before."""
    server, lake = with_a_long_log, small_disk / "lake"
    url = url_of(server)
    with in_this_process():
        if follow:
            with Follow(url, lake, tables="d.t") as following:
                following.wait_for(lambda: (lake / "d.t").exists() and len(current(lake)) == 4)
        else:
            mirror(url, lake, tables="d.t")
    assert current(lake) == [(1,), (2,), (3,), (4,)]
    copy = lake / "_tailrace" / "sources"
    assert sum(log.stat().st_size for log in copy.rglob("*binlog.0*[0-9]")) < DISK // 2


LIMIT = 1_000_000


@pytest.fixture
def most_received(monkeypatch):
    """The most bytes that a spool had, in a list."""
    most = [0]

    def took(room, count, took=Room.took):
        copies = room._folder.rglob("*binlog.0*[0-9]")
        most[0] = max(most[0], sum(log.stat().st_size for log in copies))
        return took(room, count)

    monkeypatch.setattr(Room, "took", took)
    return most


@pytest.mark.parametrize("follow", [False, True])
def test_a_spool_with_a_limit(with_a_long_log, tmp_path, follow, most_received):
    """Each transaction is larger. It has a chunk of the stream more, its last transaction's rest,
    and the last file.
    """
    server, lake = with_a_long_log, tmp_path / "lake"
    options = {"tables": "d.t", "spool_limit": f"{LIMIT}B"}
    with in_this_process():
        if follow:
            with Follow(url_of(server), lake, **options) as following:
                following.wait_for(lambda: (lake / "d.t").exists() and len(current(lake)) == 4)
        else:
            mirror(url_of(server), lake, **options)
    assert current(lake) == [(1,), (2,), (3,), (4,)]
    assert 1 << 20 < most_received[0] < LIMIT + (4 << 20) + (1 << 20) + (2 << 20) < TAKES // 4


@pytest.mark.parametrize("follow", [False, True])
def test_an_in_doubt_transaction_that_holds_more_than_the_limit(fresh_server, tmp_path, follow):
    """Nothing after it can be taken: it is received all the same, until the transaction ends.

    And so is the beginning of a file in which a new lake begins late.
    """
    server, lake = fresh_server("mysql-9.7"), tmp_path / "lake"
    options = {"tables": "d.t", "spool_limit": LIMIT}
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (a INT PRIMARY KEY)")
    server.execute("CREATE TABLE d.other (a INT PRIMARY KEY, v MEDIUMBLOB)")
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("XA START 'x'")
        cursor.execute("INSERT INTO d.t VALUES (0)")
        cursor.execute("XA END 'x'")
        cursor.execute("XA PREPARE 'x'")
        for number in range(6):  # what is left to Spark is larger
            server.execute(f"INSERT INTO d.other VALUES ({number}, REPEAT('x', {1 << 20}))")
        server.execute("INSERT INTO d.t VALUES (1)")

        def received():
            copies = (lake / "_tailrace" / "sources").rglob("*binlog.0*[0-9]")
            return sum(log.stat().st_size for log in copies) >= 6 << 20

        with in_this_process():
            if follow:
                with Follow(url_of(server), lake, **options) as following:
                    following.wait_for(received)
                    following.wait_for(lambda: following.held is not None)
                    cursor.execute("XA COMMIT 'x'")
                    following.wait_for(lambda: (lake / "d.t").exists() and len(current(lake)) == 2)
            else:
                assert mirror(url_of(server), lake, **options).held
                assert received()
                cursor.execute("XA COMMIT 'x'")
                assert not mirror(url_of(server), lake, **options).held
    assert current(lake) == [(0,), (1,)]
    begin = "{}:{}".format(*server.end())
    server.execute("INSERT INTO d.t VALUES (2)")
    url, late = url_of(server, f"ssl_mode=DISABLED&position={begin}"), tmp_path / "late"
    with in_this_process():
        if follow:
            with Follow(url, late, incomplete="accept", **options) as following:
                following.wait_for(lambda: values(late, "d.t", "a") == [2])
        else:
            mirror(url, late, incomplete="accept", **options)
    assert current(late) == [(2,)]


def test_two_servers_and_one_has_more_than_the_limit(with_a_long_log, created_before, tmp_path):
    """They are received at the same time: one to its end, the other in parts."""
    servers, lake = (with_a_long_log, created_before[0]), tmp_path / "lake"
    options = {"tables": "d.t", "shards": True, "spool_limit": LIMIT}
    with in_this_process():
        report = mirror(list(map(url_of, servers)), lake, **options)
    assert report.positions == {
        f"127.0.0.1_{each.port}": "{}:{}".format(*each.end()) for each in servers
    }
    expected = [
        (f"127.0.0.1_{each.port}", *row)
        for each in servers
        for row in each.query("SELECT a FROM d.t")
    ]
    assert current(lake, columns=("_source", "a")) == sorted(expected)


def test_ctrl_c_while_a_log_is_received(with_a_long_log, tmp_path):
    """Nothing is received after that, and the next run resumes."""
    server, lake, told = with_a_long_log, tmp_path / "lake", []
    options = {"tables": "d.t", "spool_limit": LIMIT}

    def interrupt(phase, done, _total):
        told.append((phase, done))
        raise KeyboardInterrupt

    with in_this_process(), pytest.raises(KeyboardInterrupt):
        mirror(url_of(server), lake, progress=interrupt, **options)
    assert [phase for phase, _ in told] == ["receive"]
    threads = [each.name for each in threading.enumerate()]
    assert not [each for each in threads if each.startswith("receive-")]
    with in_this_process():
        mirror(url_of(server), lake, **options)
    assert current(lake) == [(1,), (2,), (3,), (4,)]


def test_a_server_is_asked_on_one_connection(created_before, tmp_path):
    """Its log is received on another; where that begins at a place, this is asked before."""
    server, _ = created_before

    def connections():
        return int(server.query("SHOW GLOBAL STATUS LIKE 'Connections'")[0][1])

    def made_by(start):
        before = connections()
        mirror(url_of(server, start), tmp_path / start, tables="d.*", incomplete="accept")
        return connections() - before

    assert (made_by("start=oldest"), made_by("start=now")) == (2, 3)


def test_a_disk_without_room(with_a_long_log, small_disk):
    """The message says what to do; once there is room, the mirror continues."""
    server, lake = with_a_long_log, small_disk / "lake"
    url, ballast = url_of(server), small_disk / "ballast"
    ballast.write_bytes(bytes(DISK - (1 << 20)))
    with in_this_process(), pytest.raises(TailraceError, match=r"No space|no room") as caught:
        mirror(url, lake, tables="d.t")
    assert "receiver" not in str(caught.value)
    ballast.unlink()
    with in_this_process():
        mirror(url, lake, tables="d.t")
    assert current(lake) == [(1,), (2,), (3,), (4,)]


def test_statements_that_are_skipped_are_reported(created_before, tmp_path, capsys):
    """How many, and where the first one stands: their rows are missing in the lake."""
    server, lake = created_before[0], tmp_path / "lake"
    server.execute("CREATE TABLE d.st (id INT PRIMARY KEY, v INT)")
    server.execute("INSERT INTO d.st VALUES (1, 5)")
    url = url_of(server)
    mirror(url, lake, tables="d.st")
    server.execute("SET binlog_format = STATEMENT")
    log = server.binlogs()[-1].name
    for value in (6, 7):
        server.execute(f"UPDATE d.st SET v = {value}")
    server.execute("SET binlog_format = ROW")
    status = command(url, into=str(lake), statements="skip")
    told = capsys.readouterr().err
    assert status == 0
    assert "2 changes that were logged as statements were skipped" in told
    assert f"the first is {log}:" in told
    assert "the statement «UPDATE d.st SET v = 6»" in told
    assert read(lake, "d.st")["v"].to_pylist() == [5]


CUT_NAMES = (
    [
        "CREATE TABLE named.`a?` (id INT PRIMARY KEY, c INT)",
        "INSERT INTO named.`a?` VALUES (1, 1)",
        "CREATE TABLE named.t (id INT PRIMARY KEY, `y?` INT, `w?` INT)",
        "INSERT INTO named.t VALUES (1, 1, 10)",
        "CREATE TABLE named.`n😀` (id INT PRIMARY KEY)",
        "INSERT INTO named.`n😀` VALUES (1)",
    ],
    [
        "TRUNCATE named.`a😀`",
        "INSERT INTO named.`a?` VALUES (3, 3)",
        "ALTER TABLE named.t RENAME COLUMN `y😀` TO `w?`, RENAME COLUMN `w😀` TO `y?`",
    ],
    ["RENAME TABLE named.t TO named.`u😀`", "INSERT INTO named.`u?` VALUES (3, 3, 3)"],
)


def test_names_with_characters_that_the_server_does_not_keep(source, tmp_path):
    """MySQL puts a question mark for each; its rows have it so, and its statements do not."""
    source.execute("DROP DATABASE IF EXISTS named")
    source.execute("CREATE DATABASE named")
    url = url_of(source)
    for batch in CUT_NAMES:
        with source.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:
            for sql in batch:
                cursor.execute(sql)
        mirror(url, tmp_path / "lake", tables="named.*")
        assert verify(url, tmp_path / "lake").verdict == "equal"
    assert len(source.query("SHOW TABLES FROM named")) == 3
