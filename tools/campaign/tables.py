"""Random tables: their CREATE TABLE, and statements that change their rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Final, Literal

from tools.campaign import values
from tools.dumps import quoted

if TYPE_CHECKING:
    import random

    from tools.campaign.columns import Kind, Types

Shape = Literal["plain", "versioned", "overlaps"]
"""What only MariaDB has: WITH SYSTEM VERSIONING; a key with a period WITHOUT OVERLAPS."""
_FIRST_DAY: Final = date(2000, 1, 1)
_PERIOD: Final = (
    "room TINYINT NOT NULL",
    "ps DATE NOT NULL",
    "pe DATE NOT NULL",
    "PERIOD FOR p (ps, pe)",
    "PRIMARY KEY (room, p WITHOUT OVERLAPS)",
)
_ODD_NAMES: Final = ("a.b", "q`q", "select", "日本", "_op", "before", "  x", "Ü", "per%cent")


@dataclass
class RandomColumn:
    """A column of a random table."""

    name: str
    kind: Kind
    nullable: bool
    default: str | None = None
    generated: str | None = None
    invisible: bool = False

    def definition(self) -> str:
        """The column in a CREATE TABLE."""
        text = f"{quoted(self.name)} {self.kind.declared}"
        if self.generated:
            return f"{text} AS {self.generated}"
        text += " NULL" if self.nullable else " NOT NULL"
        if self.default is not None:
            text += f" DEFAULT {self.default}"
        return text + (" INVISIBLE" if self.invisible else "")

    def value(self, rng: random.Random) -> str:
        """A literal for it."""
        if self.nullable and rng.random() < 0.15:
            return "NULL"
        return self.kind.literal(rng)


class RandomTable:
    """A table: columns of any type, any key, and the statements that are run on it."""

    def __init__(
        self,
        rng: random.Random,
        types: Types,
        name: str,
        *,
        plain: bool,
        shape: Shape = "plain",
    ) -> None:
        """``plain`` leaves out types of which MariaDB's log alone cannot tell what they are."""
        self._rng = rng
        self._types = types
        self.name = name
        self._plain = plain
        self._next = 1
        self.columns: list[RandomColumn] = []
        self._key: list[str] = []
        self.shape = shape
        self.counted = rng.random() < 0.65 and shape != "overlaps"
        """Whether the key is a counter, `id`."""
        for _ in range(rng.choice((1, 3, 6, rng.randint(1, 25)))):
            self._add()
        if not self.counted and rng.random() < 0.75 and shape != "overlaps":
            for column in self.columns[: rng.randint(1, 3)]:
                column.kind = self._kind(key=True)
                column.nullable = False
                column.default = None
                self._key.append(column.name)
            rng.shuffle(self._key)
        self._unique = bool(self._key) and rng.random() < 0.3
        self._generate()
        self.transactional = rng.random() < 0.85

    def _kind(self, *, key: bool = False) -> Kind:
        while True:
            kind = self._types.key_kind(self._rng) if key else self._types.kind(self._rng)
            if not (self._plain and kind.needs_ddl):
                return kind

    def _add(self) -> RandomColumn:
        rng = self._rng
        kind = self._kind()
        name = f"c{len(self.columns)}"
        if rng.random() < 0.1:
            odd = rng.choice(_ODD_NAMES)
            if all(odd.casefold() != column.name.casefold() for column in self.columns):
                name = odd
        column = RandomColumn(name, kind, nullable=rng.random() < 0.7)
        if kind.has_default and rng.random() < 0.3:
            column.default = kind.literal(rng)
            if "REPEAT" in column.default or len(column.default) > 200:
                column.default = None
        column.invisible = self._types.recent and rng.random() < 0.04
        if column.invisible and not column.nullable and column.default is None:
            column.invisible = False
        self.columns.append(column)
        return column

    def _generate(self) -> None:
        """A generated column at times."""
        rng = self._rng
        numbers = [c for c in self.columns if c.kind.declared.startswith(("INT", "SMALLINT"))]
        if not numbers or rng.random() < 0.5:
            return
        kind = self._types.integer(rng)
        kind = type(kind)("BIGINT", "generated", kind.literal)
        how = rng.choice(("VIRTUAL", "STORED"))
        source = quoted(rng.choice(numbers).name)
        name = f"g{len(self.columns)}"
        self.columns.append(
            RandomColumn(name, kind, nullable=True, generated=f"({source} % 100 + 1) {how}")
        )

    def create(self) -> str:
        """The CREATE TABLE."""
        rng = self._rng
        parts = [column.definition() for column in self.columns]
        if self.counted:
            parts.insert(rng.randint(0, len(parts)), "id INT NOT NULL AUTO_INCREMENT PRIMARY KEY")
        elif self._key:
            kind = "UNIQUE KEY" if self._unique else "PRIMARY KEY"
            parts.append(f"{kind} ({', '.join(map(quoted, self._key))})")
        if self.shape == "overlaps":
            parts += _PERIOD
        suffix = "" if self.transactional else " ENGINE=MyISAM"
        collation = self._types.collation(rng).replace("CHARACTER SET", "DEFAULT CHARACTER SET")
        if self.shape == "versioned":
            collation += " WITH SYSTEM VERSIONING"
        elif self.transactional and self.counted and rng.random() < 0.1:
            collation += " PARTITION BY KEY (id) PARTITIONS 3"
        return f"CREATE TABLE {quoted(self.name)} ({', '.join(parts)}){suffix}{collation}"

    # --- statements ------------------------------------------------------------------------------

    def _writable(self) -> list[RandomColumn]:
        return [column for column in self.columns if not column.generated]

    def _given(self) -> list[RandomColumn]:
        """Columns that an INSERT gives: all, or, of those that have a default, some."""
        rng, writable = self._rng, self._writable()
        if rng.random() < 0.6:
            return writable
        return [
            column
            for column in writable
            if rng.random() < 0.6 or (not column.nullable and column.default is None)
        ]

    def insert(self, verb: str = "") -> str:
        """An INSERT of one to some rows."""
        rng = self._rng
        verb = verb or rng.choice(("INSERT", "INSERT", "INSERT IGNORE"))
        given = self._given()
        names = [quoted(column.name) for column in given]
        rows = []
        for _ in range(rng.choice((1, 1, 3, rng.randint(1, 12)))):
            row = [column.value(rng) for column in given]
            if self.counted:
                number, self._next = self._next, self._next + 1
                if verb == "REPLACE" and rng.random() < 0.7:
                    number = rng.randint(1, self._next)
                row.append(str(number))
            row += self.period().values()
            rows.append(f"({', '.join(row)})")
        if self.counted:
            names.append("id")
        names += self.period()
        return f"{verb} INTO {quoted(self.name)} ({', '.join(names)}) VALUES {', '.join(rows)}"

    def period(self) -> dict[str, str]:
        """The next room and period, by column; nothing where the table has none."""
        if self.shape != "overlaps":
            return {}
        self._next += 1
        start = _FIRST_DAY + timedelta(days=4 * self._next)
        end = start + timedelta(days=self._rng.randint(1, 4))
        return {"room": str(self._rng.randint(1, 3)), "ps": f"'{start}'", "pe": f"'{end}'"}

    def portion(self) -> str:
        """An UPDATE or DELETE for a portion of the period: rows are cut in two and three."""
        rng = self._rng
        start = _FIRST_DAY + timedelta(days=4 * rng.randint(0, self._next))
        end = start + timedelta(days=rng.choice((1, 2, 9)))
        target = f"{quoted(self.name)} FOR PORTION OF p FROM '{start}' TO '{end}'"
        if rng.random() < 0.4:
            return f"DELETE FROM {target}"
        column = rng.choice(self._writable())
        return f"UPDATE {target} SET {quoted(column.name)} = {column.value(rng)}"

    def upsert(self) -> str:
        """An INSERT that updates what is there."""
        column = self._rng.choice(self._writable())
        assignment = f"{quoted(column.name)} = {column.value(self._rng)}"
        return f"{self.insert('INSERT')} ON DUPLICATE KEY UPDATE {assignment}"

    def copy(self) -> str:
        """An INSERT of the table's own rows, which doubles them."""
        names = ", ".join(quoted(column.name) for column in self._writable())
        self._next *= 2
        name, most = quoted(self.name), self._rng.choice((3, 20, 200))
        return f"INSERT IGNORE INTO {name} ({names}) SELECT {names} FROM {name} LIMIT {most}"

    def update(self, *, partial_json: bool) -> str:
        """An UPDATE of some columns of some rows, of the key at times."""
        rng, writable = self._rng, self._writable()
        chosen = rng.sample(writable, rng.randint(1, min(3, len(writable))))
        parts = []
        for column in chosen:
            name = quoted(column.name)
            value = column.value(rng)
            if column.kind.family == "json" and rng.random() < (0.9 if partial_json else 0.3):
                value = self._json_change(name)
            parts.append(f"{name} = {value}")
        ignore = rng.choice(("", " IGNORE"))
        return f"UPDATE{ignore} {quoted(self.name)} SET {', '.join(parts)}{self._some_rows()}"

    def _json_change(self, name: str) -> str:
        rng = self._rng
        path = rng.choice(("$.a", "$.key", "$[0]", "$.k1", "$[1].a", '$."é"', "$.a.b"))
        value = rng.choice(("1", "'text'", "NULL", "2.5", f"REPEAT('x', {rng.randint(1, 99)})"))
        change = rng.choice(
            (
                f"JSON_SET({name}, '{path}', {value})",
                f"JSON_REPLACE({name}, '{path}', {value}, '$.b', 0)",
                f"JSON_REMOVE({name}, '{path}')",
                f"JSON_ARRAY_APPEND({name}, '$', {value})",
            )
        )
        return f"COALESCE({change}, {values.quoted('{}')})"

    def delete(self) -> str:
        """A DELETE of some rows."""
        return f"DELETE FROM {quoted(self.name)}{self._some_rows()}"

    def empty(self) -> str:
        """A DELETE of all rows."""
        return f"DELETE FROM {quoted(self.name)}"

    def _some_rows(self) -> str:
        rng = self._rng
        if self.counted and rng.random() < 0.5:
            return f" WHERE id = {rng.randint(1, max(self._next, 2))}"
        seeded = f" WHERE RAND({rng.randint(0, 999)}) < 0.4"
        return rng.choice((seeded, f" LIMIT {rng.randint(1, 5)}", " WHERE 1"))

    def alter(self) -> str:
        """An ALTER TABLE; `empty` goes before it."""
        rng = self._rng
        table = f"ALTER TABLE {quoted(self.name)}"
        loose = [
            column
            for column in self._writable()
            if column.name not in self._key and column.name.startswith("c")
        ]
        pick = rng.random()
        if pick < 0.4 or len(loose) < 2 or any(column.generated for column in self.columns):
            column = self._add()
            column.name = f"n{len(self.columns)}"
            where = rng.choice(("", " FIRST", f" AFTER {quoted(self.columns[0].name)}"))
            return f"{table} ADD COLUMN {column.definition()}{where}"
        column = rng.choice(loose)
        if pick < 0.6:
            self.columns.remove(column)
            return f"{table} DROP COLUMN {quoted(column.name)}"
        if pick < 0.8:
            column.kind, column.default = self._kind(), None
            return f"{table} MODIFY COLUMN {column.definition()}"
        old, column.name = column.name, f"r{column.name}"
        return f"{table} CHANGE COLUMN {quoted(old)} {column.definition()}"
