"""`verify` against real servers: what is equal, what is not, and what cannot be told."""

import threading
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from itertools import product

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailrace.errors import AccessDenied, PipelineError, UsageError
from tailrace.live.connect import ServerConnection
from tailrace.live.url import Source
from tailrace.snapshot.columns import ServerColumn, columns_of
from tailrace.snapshot.connection import reading
from tailrace.snapshot.key_ranges import KeyRange
from tailrace.snapshot.rows import ServerTable, Values, server_rows
from tailrace.spark import mirror
from tailrace.spark.verify import verify
from tailrace.spark.verify.digests import SideJob, SideResult, checksums, read_side
from tailrace.spark.verify.report import TableVerdict, VerifyReport
from tailrace.table_name import TableName
from tests.spark.following import BOTH, Follow, no_spark, url_of
from tests.waiting import DEADLINE
from tools.campaign.hostile.fake import OK, FakeServer
from tools.servers import NAMES

DATABASE = "verified"
verifying = import_module("tailrace.spark.verify")
differences = import_module("tailrace.spark.verify.differences")


@pytest.fixture
def lake(source, tmp_path):
    source.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
    source.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
    return tmp_path / "lake"


def create(source, name, columns="id INT PRIMARY KEY", *rows):
    """A table of the database with rows; each as its values."""
    source.execute(f"CREATE TABLE {DATABASE}.{name} ({columns})")
    if rows:
        values = ", ".join(f"({row})" for row in rows)
        source.execute(f"INSERT INTO {DATABASE}.{name} VALUES {values}")


def land(source, lake, **options):
    with Follow(url_of(source), lake, tables=[f"{DATABASE}.*", "follow.*"], **options) as following:
        following.wait_for_mark(source)


def change_unlogged(source, *statements):
    """Make the server differ from its log."""
    source.execute("SET SESSION sql_log_bin = 0")
    for statement in statements:
        source.execute(statement)
    source.execute("SET SESSION sql_log_bin = 1")


def check(source, lake, **options):
    return verify(url_of(source), lake, spark=no_spark, tables=[f"{DATABASE}.*"], **options)


EVERY_TYPE = """
    id {id}, a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT, d INT UNSIGNED, e BIGINT UNSIGNED,
    f FLOAT, g DOUBLE, h DECIMAL(12,4), i DECIMAL(60,5), j BIT(5), k BIT(64), l YEAR, m DATE,
    n DATETIME(6), o TIMESTAMP(3) NULL, p TIME(2), q CHAR(9), r VARCHAR(40) CHARACTER SET latin1,
    s TEXT CHARACTER SET utf8mb4, t BINARY(4), u VARBINARY(9), v BLOB, w ENUM('x', 'ä''b', ''),
    x SET('p', 'q', 'r'), y JSON, z GEOMETRY
"""
ROWS = (
    (
        "-128, 65535, -8388608, 4294967295, 18446744073709551615, 0.1, 1e-300, '-12345678.9012', "
        "'1234567890123456789012345678901234567890123456789012345.12345', b'10101', "
        "b'1111111111111111111111111111111111111111111111111111111111111111', 1901, '9999-12-31', "
        "'1000-01-01 00:00:00.000001', '2038-01-19 03:14:07.999', '-838:59:59.00', 'äöü', 'é', "
        "'\\u20ac', 'ab', x'00ff', x'', 'x', 'p,r', '{\"a\": [1, 2.50, null, \"é\"]}', "
        "ST_GeomFromText('POINT(1 2)')"
    ),
    (
        "1, 2, 3, 4, 5, -16777216.5, -0.1, 0, 0, 0, 0, 0, '0000-00-00', '0000-00-00 00:00:00.000000', "
        "'0000-00-00 00:00:00.000', '00:00:00.01', '', '', '', '', '', x'ff', '', '', '[]', NULL"
    ),
    (
        "1, 2, 3, 4, 5, 3.4e38, 1.7976931348623157e308, 1, 1, 1, 1, 2155, '2024-00-10', "
        "'2024-02-00 01:02:03.5', '1970-01-01 00:00:01', '12:34:56.78', ' a', ' b ', 'c', 'd', 'e', "
        "x'0a', 'ä''b', 'p,q,r', '\"text\"', ST_GeomFromText('LINESTRING(0 0, 1 1)', 4326)"
    ),
    ", ".join(["NULL"] * 26),
)


