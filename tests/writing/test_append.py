"""`append`: going on with a log, and cutting back what a crash left."""

import shutil
import struct
from zlib import crc32

import pytest

import tailrace
from tailrace.errors import (
    BadMagic,
    BoundaryError,
    ChecksumMismatch,
    EventEncodeError,
    LogError,
    StorageError,
    TruncatedEvent,
    UnknownEvent,
    UsageError,
)
from tailrace.events import OpaqueEvent
from tailrace.log import open as open_log
from tailrace.storage.memory import forget_memory, memory_folder
from tailrace.writing import LogRecovered
from tests.cases import each_case
from tests.writing.made import (
    FLAVOURS,
    append,
    check_files,
    ddl,
    events_of,
    fill,
    log,
    transactions_of,
)

both = each_case("flavour", FLAVOURS)


def killed(folder, flavour, **given):
    """A log as a killed writer leaves it: its file, where its transactions end, its bytes."""
    out = log(folder / "binlog.000001", flavour, **given)
    ends = [out.position.offset]
    for number in range(1, 4):
        fill(out, 1, first=number, rows=2)
        ends.append(out.position.offset)
    ddl(out, 1, first=9)
    ends.append(out.position.offset)
    held = (folder / "binlog.000001").read_bytes()
    out.close()
    (folder / "binlog.000001").write_bytes(held)
    return folder / "binlog.000001", ends, held


@each_case(("flavour", "checksum"), [("mysql", "crc32"), ("mariadb", "none")])
@pytest.mark.slow
def test_every_torn_tail_is_cut_to_whole_transactions(tmp_path, flavour, checksum):
    file, ends, held = killed(tmp_path, flavour, checksum=checksum)
    wholes = {event.end_offset for event in events_of(file)}
    forget_memory(flavour)
    folder = memory_folder(flavour)
    for size in range(ends[0], len(held) + 1):
        folder.files["binlog.000001"] = bytearray(held[:size])
        kept = max(end for end in ends if end <= size)
        said = []
        with append(f"memory:{flavour}", recovered=said.append) as out:
            assert out.position.offset == kept
            assert out.files == ["binlog.000001"]
            assert out.recovery == (said[0] if said else None)
            if size == kept:
                assert not said
            else:
                assert len(said) == 1
                assert (said[0].size, said[0].kept, said[0].removed) == (size, kept, size - kept)
                assert said[0].file == f"memory:{flavour}/binlog.000001"
                inside = "a transaction" if size in wholes else "an event"
                assert f"ends inside {inside}" in str(said[0])
            assert folder.files["binlog.000001"] == held[:kept]
            assert len(out.gtids) == (ends.index(kept) if flavour == "mysql" else kept > ends[0])
    forget_memory(flavour)


@both
def test_appending_goes_on_with_all_that_the_file_says(tmp_path, flavour):
    file, _ends, held = killed(tmp_path / flavour, flavour)
    file.write_bytes(held[:-5])
    with pytest.warns(LogRecovered, match=r"binlog\.000001: it ends inside an event; cut back"):
        out = append(file)
    with out:
        assert out.server_id == 7
        assert out.server_version.startswith({"mysql": "9.7.0", "mariadb": "11.8"}[flavour])
        fill(out, 2, first=20)
        out.rotate()
        ddl(out, 1, first=30)
    check_files(file, file.with_name("binlog.000002"))
    found = transactions_of(file.parent)
    if flavour == "mysql":
        assert [each.gtid.gno for each in found] == list(range(1, 7))
    else:
        assert [str(each.gtid) for each in found] == [f"0-7-{n}" for n in range(1, 7)]
    maps = [event.table_id for event in events_of(file) if event.name == "TABLE_MAP"]
    assert maps == [1, 1, 1, 2, 2]
    xids = [event.xid for event in events_of(file) if event.name == "XID"]
    assert xids == [1, 2, 3, 4, 5]


@both
def test_closed_file_is_followed_by_a_new_one(tmp_path, flavour):
    folder = tmp_path / flavour
    with log(folder / "binlog.000001", flavour) as out:
        fill(out, 2)
    held = (folder / "binlog.000001").read_bytes()
    with append(folder) as out:
        assert out.recovery is None
        assert out.files == ["binlog.000001", "binlog.000002"]
        fill(out, 2, first=5)
    assert (folder / "binlog.000001").read_bytes() == held
    second = events_of(folder / "binlog.000002")
    assert second[0].created == second[0].timestamp  # as after a server's start
    assert len(transactions_of(folder)) == 4
    names = [each.gtid for each in transactions_of(folder)]
    assert len(set(names)) == 4


@both
def test_a_log_named_by_its_index_its_folder_its_file(tmp_path, flavour):
    folder = tmp_path / flavour
    with log(folder / "binlog.000001", flavour):
        pass
    append(folder / "binlog.index").close()
    append(f"file://{folder}").close()
    append(folder / "binlog.000003").close()
    assert [path.name for path in sorted(folder.iterdir())][:4] == [
        f"binlog.00000{n}" for n in range(1, 5)
    ]
    with pytest.raises(UsageError, match=r"binlog\.000004 comes after it"):
        append(folder / "binlog.000002")
    log(folder / "other.000001", flavour).close()
    with pytest.raises(UsageError, match=r"several logs \(binlog, other\)"):
        append(folder)
    append(folder / "other.index").close()


