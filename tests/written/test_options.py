"""Every option of the writer with every value of every other, taken by real servers.

All of a flavour's combinations would take an hour; in these each *pair* of values meets. Each is
a random schema of its own (see `tools.campaign.written`); two go the other ways.
"""

import itertools
from typing import Any

from tests.cases import each_case
from tools.campaign.written import Campaign, Plan
from tools.campaign.written_manner import Manner

Choice = dict[str, Any]

_COMMON = {
    "form": ("rows", "dicts", "tuples", "arrow"),
    "image": ("full", "minimal", "noblob"),
    "checksum": ("crc32", "none"),
    "compress": (False, True),
}
VALUES = {
    "mysql": {
        **_COMMON,
        "gtids": ("plain", "tagged", "anonymous"),
        "metadata": ("full", "minimal"),
    },
    "mariadb": {
        **_COMMON,
        "gtids": ("plain", "other domain"),
        "metadata": ("full", "minimal", "none"),
    },
}


def pairs_of(choice):
    """The pairs of values that meet in a choice."""
    return set(itertools.combinations(sorted(choice.items()), 2))


def choices(values):
    """So many choices that each pair of values is in one: always the one with most new pairs."""
    every = [
        dict(zip(values, picked, strict=True)) for picked in itertools.product(*values.values())
    ]
    missing = set().union(*map(pairs_of, every))
    found = []
    while missing:
        best = max(every, key=lambda choice: len(pairs_of(choice) & missing))
        found.append(best)
        missing -= pairs_of(best)
    return found


def manner_of(choice):
    options = {name: value for name, value in choice.items() if name not in {"form", "gtids"}}
    return Manner(choice["form"], choice["gtids"], {**options, "max_size": 4096})


def test_pairs_of_options(origin, taker):
    campaign = Campaign(origin, taker, Plan(0, seed=20261121))
    wrong = []

    for number, choice in enumerate(choices(VALUES[origin.flavour])):
        way = ("tool", "relay log")[number % 2]
        wrong += campaign.one(number, manner=manner_of(choice), way=way)

    assert wrong == []
    assert len(campaign.report.ways) == 2
    forms = " ".join(campaign.report.counts)
    assert all(f"rows as {form}" in forms for form in _COMMON["form"])


@each_case("way, form", [("served by position", "dicts"), ("served by GTID", "arrow")])
def test_the_other_ways(origin, taker, form, way):
    choice = {"form": form, "gtids": "plain", "image": "full", "checksum": "crc32"}
    if form == "arrow":
        other = "tagged" if origin.flavour == "mysql" else "other domain"
        choice |= {"gtids": other, "image": "minimal"}
    campaign = Campaign(origin, taker, Plan(0, seed=7))

    assert campaign.one(1, manner=manner_of({**choice, "compress": True}), way=way) == []
    assert campaign.report.ways[way] == 1
    assert campaign.report.counts["transactions"]