LETTERS = ", ".join("abcdefghijklmnopqrstuvwxyz")
MARIADB = (
    ", uu UUID, i4 INET4, i6 INET6",
    {"uu": "'123e4567-e89b-12d3-a456-426655440000'", "i4": "'10.0.0.1'", "i6": "'::1'"},
)
VECTOR = {"mysql": "STRING_TO_VECTOR('[1,-2.5,0.1]')", "mariadb": "VEC_FromText('[1,-2.5,0.1]')"}


@pytest.mark.parametrize("source", NAMES, indirect=True)  # SELECT prints types as a release does
def test_every_type(source, lake):
    extra, values = MARIADB if source.flavour == "mariadb" else ("", {})
    if source.name != "mariadb-10.11":
        extra, values = f"{extra}, vec VECTOR(3)", {**values, "vec": VECTOR[source.flavour]}
    source.execute("SET SESSION sql_mode = ''")
    source.execute(
        f"CREATE TABLE {DATABASE}.every ({EVERY_TYPE.format(id='INT PRIMARY KEY')}{extra})"
    )
    for number, row in enumerate(ROWS):
        source.execute(f"INSERT INTO {DATABASE}.every (id, {LETTERS}) VALUES ({number}, {row})")
    source.execute(
        f"INSERT INTO {DATABASE}.every (id, {', '.join(values)}) "
        f"VALUES (99, {', '.join(values.values())})"
    )
    land(source, lake)
    report = check(source, lake)
    (table,) = report.tables
    assert [(each.columns, each) for each in table.first] == []
    assert (report.verdict, table.reason) == ("equal", None)
    assert table.server_rows == table.lake_rows == len(ROWS) + 1
    assert table.server_checksum == table.lake_checksum != 0


KEYS = {
    "number": ("id BIGINT UNSIGNED PRIMARY KEY, v INT", "18446744073709551615 - {0}, {0}"),
    "text": ("id VARCHAR(20) PRIMARY KEY, v INT", "CONCAT('Ä', {0}, 'b '), {0}"),
    "pair": ("a DATE, b DECIMAL(9,2), v INT, PRIMARY KEY (a, b)", "'2024-01-0{1}', {0}.5, {0}"),
    "bytes": ("id VARBINARY(9) PRIMARY KEY, v INT", "UNHEX(LPAD(HEX({0} * 5), 4, '0')), {0}"),
    "named": ("e ENUM('z','a','m'), n INT, v INT, PRIMARY KEY (e, n)", "{1} % 3 + 1, {0}, {0}"),
    "latin": ("id CHAR(8) CHARACTER SET latin1 PRIMARY KEY, v INT", "CONCAT('é', {0}), {0}"),
}


def test_rows_that_differ(source, lake):
    """In tables with keys of each kind, and more than are shown."""
    for key, (columns, row) in KEYS.items():
        create(source, key, columns, *(row.format(n, n % 9 + 1) for n in range(100)))
        source.query(f"ANALYZE TABLE {DATABASE}.{key}")  # else the statistics are an empty table's
    land(source, lake)
    report = check(source, lake, range_rows=7)
    assert report.verdict == "equal"
    ranges = {table.name.partition(".")[2]: len(table.ranges) for table in report.tables}
    assert ranges.pop("named") == 1
    assert min(ranges.values()) >= 8
    assert {sum(part.rows for part in table.ranges) for table in report.tables} == {100}
    for key, (_, row) in KEYS.items():
        change_unlogged(
            source,
            f"DELETE FROM {DATABASE}.{key} WHERE v IN (3, 50)",
            f"UPDATE {DATABASE}.{key} SET v = -1 WHERE v = 60",
            f"INSERT INTO {DATABASE}.{key} VALUES ({row.format(101, 1)})",
        )
    report = check(source, lake, range_rows=7)
    assert (report.verdict, report.transactions, len(report.tables)) == ("differs", 0, len(KEYS))
    for table in report.tables:
        found = (table.missing, table.extra, table.changed, table.undecided)
        assert (found, table.server_rows, table.lake_rows) == ((1, 2, 1, 0), 99, 100), table.name
        assert table.server_checksum != table.lake_checksum
        assert sum(part.differing for part in table.ranges) == 2
        assert len(table.first) == 4
        (changed,) = [each for each in table.first if each.columns]
        assert changed.columns == ("v",)
        assert (changed.server["v"], changed.lake["v"]) == ("-1", "60")
        alone = [(each.server or {}).get("v") for each in table.first if each.lake is None]
        assert alone == ["101"]
        assert sorted(each.lake["v"] for each in table.first if each.server is None) == ["3", "50"]
    few = check(source, lake, range_rows=7, rows=2)
    assert {len(table.first) for table in few.tables} == {2}


