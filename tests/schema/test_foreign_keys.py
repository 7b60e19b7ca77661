"""Foreign keys that a catalogue knows, beside what a server's information_schema says."""

from __future__ import annotations

import pytest

from tailrace.constants import Flavour
from tailrace.schema import Catalogue
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
    return {
        (s.definition.table, k.name, k.table, k.on_delete, k.on_update): list(
            zip(k.columns, k.referenced, strict=True)
        )
        for s in differ.catalogue.states()
        for k in s.foreign_keys
    }


def test_all_statements(server):
    differ = Differ(server, database=DATABASE)
    try:
        differ._query("SET sql_mode = ''")
        for sql in STATEMENTS:
            assert differ.run(sql), sql
            found = actual(differ)
            if server.flavour == "mysql":  # 9.7 has inline ones, and logs what they do
                found |= {key: each for key, each in expected(differ).items() if key[0] == "inline"}
            assert found == expected(differ), sql
    finally:
        differ.close()


@pytest.mark.parametrize("sql", ["DROP FOREIGN KEY unknown", "DROP CHECK c_ibfk_1"])
def test_what_is_no_foreign_key(sql):
    catalogue = Catalogue()
    made = "CREATE TABLE c (p INT, FOREIGN KEY (p) REFERENCES other.p ON DELETE CASCADE)"
    for each in (made, f"ALTER TABLE c {sql}"):
        catalogue.apply(each, "d", flavour=Flavour.MARIADB)
    ((key,),) = (state.foreign_keys for state in catalogue.states())
    assert str(key) == "(p) REFERENCES other.p ON DELETE CASCADE"
    assert key.cascades
