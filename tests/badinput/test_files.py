"""Files that are no log, or not all of one: what every way of reading says."""

import pytest

from tailrace import log
from tailrace.columns import changes, plan_splits
from tailrace.errors import TailraceError, TruncatedEvent
from tailrace.storage import find
from tests.cases import each_case
from tests.recorded import CORPUS
from tools.campaign import trial
from tools.campaign.mutate import Parsed

SMALL = {
    "mysql": CORPUS / "mysql-9.7.clean-shutdown" / "binlog.000001",
    "mariadb": CORPUS / "mariadb-11.8.clean-shutdown" / "binlog.000001",
}
FLAVOURS = each_case("flavour", SMALL)

NO_LOGS = {
    "empty": b"",
    "three bytes": b"\xfebi",
    "magic alone": b"\xfebin",
    "text": b"#!/bin/sh\necho not a log\n" * 20,
    "zeros": bytes(5000),
    "magic and zeros": b"\xfebin" + bytes(5000),
    "magic and ones": b"\xfebin" + b"\xff" * 5000,
    "magic and text": b"\xfebin" + b"once upon a time " * 300,
    "png": b"\x89PNG\r\n\x1a\n" + bytes(200),
    "zstd": b"\x28\xb5\x2f\xfd" + bytes(200),
}


def tried(path):
    found = trial.Trial()
    found.run(path, path.name)
    assert not found.failures, "\n".join(found.failures)
    return found.outcomes


@each_case("data", NO_LOGS.values(), ids=NO_LOGS)
def test_what_is_no_log(tmp_path, data):
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    outcomes = tried(path)
    for way in ("objects", "columns", "splits", "tailrace log", "tailrace stat"):
        if data != b"\xfebin" or way != "splits":  # a log that just begins
            assert not outcomes[f"{way}: read"], outcomes


def test_a_folder_without_logs_and_what_is_not_there(tmp_path):
    tried(tmp_path)
    tried(tmp_path / "missing")


@FLAVOURS
def test_truncated_at_each_byte(tmp_path, flavour):
    """The log was closed, so each cut inside an event is an error, however it is read."""
    whole = SMALL[flavour].read_bytes()
    path = tmp_path / "binlog.000001"
    path.write_bytes(whole)
    offsets = [event.offset for event in log.open(path)]
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        if size > 4 and size in offsets:  # nothing tells that more was there
            assert [event.offset for event in log.open(path)] == offsets[: offsets.index(size)]
            continue
        for read in (_objects, _columns, _splits):
            if size == len(b"\xfebin") and read is _splits:
                continue  # a log that just begins
            with pytest.raises(TruncatedEvent if size >= 4 else TailraceError):
                read(path)


@FLAVOURS
@each_case("seal", [False, True], ids=["as it is", "with a new checksum"])
def test_each_byte_flipped(tmp_path, flavour, seal):
    """With the checksum as it was, no change is missed; with a new one, the error is ours.

    Of what is behind headers, a third of the bytes: the campaign flips others at random.
    """
    whole = SMALL[flavour].read_bytes()
    path = tmp_path / "binlog.000001"
    sizes = [len(event) for event in Parsed.of(whole).events]
    missed = []
    for index, size in enumerate(sizes):
        for place in [*range(0 if seal else 19), *range(index % 3, size, 3)]:
            parsed = Parsed.of(whole)
            parsed.events[index][place] ^= 0x41
            if seal:
                parsed.seal(index, size=False)
            path.write_bytes(parsed.bytes())
            failed = 0
            for read in (_objects, _columns, _splits):
                try:
                    read(path)
                except TailraceError:
                    failed += 1
            if not seal and not failed:
                missed.append((index, place))
    # The last event's length may say that there is more to come: so it is with a live log.
    last = len(sizes) - 1
    assert [each for each in missed if each[0] != last] == []


def _objects(path):
    for event in log.open(path):
        event.check()


def _columns(path):
    for batch in changes(path, statements="skip"):
        batch.validate(full=True)


def _splits(path):
    for series in find(path):
        plan_splits(series, target_bytes=1)
