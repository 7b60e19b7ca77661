"""Two speeds, one truth: what the command line writes by kernels is what it writes by events."""

import os
import random
import sys
import zlib

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tailrace
from tailrace.columns.text import lines
from tests.cli.both import no_minus_zero, same, written
from tests.columns.random_log import logs
from tests.recorded import ROOT, folders
from tests.writing import made

FOLDERS = folders(shop=True)
OUTPUTS = {
    "json": ("log", "--as", "json"),
    "text": ("log",),
    "sql": ("log", "--as", "sql"),
    "undo": ("log", "--as", "undo", "--statements", "skip"),
    "check": ("check",),
    "stat": ("stat",),
    "stat as json": ("stat", "--as", "json"),
}
WITH_STATEMENTS = (OUTPUTS["json"], OUTPUTS["sql"])
EXAMPLES = settings(
    max_examples=int(os.environ.get("TAILRACE_EXAMPLES", "30")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
SHOP = ROOT / "examples" / "shop" / "mysql"


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_corpus(folder):
    for output in OUTPUTS.values():
        if output == OUTPUTS["stat"]:
            continue  # the same figures as in JSON
        if same(*output, folder).status != 0 and output in WITH_STATEMENTS:
            same(*output, "--statements", "skip", folder)
    same("log", "--as", "undo", folder)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.slow
def test_most_of_a_log_is_stretches(output):
    counted = same(*OUTPUTS[output], SHOP)
    assert counted.taken > 3
    assert counted.rejected == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("random")


@pytest.mark.slow
@EXAMPLES
@given(
    data=logs(),
    output=st.sampled_from(list(OUTPUTS)),
    block=st.sampled_from([200, 500, 1000, 8 << 20]),
    least=st.sampled_from([1, 300]),
)
def test_random_tables(folder, data, output, block, least):
    """Blocks that end anywhere: then a transaction of more than one is read in pieces."""
    path = folder / "binlog.000007"
    path.write_bytes(data)
    same(*OUTPUTS[output], path, block=block, least=least, seen=no_minus_zero)


@EXAMPLES
@given(data=logs(), output=st.sampled_from(list(OUTPUTS)), seed=st.integers(0, 1 << 30))
@pytest.mark.slow
def test_damage_is_told_behind_the_same_lines(folder, data, output, seed):
    chance = random.Random(seed)
    data = bytearray(data)
    for _ in range(chance.choice([1, 1, 3])):
        data[chance.randrange(100, len(data))] ^= 1 << chance.randrange(8)
    if chance.randrange(3) == 0:
        del data[chance.randrange(100, len(data)) :]
    path = folder / "binlog.000008"
    path.write_bytes(data)
    block = chance.choice([200, 1000, 8 << 20])
    options = chance.choice([[], ["--skip-checksums"]])
    same(*OUTPUTS[output], *options, path, block=block, seen=no_minus_zero)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.slow
def test_long_transactions(output, tmp_path):
    """Transactions of many blocks, and a value in the last that cannot be had."""
    path = make_long(tmp_path / "binlog.000001")
    counted = same(*OUTPUTS[output], path, block=20_000)
    assert counted.pieces > 8
    assert counted.rejected == 0
    spoil_last_row(path)
    counted = same(*OUTPUTS[output], path, block=20_000)
    assert counted.pieces > 4
    assert counted.rejected == (0 if output.startswith("stat") else 1)  # which reads no values


@pytest.mark.parametrize("output", ["text", "undo"])
def test_lines_between_long_runs_are_written_by_themselves(output, tmp_path, monkeypatch):
    """As they are where the runs are large: transactions' first lines among thousands of rows."""
    monkeypatch.setattr(lines, "_WORTH_A_WRITE", 0)
    path = make_long(tmp_path / "binlog.000001")
    assert same(*OUTPUTS[output], path).rejected == 0
    assert same(*OUTPUTS[output], path, block=20_000).pieces > 8


def make_long(path):
    table = tailrace.Table.parse(
        "create table shop.orders (id int primary key, at datetime(3),"
        " name varchar(40) character set utf8mb4)"
    )
    with made.log(path, "mysql") as log:
        for base in (0, 3000, 6000):
            with log.transaction() as transaction:
                transaction.insert(table, [values(row) for row in range(base, base + 3000)])
    return path


def values(row):
    return {
        "id": row,
        "at": f"2026-11-{row % 28 + 1:02} 10:00:00.500",
        "name": f"größe\u200b {row}",
    }


def spoil_last_row(path):
    """Make the last row's text no UTF-8, and its event's checksum right."""
    events = [event for event in tailrace.open(path) if event.name.startswith("WRITE_ROWS")]
    last = events[-1]
    data = bytearray(path.read_bytes())
    end = last.offset + last.header.length - 4
    name = data.rindex("größe".encode(), 0, end)
    data[name] = 0xFF  # no UTF-8
    data[end : end + 4] = zlib.crc32(data[last.offset : end]).to_bytes(4, "little")
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("column", "value", "before", "behind"),
    [
        ("varchar(40) character set utf8mb4", "größe", "größe".encode(), b"\xff"),
        ("varchar(40) character set utf8mb4", "größe", "größe".encode()[:4], b"gr\xed\xa0"),
        ("decimal(9,0)", "123456789", b"\x87\x5b\xcd\x15", b"\xff\xff\xff\xff"),
        ("decimal(38,9)", "1.123456789", b"\x07\x5b\xcd\x15", b"\x7f"),
        ("decimal(60,9)", "1.123456789", b"\x07\x5b\xcd\x15", b"\x7f"),
        ("json", '{"größe": 1}', "größe".encode(), b"\xff"),
        ("json", '["größe"]', "größe".encode(), b"\xff"),
    ],
)
def test_verify_finds_a_value_that_is_none(tmp_path, column, value, before, behind):
    """Kernels check a value where they decode it, and nobody looks at the columns again."""
    table = tailrace.Table.parse(f"create table shop.t (id int primary key, v {column})")
    path = tmp_path / "binlog.000001"
    with made.log(path, "mysql") as log, log.transaction() as transaction:
        transaction.insert(table, [{"id": 7, "v": value}])
    data = bytearray(path.read_bytes())
    at = data.rindex(before)
    data[at : at + len(behind)] = behind
    path.write_bytes(data)
    counted = same("check", "--skip-checksums", path)
    assert counted.rejected == 1
    assert written("check", "--skip-checksums", path).status == 2


@pytest.mark.parametrize("output", ["json", "text", "stat"])
@pytest.mark.parametrize(
    "options",
    [
        ["--tables", "shop.*"],
        ["--exclude", "*.orders"],
        ["--until", "2026-11-21T12:00:00"],
        ["--rewrite-db", "shop=store"],
    ],
    ids=" ".join,
)
@pytest.mark.slow
def test_options(output, options):
    if output == "stat" and "--rewrite-db" in options:
        options = ["--tables", "*"]
    same(*OUTPUTS[output], *options, SHOP)


@pytest.mark.slow
def test_from_and_until_every_transaction():
    events = [event for event in tailrace.open(SHOP) if event.name == "GTID"]
    places = [f"{event.file}:{event.offset}" for event in events][::30]
    for start, end in zip(places, places[2:], strict=False):
        same("log", "--as", "json", "--start", start, "--until", end, SHOP)


@pytest.mark.slow
@pytest.mark.parametrize("output", ["sql", "undo"])
def test_inserts_of_several_rows(output, tmp_path):
    path = make_long(tmp_path / "binlog.000001")
    for rows in (3, 1000):
        given = [*OUTPUTS[output], "--rows-per-insert", rows]
        for each in (path, SHOP):
            counted = same(*given, each, block=20_000)
            assert counted.taken > 2
            assert counted.rejected == 0
        if output == "sql":
            lines = written(*given, path).out.split(b"\n")
            inserts = sum(line.startswith(b"INSERT") for line in lines)
            assert sum(line.startswith(b"(") for line in lines) == 9000 - inserts
            assert inserts <= 9000 / min(rows, 50) + 200


@pytest.mark.parametrize("output", ["json", "text", "sql"])
def test_a_part_that_begins_inside_a_file_has_stretches(output):
    places = [event for event in tailrace.open(SHOP) if event.name == "GTID"]
    last = [event for event in places if event.file == places[-1].file]
    start = f"{last[0].file}:{last[len(last) // 3].offset}"
    assert same(*OUTPUTS[output], "--start", start, SHOP).taken > 0


def test_without_the_extra_events_serve(monkeypatch):
    expected = written("log", "--as", "json", SHOP)
    monkeypatch.setattr("tailrace.columns.text.readers.find_spec", lambda _name: None)
    monkeypatch.setitem(sys.modules, "tailrace.columns.text.stretches", None)
    assert written("log", "--as", "json", SHOP) == expected
