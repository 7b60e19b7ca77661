"""Encrypted logs through every door: what is read is what the server sends of them in clear."""

import pickle
from pathlib import Path

import pytest

import tailrace
from tailrace.columns import plan_splits, read_split
from tailrace.errors import KeyMissing
from tailrace.events import GtidEvent, MariadbGtidEvent
from tailrace.position import Position
from tailrace.storage import LogSeries, find, find_all, keyring
from tests.cases import each_case
from tests.cli.conftest import run  # noqa: F401 - a fixture
from tests.storage.encryption.conftest import start
from tests.waiting import DEADLINE


def same(one, other):
    """Whether two lists of batches are the same, with what their schemas say."""
    pairs = zip(one, other, strict=True)
    return all(a.equals(b, check_metadata=True) for a, b in pairs)


def test_events_and_record_batches_are_those_of_the_plain_log(recorded):
    (encrypted,) = find(recorded.pairs[0][0].parent, recorded.keyring)
    (clear,) = find(recorded.pairs[0][1].parent)
    wanted = list(tailrace.changes(LogSeries("source", clear.files)))
    assert sum(batch.num_rows for batch in wanted) > 300
    assert same(list(tailrace.changes(LogSeries("source", encrypted.files))), wanted)
    for one, other in recorded.pairs:
        wanted = list(tailrace.open(other))
        made = list(tailrace.open(one, keyring=str(recorded.keyring)))
        assert [(e.offset, e.header, e.body) for e in made] == [
            (e.offset, e.header, e.body) for e in wanted
        ]
        made = list(tailrace.changes(one, keyring=recorded.keyring))
        assert same(made, list(tailrace.changes(other)))


def test_reading_begins_anywhere(recorded):
    encrypted, clear = recorded.pairs[0]
    whole = list(tailrace.open(clear))
    begins = [event for event in whole if isinstance(event, (GtidEvent, MariadbGtidEvent))]
    for event in (*begins[1::13], begins[-1], whole[-1]):
        log = tailrace.open(encrypted, keyring=recorded.keyring, expand_payloads=False)
        log.seek(Position(encrypted.name, event.offset or 0))
        offsets = [each.offset for each in log]
        assert offsets[-1] == whole[-1].offset
        assert offsets[1] == event.offset


def test_splits_pickle_without_keys_and_read_the_same(recorded):
    files = [encrypted for encrypted, _ in recorded.pairs]
    (series,) = find_all(files, recorded.keyring)
    list(tailrace.changes(series))  # so that keys were read
    splits = plan_splits(series, target_bytes=1 << 16)
    assert len(splits) > len(files)
    secrets = [
        raw
        for name in keyring.open(recorded.keyring).names()
        for raw in [keyring.open(recorded.keyring).key(name)]
    ]
    assert secrets
    made = []
    for split in splits:
        carried = pickle.dumps(split)
        assert not any(raw in carried or raw.hex().encode() in carried for raw in secrets)
        made += [row for batch in read_split(pickle.loads(carried)) for row in batch.to_pylist()]
    clear = recorded.pairs[0][1].parent
    wanted = [row for batch in tailrace.changes(clear) for row in batch.to_pylist()]
    assert sorted(made, key=lambda row: row["_seq"]) == sorted(wanted, key=lambda r: r["_seq"])


def test_without_the_key_it_is_named_and_what_to_do(recorded):
    encrypted, _ = recorded.pairs[-1]
    doors = [
        lambda: tailrace.open(encrypted),
        lambda: list(tailrace.changes(encrypted)),
        lambda: plan_splits(find(encrypted)[0]),
    ]
    for door in doors:
        with pytest.raises(KeyMissing, match=r"--keyring FILE") as caught:
            door()
        assert caught.value.key_id in str(caught.value)
        assert str(encrypted) in str(caught.value)


@each_case(
    "how",
    [
        *(("log", "--as", "json"), ("log", "--as", "json", "--events"), ("log", "--as", "sql")),
        *(("stat", "--as", "json"), ("check",)),
    ],
)
def test_commands_take_a_keyring(recorded, how, run):  # noqa: F811 - the fixture
    encrypted, clear = recorded.pairs[0]
    wanted, made = run(*how, clear), run(*how, encrypted, "--keyring", recorded.keyring)
    assert made.status == wanted.status == 0
    assert how[0] != "log" or len(wanted.lines) > 100
    assert how[0] == "check" or made == wanted  # it prints paths


@each_case("kind", ["mysql-9.7", "mariadb-11.8 aes_cbc"])
def test_a_running_server_is_followed(kind, tmp_path):
    server, keys = start(kind, tmp_path / "it")
    try:
        server.execute("CREATE DATABASE d")
        server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
        rotations = 12
        with tailrace.open(Path(server.data), follow=True, keyring=keys) as log:
            log.connect()
            for number in range(rotations):
                server.execute("INSERT INTO d.t VALUES (%s)", (number,))
                server.rotate()
            seen = []
            while len(seen) < rotations:
                event = log.wait_for_next_event(DEADLINE)
                assert event is not None
                if "WRITE_ROWS" in event.name:
                    seen.append(int.from_bytes(event.body[-4:], "little"))
        assert seen == list(range(rotations))
    finally:
        server.stop()
