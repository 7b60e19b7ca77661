"""Random tables that are altered: a column's type before and after, its values, other clauses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random

DATABASE: Final = "altered"
_NUMBERS: Final = (
    "0",
    "1",
    "-1",
    "5",
    "127",
    "128",
    "-128",
    "255",
    "65535",
    "-32768",
    "1.5",
    "-2.25",
)
_LARGE: Final = ("2147483647", "4294967295", "9223372036854775807", "18446744073709551615")
_TEXTS: Final = (
    *("''", "'a'", "'b'", "'A'", "'a '", "'b,a'", "'a,b'", "' '", "'12'", "'-3.5'", "'x y  '"),
    *("'é'", "'丁'", "'😀'", "'2024-01-31'", "'2024-01-31 10:11:12.654321'", "'10:11:12'"),
    *("""'{"b":1,"a":2}'""", "'[1, 2]'", "'1999'", "'c'", "'abcdefghijkl'", "'Small'", "'small'"),
    *("'123e4567-e89b-12d3-a456-426614174000'", "'10.0.0.1'", "'::1'", "'true'"),
)
_BYTES: Final = ("''", "'a'", "x'00'", "x'0100'", "x'6100'", "x'ff'", "'ab'", "'abcd'", "x'c3a9'")
_MOMENTS: Final = (
    *("'2024-01-31 23:59:59.999999'", "'1970-01-02 00:00:00'", "'2000-02-29 01:02:03.5'"),
    *("'2024-12-31'", "'0000-00-00'", "'2038-01-19 03:14:07.4999'", "'2024-05-06 07:08:09.05'"),
)
_SPANS: Final = ("'10:11:12'", "'-00:00:01.5'", "'838:59:59'", "'23:59:59.999999'", "'00:00:00'")
_MEMBERS: Final = ("a", "b", "c", "A", "small", "large", "Small", "é", "x", "y")
_INTEGERS: Final = ("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT")
_CHARSETS: Final = ("latin1", "utf8mb3", "utf8mb4", "ascii", "cp1251", "ucs2", "binary")
_COLLATIONS: Final = ("utf8mb4_bin", "utf8mb4_general_ci", "latin1_swedish_ci", "latin1_bin")
_ENGINES: Final = ("InnoDB", "MyISAM", "MEMORY", "BLACKHOLE", "ARCHIVE", "CSV")


@dataclass
class Altered:
    """A table: its statements in phases, and those ALTER TABLE statements that a server took."""

    name: str
    phases: list[list[str]]
    altered: bool = False
    done: list[str] = field(default_factory=list)

    @property
    def full(self) -> str:
        """Its name with the database."""
        return f"{DATABASE}.{self.name}"

    def story(self) -> str:
        """The statements that matter."""
        every = (each for phase in self.phases for each in phase)
        kept = (each for each in every if not each.startswith("ALTER") or each in self.done)
        return "; ".join(kept)


def tables(rng: random.Random, flavour: str, count: int) -> list[Altered]:
    """The tables of a round."""
    return [_table(rng, flavour, f"t{number}") for number in range(count)]


@dataclass(frozen=True)
class _Type:
    """A type as it is declared, its values, and whether it may be a key's."""

    declared: str
    values: tuple[str, ...]
    key: bool = True