@BOTH
def test_rows_are_read_only_where_checksums_differ(source, lake, monkeypatch):
    """Text keys whose order and equality are the collation's: no range or slice goes by them."""
    monkeypatch.setattr(differences, "SLICE_ROWS", 20)
    key = "CONCAT({1}, CHAR(97 + {0} % 26), {0})"
    table = "id VARCHAR(20) CHARACTER SET utf8mb4 PRIMARY KEY, v INT"
    rows = [f"{key.format(n, repr('éEaÄ'[n % 4]))}, {n}" for n in range(400)]
    create(source, "t", table, *rows)
    source.query(f"ANALYZE TABLE {DATABASE}.t")  # else the statistics are an empty table's
    land(source, lake)
    with monkeypatch.context() as equal:
        equal.setattr(SideResult, "slice", None)  # nothing reads one
        (whole,) = check(source, lake, range_rows=20).tables
    assert (whole.server_rows, whole.lake_rows, whole.differing) == (400, 400, 0)
    assert len(whole.ranges) > 15
    change_unlogged(
        source,
        f"UPDATE {DATABASE}.t SET v = -1 WHERE v = 77",
        f"UPDATE {DATABASE}.t SET id = UPPER(id) WHERE v = 120",
    )
    read = []
    seen = SideResult.slice
    monkeypatch.setattr(SideResult, "slice", lambda each, at: read.append(at) or seen(each, at))
    (found,) = check(source, lake, range_rows=20).tables
    assert (found.missing, found.extra, found.changed, found.undecided) == (1, 1, 1, 0)
    assert len({*read}) <= 3
    (changed,) = [each for each in found.first if each.columns]
    assert (changed.key["id"], changed.server["v"], changed.lake["v"]) == ("Ez77", "-1", "77")
    keys = [each.key["id"] for each in found.first if not each.columns]
    assert sorted(keys) == ["éQ120".upper(), "éq120"]
    assert sum(part.differing for part in found.ranges) == 2


def test_tables_that_are_unlike(source, lake):
    create(source, "good", "id INT PRIMARY KEY", 1)
    create(source, "keyless", "id INT", 1)
    create(source, "wider", "id INT PRIMARY KEY, v SMALLINT", "1, 2")
    create(source, "more", "id INT PRIMARY KEY", 1)
    create(source, "added", "id INT PRIMARY KEY", 1)
    source.execute(f"ALTER TABLE {DATABASE}.added ADD w INT")
    land(source, lake)
    change_unlogged(
        source,
        f"ALTER TABLE {DATABASE}.wider MODIFY v INT",
        f"UPDATE {DATABASE}.wider SET v = 100000",
        f"ALTER TABLE {DATABASE}.more ADD w INT",
        f"CREATE TABLE {DATABASE}.new (id INT PRIMARY KEY)",
        f"CREATE TABLE {DATABASE}.empty (id INT PRIMARY KEY)",
        f"INSERT INTO {DATABASE}.new VALUES (1)",
    )
    report = check(source, lake)
    reasons = {table.name.partition(".")[2]: table.reason for table in report.tables}
    assert reasons.pop("good") is None
    assert reasons.pop("added") is None
    (added,) = [each for each in report.tables if each.name.endswith(".added")]
    assert added.notes == (
        "column w comes into the lake with the first row that has it, and is not compared",
    )
    assert reasons.pop("more") == "column w is not in the lake"
    assert reasons.pop("new") == "it is not in the lake"
    assert "it has no primary key" in reasons.pop("keyless")
    assert "column v (int on the server): the lake's type int16 cannot" in reasons.pop("wider")
    assert reasons == {}
    assert report.verdict == "differs"
    tables = [f"{DATABASE}.good", f"{DATABASE}.keyless"]
    assert verify(url_of(source), lake, tables=tables[:1]).verdict == "equal"
    assert verify(url_of(source), lake, tables=tables).verdict == "unsure"
    kept = {"tables": f"{DATABASE}.*", "exclude": ["keyless", "more", "new", "wider"]}
    assert verify(url_of(source), lake, **kept).verdict == "equal"


