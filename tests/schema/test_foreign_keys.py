"""Foreign keys that a catalogue knows, beside what a server's information_schema says."""

from tailrace.constants import Flavour
from tailrace.schema import Catalogue
from tests.cases import each_case
from tests.schema.differ import Differ

DATABASE = "ddl_foreign"
CHANGES = {"CASCADE", "SET NULL"}
STATEMENTS = [
    (
        "CREATE TABLE p (id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, up INT, UNIQUE (a, b),"
        " FOREIGN KEY (up) REFERENCES p (id) ON UPDATE SET NULL ON DELETE CASCADE)"
    ),
    (
        "CREATE TABLE c (id INT PRIMARY KEY, p INT, x INT, y INT, q INT, FOREIGN KEY (p) REFERENCES p"
        " (id) MATCH SIMPLE ON DELETE CASCADE, CONSTRAINT `two columns` FOREIGN KEY idx (x, y)"
        " REFERENCES `ddl_foreign`.`p` (a, b) ON UPDATE CASCADE ON DELETE SET NULL,"
        " FOREIGN KEY named (q) REFERENCES p (id) ON DELETE RESTRICT ON UPDATE NO ACTION)"
    ),
    "CREATE TABLE inline (id INT PRIMARY KEY, p INT NULL REFERENCES p (id) ON DELETE SET NULL)",
    "CREATE TABLE plain (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id)) ENGINE=MyISAM",
    "CREATE TABLE alike LIKE c",
    "ALTER TABLE alike ADD FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE, ADD z INT",
    "ALTER TABLE alike ADD CONSTRAINT k FOREIGN KEY (q) REFERENCES p (id) ON UPDATE CASCADE",
    "ALTER TABLE alike ADD CONSTRAINT FOREIGN KEY (x, y) REFERENCES p (a, b) ON UPDATE CASCADE",
    "ALTER TABLE alike DROP FOREIGN KEY alike_ibfk_1, ADD FOREIGN KEY (p) REFERENCES p (id)",
    "ALTER TABLE c CHANGE p parent INT, RENAME COLUMN x TO xx",
    "ALTER TABLE p CHANGE id number INT, RENAME COLUMN b TO bb",
    "RENAME TABLE p TO parent",
    "ALTER TABLE parent RENAME TO r",
    "ALTER TABLE alike RENAME TO other, COMMENT 'x'",
    "ALTER TABLE other ADD w INT, ADD FOREIGN KEY (w) REFERENCES r (number) ON DELETE SET NULL",
    "ALTER TABLE other DROP CONSTRAINT k",
    "ALTER TABLE c DROP FOREIGN KEY `two columns`, DROP COLUMN y",
    "ALTER TABLE c DROP FOREIGN KEY c_ibfk_1",
    "DROP TABLE other",
]

MORE = [
    "CREATE TABLE p (id INT PRIMARY KEY, a INT NOT NULL, UNIQUE (a))",
    (
        "CREATE TABLE a (id INT PRIMARY KEY, x INT, FOREIGN KEY (x) REFERENCES p (id), y INT"
        " REFERENCES p (a) ON DELETE CASCADE, z INT, FOREIGN KEY (z) REFERENCES p (id) ON"
        " DELETE CASCADE)"
    ),
    "CREATE TABLE b (id INT PRIMARY KEY, x INT CONSTRAINT named REFERENCES p (id))",
    "CREATE TABLE c (id INT PRIMARY KEY, x INT REFERENCES p)",
    "CREATE TABLE c2 (id INT PRIMARY KEY, x INT, FOREIGN KEY (x) REFERENCES p)",
    "CREATE TABLE d (id INT PRIMARY KEY)",
    (
        "ALTER TABLE d ADD COLUMN x INT REFERENCES p (id) ON DELETE CASCADE, ADD y INT, ADD"
        " FOREIGN KEY (y) REFERENCES p (id)"
    ),
    "ALTER TABLE d ADD CONSTRAINT q FOREIGN KEY IF NOT EXISTS w (y) REFERENCES p (id)",
    "ALTER TABLE d ADD CONSTRAINT IF NOT EXISTS q FOREIGN KEY (y) REFERENCES p (id)",
    "ALTER TABLE d ADD FOREIGN KEY IF NOT EXISTS w (y) REFERENCES p (id)",
    "ALTER TABLE d ADD FOREIGN KEY IF NOT EXISTS w (y) REFERENCES p (id)",
    "ALTER TABLE d MODIFY x INT REFERENCES p (id)",
    "ALTER TABLE d ADD (k INT REFERENCES p (id), FOREIGN KEY (y) REFERENCES p (a))",
    "ALTER TABLE d DROP FOREIGN KEY d_ibfk_1",
    "ALTER TABLE d ADD FOREIGN KEY (y) REFERENCES p (id)",
    "ALTER TABLE d DROP FOREIGN KEY IF EXISTS nothing",
    "ALTER TABLE d DROP CONSTRAINT IF EXISTS d_ibfk_2",
    (
        "CREATE TABLE `we``ird` (id INT PRIMARY KEY, x INT, FOREIGN KEY (x) REFERENCES"
        " `p`(`id`) ON DELETE SET DEFAULT)"
    ),
    (
        "CREATE TABLE `we``ird` (id INT PRIMARY KEY, x INT, FOREIGN KEY (x) REFERENCES"
        " `p`(`id`) ON UPDATE NO ACTION)"
    ),
    "RENAME TABLE `we``ird` TO w2",
    "ALTER TABLE w2 DROP FOREIGN KEY w2_ibfk_1",
    "CREATE TABLE p_new LIKE p",
    "RENAME TABLE p TO p_old, p_new TO p",
    "SET foreign_key_checks = 0",
    "DROP TABLE p",
    "RENAME TABLE p_old TO p",
    "DROP TABLE p",
    "CREATE TABLE p (id INT PRIMARY KEY, a INT NOT NULL, UNIQUE (a))",
    "ALTER TABLE p CHANGE id nid INT",
    "ALTER TABLE a DROP COLUMN x",
    (
        "CREATE TABLE n (id INT PRIMARY KEY, CONSTRAINT n_ibfk_7 FOREIGN KEY (id) REFERENCES p"
        " (nid), FOREIGN KEY (id) REFERENCES p (a))"
    ),
    "ALTER TABLE n ADD FOREIGN KEY (id) REFERENCES p (a)",
    "ALTER TABLE n DROP FOREIGN KEY n_ibfk_7",
    "ALTER TABLE n ADD FOREIGN KEY (id) REFERENCES p (nid)",
    "ALTER TABLE n RENAME TO m, ADD FOREIGN KEY (id) REFERENCES p (nid)",
    "ALTER TABLE n ENGINE=MyISAM",
    "ALTER TABLE m ENGINE=MyISAM",
]
"""What not every server takes, and what only MariaDB takes for foreign keys: those of columns."""
INLINE = ("INT REFERENCES", "CONSTRAINT named")