def test_nothing_to_append_to(tmp_path):
    with pytest.raises(StorageError, match="no log is in this folder"):
        append(tmp_path)
    with pytest.raises(StorageError, match="no log of that name"):
        append(tmp_path / "binlog.000001")
    (tmp_path / "binlog.000001").write_bytes(b"#!/bin/sh")
    with pytest.raises(BadMagic, match="not a binary log"):
        append(tmp_path)
    assert (tmp_path / "binlog.000001").read_bytes() == b"#!/bin/sh"


@both
def test_options_of_the_file_hold(tmp_path, flavour):
    folder = tmp_path / flavour
    with log(folder / "binlog.000001", flavour, checksum="none"):
        pass
    with append(folder, server_id=12, max_size=4096) as out:
        assert not out.checksums
        ddl(out, 60)
        assert len(out.files) > 2
    second = events_of(folder / "binlog.000002")
    assert {event.header.server_id for event in second} == {12}
    assert {event.checksum for event in second[1:]} == {None}
    last = folder / out.files[-1]
    assert not events_of(last)[0].created


@both
@each_case("checksum", ["crc32", "none"])
def test_a_flipped_length_is_damage_and_nothing_is_cut(tmp_path, flavour, checksum):
    """It looks like a torn tail, but whole events follow."""
    file, _, held = killed(tmp_path / flavour, flavour, checksum=checksum)
    for event in events_of(file)[1:-2]:
        for length in (0x7FFF, 5, 1 << 29):
            broken = bytearray(held)
            struct.pack_into("<I", broken, event.offset + 9, length)
            file.write_bytes(broken)
            with pytest.raises(LogError, match="nothing is cut") as error:
                append(file)
            assert error.value.offset == event.offset
            assert file.read_bytes() == broken


@both
def test_damage_before_the_end_is_refused(tmp_path, flavour):
    file, ends, held = killed(tmp_path / flavour, flavour)
    last = transactions_of(file)[-1].start.offset
    for at in range(30, last, 7):
        broken = bytearray(held)
        broken[at] ^= 0x10
        file.write_bytes(broken)
        with pytest.raises(LogError, match=None if at < ends[0] else "nothing is cut"):
            append(file)
        assert file.read_bytes() == broken


@both
def test_damaged_last_bytes_of_an_open_file_are_cut_and_of_a_closed_one_not(tmp_path, flavour):
    file, ends, held = killed(tmp_path / flavour, flavour)
    file.write_bytes(held[:-20] + bytes(20))
    with pytest.warns(LogRecovered, match="last bytes are damaged"):
        append(file).close()
    assert len(transactions_of(file)) == len(ends) - 2

    closed = bytearray(held[:-20] + bytes(20))
    closed[21] &= ~1  # IN_USE
    file.write_bytes(closed)
    with pytest.raises(ChecksumMismatch, match="not open"):
        append(file)
    assert file.read_bytes() == closed


@both
def test_zeros_after_a_power_cut(tmp_path, flavour):
    file, ends, held = killed(tmp_path / flavour, flavour)
    file.write_bytes(held[: ends[2] + 30] + bytes(5000))
    with pytest.warns(LogRecovered):
        append(file).close()
    assert len(transactions_of(file)) == 2


@both
def test_a_file_without_a_whole_head_gives_its_number_back(tmp_path, flavour):
    folder = tmp_path / flavour
    with log(folder / "binlog.000001", flavour) as out:
        fill(out, 2)
        out.rotate()
        head = out.position.offset
    second = folder / "binlog.000002"
    held = second.read_bytes()
    for size in (0, 3, 4, 20, 100, 130, head - 1) if flavour == "mysql" else (0, 4, 260):
        second.write_bytes(held[:size])
        with pytest.warns(LogRecovered) as warned:
            out = append(folder)
        assert "cut back" in str(warned[0].message)
        with out:
            assert out.recovery.kept == 0
            assert out.files == ["binlog.000001", "binlog.000002"]
            fill(out, 1, first=8)
        assert len(transactions_of(folder)) == 3
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "binlog.000001").write_bytes(held[:50])
    with pytest.raises(StorageError, match="create the log again"):
        append(alone)


@both
def test_a_file_that_the_index_misses_is_listed(tmp_path, flavour):
    """A writer that was killed between making a file and listing it."""
    folder = tmp_path / flavour
    with log(folder / "binlog.000001", flavour) as out:
        fill(out, 1)
        out.rotate()
        held = (folder / "binlog.000002").read_bytes()
    (folder / "binlog.000002").write_bytes(held)
    (folder / "binlog.index").write_text("./binlog.000001\n")
    with append(folder) as out:
        assert out.files == ["binlog.000001", "binlog.000002"]
        fill(out, 1, first=2)
    assert len(transactions_of(folder)) == 2