def test_a_lake_that_is_behind(source, lake):
    create(source, "t", "id INT PRIMARY KEY", 1)
    land(source, lake)
    source.rotate()
    report = check(source, lake)
    assert (report.verdict, report.behind, report.transactions) == ("equal", 0, 0)
    for number in range(3):
        source.execute(f"INSERT INTO {DATABASE}.t VALUES ({number + 2})")
    for wait in (None, 0.3):
        report = check(source, lake, wait=wait)
        assert (report.verdict, report.transactions) == ("unsure", 3)
        assert report.behind > 300
        assert report.tables[0].missing == 3
    seen = threading.Event()

    def progress(phase, done, _total):
        if phase == "wait" and not done and not seen.is_set():
            seen.set()
            mirror(url_of(source), lake, tables=[f"{DATABASE}.*", "follow.*"])

    report = check(source, lake, wait=DEADLINE, progress=progress)
    assert (report.verdict, report.transactions) == ("equal", 0)


def test_while_it_is_written_to(source, lake, monkeypatch):
    monkeypatch.setattr(differences, "SLICE_ROWS", 50)
    create(source, "t", "id INT PRIMARY KEY, v INT", *(f"{n}, 0" for n in range(2000)))
    ending = threading.Event()

    def write():
        """Change each row once: however slow a round is, the next finds its rows at rest."""
        with source.connect() as connection, connection.cursor() as cursor:
            number = 0
            while not ending.wait(0.005):
                number += 1
                cursor.execute(
                    f"UPDATE {DATABASE}.t SET v = {number} WHERE id = {number} AND id < 1000"
                )
                old = 1000 + number
                cursor.execute(f"DELETE FROM {DATABASE}.t WHERE id = {old} AND id < 1900")
                cursor.execute(f"INSERT INTO {DATABASE}.t VALUES ({old + 1000}, {number})")

    thread = threading.Thread(target=write)
    with Follow(url_of(source), lake, tables=[f"{DATABASE}.*", "follow.*"]) as following:
        following.wait_for_mark(source)
        thread.start()
        try:
            report = check(source, lake, wait=DEADLINE, range_rows=500)
            assert report.verdict == "equal", report
            change_unlogged(source, f"UPDATE {DATABASE}.t SET v = -1 WHERE id = 1999")
            report = check(source, lake, wait=DEADLINE, range_rows=500)
        finally:
            ending.set()
            thread.join()
    (table,) = report.tables
    assert table.changed - table.undecided == 1
    assert [each.lake["v"] for each in table.first if each.key == {"id": "1999"}] == ["0"]


