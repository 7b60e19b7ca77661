"""Online schema changes: a table that gets its name by RENAME TABLE has all of its rows."""

import shutil

import pyarrow.compute as pc
import pytest

from tailrace.columns import TableChange
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.mirror.helper_tables import Followed, follow, is_helper, left_over
from tailrace.spark.verify import verify
from tailrace.table_filter import TableFilter
from tailrace.table_name import TableName
from tests.cases import each_case
from tests.spark.following import BOTH, no_spark, url_of
from tests.spark.history.landing import FORMATS, Logged, land
from tools.campaign import renamed
from tools.campaign.mirrored_lake import LakeReader, compare
from tools.dumps import dump_databases

GHOST = """
    CREATE TABLE _orders_ghc (id BIGINT AUTO_INCREMENT, hint VARCHAR(64), value VARCHAR(99), PRIMARY KEY (id))
    CREATE TABLE `osc`.`_orders_gho` LIKE `osc`.`orders`
    ALTER TABLE `osc`.`_orders_gho` ADD COLUMN note VARCHAR(20) DEFAULT 'x', MODIFY v BIGINT
    INSERT /* gh-ost */ INTO `osc`.`_orders_ghc` (hint, value) VALUES ('state', 'GhostTableMigrated')

    INSERT /* gh-ost */ IGNORE INTO `osc`.`_orders_gho` (id, v) (SELECT id, v FROM `osc`.`orders` WHERE id < 3)
    UPDATE orders SET v = 77 WHERE id = 1
    REPLACE /* gh-ost */ INTO `osc`.`_orders_gho` (id, v) VALUES (1, 77)

    INSERT INTO orders VALUES (9, 9)
    INSERT /* gh-ost */ IGNORE INTO `osc`.`_orders_gho` (id, v) (SELECT id, v FROM `osc`.`orders` WHERE id >= 3)
    DELETE FROM orders WHERE id = 2
    DELETE /* gh-ost */ FROM `osc`.`_orders_gho` WHERE id = 2
    CREATE TABLE `osc`.`_orders_del` (id INT AUTO_INCREMENT PRIMARY KEY) COMMENT='ghost-cut-over-sentry'
    DROP TABLE IF EXISTS `osc`.`_orders_del`
    {cut_over}

    INSERT INTO orders (id, v, note) VALUES (11, 11, 'new')
    UPDATE orders SET note = 'y' WHERE id = 3

    DROP TABLE IF EXISTS _orders_ghc
    DROP TABLE IF EXISTS _orders_del
    INSERT INTO orders (id, v, note) VALUES (12, 12, 'newer')
"""
"""The statements of gh-ost; an empty line is where a batch may end."""
PT_OSC = """
    CREATE TABLE `osc`.`_orders_new` (id INT NOT NULL, v INT, PRIMARY KEY (id))
    ALTER TABLE `osc`.`_orders_new` ADD COLUMN note VARCHAR(20) DEFAULT 'x', MODIFY v BIGINT
    CREATE TRIGGER `pt_osc_osc_orders_del` AFTER DELETE ON `osc`.`orders` FOR EACH ROW DELETE IGNORE FROM `osc`.`_orders_new` WHERE `osc`.`_orders_new`.`id` <=> OLD.`id`
    CREATE TRIGGER `pt_osc_osc_orders_upd` AFTER UPDATE ON `osc`.`orders` FOR EACH ROW REPLACE INTO `osc`.`_orders_new` (`id`, `v`) VALUES (NEW.`id`, NEW.`v`)
    CREATE TRIGGER `pt_osc_osc_orders_ins` AFTER INSERT ON `osc`.`orders` FOR EACH ROW REPLACE INTO `osc`.`_orders_new` (`id`, `v`) VALUES (NEW.`id`, NEW.`v`)

    INSERT LOW_PRIORITY IGNORE INTO `osc`.`_orders_new` (`id`, `v`) SELECT `id`, `v` FROM `osc`.`orders` WHERE id < 3
    UPDATE orders SET v = 77 WHERE id = 1

    INSERT INTO orders VALUES (9, 9)
    INSERT LOW_PRIORITY IGNORE INTO `osc`.`_orders_new` (`id`, `v`) SELECT `id`, `v` FROM `osc`.`orders` WHERE id >= 3
    DELETE FROM orders WHERE id = 2
    RENAME TABLE `osc`.`orders` TO `osc`.`_orders_old`, `osc`.`_orders_new` TO `osc`.`orders`

    INSERT INTO orders (id, v, note) VALUES (11, 11, 'new')
    DROP TABLE IF EXISTS `osc`.`_orders_old`

    INSERT INTO orders (id, v, note) VALUES (12, 12, 'newer')
"""
CUT_OVER = "RENAME /* gh-ost */ TABLE `osc`.`orders` TO `osc`.`_orders_del`, `osc`.`_orders_gho` TO `osc`.`orders`"
STORIES = {
    "gh-ost": GHOST.format(cut_over=CUT_OVER),
    "pt-osc": PT_OSC,
    "two renames": GHOST.format(
        cut_over="ALTER TABLE orders RENAME TO _orders_del\n ALTER TABLE _orders_gho RENAME orders"
    ),
    "given up": GHOST.format(cut_over="DROP TABLE _orders_gho").partition("INSERT INTO orders (id")[
        0
    ],
}
OWN_NAME = GHOST.format(cut_over=CUT_OVER).replace("_orders_gho", "orders_v2")


