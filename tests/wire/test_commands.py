"""A replica's commands: both ways, whole, cut short, with more behind; and what does not fit."""

import pytest

from tailrace.errors import MalformedPacket, UsageError
from tailrace.gtid import GtidSet
from tailrace.wire.commands import (
    BinlogDump,
    BinlogDumpGtid,
    DumpFlag,
    RegisterReplica,
)
from tests.cases import each_case

U = "896e7882-18fe-11ef-ab88-22222d34d411"


@each_case("kind", [RegisterReplica, BinlogDump, BinlogDumpGtid])
def test_another_command(kind):
    with pytest.raises(MalformedPacket, match=r"byte 0 of 40: the command is 0x.., not 0x03"):
        kind.decode(b"\3" + bytes(39))


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


@each_case(
    ("raw", "what"),
    [
        ("12 04000000 0000 07000000 ff", "the log file's name is not UTF-8"),
        ("12 04000000 0000 07000000" + "61" * 512, "name of 512 bytes"),
        ("1e 0000 07000000 00020000" + "61" * 600, "byte 11 of 611: a log file's name of 512"),
        ("1e 0000 07000000 00000000 0400000000000000 00000000", "a GTID set needs 8 bytes, 0"),
        (
            "1e 0000 07000000 00000000 0400000000000000 08000000 0100000000000000",
            "byte 23 of 31: the GTID set ends inside a source",
        ),
        (
            "1e 0000 07000000 00000000 0400000000000000 09000000 000000000000000000",
            "1 bytes follow the GTID set",
        ),
    ],
)
def test_malformed(raw, what):
    kind = {"12": BinlogDump, "1e": BinlogDumpGtid}[raw[:2]]
    with pytest.raises(MalformedPacket, match=what):
        kind.decode(bytes.fromhex(raw))


SET = GtidSet()


@each_case(
    ("command", "what"),
    [
        (BinlogDump("", 1 << 32, 7, 0), "the position must lie between 0 and 4294967295"),
        (BinlogDump("", 4, -1, 0), "the server id must lie"),
        (BinlogDump("", 4, 7, 1 << 16), "the flags must lie"),
        (BinlogDump("a" * 512, 4, 7, 0), "name has at most 511 bytes, none of them 0; 512 were"),
        (BinlogDump("é" * 256, 4, 7, 0), "512 were given"),
        (BinlogDump("a\0b", 4, 7, 0), "none of them 0"),
        (BinlogDump("\ud800", 4, 7, 0), "UTF-8"),
        (BinlogDump(b"binlog.000001", 4, 7, 0), "is text, not bytes"),
        (BinlogDump("", "4", 7, 0), "the position is a whole number, not '4'"),
        (BinlogDump("", True, 7, 0), "the position is a whole number, not True"),
        (BinlogDumpGtid(SET, 7, 0, "", 1 << 64), "the position must lie"),
        (BinlogDumpGtid(f"{U}:1", 7, 0), "gtids is a GtidSet, not str"),
        (RegisterReplica(1 << 32), "the server id must lie"),
        (RegisterReplica(7, "h" * 256), "the host has at most 255"),
        (RegisterReplica(7, port=65536), "the port must lie"),
    ],
)
def test_what_no_field_holds(command, what):
    with pytest.raises(UsageError, match=what):
        command.encode()


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