@BOTH
def test_the_year_0_and_a_float_that_is_printed_with_fewer_digits(source, lake):
    """A FLOAT that is declared with decimals keeps its values, whatever SELECT prints of them."""
    create(source, "f", "id INT PRIMARY KEY, f FLOAT", "1, 0.1234567", "2, 123456.785")
    source.execute(f"ALTER TABLE {DATABASE}.f MODIFY f FLOAT(9,2)")
    assert source.query(f"SELECT CAST(f AS CHAR) FROM {DATABASE}.f")[0][0] == "0.12"
    source.execute("SET SESSION sql_mode = ''")
    rows = "1, '0000-01-01', '0000-12-31 23:59:59.5'", "2, '0001-01-01', '9999-12-31 23:59:59.9'"
    create(source, "t", "id INT PRIMARY KEY, d DATE, t DATETIME(6)", *rows)
    land(source, lake)
    assert check(source, lake).verdict == "equal"
    change_unlogged(source, f"UPDATE {DATABASE}.t SET d = '2000-01-01'")
    shown = {each.key["id"]: each for each in check(source, lake).tables[1].first}
    assert {key: each.lake["d"] for key, each in shown.items()} == {
        "1": "0000-01-01",
        "2": "0001-01-01",
    }


@BOTH
def test_text_that_is_not_utf8(source, lake):
    """Surrogates in keys and in values: rows are told apart by them, changed and deleted."""
    source.execute("SET SESSION sql_mode = ''")
    kind = "VARCHAR(9) CHARACTER SET ucs2 COLLATE ucs2_bin"
    halves = [f"_ucs2 x'{code}'" for code in ("D83D", "DE00", "D83DDE00", "0041")]
    rows = (f"{half}, {half}, {number}" for number, half in enumerate(halves))
    create(source, "t", f"k {kind}, v {kind}, n INT, PRIMARY KEY (k)", *rows)
    source.execute(f"UPDATE {DATABASE}.t SET n = 9, v = {halves[1]} WHERE n = 2")
    source.execute(f"UPDATE {DATABASE}.t SET k = _ucs2 x'DE01' WHERE n = 1")
    source.execute(f"DELETE FROM {DATABASE}.t WHERE n = 0")
    if source.flavour == "mariadb":
        added = "ADD d VARCHAR(9) CHARACTER SET utf8mb4 DEFAULT 'x\ud83d'"
        source.execute(f"ALTER TABLE {DATABASE}.t {added}".encode("utf-8", "surrogatepass"))
        source.execute(f"UPDATE {DATABASE}.t SET n = 11 WHERE n = 1")
    land(source, lake)
    report = check(source, lake)
    assert (report.verdict, report.tables[0].lake_rows) == ("equal", 3)
    change_unlogged(source, f"UPDATE {DATABASE}.t SET v = {halves[0]} WHERE n = 9")
    (row,) = check(source, lake).tables[0].first
    assert (row.lake["v"], row.server["v"]) == (r"\ude00", r"\ud83d")


def test_rows_of_many_megabytes(source, lake):
    """More than an answer may have that is held as a whole; a row, and rows together."""
    long = "id INT PRIMARY KEY, v LONGTEXT"
    create(source, "one", long, "1, REPEAT('q', 5000000)")
    create(source, "three", long)
    for number in range(9):
        source.execute(f"INSERT INTO {DATABASE}.three VALUES ({number}, REPEAT('w', 2000000))")
    many = (f"{number}, REPEAT('{number}', 400)" for number in range(4000))
    create(source, "many", "id INT PRIMARY KEY, v VARCHAR(2000)", *many)
    land(source, lake)
    report = check(source, lake)
    assert (report.verdict, [table.lake_rows for table in report.tables]) == ("equal", [4000, 1, 9])
    change_unlogged(
        source,
        f"UPDATE {DATABASE}.one SET v = CONCAT(LEFT(v, 4999999), 'r')",
        f"UPDATE {DATABASE}.three SET v = CONCAT('e', v) WHERE id = 5",
    )
    report = check(source, lake)
    assert (report.verdict, [table.changed for table in report.tables]) == ("differs", [0, 1, 1])
    assert [table.first[0].columns for table in report.tables[1:]] == [("v",), ("v",)]
    with reading(Source.parse(url_of(source))) as connection:  # bounded by bytes, not by rows
        columns = tuple(columns_of(connection, DATABASE, "three"))
        table = ServerTable(
            TableName(DATABASE, "three"), columns, (pa.int32(), pa.string()), ("id",)
        )
        found = [len(each[0].typed) for each in server_rows(connection, table, KeyRange(0))]
    assert found == [5, 4]  # 8 MiB, and the row that is the last of them