class Story(Logged):
    """A server's table whose definition is changed so, and a lake of it."""

    def __init__(self, server, folder, kind="parquet", **options):
        wanted = {"tables": ["osc.orders"], "keep": ["changelog", "current", "history"]}
        super().__init__(server, folder, kind, **(wanted | options))
        self.begin("osc")
        server.execute("USE osc")
        for table in ("orders", "other"):
            server.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)")
            server.execute(f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 3)")

    def run(self, statements, *, several, check=True):
        for sql in map(str.strip, statements.splitlines()):
            if sql:
                self.server.execute(sql)
            elif several:
                self.step()
                if check:
                    self.check()
        self.step()

    @property
    def tables(self):
        return LakeView.open(self.lake).manifest.tables

    def check(self):
        """The table is the server's, as it is now and by its history's open versions."""
        reader = LakeReader(self.lake, self.kind)
        wanted = dump_databases(self.server, "osc")["osc.orders"]
        versions = reader.history("osc.orders")
        compare("osc.orders", reader.current("osc.orders"), wanted)
        compare("its history", versions.filter(pc.field("_is_current")), wanted)
        return reader


@pytest.mark.slow
@BOTH
def test_the_renamed_table_has_all_its_rows(source, tmp_path):
    for story, statements in STORIES.items():
        for several in (False, True):
            for format in FORMATS if several and story == "gh-ost" else FORMATS[:1]:  # noqa: A001
                case = Story(source, tmp_path / f"{story} {several} {format}", format)
                case.run(statements, several=several)
                reader = case.check()
                there = set(case.states())
                assert there == {"osc.orders"}, (story, several, format)
                for name in case.tables.keys() - there:
                    for part in (reader.current, reader.history, reader.changelog):
                        rows = part(name)
                        assert rows is None or not rows.num_rows, (story, several, format, name)


def test_with_a_pattern_such_tables_do_not_stay(source, tmp_path):
    for several in (False, True):
        case = Story(source, tmp_path / str(several), tables=["osc.*"])
        case.run(STORIES["gh-ost"], several=several)
        reader = case.check()
        for name in ("_orders_gho", "_orders_ghc", "_orders_del"):
            for part in (reader.current, reader.history, reader.changelog):
                assert part(f"osc.{name}") is None, (several, name)


def test_a_table_that_gives_its_name_to_the_selected_one_is_not_kept(source, tmp_path):
    """Both change their names by a third, in one batch: only the selected one is in the lake."""
    case = Story(source, tmp_path)
    case.step(
        "INSERT INTO osc.other VALUES (80, 8)",
        "RENAME TABLE osc.orders TO osc.third, osc.other TO osc.orders, osc.third TO osc.other",
    )
    case.check()
    assert set(case.states()) == {"osc.orders"}


def test_a_copy_with_another_name(source, tmp_path):
    """It is read where one batch has its CREATE and its RENAME; else the table says what is wrong."""
    Story(source, tmp_path / "one").run(OWN_NAME, several=False)
    case = Story(source, tmp_path / "selected", tables=["osc.orders", "osc.orders_v2"])
    case.run(OWN_NAME, several=True)
    case.check()
    case = Story(source, tmp_path / "several")
    case.run(OWN_NAME, several=True, check=False)
    state = case.tables["osc.orders"]
    reasons = [each.reason for each in state.states] + [state.current.refused]
    assert any("it was named osc.orders_v2 before" in str(each) for each in reasons)


@each_case(
    ("before", "one", "two"),
    [
        ("CREATE TABLE two (id INT KEY, e ENUM('1'))", "INSERT two VALUES (1, 1)", "ALTER TABLE two MODIFY e INT"),
        ("ALTER TABLE orders MODIFY v VARCHAR(9)", "SET @x = 1", "SET @x = 2"),
    ],
)  # fmt: skip
def test_a_batch_that_is_cut_between_its_create_and_its_rename(source, tmp_path, before, one, two):
    """By a statement about another table, or by the table's own history."""
    case = Story(source, tmp_path / before[:9], tables=["osc.orders", "osc.two"])
    copied = f"CREATE TABLE copy LIKE orders\n{one}\nINSERT INTO copy SELECT * FROM orders\n{two}"
    renamed_ = "RENAME TABLE orders TO was_orders, copy TO orders\nINSERT INTO orders VALUES (4, 4)"
    case.run(f"{before}\n{copied}\n{renamed_}", several=False)
    wanted = dump_databases(source, "osc")["osc.orders"]
    compare("osc.orders", LakeReader(case.lake, "parquet").current("osc.orders"), wanted)


