"""Rows that no server logged: made in Python, or in Arrow, for every type, and read by a server.

What they ought to be says the server itself, told the same values as SQL literals.
"""

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tailrace.constants import Flavour
from tailrace.schema.table import Table
from tests.cases import each_case
from tests.written.samples import json_text, samples
from tools.applied import as_relay_log, by_tool, forget, gtid_mode, same_tables
from tools.campaign.written_manner import Manner
from tools.dumps import quoted

Row = dict[str, Any]
WAYS = {"tool": by_tool, "relay log": as_relay_log}
SETTINGS = settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def create_statement(columns, name):
    """A table of these columns, and a key."""
    parts = [f"{quoted(column)} {sample.declared}" for column, sample in columns.items()]
    return f"CREATE TABLE {name} (id INT PRIMARY KEY, {', '.join(parts)})"


def rows(columns):
    """Rows with numbers from 1 on; a fifth of the values are NULL."""
    row = st.fixed_dictionaries(
        {name: st.one_of(*[sample.values] * 4, st.none()) for name, sample in columns.items()}
    )
    return st.lists(row, min_size=2, max_size=6).map(
        lambda found: [
            {"id": number, **{name: row[name] for name in columns}}
            for number, row in enumerate(found, 1)
        ]
    )


def literal(columns, name, value):
    if value is None:
        return "NULL"
    return str(value) if name == "id" else columns[name].literal(value)


def say_in_sql(server, columns, inserted, changed):
    """The same by statements: rows in, some changed, the first out."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        for row in inserted:
            values = ", ".join(literal(columns, name, value) for name, value in row.items())
            cursor.execute(f"INSERT INTO made.t VALUES ({values})")
        for row in changed:
            values = ", ".join(
                f"{quoted(name)} = {literal(columns, name, value)}" for name, value in row.items()
            )
            cursor.execute(f"UPDATE made.t SET {values} WHERE id = {row['id']}")
        cursor.execute("DELETE FROM made.t WHERE id = 1")


class Shape:
    """The forms in which rows are given to the writer."""

    def __init__(self, form, columns):
        self._form = form
        self._schema = pa.schema(
            [("id", pa.int64()), *((name, sample.arrow) for name, sample in columns.items())]
        )
        self._columns = columns

    def __call__(self, found):
        if self._form == "dicts":
            return found
        if self._form == "tuples":
            return [tuple(row.values()) for row in found]
        return pa.Table.from_pylist(
            [{name: self._arrow(name, value) for name, value in row.items()} for row in found],
            self._schema,
        )

    def _arrow(self, name, value):
        """Text where Arrow has no type for what Python has: documents, decimals of 65 digits."""
        if value is None or name == "id" or self._schema.field(name).type != pa.string():
            return value
        return json_text(value) if self._columns[name].declared == "JSON" else str(value)


@each_case("form", ["dicts", "tuples", "arrow"])
def test_a_server_reads_what_python_made(origin, taker, form):
    columns = samples(origin)
    flavour = Flavour(origin.flavour)
    sql = create_statement(columns, "made.t")
    table = Table.parse(sql, flavour=flavour, server_version=origin.version)
    shape = Shape(form, columns)
    if flavour is Flavour.MYSQL:
        gtid_mode(taker, "ON_PERMISSIVE")

    @SETTINGS
    @given(inserted=rows(columns), changes=rows(columns), seed=st.integers(0, 1 << 32))
    def hold(inserted, changes, seed):
        changed = changes[: len(inserted)]
        manner = Manner.choose(random.Random(seed), flavour)
        forget(taker, "made")
        forget(origin, "made")
        origin.execute("CREATE DATABASE made CHARACTER SET utf8mb4")
        origin.execute(sql)
        say_in_sql(origin, columns, inserted, changed)

        with TemporaryDirectory() as folder:
            path = Path(folder) / "made.000001"
            with manner.create(path, flavour, origin.version) as log:
                for statement in ("CREATE DATABASE made CHARACTER SET utf8mb4", sql):
                    with manner.begin(log) as trx:
                        trx.query(statement)
                with manner.begin(log) as trx:
                    trx.insert(table, shape(inserted))
                    trx.update(table, shape(inserted[: len(changed)]), shape(changed))
                with manner.begin(log) as trx:
                    trx.delete(table, shape((changed or inserted)[:1]))
            files = [Path(folder) / name for name in log.files]
            WAYS[random.Random(seed).choice(["tool", "relay log"])](taker, files)

        same_tables(origin, taker, "made")

    hold()
    forget(taker, "made")
    forget(origin, "made")
