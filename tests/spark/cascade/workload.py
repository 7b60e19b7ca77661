"""Random tables with foreign keys that change rows, and random statements that make them do so."""

from __future__ import annotations

import pymysql

KINDS = {
    "int": ("INT", lambda rng: str(rng.randrange(60))),
    "unsigned": ("BIGINT UNSIGNED", lambda rng: str((1 << 63) + rng.randrange(40))),
    "decimal": ("DECIMAL(12,2)", lambda rng: f"{rng.randrange(20)}.{rng.choice(('5', '25'))}"),
    "bytes": ("VARBINARY(8)", lambda rng: f"0x{rng.choice('abcdef')}{rng.choice('0123456789')}"),
    "bin": (
        "VARCHAR(8) COLLATE utf8mb4_bin",
        lambda rng: f"'{rng.choice('aAbBcCdDéÉ')}{rng.choice(('', 'x', 'y', ' '))}'",
    ),
    "text": (
        "VARCHAR(8) COLLATE utf8mb4_general_ci",
        lambda rng: f"'{rng.choice('aAbBcdefg')}{rng.choice(('', '-x', '_', ' '))}'",
    ),
}
ACTIONS = (
    "ON DELETE CASCADE",
    "ON DELETE SET NULL",
    "ON DELETE CASCADE ON UPDATE CASCADE",
    "ON DELETE SET NULL ON UPDATE CASCADE",
    "ON UPDATE CASCADE",
    "ON DELETE CASCADE ON UPDATE SET NULL",
    "ON DELETE RESTRICT ON UPDATE RESTRICT",
)
UNIQUE = (("id",), ("k",), ("n", "id"), ("n",))
"""What foreign keys refer to."""


def equal(columns, values):
    """The condition that columns have values, as SQL."""
    return " AND ".join(f"{one} <=> {other}" for one, other in zip(columns, values, strict=True))


