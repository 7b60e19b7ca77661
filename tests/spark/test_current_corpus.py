"""Current states out of recorded logs, against what the servers' own SELECT said at the end."""

from __future__ import annotations

import json

import pytest

from tailrace.errors import TailraceError
from tests.recorded import ROOT, folders, has
from tests.spark.replay import current_states, differences, rows_of

SHOP = ROOT / "examples" / "shop"
CASES = folders()


# Where there can be no current state, and why; the words are of the reason that is given.
REFUSED = {
    "keyless": "primary key",
    "near": "primary key",
    "uniquely": "primary key",
    "commented": "primary key",
    "renamed": "primary key",
    "selected_old": "primary key",
    "parts": "partition",
}


def allowed_refusal(case, table, reason):
    if word := REFUSED.get(table):
        return word in reason
    return has(case, "not-full") and "inserts left columns" in reason


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_current_state_is_what_select_gave(case, tmp_path):
    expected = json.loads((case / "expected.json").read_text())
    if not expected["rows_complete"]:
        pytest.skip("the log does not hold all of the tables' changes")
    try:
        states = current_states(case, tmp_path)
    except TailraceError:
        if not has(case, "unreadable", "unknown-documents"):
            raise
        return
    for name, table in expected["tables"].items():
        short = name.partition(".")[2]
        built = states.get(name)
        if built is None:
            assert table["count"] == 0
            continue
        reason = built.current.refused
        if reason is not None:
            assert allowed_refusal(case, short, reason), reason
            continue
        assert built.current.unseen == 0
        if built.current.unlogged:  # MariaDB 11 leaves generated columns out of updates
            assert built.current.unlogged == ("s", "v")
            continue
        assert differences(rows_of(built), table) == []


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
@pytest.mark.parametrize("target_bytes", [64 << 20, 20_000])
def test_the_shop_in_large_and_small_splits(flavour, target_bytes, tmp_path):
    expected = json.loads((SHOP / "expected.json").read_text())[flavour]["tables"]
    states = current_states(SHOP / flavour, tmp_path, "error", target_bytes=target_bytes)
    assert set(states) == set(expected)
    for name, table in expected.items():
        assert states[name].current.refused is None
        assert differences(rows_of(states[name]), table) == []


def test_a_table_cut_into_buckets(monkeypatch, tmp_path):
    monkeypatch.setattr("tailrace.spark.current.plan.BUCKET_BYTES", 20_000)
    expected = json.loads((SHOP / "expected.json").read_text())
    for flavour in expected:
        states = current_states(SHOP / flavour, tmp_path / flavour, target_bytes=50_000)
        assert max(len(each.paths) for each in states.values()) >= 8
        for name, table in expected[flavour]["tables"].items():
            assert differences(rows_of(states[name]), table) == []
