"""Which foreign keys a mirror can carry out, by what statements say of tables."""

from tailrace.constants import Flavour
from tailrace.schema.catalogue import Catalogue
from tailrace.spark.state.cascade.keys import links_of
from tailrace.values.charsets import collation_id

ON = "ON DELETE CASCADE ON UPDATE CASCADE"


def links(*statements, wanted=lambda _name: True, given=()):
    known = Catalogue()
    for sql in ("CREATE DATABASE shop", *statements):
        known.apply(
            sql,
            "shop",
            flavour=Flavour.MARIADB,
            default_collation=collation_id("utf8mb4_general_ci", Flavour.MARIADB),
        )
    return links_of(known.cascading(), wanted, given)


def of_types(parent, child, on=ON, more=""):
    return links(
        f"CREATE TABLE p (a {parent}, PRIMARY KEY (a))",
        f"CREATE TABLE c (id INT PRIMARY KEY, p {child}{more}, FOREIGN KEY (p) REFERENCES p (A) {on})",
    )


def test_a_key():
    (link,) = of_types("INT", "INT").carried
    assert (link.child, link.columns, link.parent, link.referenced) == (
        "shop.c",
        ("p",),
        "shop.p",
        ("a",),
    )
    assert link.sql == f"(p) REFERENCES shop.p (A) {ON}"


COMPARED = (
    ("INT", "INT(11)"),
    ("BIGINT UNSIGNED", "BIGINT UNSIGNED"),
    ("DECIMAL(9,2)", "DECIMAL(9,2)"),
    ("BINARY(16)", "BINARY(16)"),
    ("UUID", "UUID"),
    ("VARCHAR(9)", "VARCHAR(20)"),
    ("CHAR(2) COLLATE utf8mb4_bin", "CHAR(2) COLLATE utf8mb4_bin"),
)
NOT_COMPARED = (
    ("INT", "INT UNSIGNED"),
    ("INT", "BIGINT"),
    ("DATE", "DATE"),
    ("ENUM('a')", "ENUM('a')"),
    ("DOUBLE", "DOUBLE"),
    ("VARBINARY(9)", "VARBINARY(20)"),
    ("VARCHAR(9) COLLATE utf8mb4_german2_ci", "VARCHAR(9) COLLATE utf8mb4_german2_ci"),
)


def test_which_types_are_compared():
    for types in COMPARED:
        found = of_types(*types)
        assert (len(found.carried), found.left) == (1, {}), types
    for types in NOT_COMPARED:
        found = of_types(*types)
        assert found.carried == (), types
        ((text,),) = found.left.values()
        assert "how the values of p (" in text
        assert text.endswith(") are compared is not known")


def test_what_cannot_be_carried_out():
    parent = "CREATE TABLE p (a INT PRIMARY KEY)"
    child = f"CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (a) {ON})"
    for statements, options, why in (
        ((child,), {}, "the log does not tell the columns of shop.p"),
        ((parent, child), {"wanted": lambda name: name == "shop.c"}, "shop.p is not mirrored"),
        ((parent, child.replace("id INT PRIMARY KEY", "id INT")), {}, "shop.c has no primary key"),
        ((parent, f"{child} WITH SYSTEM VERSIONING"), {}, "shop.c is versioned, and keeps"),
        ((f"{parent} WITH SYSTEM VERSIONING", child), {}, "shop.p is versioned, and the log"),
        (
            (parent, child.replace("p INT,", "p INT, g INT AS (p + 1),")),
            {},
            "shop.c has generated columns",
        ),
    ):
        found = links(*statements, **options)
        assert found.carried == ()
        ((text,),) = found.left.values()
        assert f"(p) REFERENCES shop.p (a) {ON}: {why}" in text


def test_a_database_that_was_there():
    """Its collation is not in the log, and may be that of its tables' columns."""
    known = Catalogue()
    for kind in ("VARCHAR(9)", "INT"):
        for sql in (
            f"CREATE TABLE p{kind[0]} (a {kind} PRIMARY KEY)",
            (
                f"CREATE TABLE c{kind[0]} (a {kind} PRIMARY KEY, FOREIGN KEY (a)"
                f" REFERENCES p{kind[0]} (a) ON DELETE CASCADE)"
            ),
        ):
            known.apply(sql, "shop", flavour=Flavour.MARIADB, default_collation=45)
    found = links_of(known.cascading(), lambda _name: True, ())
    assert [link.child for link in found.carried] == ["shop.cI"]
    assert list(found.left) == ["shop.cV"]


def test_what_is_no_hindrance():
    parent = "CREATE TABLE p (a INT PRIMARY KEY)"
    child = "CREATE TABLE c (id INT{}, p INT{}, FOREIGN KEY (p) REFERENCES p ON DELETE CASCADE)"
    generated = links(parent, child.format(" PRIMARY KEY", ", g INT AS (p + 1)"))
    (link,) = generated.carried
    assert link.referenced == ("a",)
    assert generated.left == {}
    assert len(links(parent, child.format("", ""), given=["shop.c"]).carried) == 1
    assert links(
        parent, child.format(" PRIMARY KEY", ""), wanted=lambda name: name == "shop.p"
    ) == (links())


def test_keys_that_follow_from_others():
    """They are carried out, and named, since not all that they follow from is known."""
    found = links(
        "CREATE TABLE p (a DATE PRIMARY KEY)",
        "CREATE TABLE c (id INT PRIMARY KEY, p DATE, FOREIGN KEY (p) REFERENCES p (a) ON DELETE CASCADE)",
        "CREATE TABLE g (id INT PRIMARY KEY, c INT, FOREIGN KEY (c) REFERENCES c (id) ON DELETE CASCADE)",
        "CREATE TABLE h (id INT PRIMARY KEY, g INT, FOREIGN KEY (g) REFERENCES g (id) ON DELETE CASCADE)",
    )
    assert [link.child for link in found.carried] == ["shop.g", "shop.h"]
    assert set(found.left) == {"shop.c", "shop.g", "shop.h"}
    assert found.left["shop.h"][0].endswith("not all changes of shop.g are known")