@both
def test_drafts_are_no_logs_and_are_removed(tmp_path, flavour):
    """A writer that was killed before a new file had its name."""
    folder = tmp_path / flavour
    with log(folder / "binlog.000001", flavour) as out:
        fill(out, 1)
    shutil.copy(folder / "binlog.000001", folder / "binlog.000002.new")
    (folder / "binlog.index.new").write_text("./binl")
    assert len(transactions_of(folder)) == 1
    append(folder).close()
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["binlog.000001", "binlog.000002", "binlog.index"]


@both
def test_bytes_behind_the_end_are_not_cut(tmp_path, flavour):
    with log(tmp_path / flavour / "binlog.000001", flavour) as out:
        fill(out, 1)
    file = tmp_path / flavour / "binlog.000001"
    held = file.read_bytes() + bytes(10)
    file.write_bytes(held)
    with pytest.raises(LogError, match="10 bytes follow the event that closed the file"):
        append(file)
    assert file.read_bytes() == held


def test_a_log_out_of_order_is_refused(tmp_path):
    file, ends, held = killed(tmp_path / "mysql", "mysql")
    gtid = held[ends[0] : ends[0] + 79]
    body = bytearray(gtid[:-4])
    struct.pack_into("<I", body, 13, len(held) + 79)
    twice = bytes(body) + struct.pack("<I", crc32(body))
    struct.pack_into("<I", body, 13, len(held) + 2 * 79)
    twice += bytes(body) + struct.pack("<I", crc32(body))
    file.write_bytes(held + twice)
    with pytest.raises(BoundaryError):
        append(file)
    assert file.read_bytes() == held + twice


def test_truncated_head_says_where(tmp_path):
    """A closed file that ends inside an event was cut by a copy, not by a crash: it is cut, too."""
    file, _, held = killed(tmp_path / "mysql", "mysql")
    closed = bytearray(held[:-3])
    closed[21] &= ~1
    file.write_bytes(closed)
    with pytest.raises(TruncatedEvent):
        events_of(file)
    with pytest.warns(LogRecovered, match="ends inside an event"):
        append(file).close()
    check_files(file)


def mine(data, file):
    """An event of a type that nobody knows."""
    form = open_log(file, unknown="opaque").format
    return OpaqueEvent.make(type=198, data=data, server_id=7, form=form)


@both
@each_case("checksum", ["crc32", "none"])
def test_a_log_with_events_of_unknown_types_is_continued(tmp_path, flavour, checksum):
    """WL#3283, Pitch 3: events of a format that is not known are written, read, and kept."""
    file, ends, _ = killed(tmp_path / flavour, flavour, checksum=checksum)
    for number in (1, 2, 3):
        with append(file.parent) as out:
            out.write(mine(b"%d" % number, file))
            ddl(out, 1, first=20 + number)
    opened = open_log(file.parent, unknown="opaque")
    assert [event.data for event in opened if isinstance(event, OpaqueEvent)] == [b"1", b"2", b"3"]
    assert len(list(opened.transactions())) == len(ends) - 1 + 3
    with pytest.raises(UnknownEvent):
        list(tailrace.changes(file.parent))  # such an event may hold rows


@both
@each_case("checksum", ["crc32", "none"])
def test_a_whole_event_of_an_unknown_type_after_damage_is_not_cut(tmp_path, flavour, checksum):
    """WL#3283, Pitch 3."""
    file, _, held = killed(tmp_path / flavour, flavour, checksum=checksum)
    out = append(file)
    for data in (b"one", b"two"):
        out.write(mine(data, file))
    broken = bytearray(file.read_bytes())
    out.close()
    broken[len(held) + 10] ^= 0x40  # the first one's length
    file.write_bytes(broken)
    with pytest.raises(LogError, match="a whole event follows"):
        append(file)
    assert file.read_bytes() == broken


def test_a_log_without_a_mark_is_a_servers_or_of_an_earlier_release(tmp_path):
    path, _, held = killed(tmp_path, "mysql", server_version="8.0.36", checksum="none")
    raw = bytearray(held)
    raw[4 + 17] = raw[4 + 19 + 51] = 0  # not open, and without the mark
    end = 4 + int.from_bytes(raw[13:17], "little")
    raw[end - 4 : end] = struct.pack("<I", crc32(raw[4 : end - 4]))
    path.write_bytes(raw)
    with pytest.raises(StorageError, match="or an earlier release of Tailrace wrote it"):
        tailrace.append(tmp_path)
    copy = tailrace.create(tmp_path / "copy" / "binlog", flavour="mysql", server_id=1)
    with copy, open_log(str(path)) as events:
        for event in events:
            copy.write(event)
    tailrace.append(tmp_path / "copy").close()


def test_a_version_that_leaves_no_space_for_the_mark(tmp_path):
    with pytest.raises(EventEncodeError, match="by_tailrace"):
        log(tmp_path / "binlog.000001", "mysql", server_version="9.7.0-" + "x" * 43)
