"""What is whole of a file that its writer left: real files, cut and damaged at every place."""

import functools

import pytest

from tailrace import open as open_log
from tailrace.constants import GTID_TYPES, EventType
from tailrace.errors import BadMagic, StorageError
from tailrace.replication.copy.scan import Mark, form_of, scan
from tailrace.replication.copy.writer import TransactionEnds
from tailrace.storage.memory import MemoryFolder
from tailrace.transaction import TransactionAssembler
from tests.cases import each_case
from tests.recorded import CORPUS
from tests.replication.logs import begin_of, chunks_of, files, split

NAME = "binlog.000001"


def scanned(raw, mark=None):
    folder = MemoryFolder("scan")
    folder.files[NAME] = bytearray(raw)
    return scan(folder, NAME, mark=mark)


@each_case(
    "path", files("several-tables", "checksum-none", "clean-shutdown", "in-use", "legacy-positions")
)
def test_a_whole_file(path):
    raw = path.read_bytes()
    found = scanned(raw)
    assert (found.end, found.reason) == (len(raw), "")
    assert found.last == raw[split(raw)[-2] + 4]
    assert found.closed == (found.last in {EventType.ROTATE, EventType.STOP})
    gtids = [at for at in split(raw)[:-1] if raw[at + 4] in GTID_TYPES]
    assert found.begun == gtids[-1]
    assert found.description[:17] == raw[4:21]
    assert not found.description[17] & 1


@pytest.mark.slow
@each_case("path", files("several-tables", "checksum-none"))
def test_cut_at_every_byte(path):
    raw = path.read_bytes()
    starts = split(raw)
    for size in range(starts[1], len(raw), 1 if len(raw) < 6000 else 7):
        found = scanned(raw[:size])
        assert found.end == max(at for at in starts if at <= size)
        assert bool(found.reason) == (size not in starts)


@each_case("path", files("several-tables", "checksum-none"))
def test_a_head_that_is_not_whole(path):
    raw = path.read_bytes()
    for size in range(split(raw)[1]):
        assert scanned(raw[:size]).description == b""


@each_case("path", files("checksum-crc32"))
def test_a_tail_of_garbage(path):
    raw = path.read_bytes()
    starts = split(raw)
    assert scanned(raw + bytes(4096)).end == len(raw)
    assert scanned(raw + b"\xff" * 4096).end == len(raw)
    for number, at in enumerate(starts[1:-1], 1):
        damaged = bytearray(raw)
        damaged[starts[number + 1] - 1] ^= 1
        found = scanned(damaged)
        assert found.end == at
        assert "checksum" in found.reason
        zeros = raw[: at + 19] + bytes(len(raw) - at - 19)  # pages that were not written
        assert scanned(zeros).end == at


@each_case("path", files("checksum-none"))
def test_without_checksums_the_header_tells(path):
    raw = path.read_bytes()
    assert scanned(raw + bytes(4096)).end == len(raw)
    last = split(raw)[-2]
    damaged = bytearray(raw)
    damaged[last + 13] ^= 1
    found = scanned(damaged)
    assert found.end == last
    assert "says that it ends at" in found.reason


def test_events_larger_than_a_piece():
    for path in files("big-values", "big-statements", "payload-big"):
        raw = path.read_bytes()
        assert scanned(raw).end == len(raw)
        damaged = bytearray(raw)
        damaged[-1] ^= 1
        if scanned(raw).form.checksum_algorithm:
            assert scanned(damaged).end == split(raw)[-2]


def test_what_is_no_copy():
    with pytest.raises(BadMagic, match="not a binary log"):
        scanned(b"SQLite format 3\0")
    relay = next(CORPUS.glob("mariadb-11.8.relay-log/*.0*"))
    with pytest.raises(StorageError, match="relay log"):
        scanned(relay.read_bytes())


@each_case("path", files("several-tables"))
def test_a_mark(path):
    """What lies before a mark is not looked at; one that cannot be right does not count."""
    raw = path.read_bytes()
    starts = split(raw)
    whole = scanned(raw)
    for number, at in enumerate(starts[1:], 1):
        begun = max(
            (each for each in starts[:number] if raw[each + 4] in GTID_TYPES), default=starts[1]
        )
        mark = Mark(NAME, at, begun, raw[starts[number - 1] + 4])
        assert scanned(raw, mark) == whole
        torn = scanned(raw[: at + 10], mark)
        assert (torn.end, torn.last) == (at, mark.last)
        if number > 1:
            damaged = bytearray(raw)
            damaged[starts[1] + 19] ^= 1
            assert scanned(damaged).end == starts[1]
            found = scanned(damaged, mark)
            # With nothing whole behind it, a mark tells no more than the walk.
            assert found.end == len(raw)
    for wrong in (
        Mark(NAME, starts[3] + 1, 0, 2),
        Mark(NAME, len(raw) + 1, 0, 2),
        Mark("x", 4, 4, 2),
    ):
        assert scanned(raw, wrong) == whole


@functools.cache
def whole(path):
    """The ends of all transactions, and their GTIDs, by the assembler."""
    assembler = TransactionAssembler()
    found = []
    for event in open_log(str(path)):
        done = assembler.feed(event)
        if done is not None and done.complete:
            gtid = done.gtid
            found.append((done.end.offset, None if gtid is None else str(gtid)))
    return found


@each_case("count", [1, 3, 50, 100_000])
def test_cut(count):
    for path in files():
        raw = path.read_bytes()
        begin = begin_of(path.name, raw)
        ends = TransactionEnds()
        ends.begin(path.name, form_of(begin.description, str(path)), begin.offset)
        expected = whole(path)
        found = set()
        for chunk in chunks_of(path.name, raw, count):
            cuts = ends.cut(chunk)
            assert cuts == sorted(cuts)
            found |= {chunk.offset + chunk.begin_of(cut) for cut in cuts}
            if expected and chunk.end == expected[-1][0]:
                assert not ends.inside
                known = [gtid for _, gtid in expected if gtid is not None]
                assert ends.gtid == (known[-1] if known else None), path
            assert (chunk.end in found) != ends.inside
        begins = [at for at in split(raw)[:-1] if raw[at + 4] in GTID_TYPES]
        for end, _ in expected:
            # Control events behind a transaction may go with it.
            following = min((at for at in begins if at >= end), default=len(raw))
            assert any(end <= cut <= following for cut in found), path


def test_note_finds_what_cut_begins_with():
    for path in files("several-tables", "xa", "savepoints", "payload-full", "interleaved"):
        raw = path.read_bytes()
        begin = begin_of(path.name, raw)
        form = form_of(begin.description, str(path))
        noted, cut = TransactionEnds(), TransactionEnds()
        for each in (noted, cut):
            each.begin(path.name, form, begin.offset)
        for chunk in chunks_of(path.name, raw, 4):
            noted.note(chunk)
            cut.cut(chunk)
            assert noted.begun == cut.begun
            over = TransactionEnds()
            over.begin(path.name, form, noted.begun)
            events = [
                (part.offset, bytes(part.data))
                for part in chunks_of(path.name, raw[: chunk.end], 1, start=noted.begun)
            ]
            over.go_over(events)
            assert over.inside == cut.inside