def test_a_table_that_cannot_be_read_stops_no_other(source, lake, monkeypatch):
    monkeypatch.setattr("tailrace.live.connect._ROW", 1000)
    for name, size in {"long": 2000, "short": 20}.items():
        create(source, name, "id INT PRIMARY KEY, v TEXT", f"1, REPEAT('x', {size})")
    land(source, lake)
    report = check(source, lake)
    assert (report.verdict, report.unsure) == ("unsure", (f"{DATABASE}.long",))
    long, short = report.tables
    assert long.reason.endswith("a row of it has more than 1000 bytes")
    assert (short.reason, short.server_rows, short.differing) == (None, 1, 0)


def test_tables_that_are_not_there(source, lake):
    create(source, "orders", "id INT PRIMARY KEY", 1)
    create(source, "vacant")
    land(source, lake)
    url = url_of(source)
    with pytest.raises(PipelineError, match="no lake"):
        verify(url, lake / "nothing")
    with pytest.raises(PipelineError, match="is not made from"):
        verify("mysql://root@127.0.0.1:1/?ssl_mode=DISABLED", lake)
    for tables in (f"{DATABASE}.oders", [f"{DATABASE}.oders", "orders"], "nowhere.*"):
        with pytest.raises(UsageError, match=rf"no table fits .*there are .*{DATABASE}\.orders"):
            verify(url, lake, tables=tables)
    with pytest.raises(UsageError, match=rf"did you mean {DATABASE}\.orders\?"):
        verify(url, lake, tables=f"{DATABASE}.oders")
    report = verify(url, lake, tables=["orders", "nowhere.*"], exclude="gone")
    assert (report.verdict, [table.name for table in report.tables]) == (
        "equal",
        [f"{DATABASE}.orders"],
    )
    assert [note.partition(" among")[0] for note in report.notes] == [
        "no table fits nowhere.*",
        "nothing is excluded by gone",
    ]
    assert verify(url, lake, tables="vacant").notes == ()


def test_another_server_answers(fresh_server, tmp_path, monkeypatch):
    """At the same address, with the same tables and names of log files."""

    def begin():
        server = fresh_server("mysql-9.7")
        server.execute(f"CREATE DATABASE {DATABASE}")
        create(server, "t", "id INT PRIMARY KEY", 1)
        return server

    lake, one = tmp_path / "lake", begin()
    mirror(url_of(one), lake)
    assert check(one, lake).verdict == "equal"
    one.discard()
    monkeypatch.setattr("tools.servers.server.free_port", lambda: one.port)
    other = begin()
    assert url_of(other) == url_of(one)
    with pytest.raises(PipelineError, match=r"is another server than the one that .*lake was made"):
        check(other, lake)


def test_a_key_that_is_twice_in_the_lake(source, lake):
    create(source, "t", "id INT PRIMARY KEY", 1, 2)
    land(source, lake)
    (file,) = (each.resolve() for each in (lake / f"{DATABASE}.t" / "current").glob("*.parquet"))
    rows = pq.read_table(file)
    file.unlink()
    pq.write_table(pa.concat_tables([rows, rows.slice(1)]), file)
    report = check(source, lake)
    assert (report.verdict, report.tables[0].doubled) == ("differs", 1)


def test_the_command(source, lake, run):
    create(source, "t", "id INT PRIMARY KEY, v VARCHAR(9)", "1, 'a'", "2, NULL")
    land(source, lake)
    command = ("verify", url_of(source), "--into", lake, "--tables", f"{DATABASE}.*")
    said = run(*command)
    assert (said.status, "equal to the server" in said.out) == (0, True)
    change_unlogged(source, f"UPDATE {DATABASE}.t SET v = 'b' WHERE id = 2")
    said = run(*command)
    assert said.status == 1
    assert f"{DATABASE}.t id=2: v b on the server, NULL in the lake" in said.out
    source.execute(f"INSERT INTO {DATABASE}.t VALUES (3, '')")
    said = run(*command)
    assert said.status == 2
    assert "the lake is behind the server" in said.err