def expected(differ):
    """Every foreign key: its table, name and columns, what it refers to, and what that does."""
    rows = differ._query(
        "SELECT k.table_name, k.constraint_name, k.column_name, k.referenced_table_name,"
        " k.referenced_column_name, r.delete_rule, r.update_rule"
        " FROM information_schema.key_column_usage k JOIN"
        " information_schema.referential_constraints r ON r.constraint_schema = k.table_schema AND"
        " r.constraint_name = k.constraint_name AND r.table_name = k.table_name"
        f" WHERE k.table_schema = '{DATABASE}' ORDER BY k.table_name, k.ordinal_position"
    )
    found = {}
    for table, name, column, to, referenced, *rules in rows:
        does = [rule if rule in CHANGES else "RESTRICT" for rule in rules]
        key = (table, name, to, *does)
        found.setdefault(key, []).append((column, referenced))
    return found


def actual(differ):
    """The same by the catalogue; where a key names no columns of the other table, its primary key."""
    catalogue = differ.catalogue
    found = {}
    for state in catalogue.states():
        for key in state.foreign_keys:
            other = catalogue.lookup(key.database, key.table)
            referenced = key.referenced or (other.primary_key if other is not None else ("id",))
            name = (state.definition.table, key.name, key.table, key.on_delete, key.on_update)
            found[name] = list(zip(key.columns, referenced, strict=True))
    return found


@each_case(("statements", "every"), [(STATEMENTS, True), (MORE, False)], ids=["all", "more"])
def test_statements(flavour_server, statements, every):
    mysql = flavour_server.flavour == "mysql"
    differ = Differ(flavour_server, database=DATABASE)
    taken = 0
    try:
        if every:
            differ._query("SET sql_mode = ''")
        for sql in statements:
            if mysql and not every and any(each in sql for each in INLINE):
                continue
            ran = differ.run(sql)
            assert ran or not every, sql
            taken += ran
            found = actual(differ)
            if mysql:  # 9.7 has inline ones, and logs what they do
                found |= {key: each for key, each in expected(differ).items() if key[0] == "inline"}
            assert found == expected(differ), sql
            assert not differ.catalogue.unknown(), sql
        assert taken > 0.5 * len(statements)
    finally:
        differ.close()


@each_case("sql", ["DROP FOREIGN KEY unknown", "DROP CHECK c_ibfk_1"])
def test_what_is_no_foreign_key(sql):
    catalogue = Catalogue()
    made = "CREATE TABLE c (p INT, FOREIGN KEY (p) REFERENCES other.p ON DELETE CASCADE)"
    for each in (made, f"ALTER TABLE c {sql}"):
        catalogue.apply(each, "d", flavour=Flavour.MARIADB)
    ((key,),) = (state.foreign_keys for state in catalogue.states())
    assert str(key) == "(p) REFERENCES other.p ON DELETE CASCADE"
    assert key.cascades
