"""A target continues in the log that it has applied, and in no other one with files of its names."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from socket import gethostname
from zlib import crc32

import pytest

import tailrace
from tailrace.applier.applier import Applier, target_of
from tailrace.applier.server.place import Place
from tailrace.applier.server.target import ServerTarget
from tailrace.applier.target import note_in
from tailrace.applier.transaction import Transaction
from tailrace.errors import (
    LogPurged,
    LogReset,
    ServerError,
    StatementChange,
    TailraceError,
    UsageError,
)
from tailrace.events.format_description import file_mark
from tailrace.generators import EventStream
from tailrace.live.driver import ServerAnswer
from tailrace.log.sources import one_log
from tailrace.position import Position
from tailrace.storage import EventReader, find
from tests.applier.test_follow import followed
from tests.cases import each_case
from tests.recorded import ROOT
from tests.waiting import next_second, wait_for

SHOP = ROOT / "examples" / "shop" / "mysql"
KINDS = pytest.mark.parametrize("kind", ["server", "files"])


def write(server, text):
    """A table with one row, the first in logs that begin again in another second."""
    next_second()  # a file is known by the second in which it was created
    server.execute("DROP DATABASE IF EXISTS a")
    server.execute("RESET MASTER" if server.flavour == "mariadb" else "RESET BINARY LOGS AND GTIDS")
    server.execute("CREATE DATABASE a")
    server.execute("CREATE TABLE a.a (id INT PRIMARY KEY, x TEXT)")
    server.execute(f"INSERT INTO a.a VALUES (1, '{text}')")


def source_of(server, kind="server"):
    return f"mysql://root@127.0.0.1:{server.port}/" if kind == "server" else str(server.data)


def asked(file, sql):
    with closing(sqlite3.connect(file)) as database:
        try:
            return database.execute(sql).fetchall()
        except sqlite3.OperationalError:
            return []


def rows(file):
    return [text for (text,) in asked(file, 'SELECT x FROM "a.a" ORDER BY id')]


@KINDS
def test_logs_that_were_reset_are_an_error(pair, kind, tmp_path):
    """A transaction of the new log ends where the target is in the old one."""
    source = source_of(pair.source, kind)
    targets = f"sqlite:///{tmp_path / 'applied.db'}", pair.url
    write(pair.source, "alpha")
    for to in targets:
        assert tailrace.apply(source, to, start="oldest").transactions >= 2
        assert tailrace.apply(source, to).transactions == 0
    write(pair.source, "gamma")
    for to in targets:
        for _ in range(2):
            with pytest.raises(LogReset, match="is not the log that was read before"):
                tailrace.apply(source, to)
    assert rows(tmp_path / "applied.db") == ["alpha"]
    assert pair.target.query("SELECT x FROM a.a") == [("alpha",)]


@KINDS
def test_after_another_server_took_over_a_start_continues_by_gtids(pair, kind, tmp_path):
    file = tmp_path / "applied.db"
    to = f"sqlite:///{file}"
    write(pair.source, "alpha")
    tailrace.apply(source_of(pair.source, kind), to, start="oldest")
    tailrace.apply(source_of(pair.source), pair.url, start="oldest")
    with pytest.raises(TailraceError) as raised:
        tailrace.apply(source_of(pair.target, kind), to)
    told = [str(raised.value), *getattr(raised.value, "__notes__", ())]
    assert isinstance(raised.value, ServerError) or "--start oldest" in " ".join(told)
    done = tailrace.apply(source_of(pair.target, kind), to, start="oldest", exclude="tailrace.*")
    assert done.skipped >= 3
    pair.target.execute("INSERT INTO a.a VALUES (2, 'beta')")
    tailrace.apply(source_of(pair.target, kind), to, exclude="tailrace.*")
    assert rows(file) == ["alpha", "beta"]


@KINDS
def test_a_follower_knows_the_files_that_came_later(pair, kind, tmp_path):
    source, file = source_of(pair.source, kind), tmp_path / "applied.db"
    to = f"sqlite:///{file}"
    write(pair.source, "alpha")
    with followed(source, to, start="oldest"):
        wait_for(lambda: rows(file) == ["alpha"])
        next_second()  # the next file has another mark
        pair.source.rotate()
        pair.source.execute("INSERT INTO a.a VALUES (2, 'beta')")
        wait_for(lambda: rows(file) == ["alpha", "beta"])
    (log,) = find(pair.source.data / "binlog.000002")
    _, first = next(iter(EventReader(log.files[0])))
    ((name, mark),) = asked(file, 'SELECT resume_file, log_mark FROM "tailrace.applied"')
    assert (name, mark.partition(".")[0]) == ("binlog.000002", file_mark(first))
    assert tailrace.apply(source, to).transactions == 0


def test_files_that_were_purged(tmp_path):
    """Those before are still there, but the one in which the target would continue."""
    folder = shutil.copytree(SHOP, tmp_path / "logs")
    (folder / "binlog.index").unlink(missing_ok=True)
    to = f"sqlite:///{tmp_path / 'applied.db'}"
    first, second, *_ = find(folder)[0].files
    tailrace.apply(first.path, to)
    Path(first.path).unlink()
    with pytest.raises(LogPurged, match=f"{first.name} is gone.* begin with {second.name}"):
        tailrace.apply(folder, to)
    (folder / first.name).write_bytes(Path(second.path).read_bytes())
    Path(second.path).unlink()
    with pytest.raises(LogReset, match="is not the log that was read before"):
        tailrace.apply(folder / first.name, to)


@pytest.fixture(scope="module")
def without_gtids(fresh_server):
    return fresh_server("mysql-9.7", ["--gtid-mode=OFF", "--binlog-row-metadata=FULL"])


@KINDS
def test_without_gtids_a_log_that_was_reset_needs_another_channel(without_gtids, kind, tmp_path):
    """Its transactions would be skipped by positions of the log before."""
    server, file = without_gtids, tmp_path / "applied.db"
    source, to = source_of(server, kind), f"sqlite:///{file}"
    write(server, "alpha")
    server.execute("INSERT INTO a.a VALUES (2, 'beta')")
    assert tailrace.apply(source, to, start="oldest").transactions == 4
    assert tailrace.apply(source, to, start="oldest").skipped == 4  # the file is the same
    write(server, "gamma")
    server.execute("INSERT INTO a.a VALUES (2, 'zeta')")
    with pytest.raises(LogReset, match="is not the log that was read before"):
        tailrace.apply(source, to)
    for _ in range(2):
        with pytest.raises(LogReset, match="another log needs a channel of its own"):
            tailrace.apply(source, to, start="oldest")
    assert rows(file) == ["alpha", "beta"]
    with closing(sqlite3.connect(file)) as database:
        database.execute('DROP TABLE "a.a"')
    assert tailrace.apply(source, to, channel="new").transactions == 4
    assert rows(file) == ["gamma", "zeta"]


@KINDS
def test_without_gtids_a_start_skips_nothing_by_a_position_in_files_that_are_gone(
    without_gtids, kind, tmp_path
):
    server, file = without_gtids, tmp_path / "applied.db"
    source, to = source_of(server, kind), f"sqlite:///{file}"
    write(server, "alpha")
    server.rotate()
    server.execute("INSERT INTO a.a VALUES (2, 'beta')")
    tailrace.apply(source, to, start="oldest")
    assert tailrace.apply(source, to, start="oldest").skipped == 4  # the later file is the same
    write(server, "gamma")
    for start in ("oldest", "binlog.000001:4"):
        with pytest.raises(LogReset, match="another log needs a channel of its own"):
            tailrace.apply(source, to, start=start)
    assert tailrace.apply(source, to, start="now").transactions == 0
    server.execute("INSERT INTO a.a VALUES (3, 'delta')")
    with pytest.raises(TailraceError):  # it continues where it was
        tailrace.apply(source, to)
    assert rows(file) == ["alpha", "beta"]


def test_without_gtids_what_came_through_a_pipe_is_no_position_of_a_folder(without_gtids, tmp_path):
    server, file = without_gtids, tmp_path / "applied.db"
    write(server, "alpha")
    log = (server.data / "binlog.000001").read_bytes()
    command = [sys.executable, "-m", "tailrace", "apply", "-", "--to", f"sqlite:///{file}"]
    subprocess.run(command, input=log, check=True, capture_output=True)
    with pytest.raises(LogReset, match="another log needs a channel of its own"):
        tailrace.apply(source_of(server), f"sqlite:///{file}", start="oldest")
    assert rows(file) == ["alpha"]


@pytest.mark.parametrize("workers", [1, 4])
def test_a_definition_that_the_target_rejects_is_rejected_again(pair, workers):
    """It was not executed: that the table is there already is not due to it."""
    pair.source.execute("CREATE DATABASE a")
    tailrace.apply(source_of(pair.source), pair.url, start="oldest", workers=workers)
    pair.target.execute("CREATE TABLE a.b (other INT)")
    pair.source.execute("CREATE TABLE a.b (id INT)")
    for _ in range(3):
        with pytest.raises(ServerError, match="1050"):
            tailrace.apply(source_of(pair.source), pair.url, workers=workers)
    pair.target.execute("DROP TABLE a.b")
    tailrace.apply(source_of(pair.source), pair.url, workers=workers)
    assert pair.target.query(
        "SELECT column_name FROM information_schema.columns WHERE"
        " table_schema = 'a' AND table_name = 'b'"
    ) == [("id",)]


def test_a_start_in_another_log_forgets_the_position_in_the_one_before(without_gtids, tmp_path):
    """Also if there was nothing to apply: the next call skips nothing."""
    server, file = without_gtids, tmp_path / "applied.db"
    source, to = source_of(server), f"sqlite:///{file}"
    write(server, "alpha")
    for number in range(2, 9):
        server.execute(f"INSERT INTO a.a VALUES ({number}, 'more')")
    tailrace.apply(source, to, start="oldest")
    write(server, "gamma")
    assert tailrace.apply(source, to, start="now").transactions == 0
    server.execute("INSERT INTO a.a VALUES (9, 'last')")
    assert tailrace.apply(source, to).transactions == 1
    assert rows(file)[-1] == "last"


def test_a_url_that_says_where_to_begin_can_be_given_again(pair, tmp_path):
    to = f"sqlite:///{tmp_path / 'applied.db'}"
    write(pair.source, "alpha")
    source = f"{source_of(pair.source)}?start=oldest"
    first = tailrace.apply(source, to)
    again = tailrace.apply(source, to)
    assert (again.skipped, again.transactions) == (first.transactions, 0)


def test_several_logs_are_rejected(tmp_path):
    """A target has come to one position, of one log."""
    to = f"sqlite:///{tmp_path / 'applied.db'}"
    with pytest.raises(UsageError, match="apply one of them"):
        tailrace.apply(["examples/shop/mysql", "examples/shop/mariadb"], to)


@pytest.mark.filterwarnings("ignore::tailrace.errors.NoSuchTable")
@each_case("flavour", ["mysql", "mariadb"])
@each_case("start", [None, "oldest", "binlog.000001:4"])
@each_case("texts", [("alpha", "gamma"), ("alpha", "a longer one")])
def test_a_log_of_the_same_name_server_and_second_is_another_one(tmp_path, flavour, start, texts):
    """A log's identity is not that of its first event: transactions of the second were skipped."""
    table = tailrace.Table(
        "a.a", "id INT PRIMARY KEY, x TEXT CHARACTER SET utf8mb4", flavour=flavour
    )
    to, folders = f"sqlite:///{tmp_path / 'applied.db'}", []
    for number, text in enumerate(texts):
        folders.append(tmp_path / f"log{number}")
        with tailrace.create(folders[-1] / "binlog", flavour=flavour, server_id=1) as log:
            for sql in (
                "CREATE DATABASE a",
                "CREATE TABLE a.a (id INT PRIMARY KEY, x TEXT CHARACTER SET utf8mb4)",
            ):
                with log.transaction() as transaction:
                    transaction.query(sql, "a")
            for id_ in range(2 + number):
                with log.transaction() as transaction:
                    transaction.insert(table, [(id_, text)])
    files = [folder / "binlog.000001" for folder in folders]
    second = bytearray(files[1].read_bytes())
    head = slice(4, 8)  # the second of its first event
    second[head] = files[0].read_bytes()[head]
    length = int.from_bytes(second[13:17], "little")
    second[length : length + 4] = crc32(second[4:length]).to_bytes(4, "little")
    files[1].write_bytes(second)
    assert tailrace.apply(str(folders[0]), to).transactions == 4
    for again in (None, "oldest"):
        assert tailrace.apply(str(folders[0]), to, start=again).transactions == 0
    for _ in range(2):
        with pytest.raises(TailraceError, match=r"of another log|no event begins"):
            tailrace.apply(str(folders[1]), to, start=start)
    assert rows(tmp_path / "applied.db") == ["alpha", "alpha"]
    assert tailrace.apply(str(folders[0]), to).transactions == 0
    assert tailrace.apply(str(folders[0]), to, tables="b.*", start="oldest").transactions == 0


