"""Filters between two materialised streams: MWL#120, "it might need different event boundaries (merge
and/or split events); it might need to augment or modify events, or inject new events".
"""

import random
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace import generators
from tailrace.columns.frames import materialised as words
from tailrace.errors import ChecksumMismatch, EventDecodeError, LogError, UsageError
from tailrace.generators.event import Place, put_in
from tailrace.generators.materialise import NativeReader, layout
from tailrace.generators.materialise.blocks import BlockReader
from tests.generators.conftest import run
from tests.generators.materialise.test_calls import exact, materialised
from tests.generators.materialise.test_values import Given
from tests.recorded import ROOT

Action = generators.Action


@pytest.fixture(scope="module")
def shop():
    """The shop's log, materialised."""
    return materialised(generators.EventStream(ROOT / "examples/shop/mysql", tables="shop.reviews"))


def events(data):
    return list(NativeReader(data).events())


def shown(data):
    return [(each.name, each.is_rolled_back, exact(each.values())) for each in events(data)]


def filtered(kind, data):
    out = bytearray()
    kind().run(data, out)
    return bytes(out)


class Everything(generators.Filter):
    pass


def test_what_passes_as_a_whole_is_the_same_bytes(shop):
    """Filterable in between without decoding what passes."""
    out = filtered(Everything, shop)
    assert out[layout.STREAM.size :] == shop[layout.STREAM.size :]
    assert shown(out) == shown(shop)


class OnlyTransactions(generators.Filter):
    def of_event(self, name):
        return Action.PASS if name.startswith("trx_") else Action.DROP


def test_a_filter_drops_events(shop):
    out = filtered(OnlyTransactions, shop)
    assert shown(out) == [each for each in shown(shop) if each[0].startswith("trx_")]
    assert len(out) < len(shop)


class Decoding(generators.Filter):
    """The base of those that decode batches."""

    def of_event(self, name):
        return Action.DECODE if name == "row_batch" else Action.PASS


class Masked(Decoding):
    def event(self, event):
        images = event.after_images
        if images is None:
            return (event,)
        return (event.replace(after_images=[{**each, "id": -each["id"]} for each in images]),)


def test_a_filter_modifies_events(shop):
    out = filtered(Masked, shop)
    before, after = events(shop), events(out)
    assert len(before) == len(after)
    changed = 0
    for one, other in zip(before, after, strict=True):
        was, now = one.values(), other.values()
        if was.get("after_images") is not None:
            assert [each["id"] for each in now.pop("after_images")] == [
                -each["id"] for each in was.pop("after_images")
            ]
            changed += 1
        assert exact(was) == exact(now)
    assert changed


class Split(Decoding):
    """Batches as single rows."""

    def event(self, event):
        if event.operation != "insert":
            return (event,)
        return [
            generators.injected(
                generators.RowWrite,
                event,
                table=event.table,
                write_set=event.write_set,
                after_image=image,
            )
            for image in event.after_images
        ]


def test_a_filter_splits_events(shop):
    found = events(filtered(Split, shop))
    batches = [each for each in events(shop) if each.name == "row_batch"]
    inserts = [each for each in batches if each.operation == "insert"]
    images = [image for each in inserts for image in each.after_images]
    assert [each.after_image for each in found if each.name == "row_write"] == images
    assert len(found) == len(events(shop)) - len(inserts) + len(images)


class Merged(generators.Filter):
    """Single inserts into the same table, one after the other, become a batch."""

    def __init__(self):
        self.held = []

    def of_event(self, name):
        return Action.DECODE

    def event(self, event):
        if event.name == "row_write" and (not self.held or self.held[0].table == event.table):
            self.held.append(event)
            return
        yield from self.end()
        yield event

    def end(self):
        held, self.held = self.held, []
        if held:
            yield generators.injected(
                generators.RowBatch,
                held[0],
                table=held[0].table,
                operation="insert",
                write_set=held[0].write_set,
                after_images=[each.after_image for each in held],
            )


def test_a_filter_merges_events(shop):
    """What was split comes together again, over a filter's stream."""
    found = events(filtered(Merged, filtered(Split, shop)))
    whole = [each for each in found if each.name == "row_batch"]
    before = [each for each in events(shop) if each.name == "row_batch"]
    assert not [each for each in found if each.name == "row_write"]
    assert [each.operation for each in whole] == [each.operation for each in before]
    assert [each.after_images for each in whole] == [each.after_images for each in before]


class Augmented(generators.Filter):
    def of_event(self, name):
        return Action.DECODE if name == "trx_commit" else Action.PASS

    def event(self, event):
        return (event.replace(is_autocommit=False, data_center="north"),)


def test_a_filter_augments_events(shop):
    """With values of accessors that the source could not tell, and with facts of its own."""
    commits = [each for each in events(filtered(Augmented, shop)) if each.name == "trx_commit"]
    assert commits
    for each in commits:
        assert each.is_autocommit is False
        assert each.values()["data_center"] == "north"


class Injected(generators.Filter):
    def of_event(self, name):
        return Action.DECODE if name == "trx_start" else Action.PASS

    def event(self, event):
        yield event
        yield generators.injected(
            generators.StatementQuery, event, query_string="/* from north */", query_bytes=b"x"
        )


