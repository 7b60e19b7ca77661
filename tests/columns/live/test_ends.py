"""Ends of transactions found by the kernel are those of the grammar, on every recorded log."""

import numpy as np
import pytest

from tailrace.columns.frames.plan import PADDING
from tailrace.columns.live.ends import Ends
from tailrace.errors import TailraceError
from tailrace.events import DecodeContext
from tailrace.storage import EventReader, find
from tailrace.transaction import Boundary, BoundaryParser
from tests.cases import each_case
from tests.recorded import folders

FOLDERS = folders("relay", "encrypted")
"""Of the others no stream looks like that: several format descriptions, or ciphers."""


def block(events):
    data = b"".join(events)
    memory = np.zeros(len(data) + PADDING, np.uint8)
    memory[: len(data)] = np.frombuffer(data, np.uint8)
    return memory[: len(data)]


def by_grammar(events):
    """Offsets behind which a transaction has ended, or nothing is under way."""
    context, parser, found = DecodeContext(), BoundaryParser(), []
    for offset, raw in events:
        event = context.decode(raw, file="log.000001", offset=offset)
        if parser.feed(event) in {Boundary.END, Boundary.OUTSIDE}:
            found.append(offset + len(raw))
    return found


def by_kernel(events, cut):
    """The offset up to which all is whole, after each block; a block has so many events."""
    ends = Ends()
    ends.begin_file("log.000001", events[0][1])
    found = [4 + len(events[0][1])]
    for index in range(1, len(events), cut):
        some = events[index : index + cut]
        steps = ends.feed(block(raw for _, raw in some), some[0][0])
        assert [step.end for step in steps] == sorted({step.end for step in steps})
        found += [step.end for step in steps]
    return found, ends


@each_case("folder", FOLDERS, ids=lambda path: path.name)
@pytest.mark.slow
def test_corpus(folder):
    for series in find(folder):
        for file in series.files:
            events = [(offset, bytes(raw)) for offset, raw in EventReader(file)]
            try:
                expected = by_grammar(events)
            except TailraceError:
                with pytest.raises(TailraceError):
                    by_kernel(events, 1)
                continue
            found, ends = by_kernel(events, 1)
            assert found == expected
            for cut in (2, 7, 1 << 30):
                some, ends = by_kernel(events, cut)
                assert set(some) <= set(expected)
                assert some[-1] == expected[-1] or ends.inside or cut > 1