@each_case(
    "sql",
    [
        "UPDATE `shop`.`queue` SET pending = 0 WHERE channel = 3",
        "UPDATE `a`.`b` SET pending = NULL, attempts = 1 WHERE channel = 'mail' AND id = 4",
    ],
)
def test_a_statement_that_resembles_a_note_is_no_note(tmp_path, sql):
    """It was left out, and the call succeeded."""
    with (
        tailrace.create(tmp_path / "binlog", flavour="mysql", server_id=1) as log,
        log.transaction() as transaction,
    ):
        transaction.query(sql, "shop")
    with pytest.raises(StatementChange, match="UPDATE"):
        tailrace.apply(str(tmp_path / "binlog.000001"), f"sqlite:///{tmp_path / 'applied.db'}")


def test_each_note_of_a_server_is_known_as_a_note():
    place = Place("a`b.applied", "default")
    transaction = Transaction(position=Position("binlog.000001", 4))
    for step in (
        place.note(transaction, with_gtids=True),
        place.note(transaction, with_gtids=True, after=Position("binlog.000001", 4)),
        place.start(Position("binlog.000001", 4), None, forgets=True),
        place.pending(transaction),
        place.pending(None),
    ):
        assert note_in(step.text.partition(b";")[0]) is not None


def test_a_start_after_gtids_leaves_out_the_last_transaction_that_is_applied(tmp_path):
    """It was taken for another log, as that transaction was not read."""
    table = tailrace.Table("a.a", "id INT PRIMARY KEY, x INT", flavour="mysql")
    uuid, to = "3e11fa47-71ca-11e1-9e33-c80aa9429562", f"sqlite:///{tmp_path / 'applied.db'}"
    folder = tmp_path / "log"
    for opened, numbers in (
        (lambda: tailrace.create(folder / "binlog", flavour="mysql", server_id=1), (1, 2, 3)),
        (lambda: tailrace.append(folder / "binlog.000001"), (4, 5)),
    ):
        with opened() as log:
            for number in numbers:
                with log.transaction(gtid=f"{uuid}:{number}") as transaction:
                    transaction.insert(table, [(number, number)])
        start = None if numbers[0] == 1 else f"{uuid}:2-3"
        done = tailrace.apply(str(folder), to, start=start)
    assert (done.transactions, done.skipped) == (2, 1)