def test_a_copy_of_one_shard_is_no_other_s(source, tmp_path):
    """One source has CREATE and RENAME in one batch, the other one in two."""
    create, rename = OWN_NAME.split("RENAME", 1)
    logs = {}
    for shard, parts in {"a": ("", OWN_NAME), "b": (create, f"RENAME{rename}")}.items():
        Story(source, tmp_path / f"made {shard}")
        logs[shard] = []
        for part in parts:
            for sql in filter(None, map(str.strip, part.splitlines())):
                source.execute(sql)
            logs[shard].append(source.rotate())
    wanted = dump_databases(source, "osc")["osc.orders"]
    both, lake = [tmp_path / "a", tmp_path / "b"], tmp_path / "lake"
    options = {"shards": True, "tables": ["osc.orders"], "keep": ["current"]}
    for step in (0, 1):
        for folder, files in zip(both, logs.values(), strict=True):
            folder.mkdir(exist_ok=True)
            shutil.copy(files[step], folder)
        land(both, lake, incomplete="accept", **options)
    states = LakeView.open(lake).manifest.tables
    assert "it was named osc.orders_v2 before" in states["b/osc.orders"].set_aside.reason
    assert states["a/osc.orders"].set_aside is None
    assert states["a/osc.orders"].current.rows == len(wanted["rows"])


def test_a_mirror_that_starts_again_in_between(source, tmp_path):
    """Each batch is of a mirror of its own, and verify compares what is followed, too."""
    case = Story(source, tmp_path)
    before, _, rest = STORIES["gh-ost"].partition("INSERT INTO orders VALUES (9, 9)")
    case.run(before, several=True)
    url = url_of(source)
    found = verify(url, case.lake, spark=no_spark)
    assert found.verdict == "equal"
    assert {each.name for each in found.tables} == {"osc.orders", "osc._orders_gho"}
    case.run(f"INSERT INTO orders VALUES (9, 9){rest}", several=False)
    case.check()


def test_random_schema_changes(source):
    """The campaign's small size."""
    report = renamed.run(source, renamed.SIZES["small"], seed=1)
    assert not report.failures, "\n".join(map(str, report.failures))
    assert report.outcomes["selected tables that are the server's"] > 20


@each_case(
    ("name", "selected"),
    {
        "_orders_gho": True,
        "_orders_new": True,
        "__orders_new": True,
        "__________orders_new": True,
        "___________orders_new": False,
        "__orders_gho": False,
        "orders_new": False,
        "_new": False,
        "_gho": False,
        "_other_gho": False,
        "_orders_del": False,
        "_orders_gho_": False,
    }.items(),
)
def test_the_names_of_copies(name, selected):
    assert is_helper(TableName("osc", name), TableFilter.of("osc.orders")) is selected


def test_what_is_left_over():
    there = TableFilter.of("osc.orders")
    gone = (
        "_orders_gho",
        "_orders_ghc",
        "_orders_del",
        "_orders_20260102030405_del",
        "_orders_old",
    )
    others = ("orders_old", "_orders_older", "_items_old", "_orders_gho_", "orders")
    changes = [TableChange(1, "drop", f"osc.{name}") for name in (*gone, *others)]
    assert {name.table for name in left_over(changes, there)} == {*gone}
    renamed = [TableChange(2, "rename", "osc._orders_gho", "osc._orders_old")]
    assert {name.table for name in left_over(renamed, there)} == {"_orders_gho"}
    again = [*changes, TableChange(3, "create", "osc._orders_gho")]
    assert {name.table for name in left_over(again, there)} == {*gone} - {"_orders_gho"}


def test_what_is_followed():
    selected = TableFilter.of(["d.a", "d.b"], exclude="d._b_gho")

    def found(*changes, known=()):
        made = [
            TableChange(seq, kind, f"d.{name}", f"d.{new[0]}" if new else None)
            for seq, (kind, name, *new) in enumerate(changes)
        ]
        follows = follow(made, [TableName("d", each) for each in known], selected)
        assert isinstance(follows, Followed)
        return {each for _, each in follows.read}, {each for _, each in follows.still}

    assert found(("create", "x")) == (set(), set())
    assert found(("create", "x"), ("rename", "x", "a")) == ({"x"}, set())
    assert found(("create", "x"), ("rename", "x", "y"), ("rename", "y", "a")) == ({"x", "y"}, set())
    assert found(("rename", "x", "a")) == (set(), set())
    assert found(("rename", "x", "a"), ("create", "x"), ("rename", "x", "b")) == (set(), set())
    assert found(("create", "x"), ("drop", "*"), ("rename", "x", "a")) == (set(), set())
    assert found(("rename", "a", "x"), ("rename", "b", "a"), ("rename", "x", "b")) == ({"x"}, set())
    assert found(("create", "_a_gho")) == ({"_a_gho"}, {"_a_gho"})
    assert found(("create", "x"), ("rename", "x", "_a_gho")) == ({"x", "_a_gho"}, {"_a_gho"})
    assert found(("create", "_b_gho")) == (set(), set())
    assert found(known=["_a_gho"]) == ({"_a_gho"}, {"_a_gho"})
    assert found(("drop", "_a_gho"), known=["_a_gho"]) == ({"_a_gho"}, set())
    assert found(("rename", "_a_gho", "a"), known=["_a_gho"]) == ({"_a_gho"}, set())