def _type(rng: random.Random, flavour: str) -> _Type:
    kinds = ["integer"] * 4 + ["text"] * 5 + ["members"] * 3 + ["decimal"] * 2 + ["moment"] * 3
    kinds += ["bytes"] * 2 + ["real", "span", "year", "bit", "json"]
    kinds += ["uuid"] if flavour == "mariadb" else []
    match rng.choice(kinds):
        case "integer":
            signs = ("", "", " UNSIGNED", " UNSIGNED ZEROFILL")
            width = rng.choice(("", "", "(6)"))
            return _Type(f"{rng.choice(_INTEGERS)}{width}{rng.choice(signs)}", (*_NUMBERS, *_LARGE))
        case "decimal":
            scale = rng.choice((0, 0, 1, 2, 4, 10))
            digits = scale + rng.choice((1, 3, 8, 20, 28, 35, 55))
            sign = rng.choice(("", "", "", " UNSIGNED"))
            return _Type(f"DECIMAL({min(digits, 65)},{scale}){sign}", (*_NUMBERS, "12345.678"))
        case "real":
            kind = rng.choice(("FLOAT", "DOUBLE", "FLOAT(7,2)", "DOUBLE(12,3)"))
            return _Type(kind, (*_NUMBERS, "0.1", "1e10", "-1.005", "123456.789"))
        case "text":
            sizes = (1, 3, 5, 10, 20, 60)
            base = rng.choice(
                (f"VARCHAR({rng.choice(sizes)})",) * 4
                + (f"CHAR({rng.choice(sizes)})",) * 2
                + ("TEXT", "TINYTEXT", "LONGTEXT")
            )
            return _Type(f"{base}{_charset(rng)}", _TEXTS, "TEXT" not in base)
        case "members":
            names = ",".join(f"'{each}'" for each in rng.sample(_MEMBERS, rng.randrange(1, 5)))
            base = rng.choice(("ENUM", "ENUM", "SET"))
            return _Type(f"{base}({names}){_charset(rng)}", _TEXTS)
        case "moment":
            base = rng.choice(("DATE", "DATETIME", "TIMESTAMP"))
            fraction = "" if base == "DATE" else rng.choice(("", "", "(1)", "(3)", "(6)"))
            return _Type(f"{base}{fraction}", _MOMENTS)
        case "span":
            return _Type(f"TIME{rng.choice(('', '(1)', '(3)', '(6)'))}", _SPANS)
        case "bytes":
            octets = rng.choice((1, 2, 4, 8, 16))
            base = rng.choice(
                (f"BINARY({octets})",) * 2 + (f"VARBINARY({octets})",) * 2 + ("BLOB",)
            )
            return _Type(base, _BYTES, base != "BLOB")
        case "year":
            return _Type("YEAR", ("0", "1999", "2024", "2155", "70"))
        case "bit":
            return _Type(f"BIT({rng.choice((1, 4, 8, 33, 64))})", ("0", "1", "5", "255"))
        case "uuid":
            return _Type(rng.choice(("UUID", "INET6", "INET4")), _TEXTS)
        case _:
            return _Type("JSON", ("""'{"b":1,"a":2}'""", "'[1, 2]'", "'1'", "'null'"), key=False)


def _charset(rng: random.Random) -> str:
    if rng.random() < 0.55:
        return ""
    if rng.random() < 0.3:
        return f" COLLATE {rng.choice(_COLLATIONS)}"
    return f" CHARACTER SET {rng.choice(_CHARSETS)}"


def _near(rng: random.Random, old: _Type, flavour: str) -> _Type:
    """A type near another one: so much wider, or narrower, of another sign, with other members."""
    base, _, rest = old.declared.partition("(")
    word = base.split()[0]
    if word in _INTEGERS:
        sign = rng.choice(("", " UNSIGNED")) if rng.random() < 0.4 else None
        kept = " UNSIGNED" if "UNSIGNED" in old.declared else ""
        return _Type(f"{rng.choice(_INTEGERS)}{kept if sign is None else sign}", old.values)
    if word in {"ENUM", "SET"}:
        inside, _, tail = rest.rpartition(")")
        names = inside.split(",")
        more = f"'{rng.choice(_MEMBERS)}'"
        match rng.randrange(5):
            case 0 | 1:
                names = [*names, more]
            case 2:
                names = [more, *names]
            case 3:
                rng.shuffle(names)
            case _:
                names = names[: max(1, len(names) - 1)]
        return _Type(f"{word}({','.join(dict.fromkeys(names))}){tail}", _TEXTS)
    if word == "DECIMAL":
        digits, scale = map(int, rest.partition(")")[0].split(","))
        scale = max(0, scale + rng.choice((-1, 0, 0, 1, 2)))
        digits = max(scale, digits + rng.choice((-1, 0, 1, 3, 5)))
        return _Type(f"DECIMAL({min(max(digits, 1), 65)},{min(scale, 30)})", old.values)
    if word in {"VARCHAR", "CHAR", "BINARY", "VARBINARY"}:
        size, _, tail = rest.partition(")")
        other = rng.choice({"VARCHAR": ("VARCHAR", "VARCHAR", "TEXT", "CHAR")}.get(word, (word,)))
        tail = tail if rng.random() < 0.7 or "BINARY" in word else _charset(rng)
        wider = max(1, int(size) + rng.choice((-2, 0, 1, 5, 40)))
        return _Type(f"{other}({wider}){tail}", old.values, other != "TEXT")
    if word in {"DATETIME", "TIMESTAMP", "TIME"}:
        return _Type(f"{word}({rng.choice((0, 1, 2, 3, 6))})", old.values)
    return _type(rng, flavour)


