"""What replicas, tools and libraries ask a real source (its general log) is answered by ours."""

import re
import subprocess
import sys
import warnings
from contextlib import suppress

import pymysql
import pytest
from pymysqlreplication import BinLogStreamReader

import tailrace
from tailrace.gtid import GtidList, GtidSet
from tests.replication.source.conftest import connect
from tests.waiting import wait_for
from tests.wire.test_traffic import COMMON, SEMISYNC_REPLICA
from tools.applied import address, follow, leave
from tools.servers import ONE_OF_EACH

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:'(db|passwd)' is deprecated:DeprecationWarning"),
]
LOGGED = {"general-log": True, "log-output": "FILE", "general-log-file": "general.log"}
OTHERS = {"rpl_semi_sync", "skip_replication"}
"""Of what a source may not have: 1193, which replicas tolerate."""


@pytest.fixture(scope="module", params=ONE_OF_EACH)
def asked(request, fresh_server):
    """A real source, and the statements that were sent to it."""
    name = request.param
    flavour = name.partition("-")[0]
    source = fresh_server(name, COMMON[flavour] | LOGGED)
    source.execute("CREATE DATABASE shop")
    source.execute("CREATE TABLE shop.t (a INT PRIMARY KEY)")
    source.execute("INSERT INTO shop.t VALUES (1), (2)")
    source.settle()
    source.disconnect()
    log = source.data / "general.log"
    start = log.stat().st_size
    _replicas(source, fresh_server)
    _tools(source)
    _libraries(source)
    text = log.read_bytes()[start:].decode(errors="replace")
    found = re.findall(r"\t *\d+ Query\t(.*)", text)
    assert len(found) > 30
    return source, [each for each in dict.fromkeys(found) if not each.startswith("KILL")]


def _replicas(source, fresh_server):
    names = ["mysql-9.7"] if source.flavour == "mysql" else ["mariadb-10.11", "mariadb-11.8"]
    for number, name in enumerate(names):
        options = COMMON[source.flavour] | SEMISYNC_REPLICA[source.flavour]
        replica = fresh_server(name, options, server_id=71 + number)
        for by_gtid in (False, True):
            before = len(_dumps(source))
            follow(replica, by_gtid=by_gtid, first="binlog.000001", **address(source))
            wait_for(lambda before=before: len(_dumps(source)) > before)
            leave(replica)
        replica.kill()


def _dumps(source):
    return re.findall(r"Binlog Dump.*", (source.data / "general.log").read_text(errors="replace"))


def _tools(source):
    first = source.binlogs()[0].name
    common = ["--read-from-remote-server", "-h127.0.0.1", f"-P{source.port}", "-uroot"]
    for more in ([], ["--to-last-log"]):
        source.mysqlbinlog(*common, *more, first)
    if source.flavour == "mysql":
        source.mysqlbinlog("--read-from-remote-source=BINLOG-DUMP-GTIDS", *common[1:], first)
    else:
        source.mysqlbinlog(*common, "--start-position=0-1-1", first)


def _libraries(source):
    settings = {"host": "127.0.0.1", "port": source.port, "user": "root"}
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        stream = BinLogStreamReader(connection_settings=dict(settings), server_id=77)
        with suppress(pymysql.Error):
            list(stream)
        stream.close()
    url = f"{source.flavour}://root@127.0.0.1:{source.port}/"
    nothing = GtidSet() if source.flavour == "mysql" else GtidList()
    for start in (None, "now", nothing):
        list(tailrace.open(url, start=start))
    ran = [sys.executable, "-m", "tailrace", "check", url]
    subprocess.run(ran, check=True, capture_output=True)


def answer(client, sql):
    """Columns and rows, or the number of the error."""
    with client.cursor() as cursor:
        try:
            cursor.execute(sql)
        except pymysql.Error as error:
            return error.args[0]
        return [row[0] for row in cursor.description or ()], list(cursor.fetchall())


def test_each_statement_is_answered_as_by_the_real_source(asked, serve):
    """With its columns and values, but for its id, UUID, time and replicas."""
    source, statements = asked
    server = serve(source.data / "binlog.index")
    own = re.compile(
        "server_id|server_uuid|unix_timestamp|show (slave|replica)|rpl_semi", re.IGNORECASE
    )
    compared = 0
    with connect(server) as ours, source.connect() as theirs:
        for sql in statements:
            found = [answer(ours, sql)]
            if isinstance(found[0], int):
                assert found[0] == 1193, (sql, found)
                assert any(word in sql for word in OTHERS), sql
            if re.match("SELECT|SHOW|SET @", sql):
                found.append(answer(theirs, sql))
            if not re.match("SELECT|SHOW", sql) or "connect_state" in sql:
                continue
            if own.search(sql):
                found = [each if isinstance(each, int) else each[0] for each in found]
                if "rpl_semi" in sql:
                    continue
            if "BINLOG_ROW_METADATA" in sql.upper() or found[1] == 1064:
                continue  # not known from a log; MariaDB 10.11 has no BINARY LOG STATUS
            assert found[0] == found[1], sql
            compared += 1
    assert compared > 6