class Workload:
    """Tables of a database of a server, made and worked on at random."""

    def __init__(self, server, database, rng):
        self.server = server
        self.database = database
        self.rng = rng
        self.tables = {}
        """By name, the columns that may be set: name and kind; the first is the primary key's."""
        self.keys = {}
        """By name, the foreign keys: columns, table, its columns, and by which name."""
        self.moving = []
        """The foreign keys that change a primary key: table, columns, parent, its columns."""
        self.done = 0
        self.run(f"CREATE DATABASE {database}")
        self.run(f"USE {database}")

    def run(self, sql):
        """Run a statement; whether the server took it."""
        try:
            self.server.execute(sql)
        except pymysql.MySQLError:
            return False
        self.done += 1
        return True

    def make(self, name):
        """Create a table with foreign keys to those before, or to itself."""
        rng = self.rng
        main = rng.choice(list(KINDS))
        columns = {"id": "int", "k": main, "n": "int"}
        parts = [f"id INT, k {KINDS[main][0]}, n INT, v VARCHAR(30) DEFAULT 'v'"]
        keys = []
        key = "PRIMARY KEY (id), UNIQUE (k)"
        for number in range(rng.choice((0, 1, 1, 2)) if self.tables else 0):
            parent = rng.choice(list(self.tables))
            theirs = rng.choice(UNIQUE)
            own = tuple(f"f{number}{each}" for each in range(len(theirs)))
            for mine, their in zip(own, theirs, strict=True):
                kind = self.tables[parent][their]
                columns[mine] = kind
                parts.append(f"{mine} {KINDS[kind][0]}")
            action = rng.choice(ACTIONS)
            keys.append((own, parent, theirs))
            parts.append(
                f"CONSTRAINT {name}_{number} FOREIGN KEY ({', '.join(own)}) "
                f"REFERENCES {parent} ({', '.join(theirs)}) {action}"
            )
            if "SET NULL" not in action and rng.random() < 0.4:
                key = f"PRIMARY KEY ({', '.join(own)}, id), UNIQUE (k), UNIQUE (id)"
                if "UPDATE CASCADE" in action:
                    self.moving.append((name, own, parent, theirs))
        if rng.random() < 0.4:
            columns["up"] = "int"
            action = rng.choice(ACTIONS[:2])
            parts.append(f"up INT, FOREIGN KEY (up) REFERENCES {name} (id) {action}")
            keys.append((("up",), name, ("id",)))
            key = "PRIMARY KEY (id), UNIQUE (k)"
        key += ", UNIQUE (n, id)"
        if self.run(f"CREATE TABLE {name} ({', '.join(parts)}, {key}) ENGINE=InnoDB"):
            self.tables[name] = columns
            self.keys[name] = keys

    def value(self, kind, *, null=0.0):
        return "NULL" if self.rng.random() < null else KINDS[kind][1](self.rng)

    def row(self, name):
        """Values for a row, mostly with foreign keys that are there."""
        columns = self.tables[name]
        values = {
            each: self.value(kind, null=0.1 * (each == "k")) for each, kind in columns.items()
        }
        for own, parent, theirs in self.keys[name]:
            there = self.there(parent, theirs)
            if there is not None and self.rng.random() < 0.9:
                for mine, value in zip(own, there, strict=True):
                    text = columns[mine] == "text" and self.rng.random() < 0.5
                    values[mine] = value.swapcase() if text and value != "NULL" else value
        return values

    def there(self, name, columns, where="TRUE"):
        """The values of some columns in one of a table's rows, as SQL; None where it has none."""
        kinds = [self.tables[name][each] for each in columns]
        texts = [
            f"CONCAT('0x', HEX({each}))" if kind == "bytes" else f"QUOTE({each})"
            for each, kind in zip(columns, kinds, strict=True)
        ]
        rows = self.server.query(
            f"SELECT {', '.join(texts)} FROM {name} WHERE {where} ORDER BY id, n"
        )
        return (
            self.rng.choice([tuple(each or "NULL" for each in row) for row in rows])
            if rows
            else None
        )

    def one_of(self, name, column):
        found = self.there(name, [column])
        return self.value(self.tables[name][column]) if found is None else found[0]

    def step(self):
        """One statement, or a transaction of some."""
        rng = self.rng
        if rng.random() < 0.25:
            self.run("BEGIN")
            for _ in range(rng.randrange(1, 5)):
                self.statement()
            self.run(rng.choice(("COMMIT", "COMMIT", "COMMIT", "ROLLBACK")))
        else:
            self.statement()

    def move(self):
        """Give rows another primary key by a foreign key; then change them, and what they follow."""
        rng = self.rng
        moving = [each for each in self.moving if {each[0], each[2]} <= self.tables.keys()]
        if not moving:
            return
        name, own, parent, theirs = rng.choice(moving)
        there = self.there(name, own)
        if there is None:
            return
        columns, other, others = rng.choice(self.keys[name])
        followed = self.there(name, columns, equal(own, there))
        place = rng.randrange(len(own))
        new = self.value(self.tables[parent][theirs[place]])
        self.run(f"UPDATE {parent} SET {theirs[place]} = {new} WHERE {equal(theirs, there)}")
        for _ in range(rng.randrange(1, 4)):
            row, column = self.row(name), rng.choice(list(self.tables[name]))
            what = f"UPDATE IGNORE {name} SET {column} = {row[column]}"
            if rng.random() < 0.2:
                what = f"DELETE FROM {name}"
            self.run(f"{what} WHERE {own[place]} = {new} LIMIT 1")
        if followed is not None:
            verb = rng.choice((f"DELETE FROM {other}", f"UPDATE {other} SET {others[0]} = {new}"))
            self.run(f"{verb} WHERE {equal(others, followed)}")

    def statement(self):
        rng = self.rng
        if self.moving and rng.random() < 0.15:
            self.move()
            return
        name = rng.choice(list(self.tables))
        columns = self.tables[name]
        off = rng.random() < 0.08
        if off:
            self.run("SET foreign_key_checks=0")
        what = rng.random()
        column = rng.choice(list(columns))
        if what < 0.5:
            rows = [self.row(name) for _ in range(rng.randrange(1, 5))]
            verb = rng.choice(("INSERT", "INSERT IGNORE", "REPLACE"))
            values = ", ".join(f"({', '.join(row.values())}, 'v')" for row in rows)
            self.run(f"{verb} INTO {name} ({', '.join(columns)}, v) VALUES {values}")
        elif what < 0.68:
            limit = rng.choice(("", " LIMIT 2"))
            self.run(f"DELETE FROM {name} WHERE {column} = {self.one_of(name, column)}{limit}")
        elif what < 0.72:
            self.run(f"DELETE FROM {name} WHERE id BETWEEN 10 AND 20")
        elif what < 0.95:
            own = rng.choice(("k", "id", "n", column))
            where = rng.choice(("id", column))
            self.run(
                f"UPDATE IGNORE {name} SET {own} = {self.value(columns[own], null=0.1)} "
                f"WHERE {where} = {self.one_of(name, where)} LIMIT 1"
            )
        elif what < 0.98:
            self.run(f"UPDATE {name} SET id = id + 60 WHERE id < 20 ORDER BY id DESC")
        else:
            self.run(f"UPDATE {name} SET v = CONCAT(v, '+')")
        if off:
            self.run("SET foreign_key_checks=1")

    def alter(self):
        """A statement that changes a table, or empties it."""
        rng = self.rng
        name = rng.choice(list(self.tables))
        what = rng.randrange(6)
        if what == 0:
            self.run(f"ALTER TABLE {name} ADD COLUMN a{self.done} INT DEFAULT 7 FIRST")
        elif what == 1:
            self.run("SET foreign_key_checks=0")
            self.run(f"TRUNCATE TABLE {name}")
            self.run("SET foreign_key_checks=1")
        elif what == 2:
            self.run(f"ALTER TABLE {name} DROP FOREIGN KEY {name}_0")
        elif what == 3:
            new = f"{name}r"
            if self.run(f"RENAME TABLE {name} TO {new}"):
                self.tables[new] = self.tables.pop(name)
                self.keys[new] = self.keys.pop(name)
                for each, keys in self.keys.items():
                    self.keys[each] = [
                        (own, new if parent == name else parent, theirs)
                        for own, parent, theirs in keys
                    ]
        elif what == 4 and self.keys[name]:
            own, parent, theirs = self.keys[name][0]
            action = rng.choice(ACTIONS)
            self.run(
                f"ALTER TABLE {name} ADD FOREIGN KEY ({', '.join(own)}) "
                f"REFERENCES {parent} ({', '.join(theirs)}) {action}"
            )
        elif not any(
            parent == name for keys in self.keys.values() for _, parent, _ in keys
        ) and self.run(f"DROP TABLE {name}"):
            self.tables.pop(name)
            self.keys.pop(name)
            self.make(f"n{self.done}")
