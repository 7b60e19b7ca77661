"""A replica's commands: both ways, whole, cut short, with more behind; and what does not fit."""

import pytest

from tailrace.errors import UsageError
from tailrace.gtid import GtidSet
from tailrace.wire.commands import (
    BinlogDump,
    BinlogDumpGtid,
    DumpFlag,
    RegisterReplica,
)
from tests.cases import each_case

U = "896e7882-18fe-11ef-ab88-22222d34d411"


def test_the_bytes_of_each():
    dump = BinlogDump("binlog.000003", 0x11223344, 0x55667788, DumpFlag.NON_BLOCK)
    assert dump.encode() == bytes.fromhex("12 44332211 0100 88776655") + b"binlog.000003"
    by_gtid = BinlogDumpGtid(
        GtidSet.parse(f"{U}:1-5"), 7, DumpFlag.HEARTBEAT_V2 | DumpFlag.SKIP_TAGGED_GTIDS, "b.1"
    )
    assert by_gtid.encode() == bytes.fromhex(
        "1e 0600 07000000 03000000 622e31 0400000000000000 30000000"
        "0100000000000000 896e788218fe11efab8822222d34d411 0100000000000000"
        "0100000000000000 0600000000000000"
    )
    replica = RegisterReplica(7, "h", "us", "", 3306, 1, 2)
    assert replica.encode() == bytes.fromhex("15 07000000 0168 027573 00 ea0c 01000000 02000000")


def test_a_password_is_not_shown():
    assert "geheim" not in repr(RegisterReplica(7, "h", "u", "geheim"))


def test_a_password_that_does_not_fit_is_not_quoted():
    with pytest.raises(UsageError) as caught:
        RegisterReplica(7, password="geheim" * 99).encode()
    assert "geheim" not in str(caught.value)


@each_case("name", ["", "binlog.000001"])
def test_a_file_name_ends_at_a_nul(name):
    """The servers read a C string; mysql-replication sends NULs where it names no file."""
    raw = name.encode() + b"\0\0\0x"
    found = BinlogDump.decode(b"\x12\x04\0\0\0\0\0\x07\0\0\0" + raw)
    assert found == BinlogDump(name, 4, 7, 0)
    size = len(raw).to_bytes(4, "little")
    gtids = GtidSet().encode()
    behind = (4).to_bytes(8, "little") + len(gtids).to_bytes(4, "little") + gtids
    by_gtid = BinlogDumpGtid.decode(b"\x1e\0\0\x07\0\0\0" + size + raw + behind)
    assert by_gtid == BinlogDumpGtid(GtidSet(), 7, 0, name)
