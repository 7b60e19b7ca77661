"""A generator of another package, found by entry point, with consumers in a third package (MWL#120:
"a consumer in one plugin to register itself with a generator implemented in another plugin").
"""

import subprocess
import sys

import pytest

from tailrace import generators
from tailrace.errors import UsageError
from tests.recorded import ROOT

ENGINE = '''
"""Engine-level events: the rows of the tables of one engine, as records with a key."""

from tailrace.generators import RowConsumer, RowEvent, RowGenerator, RowsContext, accessor
from tailrace.generators import Context, Generator, ModifiedTable


class EngineEvent(RowEvent):
    __slots__ = ()
    key = accessor("The record's key.")


class EnginePut(EngineEvent):
    __slots__ = ()
    name = "engine_put"
    record = accessor("The record.")


class EngineRemove(EngineEvent):
    __slots__ = ()
    name = "engine_remove"


class EngineConsumer(RowConsumer, interface=True):
    def engine_put(self, event, /):
        """A record is there."""

    def engine_remove(self, event, /):
        """A record is gone."""


class _Record(Context):
    def __init__(self, row):
        self.row = row

    def read(self, accessor):
        if accessor == "record":
            return self.row.read("after_image")
        if accessor == "key":
            image = self.row.read("after_image") or self.row.read("before_image")
            return image["id"]
        return self.row.read(accessor)


class EngineGenerator(Generator):
    name = "engine"
    stands_on = "row"
    interface = EngineConsumer
    tables = {"orders", "reviews"}

    def kinds(self, offer):
        context = offer.context
        if not isinstance(context, RowsContext) or context.read("table").name not in self.tables:
            return ()
        return (EngineRemove,) if context.operation == "delete" else (EnginePut,)

    def events(self, offer, kind):
        return (kind(_Record(row)) for row in offer.context.rows())
'''
STORE = '''
"""A consumer of the engine's events, in a package of its own."""

from engine_package import EngineConsumer


class Store(EngineConsumer):
    def __init__(self):
        self.records = {}
        self.rows = set()

    def engine_put(self, event):
        self.records[event.table.name, event.key] = event.record

    def engine_remove(self, event):
        del self.records[event.table.name, event.key]

    def row_write(self, event):
        self.rows.add(event.table.name)
'''
PROGRAM = """
import tailrace
from tailrace import generators
from store_package import Store

class Rows(generators.RowConsumer):
    def __init__(self):
        self.tables = set()
    def row_batch(self, event):
        self.tables.add(event.table.name)

store, rows = Store(), Rows()
with generators.EventStream("examples/shop/mysql", also=["engine"]) as stream:
    stream.stack["engine"].register(store)
    stream.row.register(rows)
    stream.run()
    counts = stream.stack.counts

current = {}
with tailrace.rows("examples/shop/mysql", tables=["shop.orders", "shop.reviews"]) as found:
    for row in found:
        if row.operation == "delete":
            del current[row.table, row.values["id"]]
        else:
            current[row.table, row.values["id"]] = row.values
assert store.records == current, (len(store.records), len(current))
assert not {"orders", "reviews"} & (store.rows | rows.tables), (store.rows, rows.tables)
assert {"customers", "products"} <= store.rows & rows.tables, store.rows
assert counts["engine"].taken and counts["engine"].deferred == counts["row"].offered
print("as expected")
"""


