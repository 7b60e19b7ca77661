"""The comparison itself: what differs is found."""

import pytest

from tests.cases import each_case
from tools.campaign.replay import UNKNOWN, Replayed, ReplayError


def table(**more):
    found = Replayed("t", **more)
    found.take("insert", None, {"id": "1", "v": "a"})
    found.take("insert", None, {"id": "2", "v": None})
    found.take("update", {"id": "2"}, {"v": "b"})
    return found


def test_changes_are_replayed():
    table().compare([{"id": "2", "v": "b"}, {"id": "1", "v": "a"}])


@each_case(
    "rows",
    [
        [],
        [{"id": "1", "v": "a"}],
        [{"id": "1", "v": "a"}, {"id": "2", "v": "B"}],
        [{"id": "1", "v": "a"}, {"id": "2", "v": None}],
        [{"id": "1", "v": "a"}, {"id": "1", "v": "a"}],
    ],
)
def test_what_differs_is_found(rows):
    with pytest.raises(ReplayError):
        table().compare(rows)


def test_an_update_of_nothing_is_found():
    with pytest.raises(ReplayError, match="not there"):
        table().take("update", {"id": "3"}, {"v": "b"})
    with pytest.raises(ReplayError, match="not there"):
        table().take("delete", {"id": "1", "v": "b"}, None)


def test_an_unknown_value_fits_anything_and_no_other_does():
    found = table(generated=frozenset({"g"}))
    found.compare([{"id": "2", "v": "b", "g": "7"}, {"id": "1", "v": "a", "g": None}])
    assert found.rows[0]["g"] is UNKNOWN
    with pytest.raises(ReplayError):
        found.compare([{"id": "2", "v": "x", "g": "7"}, {"id": "1", "v": "a", "g": None}])