def own_id(folder, host, server_id):
    """What a target says of a folder of logs, which has the path of its own."""
    target = object.__new__(ServerTarget)
    target.name = "target"
    row = (server_id, 1, str(folder / "binlog"), host)
    target._ask = lambda sql: ServerAnswer([row], 1, server="target", asked=sql)
    target._run = lambda _sql: None
    return target.own_id(one_log(str(folder), None, None, why=""))


def test_a_folder_is_a_servers_own_if_it_is_on_its_machine_and_has_its_id(tmp_path):
    """A server in a container may have its logs at the same path."""
    tailrace.create(tmp_path / "binlog", flavour="mysql", server_id=1).close()
    with pytest.raises(UsageError, match="are the same server"):
        own_id(tmp_path, gethostname(), 1)
    assert own_id(tmp_path, "0123456789ab", 1) is None
    assert own_id(tmp_path, gethostname(), 2) == 2


@each_case("rest", [b"", b"\xfebin", b"\xfebin" + bytes(30)])
def test_a_last_file_that_is_being_made_is_no_error_before_reading(tmp_path, rest):
    tailrace.create(tmp_path / "binlog", flavour="mysql", server_id=1).close()
    (tmp_path / "binlog.000002").write_bytes(rest)
    assert own_id(tmp_path, "0123456789ab", 1) is None