OWN = '''

import json
import sqlite3

from tailrace.generators import Change, KeptContext, MaterialisedFormat, MaterialisedWriter, Offer


class EngineFormat(MaterialisedFormat):
    """The engine's own materialisation: a line for each record, and for each commit."""

    name = "engine"

    def writer(self, output):
        return EngineWriter(output)

    def reader(self, source):
        return EngineReader(source)


class EngineWriter(MaterialisedWriter):
    def __init__(self, output):
        self.output = output

    def event(self, event):
        if event.name in ("engine_put", "engine_remove", "trx_start", "trx_commit"):
            values = event.values()
            table = event.table.name if isinstance(event, EngineEvent) else None
            line = [event.name, event.local_transaction_id, table]
            line += [values.get("key"), values.get("record")]
            self.output(json.dumps(line, default=str).encode() + b"\\n")

    def flush(self):
        pass

    def close(self):
        pass


class EngineReader:
    def __init__(self, source):
        self.lines = source

    def offers(self):
        changes = {"trx_start": Change.START, "trx_commit": Change.COMMIT}
        for line in self.lines:
            name, number, table, key, record = json.loads(line)
            values = {"local_transaction_id": number, "key": key, "record": record}
            table = None if table is None else ModifiedTable("shop", table, ())
            context = KeptContext({**values, "table": table})
            yield Offer(changes.get(name, name), context, number)

    def events(self):
        raise NotImplementedError


class EngineApplier(EngineConsumer):
    """The engine's own applying: its records, in a store of its own, by transactions."""

    def __init__(self, file):
        self.store = sqlite3.connect(file, isolation_level=None)
        columns = "name TEXT, key TEXT, record TEXT, PRIMARY KEY (name, key)"
        self.store.execute(f"CREATE TABLE records ({columns})")

    def trx_start(self, event):
        self.store.execute("BEGIN")

    def engine_put(self, event):
        put = (event.table.name, event.key, json.dumps(event.record, default=str))
        self.store.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", put)

    def engine_remove(self, event):
        gone = (event.table.name, event.key)
        done = self.store.execute("DELETE FROM records WHERE name = ? AND key = ?", gone)
        assert done.rowcount == 1

    def trx_commit(self, event):
        self.store.execute("COMMIT")
'''
APPLIED = """
import io, json, sqlite3, sys
import tailrace
from tailrace import generators
from engine_package import EngineApplier
from store_package import Store

def through(format):
    stream, told = io.BytesIO(), Store()
    log = generators.EventStream("examples/shop/mysql", also=["engine"])
    with log, generators.Materialiser(stream, format=format) as written:
        log.stack["engine"].register(told)
        written.register(log.stack["engine"])
        log.run()
    stream.seek(0)
    again, applier = Store(), EngineApplier(f"{sys.argv[1]}/{format}.sqlite")
    with generators.MaterialisedStream(stream, format=format, also=["engine"]) as read:
        read.stack["engine"].register(again)
        read.stack["engine"].register(applier)
        read.run()
    plain = lambda store: json.loads(json.dumps(sorted(store.records.items()), default=str))
    assert plain(again) == plain(told) and told.records
    rows = applier.store.execute("SELECT name, CAST(key AS INTEGER), record FROM records")
    assert sorted([[name, key], json.loads(record)] for name, key, record in rows) == plain(told)

for format in ("native", "engine"):
    through(format)
print("as expected")
"""


def package(folder, name, source, entries):
    """A package with its metadata, as an installation leaves them."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(source)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)


@pytest.fixture
def site(tmp_path):
    entries = (
        "[tailrace.generators]\nengine = engine_package:EngineGenerator\n"
        "[tailrace.materialised_formats]\nengine = engine_package:EngineFormat\n"
    )
    package(tmp_path, "engine_package", ENGINE + OWN, entries)
    package(tmp_path, "store_package", STORE, "")
    return tmp_path


def test_a_fourth_generator_claims_rows_and_its_consumers_are_of_a_third_package(site):
    """Row consumers, also of the packages, do not get the rows that it takes."""
    run(site, PROGRAM)


def run(site, program, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env={"PYTHONPATH": str(site), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "as expected\n", done.stderr


@pytest.mark.slow
def test_a_fourth_generator_brings_its_own_materialisation_and_its_own_applying(site, tmp_path):
    """PBXT's engine-level replication: its events in its own format, and in the default one, to
    its own store, and to a consumer of a third package.
    """
    run(site, APPLIED, str(tmp_path))


@pytest.fixture
def on_path(site, monkeypatch):
    monkeypatch.syspath_prepend(str(site))
    yield site
    for name in ("engine_package", "store_package", "wrong_package"):
        sys.modules.pop(name, None)


def test_a_generator_by_name(on_path):
    found = generators.EventStream("examples/shop/mysql", also=["engine"])
    assert [each.name for each in found.stack] == ["transaction", "statement", "row", "engine"]
    found.close()


def test_mistakes_about_generators(on_path):
    with pytest.raises(UsageError, match=r"no generator is called 'none'; known are engine, row"):
        generators.EventStream("examples/shop/mysql", also=["none"])
    entries = "[tailrace.generators]\nwrong = wrong_package:NAME\n"
    package(on_path, "wrong_package", "NAME = 7\n", entries)
    with pytest.raises(UsageError, match="wrong is 7, not a class of generators"):
        generators.EventStream("examples/shop/mysql", also=["wrong"])
    with pytest.raises(UsageError, match="stands on"):
        generators.Stack([generators.RowGenerator])
    with pytest.raises(UsageError, match="at least one generator"):
        generators.Stack([])
