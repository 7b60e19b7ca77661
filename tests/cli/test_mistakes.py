"""Typical mistakes: each is one line that says what is wrong and what to do, or a few short ones."""

import shlex
import shutil

import pytest

from tailrace.storage import keyring
from tests.cases import each_case
from tests.replication.conftest import url_of
from tests.waiting import DEADLINE

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
FORMS = (
    "oldest, now, a position (binlog.000003:1234), a file, a time (2026-11-21T09:30:00) or GTIDs"
    " (uuid:1-77, 0-1-77)"
)
DURATION = "is a duration such as 500ms, 10s, 2m or 1h"
LOGIN = (
    "check the user, the password (TAILRACE_PASSWORD, ~/.my.cnf, MYSQL_PWD), whether the account"
    " may log in from here, and whether it requires TLS"
)
RING = (
    "neither component_keyring_file's nor keyring_file's (MySQL), nor file_key_management's"
    " (MariaDB), nor Tailrace's own"
)
SERVED = "logs --listen 127.0.0.1:0 --server-id 9"
NO_LOG = (
    "no log in this folder or directly in its sub-folders (a log begins with the bytes FE 62 69 6E):"
    " give the folder that holds the logs"
)
TABLES = (
    "shop.customers",
    "shop.order_items",
    "shop.orders",
    "shop.payments",
    "shop.products",
    "shop.reviews",
)