def _null(rng: random.Random, kind: _Type, *, key: bool) -> str:
    if key:
        return " NOT NULL"
    if kind.declared.startswith("TIMESTAMP"):
        return rng.choice((" NULL", " NULL", " NOT NULL DEFAULT CURRENT_TIMESTAMP"))
    return rng.choice(("", "", "", " NOT NULL"))


_ADDED: Final = (
    *("INT", "INT NOT NULL", "INT DEFAULT 7", "INT DEFAULT (1+1)", "INT DEFAULT (rand()*100)"),
    *("INT NOT NULL DEFAULT -3", "BIGINT UNSIGNED DEFAULT 18446744073709551615"),
    *("INT DEFAULT (-(5))", "INT DEFAULT (id)", "VARCHAR(20) DEFAULT (concat('a','b'))"),
    *("DECIMAL(8,3) DEFAULT 1.23456", "DECIMAL(40,2) DEFAULT 5", "DECIMAL(10,2) NOT NULL"),
    *("VARCHAR(9) DEFAULT 'x '", "CHAR(9) DEFAULT 'x '", "VARCHAR(9) NOT NULL"),
    *("VARCHAR(9) CHARACTER SET latin1 DEFAULT 'é'", "ENUM('a','b') NOT NULL"),
    *("ENUM('a','b') DEFAULT 'B'", "SET('a','b') DEFAULT 'b,a'", "SET('a','b') NOT NULL"),
    *("TIMESTAMP", "TIMESTAMP NULL", "TIMESTAMP NOT NULL", "TIMESTAMP DEFAULT CURRENT_TIMESTAMP"),
    *("TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6)", "DATETIME DEFAULT CURRENT_TIMESTAMP"),
    *("DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6)", "DATETIME(3) DEFAULT NOW(3)"),
    *("TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)",),
    *("TIMESTAMP DEFAULT '2020-01-02 03:04:05'", "DATETIME NOT NULL", "DATE NOT NULL"),
    *("DATETIME(2) DEFAULT '2020-01-02 03:04:05.67'", "TIME(1) DEFAULT '-10:11:12.3'"),
    *("DATE DEFAULT '2020-02-03'", "DATE DEFAULT (CURRENT_DATE)", "TIME NOT NULL"),
    *("YEAR NOT NULL", "YEAR DEFAULT 1999", "YEAR DEFAULT 70", "DOUBLE DEFAULT 0.1"),
    *("FLOAT DEFAULT 0.1", "FLOAT(7,2) DEFAULT 1.005", "BIT(8) DEFAULT b'101'", "BIT(8) NOT NULL"),
    *("BINARY(4) DEFAULT 'a'", "BINARY(3) NOT NULL", "VARBINARY(5) DEFAULT 'ab'", "BLOB"),
    *("TEXT", "TEXT NOT NULL", "BLOB NOT NULL", "TEXT DEFAULT ('t')", "JSON", "JSON NOT NULL"),
    *("INT AS (id + 1)", "INT AS (id + 1) STORED", "INT GENERATED ALWAYS AS (id * 2) VIRTUAL"),
    *("INT NOT NULL AUTO_INCREMENT UNIQUE", "SERIAL", "BOOLEAN DEFAULT TRUE", "INT INVISIBLE"),
    *("INT UNSIGNED ZEROFILL DEFAULT 5", "VARCHAR(9) DEFAULT (UUID())", "INT DEFAULT (NULL)"),
    *("TINYINT(1) NOT NULL DEFAULT '0'", "INT DEFAULT 0x10", "INT DEFAULT '12'", "INT FIRST"),
    *("UUID DEFAULT UUID()", "UUID NOT NULL", "INET6", "VARCHAR(9) DEFAULT 5"),
)
_BELOW: Final = "PARTITION p0 VALUES LESS THAN"
_CLAUSES: Final = (
    *("COMMENT 'x'", "FORCE", "ADD INDEX (w)", "ADD UNIQUE u (id, w)", "ADD CHECK (id > -1)"),
    *("AUTO_INCREMENT = 50", "ROW_FORMAT = DYNAMIC", "ALTER COLUMN w SET DEFAULT 5"),
    *("RENAME COLUMN w TO w2", "DROP COLUMN w", "ORDER BY w", "RENAME INDEX i TO j"),
    *("CHARACTER SET latin1", "CONVERT TO CHARACTER SET utf8mb4", "STATS_PERSISTENT = 0"),
    *("CONVERT TO CHARACTER SET latin1", "CONVERT TO CHARACTER SET binary", "DISABLE KEYS"),
    *("CONVERT TO CHARACTER SET utf8mb3", "ADD UNIQUE (w)", "ADD COLUMN z INT, DROP COLUMN w"),
    *(
        "PARTITION BY HASH (id) PARTITIONS 3",
        f"PARTITION BY RANGE (id) ({_BELOW} (3), PARTITION p1 VALUES LESS THAN MAXVALUE)",
        "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (1000))",
        "DROP PRIMARY KEY, ADD PRIMARY KEY (id, w)",
    ),
    *("ADD SYSTEM VERSIONING", "DISCARD TABLESPACE", "ALGORITHM = COPY, ADD INDEX (w)"),
    *("MODIFY id BIGINT", "MODIFY id INT NOT NULL AUTO_INCREMENT", "MODIFY w BIGINT FIRST"),
    *("MODIFY id VARCHAR(20)", "MODIFY w INT NOT NULL", "MODIFY w INT UNSIGNED, ADD INDEX (id)"),
    *(f"ENGINE = {engine}" for engine in _ENGINES),
)
_LATER: Final = (
    *("DROP SYSTEM VERSIONING", "TRUNCATE PARTITION p0", "DROP PARTITION p0"),
    *("REMOVE PARTITIONING", "COALESCE PARTITION 1", "REBUILD PARTITION p0"),
    f"REORGANIZE PARTITION p0 INTO ({_BELOW} (2), PARTITION p9 VALUES LESS THAN (3))",
    *("ADD PARTITION PARTITIONS 2", "ANALYZE PARTITION ALL", "IMPORT TABLESPACE"),
)