def test_a_lake_that_is_not_begun_is_waited_for(source, lake):
    create(source, "t", "id INT PRIMARY KEY", 1)
    with pytest.raises(PipelineError, match="no lake"):
        check(source, lake)
    stranger = f"mysql://stranger:wrong@{source.host}:{source.port}/"
    with pytest.raises(AccessDenied, match="stranger"):  # before the test's time is over
        verify(stranger, lake, spark=no_spark, wait=86_400)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(check, source, lake, wait=DEADLINE)
        with Follow(url_of(source), lake, tables=[f"{DATABASE}.*"]):
            report = waiting.result()
    assert (report.verdict, report.tables[0].lake_rows) == ("equal", 1)


def test_values_of_any_length_have_a_checksum_of_their_own():
    texts = [None, "", *("a" * size for size in (1, 1023, 1024, 1025, 5000, 2_000_000))]
    texts += ["a" * 1024 + "b", "b" + "a" * 1024, "a" * 1_999_999 + "b"]
    one = checksums([Values(pa.array(texts))])
    assert len(set(one.tolist())) == len(texts)
    assert one.tolist() == checksums([Values(pa.array(["-" * 2000, *texts]).slice(1))]).tolist()
    alone = [int(checksums([Values(pa.array([each], pa.string()))])[0]) for each in texts]
    assert one.tolist() == alone


def test_short_values_have_a_checksum_of_their_own():
    """All of up to two bytes, alone, in pairs of columns, and with NULL in each place."""
    values = [
        None,
        *(bytes(each) for size in range(3) for each in product(range(256), repeat=size)),
    ]
    one = checksums([Values(pa.array(values, pa.binary()))])
    assert len(set(one.tolist())) == len(values)
    some = [None, *(bytes(each) for size in range(4) for each in product((0, 1, 255), repeat=size))]
    left, right = zip(*product(some, repeat=2), strict=True)
    both = [Values(pa.array(each, pa.binary())) for each in (left, right)]
    assert len(set(checksums(both).tolist())) == len(some) ** 2
    numbers = pa.array([None, 0, 1, 1 << 62], pa.decimal128(38, 0))
    assert len(set(checksums([Values(numbers)]).tolist())) == 4
    odd = Values(pa.array([None, None, 0], pa.date32()), pa.array([None, "", None]))
    assert len(set(checksums([odd]).tolist())) == 3
    assert checksums([Values(pa.array([], pa.binary()))]).tolist() == []


def no_memory(*_, **__):
    raise MemoryError


@pytest.mark.parametrize(
    ("module", "name", "told"),
    [
        ("tailrace.live.connect", "read_exactly", "there is not enough memory for it"),
        ("tailrace.spark.verify.digests", "checksums", "there is not enough memory for its rows"),
    ],
)
def test_a_table_whose_rows_are_larger_than_memory(module, name, told, tmp_path, monkeypatch):
    def short(talk):
        talk.result(["id"], [["x"]])
        return True

    def begun(talk):
        talk.send(OK)
        return True

    def then_full(connection, cursor, count, size):
        monkeypatch.setattr(import_module(module), name, no_memory)
        return parsed_rows(connection, cursor, count, size)

    parsed_rows = ServerConnection.parsed_rows
    monkeypatch.setattr(ServerConnection, "parsed_rows", then_full)
    column = ServerColumn("id", "varchar", nullable=False)
    table = ServerTable(TableName("d", "t"), (column,), (pa.string(),), ("id",))
    with FakeServer({"START": begun, "SELECT `id`": short}) as server:
        job = SideJob(table, Source.parse(server.url()), KeyRange(0), out=tmp_path / "out")
        result = read_side(job)
    assert result.unread
    assert result.refused.endswith(told)


ODD_KEYS = {
    "v VARBINARY(4)": ["x'00'", "x'0100'", "x''", "x'0000'", "x'02000000'"],
    "b VARCHAR(4) CHARACTER SET latin1 COLLATE latin1_bin": ["''", "x'01'", "x'0001'", "x'02'"],
    "d DATE": ["'0000-00-00'", "'2020-00-00'", "'2020-02-29'", "'2020-02-30'", "'2020-03-01'"],
    "t DATETIME(3)": ["'2020-02-29'", "'2020-02-30 12:00:00.123'", "'2020-02-31'", "'2020-03-01'"],
}


