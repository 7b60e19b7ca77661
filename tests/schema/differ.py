"""What a catalogue makes of statements, beside what a server's information_schema says."""

from __future__ import annotations

import itertools
import re

import pymysql

from tailrace.constants import Flavour
from tailrace.schema import Catalogue
from tailrace.schema.hidden import SYSTEM_PERIOD
from tailrace.values.charsets import collation_id

_INTEGER_WIDTH = re.compile(r"\b((?:tiny|small|medium|big)?int|year)\(\d+\)")
_NAMES = re.compile(r"'((?:[^']|'')*)'")


class Differ:
    """Runs statements on a server and shows those that it took to a catalogue."""

    def __init__(self, server, *, database="ddl_test"):
        self.server = server
        self.flavour = Flavour(server.flavour)
        self.catalogue = Catalogue()
        self.connection = server.connect()
        self.database = database
        self._query(f"DROP DATABASE IF EXISTS `{database}`")
        self.run(f"CREATE DATABASE `{database}`")
        self.run(f"USE `{database}`")

    def close(self):
        self.connection.close()

    def _query(self, sql):
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    def _session(self):
        columns = "@@collation_server, @@sql_mode"
        columns += (
            ", @@default_collation_for_utf8mb4"
            if self.flavour is Flavour.MYSQL
            else ", @@character_set_collations"
            if self.server.name != "mariadb-10.11"
            else ", ''"
        )
        ((collation, modes, defaults),) = self._query(f"SELECT {columns}")
        if self.flavour is Flavour.MYSQL:
            pairs = {"utf8mb4": defaults}
        else:
            pairs = dict(pair.split("=") for pair in defaults.split(",") if pair)
        bits = {
            "REAL_AS_FLOAT": 1,
            "ANSI_QUOTES": 4,
            "ORACLE": 512,
            "NO_BACKSLASH_ESCAPES": 1 << 20,
        }
        return {
            "flavour": self.flavour,
            "default_collation": collation_id(collation, self.flavour),
            "charset_collations": {
                name: collation_id(value, self.flavour) for name, value in pairs.items()
            },
            "sql_mode": sum(bits.get(mode, 0) for mode in modes.split(",")),
        }

    def run(self, sql):
        """Run a statement; says whether the server took it (the catalogue only sees those)."""
        try:
            self._query(sql)
        except pymysql.err.Error:
            return False
        self.catalogue.apply(sql, self.database, **self._session())
        return True

    def expected(self, table, database=None):
        """A table's columns and primary key, by information_schema."""
        database = database or self.database
        columns = self._query(
            "SELECT column_name, column_type, is_nullable, collation_name FROM "
            f"information_schema.columns WHERE table_schema='{database}' AND table_name='{table}' "
            "ORDER BY ordinal_position"
        )
        key = self._query(
            "SELECT column_name FROM information_schema.key_column_usage WHERE table_schema="
            f"'{database}' AND table_name='{table}' AND constraint_name='PRIMARY' "
            "ORDER BY ordinal_position"
        )
        return [self._column(*row) for row in columns], tuple(name for (name,) in key)

    def _column(self, name, kind, nullable, collation):
        members = None
        if kind.startswith(("enum(", "set(")):
            # information_schema shows it as a literal
            kind = kind.replace("\\n", "\n").replace("\\\\", "\\")
            members = tuple(text.replace("''", "'") for text in _NAMES.findall(kind))
        number = None if collation in {None, "binary"} else collation_id(collation, self.flavour)
        assert collation in {None, "binary"} or number is not None, collation
        return (
            name,
            _normal(kind),
            " unsigned" in kind and members is None,
            number,
            members,
            nullable == "YES",
        )

    def actual(self, table, database=None):
        """The same by the catalogue; None where the table is unknown to it."""
        definition = self.catalogue.lookup(database or self.database, table)
        if definition is None:
            return None
        columns = definition.columns
        if columns[-2:] == SYSTEM_PERIOD:
            columns = columns[:-2]
        return [
            (
                column.name,
                _normal(column.declared),
                column.unsigned,
                None if column.collation == 63 else column.collation,
                column.members,
                column.nullable,
            )
            for column in columns
        ], definition.primary_key

    def check(self, table, statement, database=None, *, sizes=True):
        """Fail with what differs, and nothing else of a wide table."""
        actual, expected = self.actual(table, database), self.expected(table, database)
        if actual == expected:
            return
        assert actual is not None, (statement, self.reason(table, database))
        pairs = itertools.zip_longest(actual[0], expected[0])
        different = [pair for pair in pairs if not _same(*pair, sizes=sizes)]
        if not different and actual[1] == expected[1]:
            return
        raise AssertionError((statement, different, actual[1], expected[1]))

    def reason(self, table, database=None):
        return self.catalogue.reason_unknown(database or self.database, table)


def _normal(kind):
    """A column type without what differs between servers and changes no value."""
    kind = (
        _INTEGER_WIDTH.sub(r"\1", kind).replace(" zerofill", "").replace("geomcoll", "geometrycoll")
    )
    return re.sub(r" /\*.*?\*/", "", kind)


_SIZE = re.compile(r"^(tiny|medium|long)(?=text|blob)")


def _same(ours, server, *, sizes):
    """Equal, or equal but for names of an ENUM that CONVERT TO made unknown.

    ``sizes`` False: the size of TEXT and BLOB may differ (MySQL changes it when it converts).
    """
    if ours is None or server is None:
        return False
    unknown = ours[4] is None and server[4] is not None
    types = [_SIZE.sub("", column[1]) if not sizes else column[1] for column in (ours, server)]
    return (
        (ours[0], *ours[2:4], ours[5]) == (server[0], *server[2:4], server[5])
        and (unknown or ours[4] == server[4])
        and (unknown or types[0] == types[1])
    )