def test_a_filter_injects_events(shop):
    """Consumers are told of them in their place."""
    told = []

    class Told(generators.RowConsumer):
        def trx_start(self, event):
            told.append(event.local_transaction_id)

        def stmt_query(self, event):
            if event.query_string == "/* from north */":
                assert told[-1] == event.local_transaction_id
                told.append("injected")

    run(generators.MaterialisedStream(filtered(Injected, shop)), Told())
    assert told
    assert told[1::2] == ["injected"] * (len(told) // 2)


@pytest.mark.slow
def test_filters_after_each_other_have_numbers_of_their_own(shop):
    """Each writes definitions into a stream that defines its own, too."""
    data = shop
    for kind in (Augmented, Masked, Injected, Masked, Augmented):
        data = filtered(kind, data)
    plain = filtered(Injected, filtered(Augmented, shop))
    assert shown(data) == shown(plain)
    for _ in range(10):
        data = filtered(Everything, data)
    assert shown(data) == shown(plain)
    with pytest.raises(UsageError, match="passed through 15 filters"):
        filtered(Everything, data)


def made(draw, number):
    """A stream of events of several kinds and tables, in small blocks."""
    out = bytearray()
    tables = [
        generators.ModifiedTable("d", f"t{each}", (), ()) for each in range(draw.randrange(1, 40))
    ]
    writer = generators.materialise.NativeWriter(
        out.extend, block_size=draw.choice([1, 300, 1 << 18])
    )
    for each in range(number):
        kind = draw.choice(
            [generators.TransactionStart, generators.RowWrite, generators.StatementEnd]
        )
        values = {"local_transaction_id": each + 1, "position": None, "timestamp": each}
        if kind is generators.RowWrite:
            values |= {
                "table": draw.choice(tables),
                "after_image": {"x": "y" * draw.randrange(200)},
            }
        event = kind(Given(values))
        put_in(event, Place(each + 1, rolled_back=draw.random() < 0.3))
        writer.event(event)
    writer.close()
    return bytes(out)


@settings(max_examples=60, deadline=None)
@given(st.integers())
def test_the_kernel_does_what_the_heads_say(seed):
    """Law 4: the fast path and the objects hold the same, for rules that nobody chose."""
    draw = random.Random(seed)
    data = made(draw, draw.randrange(200))
    decided = {}

    def decide(what):
        return decided.setdefault(what, draw.choice(list(Action)))

    class Random(generators.Filter):
        def of_event(self, name):
            return decide(name)

        def of_table(self, table):
            return decide(table)

        def event(self, event):
            return (event,) if event.timestamp % 3 else ()

    out = filtered(Random, data)
    expected = []
    for each in events(data):
        action = decided[each.name]
        if action is Action.PASS and each.name == "row_write":
            action = decided[each.table]
        if action is Action.PASS or (action is Action.DECODE and each.timestamp % 3):
            expected.append((each.name, each.is_rolled_back, exact(each.values())))
    assert shown(out) == expected
    for block in BlockReader(out):
        at = count = 0
        while at < len(block.frames):
            at += int.from_bytes(block.frames[at : at + 4], "little")
            count += 1
        assert count == layout.BLOCK.unpack_from(block.head)[1]


def test_a_filter_checks_what_it_passes(shop):
    damaged = bytearray(shop)
    damaged[len(shop) - 100] ^= 1
    out = bytearray()
    with pytest.raises(ChecksumMismatch, match="a block is damaged"):
        Everything().run(damaged, out)
    with pytest.raises(LogError, match="without its end mark"):
        events(out)


def test_a_frame_whose_head_lies_is_an_error():
    filters = partial(filtered, Everything)
    both = (filters, events)
    # Its length, its kind, and its table, which only a filter looks up.
    for place, reads in ((0, both), (4, both), (8, both[:1])):
        out = bytearray()
        writer = generators.materialise.NativeWriter(out.extend)
        frame = bytearray(layout.FRAME.pack(layout.HEAD, 16, 0, 0, 1))
        writer.event(generators.StatementEnd(Given({})))
        frame[place] = layout.HEAD + 1
        writer.frames(frame, 1)
        writer.close()
        for read in reads:
            with pytest.raises(EventDecodeError) as failed:
                read(out)
            assert failed.value.offset == len(out) - layout.BLOCK_HEAD - layout.HEAD, place


def test_the_kernel_has_the_layout_of_the_format():
    assert words.HEAD == layout.HEAD
    assert list(map(int, Action)) == [words.PASS, words.DROP, words.DECODE]


def test_streams_after_each_other_are_filtered_one_after_the_other(shop):
    out = filtered(Augmented, shop + shop)
    assert shown(out) == 2 * shown(filtered(Augmented, shop))
    empty = bytearray()
    generators.Materialiser(empty).close()
    assert events(filtered(Everything, empty)) == []


@pytest.mark.slow
def test_a_filter_between_the_generator_and_the_materialisation(shop):
    """ "flexibility to put a filter class in-between generator and materialisation": a consumer."""
    out = bytearray()
    masked = Masked()

    class Between(generators.RowConsumer):
        def event(self, event):
            written.write(event)

        def row_batch(self, event):
            for made in masked.event(event):
                written.write(made)

    log = generators.EventStream(ROOT / "examples/shop/mysql", tables="shop.reviews")
    with log, generators.Materialiser(out) as written:
        log.row.register(Between())
        log.run()
    assert shown(out) == shown(filtered(Masked, shop))
