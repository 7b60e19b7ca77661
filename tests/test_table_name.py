"""Names of tables as text, and patterns of them."""

import random

import pytest

from tailrace.cli.options import chosen_tables, key_columns
from tailrace.errors import UsageError
from tailrace.spark.stream.filters import full_name
from tailrace.table_filter import TableFilter, only_name, split_patterns
from tailrace.table_name import TableName, all_of, database_of
from tests.cases import each_case


@each_case(
    "name, text",
    [
        (("shop", "orders"), "shop.orders"),
        (("shop-2", "a_$b"), "shop-2.a_$b"),
        (("größe", "表"), "größe.表"),
        (("co", "x.y"), "`co`.`x.y`"),
        (("co.x", "y"), "`co.x`.`y`"),
        (("co", "a,b"), "`co`.`a,b`"),
        (("co", "a`b"), "`co`.`a``b`"),
        (("co", "*"), "`co`.`*`"),
        (("co", "two words"), "`co`.`two words`"),
        (("", "t"), ".t"),
    ],
)
def test_its_text(name, text):
    assert str(TableName(*name)) == text
    assert TableName.parse(text) == name


@each_case("text", ["", "orders", "`a.b`", "a,b", None, 5])
def test_what_is_no_name(text):
    with pytest.raises(UsageError, match="is not a table's name"):
        TableName.parse(text)


def test_without_quotes_the_first_dot_counts():
    assert TableName.parse("co.x.y") == ("co", "x.y")


def random_name(rng):
    """Two names that are easily taken for two others."""
    letters = "ab.`,*?[]!= é"
    return TableName(*("".join(rng.choices(letters, k=rng.randrange(1, 5))) for _ in range(2)))


def test_random_names_are_told_apart():
    """A name's text means that name in everything that takes one, and selects no other table."""
    rng = random.Random(38)
    names = [random_name(rng) for _ in range(300)]
    assert len({str(each) for each in names}) == len(set(names))
    for name in names:
        text = str(name)
        assert TableName.parse(text) == name
        assert only_name(text) == name
        assert full_name(text) == text
        assert split_patterns(f" {text} ,shop.*") == [text, "shop.*"]
        assert [each for each in names if chosen_tables([text], [])(*each)] == [
            each for each in names if each == name
        ]
        assert TableFilter.of(exclude=text).unmatched(names).excluded == ()
        assert key_columns([f"{text}=a,b"]) == {text: ["a", "b"]}
        assert database_of(all_of(name.database)) == name.database
        assert database_of(text) is None


@each_case(
    "pattern, wanted, others",
    [
        ("shop.*", [("shop", "a"), ("shop", "a.b")], [("shop.x", "y"), ("sho", "p")]),
        ("`shop`.*", [("shop", "a.b")], [("shop.x", "y")]),
        ("`sh*p`.*", [("sh*p", "a")], [("shop", "a")]),
        ("*.`a.b`", [("shop", "a.b"), ("x.y", "a.b")], [("shop.a", "b")]),
        ("`a,b`", [("shop", "a,b")], [("shop", "a"), ("shop", "b")]),
        ("or`.`*", [("shop", "or.ders")], [("shop.or", "ders")]),
        ("shop.a[*]", [("shop", "a*")], [("shop", "ab")]),
        ("shop[.]x.y", [("shop.x", "y")], [("shop", "x.y")]),
        ("co.x.y", [("co", "x.y"), ("co.x", "y")], [("co", "x")]),
    ],
)
def test_patterns(pattern, wanted, others):
    wants = TableFilter.of(pattern)
    assert all(wants(*each) for each in wanted)
    assert not any(wants(*each) for each in others)


@each_case("pattern", ["`a", "shop.`a", "a`b", "`a``"])
def test_a_backtick_that_is_not_closed(pattern):
    with pytest.raises(UsageError, match="is not closed"):
        TableFilter.of(pattern)