FILES = {
    # no source, or none that is a log
    "log": "give a log: a file, a folder of logs, an index file, - (stdin) or a server's URL (mysql://user@host)",
    "log nowhere": "nowhere: no such file or folder",
    "log text.txt": "text.txt at 0: not a binary log: it begins with 68 65 6C 6C, a log with FE 62 69 6E",
    "log empty.000001": "empty.000001 at 0: the file is empty",
    "log short.000001": "short.000001 at 4: the file holds nothing but its magic",
    "log nothing": f"nothing: {NO_LOG}",
    "log texts": f"texts: {NO_LOG}",
    "log list.index": "list.index: none of the logs that this index lists exists",
    "stat --tables shop.orders damaged.000002": "damaged.000002 at 99961 (UPDATE_ROWS): its checksum is 0x6460d43c, that of its bytes 0xefed5279",
    # URLs
    "log mysql//root@db1": "mysql//root@db1: there is no such file; a server is mysql://user@host/",
    "mirror mysql/root@db1 --into lake": "mysql/root@db1: there is no such file; a server is mysql://user@host/",
    "log mysq://root@db1/": [
        "nothing here reads mysq: URLs (did you mean mysql?); known are abfs, abfss, az, file, gs, mariadb, memory, mysql, s3, s3a;",
        "a server is mysql://user@host:3306/;",
        "a package adds others by entry points of the group 'tailrace.transports', a program by tailrace.transports.register",
    ],
    "mirror mysq://root@db1/ --into lake": "mysq: URLs name no files (did you mean mysql?): give a path, file:///path, s3://bucket/folder or memory:name; a server is mysql://user@host:3306/",
    "log ftp://db1/binlog.000001": [
        "nothing here reads ftp: URLs; known are abfs, abfss, az, file, gs, mariadb, memory, mysql, s3, s3a; a server is mysql://user@host:3306/;",
        "a package adds others by entry points of the group 'tailrace.transports', a program by tailrace.transports.register",
    ],
    "log mysql://root@127.0.0.1:port/": "a server's URL: a host is name:port or [IPv6 address]:port, several with commas",
    "log mysql://root@127.0.0.1:99999/": "a server's URL: 99999 is no port (1 to 65535)",
    "log mysql://root@db1/?nope=1": [
        "a server's URL has no option 'nope';",
        "known are compress, connect_timeout, defaults_file, gtid, heartbeat, position, retry, server_id, server_public_key_path, skip_torn_tail, socket,",
        "ssl_ca, ssl_capath, ssl_cert, ssl_key, ssl_mode, start, tls_version",
    ],
    "log mysql://root@db1/?retry=soon": f"retry {DURATION}, not 'soon'",
    "log mysql://root@db1/?start=soon": f"start is {FORMS}, and not 'soon'",
    "log mysql://root@127.0.0.1:1/?retry=0": "mysql://root@127.0.0.1:1: cannot be reached: Connection refused",
    "log mysql://root@no-such-host.invalid/?retry=0": "mysql://root@no-such-host.invalid:3306: cannot be reached: Name or service not known",
    "log mysql://root@db1/?socket=/nope.sock": "a host or a socket, not both: db1:3306 and /nope.sock",
    "log mysql://root@db1/?ssl_mode=maybe": "ssl-mode is one of DISABLED, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY, not 'maybe'",
    "log mysql://root@db1/?ssl_ca=/nope.pem": "ssl-ca /nope.pem: there is no such file",
    "log mysql://root@db1/?compress=lz4": "compress: it is zlib, zstd or zstd:LEVEL, not 'lz4'",
    "log mysql://root@db1/?server_id=0": "server_id is a number from 1 to 4294967295, not '0'",
    "log mysql://root@db1/shop": "a server's URL has no path: mysql://user@host:3306/?option=value",
    "log --start now mysql://root@db1/?start=oldest": "mysql://root@db1:3306: its URL says to begin at oldest, and now is given: leave one of the two out",
    # commands and options
    "--nope": "tailrace has no option --nope: `tailrace help` lists the commands",
    "logg logs": "there is no command 'logg' (did you mean log?): `tailrace help` lists the commands",
    "reset": "reset needs a FOLDER: see `tailrace help reset`",
    "publish": "there is no command 'publish': `tailrace help` lists the commands",
    "log --nonsense logs": "log has no option --nonsense: `tailrace help log` lists its options",
    "log --from 2026-01-01T00:00 logs": "log has no option --from: `tailrace help log` lists its options",
    "log --tabels shop.orders logs": "log has no option --tabels (did you mean --tables?): `tailrace help log` lists its options",
    "stat --follow logs": "stat has no option --follow: `tailrace help stat` lists its options",
    "log --as xml logs": "--as xml: give text, json, sql, undo or raw",
    "log logs --as": "--as needs a value, text, json, sql, undo or raw: see `tailrace help log`",
    "log logs --start": "--start needs a value, WHERE: see `tailrace help log`",
    "log --server-id many logs": "--server-id many: give a whole number",
    "log --server-id=-1 logs": "--server-id is a number from 0 to 4294967295, and not -1",
    "doctor now": "doctor takes no argument 'now' here: see `tailrace help doctor`",
    "help miror": [
        "there is no command 'miror' (did you mean mirror?):",
        "there are apply, check, completion, doctor, help, index, log, mirror, receive, reset, search, serve, stat, tap, verify",
    ],
    "--verison": "tailrace has no option --verison (did you mean --version?): `tailrace help` lists the commands",
    "serve logs --port 59123": "serve has no option --port: `tailrace help serve` lists its options",
    "stat --html logs": "--html takes the file to write, and no log is left to read: --html page.html logs",
    "help nope": "there is no command 'nope': there are apply, check, completion, doctor, help, index, log, mirror, receive, reset, search, serve, stat, tap, verify",
    "completion": "completion needs a SHELL: see `tailrace help completion`",
    "completion csh": "SHELL csh: give bash, zsh or fish",
    # where reading begins and ends
    "log --start soon logs": f"--start is {FORMS}, and not 'soon'",
    "log --until soon logs": f"--until is {FORMS.removeprefix('oldest, ')}, and not 'soon'",
    "log --start 2026-13-01T00:00 logs": "--start: '2026-13-01T00:00' is not a time, such as 2026-11-21T09:30:00",
    "log --start 2026-11-21 logs": "--start: 2026-11-21 may be a day or a GTID: write 2026-11-21T00:00:00 or gtid:2026-11-21",
    "log --start binlog.000009:4 logs": "binlog.000009 is not among the logs of mysql: binlog.000001 to binlog.000004",
    "log --start binlog.000001:160 logs": "logs/binlog.000001: no event begins at 160",
    "log --start binlog.000001:99999999 logs": "logs/binlog.000001: it has 201047 bytes and no position 99999999",
    "log --until binlog.000009:4 logs": "binlog.000009 is not among the logs of mysql: binlog.000001 to binlog.000004",
    f"log --until {UUID}:9 logs": f"mysql ends, and these GTIDs were not read: {UUID}:9",
    "log --start binlog.000003:4 --until binlog.000002:4 logs": "until binlog.000002:4 is before start binlog.000003:4: nothing is between them",
    "log --start 2026-11-21T10:00:00 --until 2026-11-21T09:00:00 logs": "until 2026-11-21T09:00:00+00:00 is before start 2026-11-21T10:00:00+00:00: nothing is between them",
    "log --until oldest logs": "--until: oldest is the start of a log: nothing comes before it",
    f"log --start {UUID}:1-5 logs": f"{UUID}:1-5 is not in the logs, logs/binlog.000001 to binlog.000004: the GTIDs are of another server, or ahead of them",
    "log --start 0-1-5 logs": "logs/binlog.000004 is a log of mysql, the GTIDs are mariadb's",
    "log --include-gtids x logs": "--include-gtids: not a UUID: 'x'",
    "log both --start binlog.000001:4": "a position is one log's, and there are several (both/binlog, both/other): give one",
    "log --follow logs maria": "one log is followed, and there are several (mysql, mariadb): give one",
    # tables, definitions, keys, layers
    "stat --tables shop.order logs": [
        "no table fits shop.order in the log (did you mean shop.orders or shop.order_items?):",
        f"there are {', '.join(sorted(TABLES, key=lambda name: ('order' not in name, name != 'shop.orders', name)))}",
    ],
    "log --tables a,,b logs": "tables: a pattern is empty",
    "log --schema none.sql logs": "none.sql: No such file or directory",
    "log --schema no.sql logs": "no.sql: there is no CREATE TABLE in it",
    "log sealed": [
        "sealed/binlog.000002: the log is encrypted with the key MySQLReplicationKey_c2b25336-e590-11f1-8d8d-02fc00000001_1, and no keyring was given:",
        "give the file that has it (--keyring FILE, keyring=)",
    ],
    "log --keyring nokeys sealed": "nokeys: No such file or directory",
    "log --keyring ring sealed": [
        "sealed/binlog.000002: the log is encrypted with the key MySQLReplicationKey_c2b25336-e590-11f1-8d8d-02fc00000001_1:",
        "the keyring ring does not have it",
    ],
    "log --keyring text.txt sealed": ["text.txt: this is no keyring file:", RING],
    "log --layers gzip logs": "no stream is called 'gzip'; known are buffer, counting, read-ahead, zstd. A package adds one by an entry point of the group 'tailrace.streams'",
    # options that do not go together
    "log --events logs": "--events goes with --as json",
    "log --as raw logs": "--as raw and --into FILE go together",
    "log --into cut.000001 logs": "--as raw and --into FILE go together",
    "log --as sql --events logs": "--events goes with --as json",
    "log --as raw --into there.000001 logs": "there.000001 exists: choose another name, or continue that log with tailrace.append",
    "log --as raw --into cut logs": "--into cut: a log's name ends in a number, as cut.000001",
    "log --as undo --follow logs": "--follow has no end, and --as undo needs one: leave one of the two out",
    "log --as raw --into x.000001 --follow logs": "--follow has no end, and --as raw needs one: leave one of the two out",
    "log --rewrite-db a=b --rewrite-db a=c logs": "--rewrite-db: a cannot become both b and c",
    "log --rewrite-db shop logs": "--rewrite-db: give from=to, not 'shop'",
    "log --rows-per-insert 0 logs": "--rows-per-insert goes with --as sql and --as undo, and is 1 or more",
    "check logs --tables y": "check has no option --tables (did you mean --layers?): `tailrace help check` lists its options",
    "check logs --server-id 1": "check has no option --server-id: `tailrace help check` lists its options",
    "log --hexdump --as json logs": "--hexdump goes with --as text, not with --as json",
    "stat --html nowhere/page.html logs": "--html nowhere/page.html: the folder nowhere does not exist",
    # tap
    "tap logs --consumer audit": "--consumer is PACKAGE:CLASS, as audit:Audit, and not 'audit'",
    "tap logs --consumer no_such:Audit": "--consumer no_such:Audit: No module named 'no_such'",
    "tap logs --consumer tailrace.generators:Nothing": "--consumer tailrace.generators:Nothing: module 'tailrace.generators' has no attribute 'Nothing'",
    "tap logs --consumer tailrace:Position": "--consumer tailrace:Position: it derives from none of the consumers' interfaces, as tailrace.generators.RowConsumer",
    "tap logs --consumer tailrace.generators:RowConsumer": "--consumer tailrace.generators:RowConsumer: it cannot be made without arguments: RowConsumer is an interface: make a class that derives from it",
    "tap logs --generator none": "no generator is called 'none'; known are row, statement, transaction. A package adds one by an entry point of the group 'tailrace.generators'",
    # receive, mirror, verify
    "receive mysql://root@db1/": "receive needs --into FOLDER: see `tailrace help receive`",
    "receive --into copy": "give a server to receive from: mysql://user@host:3306/",
    "receive logs --into copy": "logs is not a server: give its URL, such as mysql://user@host/",
    "receive mysql://root@db1/ --into copy --until now": "receive has no option --until (did you mean --into?): `tailrace help receive` lists its options",
    "receive mysql://root@db1/ --into copy --sync never": "sync is group, transaction or an interval such as 500ms or 2s, not 'never'",
    "receive mysql://root@db1/ --into copy --retain 2parsecs": "retain: '2parsecs' is neither an age (30d, 12h) nor a size (500GB, 64MiB)",
    "receive mysql://root@db1/ --into copy --progress soon": f"--progress {DURATION}, not 'soon'",
    "receive mysql://root@db1/ --into copy --progress 0": "--progress is a duration from 1ms to 365d, not 0",
    "receive mysql://root@db1/ mysql://root@db1/ --into copy": "copy/db1_3306: two sources would have this folder; name them: NAME=URL",
    "receive mysql://root@db1,db2/ --into copy": "mysql://root@db1:3306,db2:3306: a byte copy holds one server's files: give one host, or use a separate receiver and folder for each server",
    "serve --listen 127.0.0.1:0 --server-id 9": "serve needs a SOURCE: see `tailrace help serve`",
    f"serve {SERVED}": "say who may log in: give a user (--user) or a file of users (--users)",
    f"serve {SERVED} --user a --users b": "give a user (--user) or a file of users (--users), not both",
    f"serve {SERVED} --user a --tls-key k": "--tls-key goes with --tls-cert: give the certificate, too",
    f"serve {SERVED} --user a --tls-cert gone.pem": "--tls-cert gone.pem: No such file or directory",
    f"serve {SERVED} --user a --tls-cert text.txt": "--tls-cert text.txt: not a certificate in PEM form",
    f"serve {SERVED} --user a --server-version nonsense": "--server-version: a version of MySQL is as 9.7.0, not 'nonsense'",
    f"serve {SERVED} --user a --server-version 11.8.2-MariaDB": "--server-version: a version of MySQL is as 9.7.0, not '11.8.2-MariaDB'",
    "serve logs --listen *:0 --server-id 9 --user a": "*:0 is reached from other machines: give a certificate and its key for TLS (--tls-cert, --tls-key), or allow logins without TLS (--allow-plain)",
    f"serve {SERVED} --user a --wait --keyring nokey": "nokey: No such file or directory",
    "serve mysql://root@db1/ --listen 127.0.0.1:0 --server-id 9 --user a --wait": "a server is not served: `tailrace receive --follow` copies its logs into a folder, which is",
    "serve logs --listen no.such.invalid:0 --server-id 9 --user a": "cannot listen at no.such.invalid:0: Name or service not known",
    "mirror logs": "mirror needs --into LAKE: see `tailrace help mirror`",
    "mirror --into lake": "give a log: a file, a folder of logs, or a server's URL (mysql://user@host)",
    "mirror logs --into lake --format orc": "--format orc: give parquet, delta or iceberg",
    "mirror logs --into lake --keep rows": "keep is changelog, current or history, and not 'rows'",
    "mirror logs --into lake --keys t=a": "--keys t=a: give a table and its columns, as shop.orders=id,line",
    "mirror logs --into lake --keys shop.t=a --keep changelog": "a key is for current and history: a changelog needs none",
    "mirror logs --into lake --trigger 1s": "--trigger goes with --follow: without it there is one batch",
    "mirror logs --into lake --trigger never": f"--trigger {DURATION}, not 'never'",
    "mirror logs --into lake --spool-limit 1GB": "a spool limit is for servers: files are read where they are",
    "mirror mysql://root@db1/ --into lake --spool-limit big": "the spool limit is a size such as 500MB, 20GB or 64MiB, not 'big'",
    "mirror logs --into lake --cores 0": "--cores 0: give a number of cores from 1 on",
    "mirror logs --into full": "{here}/full is not empty and no lake: give a new or empty folder for --into",
    "mirror logs --into lake --update-mode copy": "--update-mode copy: give merge-on-read or copy-on-write",
    "mirror logs --into lake --update-mode merge-on-read": "merge-on-read is for delta and iceberg: Parquet files cannot mark rows as deleted",
    "mirror nothing --into lake": f"nothing: {NO_LOG}",
    "verify logs --into lake": "logs is not a server: give its URL, such as mysql://user@host/",
    "verify mysql://root@db1/ lake": "verify needs --into LAKE: see `tailrace help verify`",
}
"""By command, what it says of files, arguments, and servers that are not there."""