@BOTH
def test_keys_of_short_bytes_and_of_dates_that_the_calendar_lacks(source, lake):
    """A range ends at each of them; none is taken for another, and all tables are compared."""
    source.execute("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'")
    for column, keys in ODD_KEYS.items():
        create(source, column[0], f"{column} PRIMARY KEY, n INT", *(f"{key}, 1" for key in keys))
    land(source, lake)
    report = check(source, lake, range_rows=1)
    assert (report.verdict, [table.doubled for table in report.tables]) == ("equal", [0] * 4)
    assert {table.name[-1]: table.server_rows for table in report.tables} == {
        column[0]: len(keys) for column, keys in ODD_KEYS.items()
    }
    change_unlogged(source, f"UPDATE {DATABASE}.d SET n = 2 WHERE d = '2020-02-30'")
    changed = {table.name[-1]: table.changed for table in check(source, lake, range_rows=1).tables}
    assert changed == {"b": 0, "d": 1, "t": 0, "v": 0}


KINDS = {
    "equal": TableVerdict("d.equal", 1, 1),
    "incomplete": TableVerdict("d.part", reason="rows", compared=False, incomplete=True),
    "aside": TableVerdict("d.aside", reason="it is set aside", compared=False),
    "busy": TableVerdict("d.busy", 1, 1, changed=1, undecided=1),
    "differs": TableVerdict("d.differs", 1, 1, changed=1),
    "absent": TableVerdict("d.absent", reason="it is not in the lake"),
}


HEADLINES = (
    ("", 0, "no table with rows to compare"),
    ("equal", 0, "equal to the server"),
    ("incomplete", 1, "has incomplete tables"),
    ("equal incomplete", 1, "has incomplete tables; the others are equal to the server"),
    ("aside", 2, "could not be verified against the server"),
    ("equal busy", 2, "could not be verified against the server"),
    (
        "equal incomplete aside",
        2,
        "could not be verified against the server, and has incomplete tables",
    ),
    ("incomplete busy", 2, "could not be verified against the server, and has incomplete tables"),
    ("equal differs", 1, "differs from the server"),
    ("absent", 1, "differs from the server"),
    ("differs incomplete", 1, "differs from the server, and has incomplete tables"),
    (
        "equal differs aside",
        2,
        "differs from the server; for other tables this could not be determined",
    ),
    (
        "differs incomplete busy",
        2,
        (
            "differs from the server, and has incomplete tables; for other tables this could"
            " not be determined"
        ),
    ),
)


def test_what_it_waits_for(run, monkeypatch):
    report = VerifyReport((), "binlog.000001:4", "binlog.000001:4", seconds={"all": 1.0})

    def found(*_, progress, **__):
        for each in (("create", 0, 1), ("server", 0, 9), ("wait", 0, 1500)):
            progress(*each)
        return report

    monkeypatch.setattr(verifying, "verify", found)
    ran = run("verify", "mysql://u@h", "--into", "lake", "--wait", "10m")
    assert ran.err == (
        "tailrace: lake has no batch yet: waiting up to 600 s for tailrace mirror\n"
        "tailrace: lake is 1.5 kB behind the server: waiting up to 600 s for tailrace mirror\n"
    )
    assert "behind" not in run("verify", "mysql://u@h", "--into", "lake").err


def test_the_headline_is_true_of_all_tables(run, monkeypatch):
    for kinds, status, title in HEADLINES:
        found = tuple(KINDS[kind] for kind in kinds.split())
        report = VerifyReport(found, "binlog.000001:4", "binlog.000001:4", seconds={"all": 1.0})
        monkeypatch.setattr(verifying, "verify", lambda *_, r=report, **__: r)
        ran = run("verify", "mysql://u@h", "--into", "lake")
        assert ran.status == status, kinds
        assert f"lake: {title}, 1.0 s\n" in ran.out