def test_notes_next_to_rows_that_are_not_selected_move_the_place_to_resume(tmp_path):
    """Their transaction was left out as a whole, so the next call read all of them again."""
    columns = "channel VARCHAR(40) PRIMARY KEY, log_file TEXT, log_pos INT, resume_file TEXT"
    columns += ", resume_pos INT, log_mark TEXT, mysql_gtids TEXT, mariadb_gtids TEXT, pending TEXT"
    notes = tailrace.Table("other.applied", columns, flavour="mysql")
    private = tailrace.Table("priv.a", "id INT PRIMARY KEY, x LONGTEXT", flavour="mysql")
    folder = tmp_path / "log"
    file = tmp_path / "applied.db"
    ends = []
    with tailrace.create(folder / "binlog", flavour="mysql", server_id=1) as log:
        for number in range(4):
            with log.transaction() as transaction:
                transaction.insert(private, [(number, "x" * (700 << 10))])
                transaction.insert(notes, [("c", None, number, *[None] * 6)])
            ends.append(log.position.offset)
    done = tailrace.apply(str(folder), f"sqlite:///{file}", exclude="priv.*")
    assert (done.transactions, done.row_events) == (1, 0)
    ((resume,),) = asked(file, 'SELECT resume_pos FROM "tailrace.applied"')
    assert resume == ends[1]
    assert asked(file, 'SELECT * FROM "other.applied"') == []


