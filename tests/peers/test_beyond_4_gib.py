"""Files beyond 4 GiB: the header's position wraps, offsets must not."""

import struct

import pytest

import tailrace
from tailrace.columns import changes, plan_splits
from tailrace.columns.batches import read_split
from tailrace.constants import MAGIC, EventType
from tailrace.log_name import file_number
from tailrace.position import Position
from tailrace.storage import EventReader, find
from tests.recorded import CORPUS

E = EventType


FILLER = 96 << 20


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A real log, the same with 4.2 GiB of ignorable events (sparse) behind its head, and the shift."""
    source = CORPUS / "mysql-9.7.checksum-none" / "binlog.000001"
    path = tmp_path_factory.mktemp("large") / "binlog.000001"
    count = (1 << 32) // FILLER + 2
    with path.open("wb") as file:
        file.write(MAGIC)
        filled = False
        for _, raw in EventReader(source):
            if not filled and raw[4] not in {E.FORMAT_DESCRIPTION, E.PREVIOUS_GTIDS}:
                filled = True
                for _ in range(count):
                    at = file.tell()
                    file.write(
                        struct.pack(
                            "<IBIIIH", 0, E.IGNORABLE, 1, FILLER, (at + FILLER) & 0xFFFFFFFF, 0x80
                        )
                    )
                    file.seek(at + FILLER)
            end = (file.tell() + len(raw)) & 0xFFFFFFFF
            file.write(
                raw
                if raw[4] == E.FORMAT_DESCRIPTION
                else raw[:13] + struct.pack("<I", end) + raw[17:]
            )
    assert path.stat().st_size > 1 << 32
    assert path.stat().st_blocks * 512 < 64 << 20, "the file is not sparse"
    return source, path, count * FILLER


@pytest.mark.slow
def test_positions_past_4_gib_as_objects(large):
    source, path, shift = large
    small = list(tailrace.open(source))
    log = tailrace.open(path)
    found = []
    for event in log:
        if event.name == "IGNORABLE":
            assert event.header.length == FILLER
        else:
            found.append((event.name, event.offset, event.end_offset, event.body))
            assert (
                event.header.log_pos == (event.end_offset or 0) & 0xFFFFFFFF
                or event.name == "FORMAT_DESCRIPTION"
            )
    head = 2
    assert found == [
        (one.name, (one.offset or 0) + by, (one.end_offset or 0) + by, one.body)
        for by, one in ((shift if number >= head else 0, one) for number, one in enumerate(small))
    ]
    assert log.position == Position("binlog.000001", path.stat().st_size)
    whole = list(tailrace.open(source).transactions())
    for number in (0, len(whole) // 2, len(whole) - 1):
        one = whole[number]
        assert one.end is not None
        start = Position(one.end.file, one.end.offset + shift)
        assert start.offset > 1 << 32
        log.seek(f"{start}")
        rest = list(log.transactions())
        assert [len(each.events) for each in rest] == [
            len(each.events) for each in whole[number + 1 :]
        ]
        assert [each.end and each.end.offset - shift for each in rest] == [
            each.end and each.end.offset for each in whole[number + 1 :]
        ]


@pytest.mark.slow
def test_positions_past_4_gib_in_columns(large):
    source, path, shift = large
    small, big = list(changes(source, statements="skip")), list(changes(path, statements="skip"))
    wanted = [row for batch in small for row in batch.to_pylist()]
    got = [row for batch in big for row in batch.to_pylist()]
    assert len(got) == len(wanted) > 10
    for one, two in zip(wanted, got, strict=True):
        assert two["_pos"] == one["_pos"] + shift
        assert two["_pos"] > 1 << 32
        for name in ("before", "after", "_op", "_table", "_gtid", "_ts"):
            assert two[name] == one[name]
    number = file_number(path.name) or 0
    assert {int(row["_seq"]) >> 92 for row in got} == {number}
    assert [int(row["_seq"]) >> 48 & (1 << 44) - 1 for row in got] == [row["_pos"] for row in got]
    (series,) = find(path)
    splits = plan_splits(series, target_bytes=1 << 30)
    assert len(splits) > 1
    assert splits[-1].end == path.stat().st_size
    split = [
        row
        for each in splits
        if each.end > 1 << 32  # all rows are there
        for batch in read_split(each, statements="skip")
        for row in batch.to_pylist()
    ]
    assert split == got
