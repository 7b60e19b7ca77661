"""A mirror without Spark, its jobs run here; and rows of a lake as a server's SELECT shows them."""

from __future__ import annotations

import base64
import decimal
import json
import re
import shutil
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.columns import plan_splits
from tailrace.spark.current.build import SourceChanges, build
from tailrace.spark.parquet import hidden
from tailrace.spark.splits import SplitJob, write_split
from tailrace.storage import find
from tailrace.table_filter import TableFilter
from tests.recorded import ROOT

SHOP = ROOT / "examples" / "shop"
SHOP_TABLES = {
    name: table
    for flavour in json.loads((SHOP / "expected.json").read_text()).values()
    for name, table in flavour["tables"].items()
}
"""What SELECT said of the shop's tables when the logs were recorded, of both servers."""


class Silent:
    """A report that nobody reads."""

    def done(self, amount):
        pass

    def final(self, amount):
        pass


def run(job, arguments):
    return [job(argument, Silent()) for argument in arguments]


def change_files(splits, folder, statements="error"):
    """What jobs write of splits, in a new folder: the files of each table, in the log's order."""
    files = {}
    jobs = [SplitJob(split, TableFilter(), statements, folder) for split in splits]
    for written, *_ in run(write_split, jobs):
        for file in sorted(written, key=lambda each: each.first):
            files.setdefault(file.name, []).append(file)
    return files


def tell(server, database, statements, folder, image="FULL"):
    """Run statements in a database of their own; their log alone, copied into a folder."""
    server.execute(f"DROP DATABASE IF EXISTS {database}")
    server.execute(f"CREATE DATABASE {database}")
    server.rotate()
    server.execute(f"USE {database}")
    server.execute(f"SET SESSION binlog_row_image = {image}")
    for statement in filter(str.strip, statements.split(";")):
        server.execute(statement)
    server.connection.commit()
    server.execute("SET SESSION binlog_row_image = FULL")
    log = server.rotate()
    folder.mkdir()
    shutil.copy(log, folder / log.name)
    return folder


def current_states(source, folder, statements="skip", **planning):
    """The current state of each table of a source, by name."""
    states = {}
    for series in find(source):
        place = folder / series.name.replace("/", "_")
        place.mkdir(parents=True)
        splits = plan_splits(series, **planning)
        files = change_files(splits, place / "changelog", statements)
        changes = SourceChanges(splits, files, {})
        states |= build([changes], lambda _name: True, run, place)
    return states


def rows_of(built):
    """The rows of a current state that count, as one table."""
    found = []
    for file, path in zip(built.current.places, built.paths, strict=True):
        if path is not None:
            rows = pq.read_table(path)
            gone = set(hidden.load(file.hidden).tolist())
            kept = [at for at in range(rows.num_rows) if at not in gone]
            found.append(rows.take(pa.array(kept, pa.int64())))
    return pa.concat_tables(found)


def differences(table, expected):
    """How rows in the lake differ from what SELECT gave; an empty list is what is wanted.

    ``expected`` is a table of an expected.json. Rows are matched by key, or by all their values.
    Generated columns of tools.campaign's tables may be missing: MariaDB logs no virtual ones.
    """
    expected = _without(
        expected,
        {name for name in expected["columns"] if re.fullmatch(r"g\d+", name)}
        - set(table.schema.names),
    )
    names, types = expected["columns"], expected["types"]
    if missing := [name for name in names if name not in table.schema.names]:
        return [f"columns {missing} are missing"]
    if table.num_rows != expected["count"]:
        return [f"{table.num_rows} rows, and {expected['count']} by SELECT"]
    binary = [name in expected["binary"] for name in names]
    columns = [table.column(name).to_pylist() for name in names]
    raws = [dict(each or ()) for each in table.column("_raw").to_pylist()]
    left = [
        [raw.get(name, value) for name, value in zip(names, values, strict=True)]
        for raw, values in zip(raws, zip(*columns, strict=True), strict=True)
    ]
    key = [names.index(name) for name in expected["key"]] or range(len(names))
    found = []
    for row in expected["rows"]:
        match = next(
            (each for each in left if all(same(each[i], row[i], types[i], binary[i]) for i in key)),
            None,
        )
        if match is None:
            found.append(f"no row {[row[i] for i in key]}")
            continue
        left.remove(match)
        found += [
            f"{names[i]} {types[i]}: {match[i]!r}, by SELECT {row[i]!r}"
            for i in range(len(names))
            if not same(match[i], row[i], types[i], binary[i])
        ]
    return found


def _without(expected, gone):
    kept = [at for at, name in enumerate(expected["columns"]) if name not in gone]
    lists = {name: [expected[name][at] for at in kept] for name in ("columns", "types")}
    rows = [[row[at] for at in kept] for row in expected["rows"]]
    return expected | lists | {"rows": rows}


def same(value, text, declared, binary):
    """Is a typed value what SELECT gave as text (base64 where ``binary``)?"""
    if value is None or text is None:
        return value is None and text is None
    base = declared.split("(")[0].split()[0]
    if binary:
        data = base64.b64decode(text)
        if base == "bit":
            return int.from_bytes(data, "big") == int(value)
        if base == "vector":
            return list(struct.unpack(f"<{len(data) // 4}f", data)) == value
        return data == (value if isinstance(value, bytes) else str(value).encode())
    if isinstance(value, str):
        return json.loads(value) == json.loads(text) if base == "json" else value == text
    if base == "float":
        return np.isclose(float(text), value, rtol=1e-5)
    if isinstance(value, float):
        return float(text) == value
    if isinstance(value, int | decimal.Decimal):
        return decimal.Decimal(text) == value
    return temporal(value, declared) == text


def temporal(value, declared):
    """A date or time as SELECT prints it, with as many digits as the type has."""
    base = declared.split("(")[0].split()[0]
    digits = int(declared.split("(")[1].split(")")[0]) if "(" in declared else 0
    if base == "date":
        return value.isoformat()
    if base == "time":
        micros = (value.days * 86400 + value.seconds) * 1_000_000 + value.microseconds
        seconds, part = divmod(abs(micros), 1_000_000)
        sign = "-" if micros < 0 else ""
        text = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    else:
        text, part = f"{value:%Y-%m-%d %H:%M:%S}".rjust(19, "0"), value.microsecond
    return text + (f".{part:06}"[: digits + 1] if digits else "")
