"""The servers' own tools read every log that we write, and print what we say of it."""

import re
import subprocess
from itertools import product

import pytest

import tailrace
from tailrace.constants import MAGIC, ChecksumAlgorithm, Flavour
from tailrace.events import FormatDescriptionEvent, GtidEvent, WriteRowsEvent
from tailrace.events.description import STANDARD_POST_HEADERS
from tailrace.values.row import RowSet
from tests.cases import each_case
from tests.conftest import _require
from tests.writing.made import FLAVOURS, check_files, ddl, events_of, log, orders, row
from tools.servers.fetch import prefix

TOOLS = {"mysql": ("mysql-9.7",), "mariadb": ("mariadb-11.8", "mariadb-10.11")}
CASES = [
    (flavour, checksum, compress, metadata)
    for flavour in FLAVOURS
    for checksum, compress, metadata in (
        *(("crc32", False, "full"), ("none", True, "full")),
        *(("crc32", True, "minimal"), ("none", False, "minimal")),
    )
]


def printed(tool, path):
    """What the binlog tool prints of a file, checksums verified."""
    _require(tool)
    argv = [*prefix(tool).binlog_tool(), "--verify-binlog-checksum", "-vv", path]
    done = subprocess.run(list(map(str, argv)), capture_output=True, check=False)
    text = done.stdout.decode("utf-8", "replace")
    errors = done.stderr.decode()
    assert done.returncode == 0, errors
    assert "ERROR" not in errors
    assert "WARNING" not in errors
    assert "Warning" not in errors
    return text


@each_case(
    ("flavour", "version"), [("mysql", "9.6"), ("mysql", "5.5"), ("mariadb", "11.8-MariaDB")]
)
def test_the_tool_reads_a_version_of_two_numbers_as_we_do(tmp_path, flavour, version):
    """The version says whether a log has checksums: 9.6 is 9.6.0, and 5.5 knew none."""
    path = tmp_path / "binlog.000001"
    array = STANDARD_POST_HEADERS[Flavour(flavour)]
    knows = version != "5.5"
    event = FormatDescriptionEvent.make(
        server_version=version,
        post_headers=array if knows else array[:27],
        checksum_algorithm=ChecksumAlgorithm.CRC32 if knows else ChecksumAlgorithm.NONE,
    )
    path.write_bytes(MAGIC + event.encode())
    (read,) = tailrace.open(path)
    assert (read.checksum is not None) is knows
    for tool in TOOLS[flavour]:
        assert ("CRC32 0x" in printed(tool, path)) is knows


@pytest.mark.quick
@each_case(("flavour", "checksum", "compress", "metadata"), CASES)
def test_the_tool_reads_it(tmp_path, flavour, checksum, compress, metadata):
    table = orders(flavour)
    options = {"checksum": checksum, "compress": compress, "metadata": metadata}
    with log(tmp_path / "binlog.000001", flavour, max_size=1 << 15, **options) as out:
        ddl(out, 2)
        for number in range(20):
            with out.transaction(tag="blue" if flavour == "mysql" and number % 3 else None) as trx:
                trx.insert(table, [row(each) for each in range(100)], statement="insert …")
                trx.update(table, [row(1)], [{**row(1), "name": "it's \\ `new`"}])
                trx.query("insert into shop.t1 values (1)", "shop")
                trx.delete(table, [row(2), row(3)])
        with out.transaction(
            "11111111-2222-3333-4444-555555555555:9" if flavour == "mysql" else "3-4-5"
        ):
            pass
        files = out.files
    assert compress or len(files) > 2
    check_files(*(tmp_path / name for name in files))
    for tool, name in product(TOOLS[flavour], files):
        text = printed(tool, tmp_path / name)
        events = events_of(tmp_path / name)
        starts = [int(at) for at in re.findall(r"^# at (\d+)$", text, re.MULTILINE)]
        inner = {event.offset for event in events if event.name == "TRANSACTION_PAYLOAD"}
        assert set(starts) == {event.offset for event in events}
        ends = {int(at) for at in re.findall(r"end_log_pos (\d+) ", text)}
        assert {event.end_offset for event in events} <= ends | ({0} if inner else set())
        if checksum == "crc32":
            crcs = {int(crc, 16) for crc in re.findall(r"CRC32 0x([0-9a-f]{8})", text)}
            assert {event.checksum for event in events} <= crcs
        check_gtids(text, events, flavour)
        written = 0
        for event in tailrace.open(tmp_path / name):
            if isinstance(event, WriteRowsEvent):
                written += sum(1 for _ in RowSet(event, event.table_map))
        assert text.count("### INSERT INTO `shop`.`orders`") == written


def check_gtids(text, events, flavour):
    if flavour == "mysql":
        found = re.findall(r"GTID_NEXT= '(.*?)'", text)
        said = [str(event.gtid) for event in events if isinstance(event, GtidEvent)]
        assert [gtid for gtid in found if gtid != "AUTOMATIC"] == said
        clocks = re.findall(r"last_committed=(\d+)\tsequence_number=(\d+)", text)
        assert clocks == [(str(n), str(n + 1)) for n in range(len(said))]
        lengths = [int(size) for size in re.findall(r"transaction_length=(\d+)", text)]
        assert lengths == [e.transaction_length for e in events if isinstance(e, GtidEvent)]
        stamps = re.findall(r"^# original_commit_timestamp=(\d+)", text, re.MULTILINE)
        assert [int(stamp) for stamp in stamps] == [
            event.original_commit_timestamp for event in events if isinstance(event, GtidEvent)
        ]
        return
    found = re.findall(r"\tGTID (\d+-\d+-\d+)", text)
    assert found == [str(event.gtid) for event in events if event.name == "MARIADB_GTID"]