SERVERS = {
    "log mysql://ann:wrong@{at}/": [
        "error 1045 (28000): mysql://ann@{at}: Access denied for user 'ann'@'127.0.0.1' (using password: YES):",
        LOGIN,
    ],
    "log mysql://bob@{at}/": "error 1045 (28000): mysql://bob@{at}: Access denied for user 'bob'@'%' (using password: NO): GRANT REPLICATION SLAVE ON *.* TO the user",
    "log --start binlog.000009:4 {url}": [
        "error 1236 (HY000): binlog.000009:4 was requested. mysql://root@{at}: Could not find first log file name in binary log index file:",
        "the source has no log of that name (SHOW BINARY LOGS lists those that it has): the name is wrong, or the log was purged;",
        "begin with one that is there, or from oldest",
    ],
    "log --start UUID:1-5 {url}": [
        f"mysql://root@{{at}}: the source lacks GTIDs of the start: {UUID}:1-5:",
        "it lags behind, lost them, or is another's replica; make sure that it is the right server, or begin after GTIDs that it has",
    ],
    "log --keyring sealed/keyring {url}": "mysql://root@{at}: a keyring has the keys of files: this source needs none",
    "log --layers zstd {url}": "mysql://root@{at}: layers are of files that are given by path or URL",
    "receive {url} --into copy --encrypt": "encrypting the copy needs a keyring (--keyring FILE, keyring=)",
    "receive {url} --into text.txt": "text.txt: a copy is kept in a folder, and this is a file",
    "receive {url} --into copy --plugin nope": "no observer is called 'nope'; known are semisync.replica, semisync.source. A package adds one by an entry point of the group 'tailrace.observers'",
    "mirror mysql://bob@{at}/ --into lake": "error 1045 (28000): mysql://bob@{at}: Access denied for user 'bob'@'%' (using password: NO): GRANT REPLICATION SLAVE ON *.* TO the user",
    "verify {url} {url} --into lake": "verify takes no argument 'mysql://root@{at}/' here: see `tailrace help verify`",
    "verify {url} --into nowhere": "nowhere: there is no lake here, or it has no batch yet: give the folder that you gave to tailrace mirror --into",
    "verify {url} --into nowhere --wait soon": f"--wait {DURATION}, not 'soon'",
}
"""The same of a running server."""


