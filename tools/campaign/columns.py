"""Random columns: a type of the server's, and how to make values of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from tools.campaign import values

if TYPE_CHECKING:
    from tools.servers import Server

Literal = Callable[[random.Random], str]

_INTEGERS: Final = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64}
_MEMBERS: Final = ("a", "b c", "", "it''s", "ü", "日本", "x ", "Z")


@dataclass(frozen=True)
class Kind:
    """A column type in SQL, ``family`` for what SQL can do with it, and its values' literals."""

    declared: str
    family: str
    literal: Literal
    keyable: bool = False
    has_default: bool = True
    needs_ddl: bool = False
    """Whether MariaDB's log alone cannot tell what it is, whatever the metadata."""


class Types:
    """What a server has: its flavour's types, its character sets and collations."""

    def __init__(self, server: Server) -> None:
        self.mysql = server.flavour == "mysql"
        self.recent = server.name != "mariadb-10.11"
        found = server.query(
            "SELECT character_set_name, collation_name FROM information_schema.collations "
            "WHERE character_set_name <> 'binary' AND character_set_name IS NOT NULL ORDER BY 2"
        )
        self._collations: dict[str, list[str]] = {}
        for charset, collation in found:
            self._collations.setdefault(str(charset), []).append(str(collation))

    def kind(self, rng: random.Random) -> Kind:
        """Any type."""
        makers = [
            *[self.integer] * 3,
            *[self.number] * 3,
            *[self.temporal] * 4,
            *[self.characters] * 4,
            *[self.bytes] * 2,
            self.bits,
            *[self.members] * 2,
            self.json,
            self.special,
        ]
        return rng.choice(makers)(rng)

    def key_kind(self, rng: random.Random) -> Kind:
        """A type that fits into a key."""
        while True:
            kind = self.kind(rng)
            if kind.keyable:
                return kind

    def collation(self, rng: random.Random) -> str:
        """A random character set clause, or none."""
        if rng.random() < 0.4:
            return ""
        charset = rng.choice(sorted(self._collations))
        if rng.random() < 0.5:
            return f" CHARACTER SET {charset}"
        return f" CHARACTER SET {charset} COLLATE {rng.choice(self._collations[charset])}"

    def integer(self, rng: random.Random) -> Kind:
        name, bits = rng.choice(list(_INTEGERS.items()))
        unsigned = rng.random() < 0.5
        suffix = " UNSIGNED" if unsigned else ""
        if unsigned and rng.random() < 0.1:
            name, suffix = f"{name}({rng.randint(1, 20)})", " UNSIGNED ZEROFILL"
        literal = partial(values.integer, bits=bits, unsigned=unsigned)
        return Kind(name + suffix, "number", literal, keyable=True)

    def number(self, rng: random.Random) -> Kind:
        unsigned = rng.random() < 0.2
        suffix = " UNSIGNED" if unsigned else ""
        pick = rng.random()
        if pick < 0.6:
            most_scale = 30 if self.mysql else 38
            precision = rng.choice((rng.randint(1, 65), rng.randint(1, 18), 65))
            scale = rng.choice((0, rng.randint(0, min(precision, most_scale))))
            name = f"DECIMAL({precision},{scale}){suffix}"
            literal = partial(values.decimal, precision=precision, scale=scale, unsigned=unsigned)
            return Kind(name, "number", literal, keyable=True)
        if pick < 0.8:
            # The server writes a FLOAT's default with six digits when it copies a table.
            literal = partial(values.float32, unsigned=unsigned)
            return Kind(f"FLOAT{suffix}", "float", literal, has_default=False)
        return Kind(f"DOUBLE{suffix}", "float", partial(values.float64, unsigned=unsigned))

    def temporal(self, rng: random.Random) -> Kind:
        digits = rng.choice((0, 0, 3, 6, rng.randint(1, 6)))
        name = rng.choice(("DATE", "TIME", "DATETIME", "TIMESTAMP", "YEAR"))
        last_year = 2105 if self.recent and not self.mysql else 2037
        literals: dict[str, Literal] = {
            "DATE": values.date,
            "TIME": partial(values.time, digits=digits),
            "DATETIME": partial(values.datetime, digits=digits),
            "TIMESTAMP": partial(values.timestamp, digits=digits, last_year=last_year),
            "YEAR": values.year,
        }
        declared = name if name in {"DATE", "YEAR"} or not digits else f"{name}({digits})"
        return Kind(declared, "time", literals[name], keyable=True)

    def _compressed(self, rng: random.Random) -> str:
        return "" if self.mysql or rng.random() < 0.85 else " COMPRESSED"

    def characters(self, rng: random.Random) -> Kind:
        collation, compressed = self.collation(rng), self._compressed(rng)
        pick = rng.random()
        if pick < 0.3 and not compressed:
            size = rng.choice((0, 1, 10, 63, 64, rng.randint(1, 255)))
            name = f"CHAR({size})"
        elif pick < 0.75:
            size = rng.choice((1, 20, 63, 64, 85, 86, 255, 256, rng.randint(1, 600)))
            name = f"VARCHAR({size})"
        else:
            name, size = rng.choice(
                (("TINYTEXT", 50), ("TEXT", 900), ("MEDIUMTEXT", 70_000), ("LONGTEXT", 300))
            )
        short = not name.endswith("TEXT")
        return Kind(
            f"{name}{compressed}{collation}",
            "text",
            partial(values.text, longest=size),
            keyable=short and 0 < size <= 64 and not compressed,
            has_default=short,
        )

    def bytes(self, rng: random.Random) -> Kind:
        compressed = self._compressed(rng)
        pick = rng.random()
        if pick < 0.4 and not compressed:
            size = rng.choice((1, 16, 20, 255, rng.randint(1, 255)))
            name = f"BINARY({size})"
        elif pick < 0.7:
            size = rng.choice((1, 16, 255, 256, rng.randint(1, 800)))
            name = f"VARBINARY({size})"
        else:
            name, size = rng.choice(
                (("TINYBLOB", 255), ("BLOB", 3000), ("MEDIUMBLOB", 70_000), ("LONGBLOB", 300))
            )
        short = not name.endswith("BLOB")
        return Kind(
            name + compressed,
            "bytes",
            partial(values.binary, longest=size),
            keyable=short and size <= 64 and not compressed,
            # MariaDB's SHOW CREATE TABLE gives such a default's bytes raw.
            has_default=short and self.mysql,
        )

    def bits(self, rng: random.Random) -> Kind:
        size = rng.choice((1, 8, 9, 63, 64, rng.randint(1, 64)))
        literal = partial(values.integer, bits=size, unsigned=True)
        return Kind(f"BIT({size})", "bits", literal, keyable=True)

    def members(self, rng: random.Random) -> Kind:
        if rng.random() < 0.5:
            names = [*_MEMBERS] if rng.random() < 0.7 else [f"m{n}" for n in range(300)]
            listed = ", ".join(f"'{name}'" for name in names)
            most = len(names)
            return Kind(
                f"ENUM({listed})",
                "text",
                lambda r: str(r.randint(0 if r.random() < 0.1 else 1, most)),
                has_default=False,
            )
        size = rng.choice((1, 3, 8, 9, 16, 17, 32, 33, 64))
        listed = ", ".join(f"'{['', 'é', '日'][n] if n < 3 else f's{n}'}'" for n in range(size))
        literal = partial(values.integer, bits=size, unsigned=True)
        return Kind(f"SET({listed})", "text", literal, has_default=False)

    def json(self, _rng: random.Random) -> Kind:
        literal, own = partial(values.document, mysql=self.mysql), not self.mysql
        return Kind("JSON", "json", literal, has_default=False, needs_ddl=own)

    def special(self, rng: random.Random) -> Kind:
        shape = rng.choice(("GEOMETRY", "POINT", "LINESTRING", "POLYGON"))
        literal: Literal = partial(values.geometry, kind=shape)
        kinds = [Kind(shape, "bytes", literal, has_default=False)]
        if self.recent:
            size, own = rng.choice((1, 3, 17)), not self.mysql
            literal = partial(values.vector, size=size, mysql=self.mysql)
            name = f"VECTOR({size})"
            kinds.append(Kind(name, "vector", literal, has_default=False, needs_ddl=own))
        if not self.mysql:
            kinds += [
                Kind("UUID", "text", values.uuid, keyable=True, needs_ddl=True),
                Kind("INET4", "text", values.inet4, keyable=True, needs_ddl=True),
                Kind("INET6", "text", values.inet6, keyable=True, needs_ddl=True),
            ]
        return rng.choice(kinds)