def one_row(folder):
    table = tailrace.Table("a.a", "id INT PRIMARY KEY", flavour="mysql")
    with (
        tailrace.create(folder / "binlog", flavour="mysql", server_id=7) as log,
        log.transaction() as transaction,
    ):
        transaction.insert(table, [(1,)])


def run(folder, target, **given):
    """Apply a log of one row."""
    one_row(folder)
    with EventStream(folder / "binlog.000001") as stream, Applier(target, **given) as applier:
        applier.register(stream)
        stream.run()


def test_a_ring_is_an_error_that_names_the_server_id(tmp_path):
    """Another server may have the id: then there is no ring, and a start does not help."""
    target = target_of(f"sqlite:///{tmp_path / 'applied.db'}", conflicts="stop")
    with pytest.raises(UsageError, match=r"\(server id 7\).* give the target another server_id"):
        run(tmp_path, target, own_id=7)


def test_the_error_of_progress_that_is_missing_says_what_to_do(tmp_path):
    file = tmp_path / "applied.db"
    target = target_of(f"sqlite:///{file}", conflicts="stop")
    with closing(sqlite3.connect(file)) as database, database:
        database.execute('DELETE FROM "tailrace.applied"')
    with pytest.raises(ServerError, match=r"row 'default' .*which holds the progress, is missing"):
        run(tmp_path, target)
    assert asked(file, 'SELECT * FROM "a.a"') == []