def _table(rng: random.Random, flavour: str, name: str) -> Altered:
    old = _type(rng, flavour)
    key = old.key and rng.random() < 0.3
    keyed = rng.choice(("c", "c, id", "id, c")) if key else "id"
    options = rng.choice(("", "", " WITH SYSTEM VERSIONING" if flavour == "mariadb" else ""))
    options += rng.choice(("", " CHARACTER SET latin1"))
    w = rng.choice(("INT", "INT", "INT UNSIGNED ZEROFILL", "VARCHAR(9)"))
    create = (
        f"CREATE TABLE {name} (id INT NOT NULL, c {old.declared}{_null(rng, old, key=key)}, w {w},"
        f" PRIMARY KEY ({keyed})){options}"
    )
    rows = _Rows(rng, name, old)
    phases = [[_mode(rng, strict=False), create, *rows.insert(rng.randrange(6))]]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        phases[-1] += rows.change(rng.randrange(3))
        phases.append([*_alter(rng, flavour, name, rows, key=key)])
        phases.append([_mode(rng, strict=False)])
        phases[-1] += [*rows.change(rng.randrange(3)), *rows.insert(rng.randrange(3))]
        phases[-1] += rows.change(rng.randrange(3))
    return Altered(name, phases)


def _mode(rng: random.Random, *, strict: bool) -> str:
    strict_mode = rng.choice(("STRICT_TRANS_TABLES", "STRICT_ALL_TABLES,NO_ZERO_DATE"))
    other = rng.choice(("", "", "NO_ZERO_DATE", "PAD_CHAR_TO_FULL_LENGTH", "ANSI_QUOTES"))
    return f"SET sql_mode = '{strict_mode if strict else other}'"


