"""The options that a lake is created with: as keyword arguments, on the command line, and checked."""

import inspect
from dataclasses import fields

import pytest

from tailrace.cli.mirror.command import mirror as command
from tailrace.errors import PipelineError, UsageError
from tailrace.spark import mirror
from tailrace.spark.manifest.lake_options import LakeKeywords, LakeOptions
from tailrace.table_filter import TableFilter
from tests.cases import each_case

WORDS = LakeKeywords.__annotations__.keys()


def test_the_words_are_one_set():
    assert {each.name for each in fields(LakeOptions)} | {"exclude"} == WORDS
    assert inspect.signature(command).parameters.keys() >= WORDS
    described = inspect.getdoc(mirror)
    for word in (*WORDS, *inspect.signature(mirror).parameters):
        assert word == "lake" or f"``{word}``" in described, word


def test_a_text_is_one_table_one_kind_and_one_column():
    found = LakeOptions.of(
        {"tables": "shop.orders", "keep": "current", "keys": {"shop.orders": "id"}}
    )
    assert found.tables.only == ("shop.orders",)
    assert found.keep == ("current",)
    assert found.keys == (("shop.orders", ("id",)),)
    assert LakeOptions.of({"keep": ["history", "current"]}).keep == ("current", "history")


@each_case(
    "given",
    [
        *({"format": "orc"}, {"format": ""}, {"keep": []}, {"keep": ["current", "rows"]}),
        *({"keys": {"t": "id"}}, {"keys": {"shop.t": []}}, {"keys": {"shop.t": ["id", ""]}}),
        *({"keys": {"shop.t": "id"}, "keep": "changelog"}, {"cascades": ""}, {"shards": "no"}),
        *({"update_mode": "merge-on-read"}, {"cascades": "apply", "keep": "history"}),
        *({"tables": 5}, {"exclude": [5]}, {"statements": "ignore"}, {"incomplete": "ignore"}),
    ],
)
def test_values_that_cannot_be(tmp_path, given):
    with pytest.raises(UsageError):
        mirror(tmp_path, tmp_path / "lake", **given)
    assert not (tmp_path / "lake").exists()


def test_an_unknown_word_is_a_type_error(tmp_path):
    with pytest.raises(TypeError, match=r"mirror\(\) got an unexpected keyword argument 'table'"):
        mirror(tmp_path, tmp_path / "lake", table="shop.orders")


LAKE = LakeOptions.of({"tables": ["b.*", "a.*"], "keys": {"a.t": ["x", "y"]}, "shards": True})


@each_case(
    "given",
    [
        *({}, {"tables": ["a.*", "b.*"]}, {"tables": None, "exclude": (), "keys": {}}),
        *({"keep": ["current", "changelog"]}, {"keys": {"a.t": ("x", "y")}}, {"shards": True}),
    ],
)
def test_a_lake_may_be_given_its_own_options(given):
    LAKE.check("lake", LakeOptions.of(given), given)


@each_case(
    "given, said",
    [
        ({"tables": "a.*"}, r"with --tables a\.\*,b\.\*, and --tables a\.\* is given"),
        ({"tables": []}, r"with --tables a\.\*,b\.\*, and --tables none is given"),
        ({"exclude": "c.*"}, r"without --exclude, and --exclude c\.\* is given"),
        (
            {"tables": TableFilter(("b.*", "a.*"), ("c.*",))},
            r"without --exclude, and --exclude c\.\* is given",
        ),
        ({"keep": "current"}, "with --keep changelog,current, and --keep current is given"),
        ({"keys": {"a.t": "x"}}, r"with --keys a\.t=x,y, and --keys a\.t=x is given"),
        ({"shards": False}, "with --shards, and no --shards is given"),
        ({"cascades": "apply"}, "with --cascades name, and --cascades apply is given"),
        ({"format": "delta"}, "with --format parquet, and --format delta is given"),
    ],
)
def test_other_options_than_the_lakes(given, said):
    with pytest.raises(PipelineError, match=f"^lake was created {said}: leave that out"):
        LAKE.check("lake", LakeOptions.of(given), given)
