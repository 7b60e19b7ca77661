"""The columns of one table's read from its server's definition, and from its rows: the same."""

import pytest

from tailrace.errors import PipelineError
from tailrace.spark.stream import datasource
from tailrace.spark.stream.datasource import (
    Options,
    arrow_schema,
    defined_columns,
    newest_columns,
    newest_schema,
)
from tailrace.table_name import TableName
from tests.spark.following import BOTH, url_of
from tools.corpus import CASES, Recorder
from tools.corpus.case import DATABASE

BY_ROWS = {
    "mysql": {f"{DATABASE}.renamed"},  # the last case to set binlog_row_metadata=MINIMAL
    "mariadb": {
        *(f"{DATABASE}.renamed", f"{DATABASE}.vectors", f"{DATABASE}.long_vectors"),
        *(f"{DATABASE}.compressed_columns", f"{DATABASE}.network_types"),
    },
}
"""The corpus' tables that the log describes in another way than the server."""


def options_of(source, table, **more):
    return Options.of({"path": url_of(source), "tables": str(table), **more})


def both_ways(source, table, start, **more):
    """The columns by rows and by definition; None where there is none."""
    more = {"path": f"{url_of(source)}&position={start}:4", "statements": "skip", **more}
    options = options_of(source, table, **more)
    found = defined_columns(options, str(table))
    by_definition = None if found is None else arrow_schema(found[0])
    try:
        return arrow_schema(newest_columns(options, str(table))[0]), by_definition
    except PipelineError:  # it has no rows
        return None, by_definition


def begin(source):
    """A log file of its own."""
    source.execute("SET GLOBAL binlog_row_metadata = FULL")
    source.rotate()
    return source.query("SHOW BINARY LOGS")[-1][0]


@BOTH
def test_every_table_of_the_corpus(source):
    """Of every type, and of every kind of column, that the corpus has."""
    compared, by_rows_only = 0, set()
    for case in CASES:
        if case.script is None or source.name not in case.servers or case.name.endswith("-min"):
            continue
        changed = {each: value for each, value in case.settings.items() if "metadata" not in each}
        for variable, value in changed.items():
            source.execute(f"SET GLOBAL {variable} = %s", (value,))
        start = begin(source)
        recorder = Recorder(source)
        try:
            case.script(recorder)
            for (name,) in source.query(
                "SELECT table_name FROM information_schema.tables"
                f" WHERE table_schema = '{DATABASE}' AND table_type <> 'VIEW'"
            ):
                table = TableName(DATABASE, name)
                by_rows, by_definition = both_ways(source, table, start)
                if by_definition is None:
                    by_rows_only.add(str(table))
                elif by_rows is not None:
                    assert by_definition == by_rows, (case.name, table)
                    compared += 1
        finally:
            recorder.connection.close()
            for variable in changed:
                source.execute(f"SET GLOBAL {variable} = DEFAULT")
            source.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
    assert compared > 150
    assert by_rows_only == BY_ROWS[source.flavour]


COLUMNS = {
    "long_key": "id INT PRIMARY KEY, a VARCHAR(255) CHARACTER SET utf8mb4 UNIQUE",
    "hashed": "id INT PRIMARY KEY, a TEXT UNIQUE",
    "network": "id INT PRIMARY KEY, a INET4",
}


@BOTH
def test_where_only_rows_tell(source):
    """Without names, rights, a table or an option, the log is read, as for files."""
    start = begin(source)
    source.execute("CREATE DATABASE told")
    source.execute("CREATE TABLE told.t (id INT PRIMARY KEY, a VARCHAR(9))")
    source.execute("INSERT INTO told.t VALUES (1, 'x')")
    by_rows, by_definition = both_ways(source, "told.t", start)
    assert by_definition == by_rows
    create = "CREATE USER nobody@'%' IDENTIFIED BY ''"
    grants = "REPLICATION SLAVE, REPLICATION CLIENT"
    source.execute(create)
    source.execute(f"GRANT {grants} ON *.* TO nobody@'%'")
    nobody = url_of(source).replace("root@", "nobody@")
    assert both_ways(source, "told.t", start, path=nobody) == (by_rows, None)
    source.execute("DROP USER nobody@'%'")
    source.execute("SET GLOBAL binlog_row_metadata = MINIMAL")
    assert both_ways(source, "told.t", start)[1] is None
    source.execute("SET GLOBAL binlog_row_metadata = FULL")
    source.execute("DROP TABLE told.t")
    assert both_ways(source, "told.t", start) == (by_rows, None)
    for name, columns in COLUMNS.items() if source.flavour == "mariadb" else ():
        source.execute(f"CREATE TABLE told.{name} ({columns})")
        source.execute(f"INSERT INTO told.{name} (id) VALUES (1)")
        assert both_ways(source, f"told.{name}", start)[1] is None, name
    source.execute("DROP DATABASE told")


def test_rows_without_names_are_not_null(source):
    """Rows from before binlog_row_metadata was set, whose columns nothing names."""
    source.execute("SET GLOBAL binlog_row_metadata = MINIMAL")
    source.execute("CREATE DATABASE late")
    source.execute("CREATE TABLE late.t (id INT PRIMARY KEY)")
    start = source.rotate() and source.query("SHOW BINARY LOGS")[-1][0]
    source.execute("INSERT INTO late.t VALUES (1)")
    source.execute("SET GLOBAL binlog_row_metadata = FULL")
    given = {"path": str(source.data / start), "tables": "late.t"}
    schema, since = newest_schema(options_of(source, "late.t"))
    assert schema.names[-1] == "id"
    split = datasource._splits(Options.of(given))[0]
    with pytest.raises(PipelineError, match="does not name the columns of its rows from binlog"):
        list(
            datasource.read_changes(
                datasource.SplitPartition(split), Options.of(given), schema, (), since
            )
        )