@pytest.fixture(scope="module")
def here(tmp_path_factory, shop, corpus):
    folder = tmp_path_factory.mktemp("mistakes")
    text = b"hello world: this is a text\n" * 10
    for name, content in {
        "text.txt": text,
        "texts/readme.txt": text,
        "full/readme.txt": text,
        "empty.000001": b"",
        "short.000001": b"\xfebin",
        "there.000001": b"x",
        "list.index": b"./gone.000001\n",
        "no.sql": b"SELECT 1;\n",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    keyring.make(folder / "ring", "another")
    (folder / "nothing").mkdir()
    (folder / "logs").symlink_to(shop / "mysql")
    (folder / "maria").symlink_to(shop / "mariadb")
    (folder / "sealed").symlink_to(corpus / "mysql-9.7.encrypted")
    (folder / "both").mkdir()
    for name in ("binlog.000001", "other.000001"):
        shutil.copy(shop / "mysql" / "binlog.000001", folder / "both" / name)
    damaged = bytearray((shop / "mysql" / "binlog.000002").read_bytes())
    damaged[100_000] ^= 1
    (folder / "damaged.000002").write_bytes(damaged)
    return folder


def held(folder):
    return {path: path.is_file() and path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def said(run, here, monkeypatch):
    """said(command) is what it says on stderr, without ``tailrace:``, in lines."""
    monkeypatch.chdir(here)
    monkeypatch.setenv("TAILRACE_SERVE_PASSWORD", "secret")

    def said(command):
        before = held(here)
        ran = run(*shlex.split(command))
        assert ran.status == 2
        lines = ran.err.splitlines()
        assert all(line.startswith("tailrace: ") for line in lines)
        assert max(map(len, lines)) <= 160
        assert held(here) == before, "it has left or changed something"
        lines = [line.removeprefix("tailrace: ") for line in lines]
        assert [line.startswith("  ") for line in lines] == [
            number > 0 for number in range(len(lines))
        ]
        return [line.strip() for line in lines]

    return said


def as_lines(expected, **values):
    lines = [expected] if isinstance(expected, str) else expected
    return [
        line.replace("{here}", str(values.get("here"))).replace("{at}", values.get("at", ""))
        for line in lines
    ]


@pytest.mark.slow
@each_case("command", FILES)
def test_of_files_and_arguments(said, here, command):
    found, expected = said(command), as_lines(FILES[command], here=here)
    if "{here}" in str(FILES[command]):  # where its lines end depends on the folder's name
        found, expected = [" ".join(found)], [" ".join(expected)]
    assert found == expected


@pytest.fixture(scope="module")
def source(fresh_server):
    made = fresh_server("mysql-9.7")
    made.execute("CREATE USER ann@'%' IDENTIFIED BY 'secret'")
    made.execute("CREATE USER bob@'%'")
    return made


@each_case("command", SERVERS)
def test_of_a_server(said, source, command):
    at = f"127.0.0.1:{source.port}"
    given = command.replace("{at}", at).replace("{url}", url_of(source)).replace("UUID", UUID)
    assert said(given) == as_lines(SERVERS[command], at=at)


def test_a_lake_of_another_format(run, begin, source, here, tmp_path, monkeypatch):
    source.execute("CREATE DATABASE IF NOT EXISTS shop")
    source.execute("CREATE TABLE IF NOT EXISTS shop.t (id INT PRIMARY KEY)")
    source.execute("INSERT IGNORE INTO shop.t VALUES (1)")
    source.connection.commit()
    monkeypatch.chdir(tmp_path)
    arguments = ("mirror", url_of(source), "--into", "lake")
    made = begin(*arguments, cwd=tmp_path)  # a session of this process would have this folder
    _, err = made.communicate(timeout=DEADLINE)
    assert made.returncode == 0, err
    for more, was, given in (
        (("--format", "delta"), "--format parquet", "--format delta"),
        (("--keep", "history"), "--keep changelog,current", "--keep history"),
    ):
        ran = run(*arguments, *more)
        assert ran.status == 2
        message = ran.err.replace("\ntailrace:  ", "").rstrip()
        advice = "leave that out, or give a new folder"
        assert message.endswith(f"lake was created with {was}, and {given} is given: {advice}")
    other = run("verify", "mysql://root@127.0.0.1:1/?retry=0", "--into", "lake")
    message = (
        "lake is not made from mysql://root@127.0.0.1:1: its sources are"
        f" 127.0.0.1_{source.port}; use the URL that you gave to mirror"
    )
    assert (other.status, other.err) == (2, f"tailrace: {message}\n")
