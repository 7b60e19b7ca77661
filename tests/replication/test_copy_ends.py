"""Where transactions end in chunks, against the grammar that reads all events."""

from __future__ import annotations

import functools

from tailrace import open as open_log
from tailrace.constants import GTID_TYPES
from tailrace.replication.copy.scan import form_of
from tailrace.replication.copy.writer import TransactionEnds
from tailrace.transaction import TransactionAssembler
from tests.cases import each_case
from tests.replication.logs import begin_of, chunks_of, files, split


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