def _alter(rng: random.Random, flavour: str, name: str, rows: _Rows, *, key: bool) -> list[str]:
    """The statements of a phase that alters the table."""
    found = [_mode(rng, strict=rng.random() < 0.6)]
    if rng.random() < 0.2:
        found.append(f"SET explicit_defaults_for_timestamp = {rng.randrange(2)}")
    if rng.random() < 0.2:
        found.append(f"SET time_zone = '{rng.choice(('+00:00', '+05:30', 'SYSTEM'))}'")
    ignore = "IGNORE " if flavour == "mariadb" and rng.random() < 0.08 else ""
    head = f"ALTER {ignore}TABLE {name}"
    choice = rng.random()
    if choice < 0.55:
        new = rows.kind
        while new.declared == rows.kind.declared:
            near = rng.random() < 0.65
            new = _near(rng, rows.kind, flavour) if near else _type(rng, flavour)
        declared = f"{new.declared}{_null(rng, new, key=key)}"
        if rng.random() < 0.25:
            column = "d" if rows.column == "c" else "c"
            found.append(f"{head} CHANGE {rows.column} {column} {declared}")
            rows.names.append(column)
        else:
            found.append(f"{head} MODIFY {rows.column} {declared}")
        rows.kinds.append(new)
    elif choice < 0.75:
        found.append(f"{head} ADD COLUMN {rng.choice(('n1', 'n2', 'n3'))} {rng.choice(_ADDED)}")
    elif choice < 0.95:
        found.append(f"{head} {rng.choice(_CLAUSES)}")
    else:
        found += [f"{head} {each}" for each in rng.sample(_CLAUSES, 2)]
        found.append(f"{head} {rng.choice(_LATER)}")
    return [*found, "SET time_zone = '+00:00'"]


class _Rows:
    """Statements that change the rows of a table; which of them the server takes is its affair."""

    def __init__(self, rng: random.Random, name: str, kind: _Type) -> None:
        self._rng = rng
        self._name = name
        self.kinds = [kind]
        self.names = ["c"]
        self._next = 1

    @property
    def kind(self) -> _Type:
        """The type that the column has, if the server has taken the last statement."""
        return self.kinds[-1]

    @property
    def column(self) -> str:
        """Its name, if so."""
        return self.names[-1]

    def _value(self) -> str:
        kind = self._rng.choice(self.kinds[-2:])
        return "NULL" if self._rng.random() < 0.15 else self._rng.choice(kind.values)

    def insert(self, count: int) -> list[str]:
        """Rows of values of the type, or of the one before."""
        found = []
        for _ in range(count):
            columns = f"id, {self.column}, w"
            values = f"{self._next}, {self._value()}, {self._rng.choice(('NULL', '5', '7'))}"
            found.append(f"INSERT IGNORE INTO {self._name} ({columns}) VALUES ({values})")
            self._next += 1
        return found

    def change(self, count: int) -> list[str]:
        """Updates and deletes of single rows, and sometimes of all."""
        found = []
        for _ in range(count):
            row = self._rng.randrange(1, max(self._next, 2))
            where = "" if self._rng.random() < 0.1 else f" WHERE id = {row}"
            match self._rng.randrange(4):
                case 0:
                    found.append(f"DELETE FROM {self._name}{where}")
                case 1:
                    value = self._value()
                    found.append(f"UPDATE IGNORE {self._name} SET {self.column} = {value}{where}")
                case _:
                    found.append(f"UPDATE IGNORE {self._name} SET w = w + 1{where}")
        return found
