"""Catalogues as JSON, and as earlier releases kept them. ``golden`` was made by those releases."""

import base64
import copyreg
import io
import json
import os
import pickle
import sys
import zlib
from dataclasses import fields, replace
from pathlib import Path

import pytest

from tailrace.constants import Flavour
from tailrace.errors import SchemaError
from tailrace.schema import catalogue_json, catalogue_pickle
from tailrace.schema.catalogue import Catalogue
from tailrace.schema.catalogue_json import from_json, to_json
from tailrace.schema.catalogue_pickle import from_pickle
from tailrace.schema.foreign_keys import ForeignKey
from tailrace.schema.tables import TableState
from tailrace.schema.user_schema import parse
from tailrace.values import schema
from tailrace.values.schema import ColumnDefinition, Logical, TableDefinition
from tests.cases import each_case

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(autouse=True)
def earlier_module():
    """Pickles name the module that held these classes in the releases that pickled."""
    earlier = "tailrace.rows.schema"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, earlier, schema)
        for kind in (ColumnDefinition, Logical, TableDefinition):
            patch.setattr(kind, "__module__", earlier)
        yield


@pytest.fixture(scope="module")
def catalogue():
    """What the golden files of version 1 are of: all that statements could make known."""
    return catalogue_of("catalogue.statements.json")


def catalogue_of(statements):
    made = Catalogue()
    for sql, database in json.loads((GOLDEN / statements).read_text()):
        made.apply(sql, database, flavour=Flavour.MARIADB, default_collation=45)
    given = "CREATE TABLE given.one (a SET('x','y') CHARACTER SET latin1, b VECTOR(3));"
    made.given(parse(given, Flavour.MARIADB))
    return made


class ReleasedPickler(pickle.Pickler):
    """As the releases that kept pickles did, whose tables had no foreign keys."""

    def reducer_override(self, value):
        if not isinstance(value, TableState):
            return NotImplemented
        members = [getattr(value, name) for name in TableState.__slots__ if name != "foreign_keys"]
        return copyreg.__newobj__, (TableState,), members


def pickled(value, kind=ReleasedPickler, protocol=None):
    kept = io.BytesIO()
    kind(kept, protocol).dump(value)
    return kept.getvalue()


def packed(value):
    data = value if isinstance(value, bytes) else pickled(value)
    return base64.b64encode(zlib.compress(data)).decode()


def test_version_1(catalogue):
    """What the first release that wrote it made of these statements."""
    written = json.loads((GOLDEN / "catalogue.version-1.json").read_text())
    now = {name: each for name, each in to_json(catalogue).items() if name != "whole"}
    assert now == {**written, "version": 2}
    assert_as_before(from_json(written), catalogue)


def assert_as_before(found, catalogue):
    """What an earlier release kept: tables with a definition are taken to be whole."""
    defined = {
        (each.definition.database, each.definition.table) for each in found.contents().tables
    }
    assert found.whole() == defined
    before = replace(catalogue.contents(), whole=frozenset())
    assert replace(found.contents(), whole=frozenset()) == before


def test_version_2():
    """The form is what the first release that wrote it made of these statements."""
    written = json.loads((GOLDEN / "catalogue.version-2.json").read_text())
    known = catalogue_of("catalogue.statements-2.json")
    assert to_json(known) == written
    assert vars(from_json(written)) == vars(known)
    first = Catalogue(from_first=True)
    assert vars(from_json(to_json(first))) == vars(first)


@each_case("protocol", [4, 5])
def test_a_pickle_of_an_earlier_release(protocol, catalogue):
    kept = (GOLDEN / f"catalogue.protocol{protocol}.txt").read_text()
    assert_as_before(from_pickle(kept), catalogue)


class OldPickler(ReleasedPickler):
    """As Python 3.11.0 to 3.11.3 pickles members of enumerations."""

    def reducer_override(self, value):
        if isinstance(value, Logical):
            return getattr, (Logical, value.name)
        return super().reducer_override(value)


def test_a_pickle_of_an_early_python_3_11(catalogue):
    known = from_pickle((GOLDEN / "catalogue.protocol4.txt").read_text())
    kept = pickled(known, OldPickler, 4)
    assert b"getattr" in kept
    assert_as_before(from_pickle(packed(kept)), catalogue)
    for member, other in ((b"\x05PLAIN", b"\x05value"), (b"\x07Logical", b"\x07Columns")):
        with pytest.raises(SchemaError, match="damaged"):
            from_pickle(packed(kept.replace(member, other)))


def test_every_member_has_a_place():
    names = {each.name for each in fields(ColumnDefinition)}
    assert names - {"declared"} | {"type"} == set(catalogue_json._COLUMN)
    table = {each.name for each in fields(TableDefinition)}
    state = {each.name for each in fields(TableState)}
    assert table | state - {"definition"} == set(catalogue_json._TABLE)
    column = ColumnDefinition("a", "int", True, 1, ("x",), Logical.UUID, False, False, True, True)
    definition = TableDefinition("d", "t", (column,), ("a",), (3,))
    made = Catalogue()
    key = ForeignKey(("a",), "e", "u", ("b",), "CASCADE", "SET NULL", "k")
    assert set(ForeignKey.__slots__) == set(catalogue_json._FOREIGN_KEY)
    made.given([TableState(definition, 5, "a", 2, (key,))])
    assert from_json(json.loads(json.dumps(to_json(made)))).states() == made.states()


@each_case(
    ("damage", "where"),
    [
        ({"version": 3}, "version 3"),
        ({"version": True}, "catalogue.version"),
        ({"more": 1}, "'more'"),
        ({"tables": [{"database": "a", "table": "b"}]}, r"tables\[0\] has no columns"),
        (
            {"tables": [{"database": "a", "table": "b", "columns": [{"name": 1}]}]},
            r"tables\[0\].columns\[0\].name is 1 and not text",
        ),
        (
            {"given": [{"database": "a", "table": "b", "columns": [], "hidden": -1}]},
            r"given\[0\].hidden",
        ),
        (
            {"tables": [{"database": "a", "table": "b", "columns": [], "foreign_keys": [{}]}]},
            r"foreign_keys\[0\] has no columns",
        ),
        ({"temporary": [["a"]]}, r"temporary\[0\]"),
        ({"databases": {"a": "b"}}, "databases.a"),
        ({"unknown": [[]]}, r"unknown\[0\] is \[\] and not an object"),
    ],
)
def test_a_damaged_catalogue(damage, where):
    with pytest.raises(SchemaError, match=where):
        from_json({"version": 1, **damage})
    with pytest.raises(SchemaError, match="object"):
        from_json([damage])


class Runs:
    """A value whose pickle runs a command."""

    def __init__(self, command):
        self._command = command

    def __reduce__(self):
        return os.system, (self._command,)


class Calls:
    """A value whose pickle calls something, with a text."""

    def __init__(self, called):
        self._called = called

    def __reduce__(self):
        return self._called, ("x",)


def test_a_pickle_runs_nothing(tmp_path, catalogue):
    """Not what it names, not a class of ours with arguments or members of its own choosing."""
    there = tmp_path / "there"
    run = Runs(f"touch {there}")
    planted = Catalogue()
    planted._tables = {("a", "b"): run}
    state = Catalogue()
    state._unknown = {("a", "b"): Calls(TableState)}
    named = b"\x80\x04\x8c\x17tailrace.schema.cursor\x94\x8c\x09dataclass\x93."
    dotted = b"\x80\x04\x8c\x19tailrace.schema.catalogue\x8c\x12Catalogue.__init__\x93."
    onto_class = (
        b"\x80\x04\x8c\x19tailrace.schema.catalogue\x8c\x09Catalogue\x93"
        b"N}\x8c\x06lookup\x8c\x01xs\x86b."
    )
    for value in (run, planted, state, Path("/"), [run], named, dotted, onto_class):
        with pytest.raises(SchemaError, match="damaged"):
            from_pickle(packed(value))
    assert not there.exists()
    assert callable(Catalogue.lookup)


def test_a_pickle_takes_no_memory_or_time(monkeypatch):
    """Opcodes that reserve memory, references that multiply, keys that take forever to hash."""
    doubled = b"\x8c\x01a\x94" + b"".join(
        b"h" + bytes([at]) + b"h" + bytes([at]) + b"\x86\x94" for at in range(60)
    )
    wide = b"(" + b"h\x00" * 20_000 + b"t\x94"
    many = b"\x80\x04\x8c\x01a\x94" + wide
    long = b"X\x00\x00\x01\x00" + b"a" * (1 << 16)
    for data in (
        b"\x80\x04Nr\xff\xff\xff\x7f.",  # LONG_BINPUT: a place in a list of 2^31
        b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f.",  # BINBYTES8
        b"\x80\x04}" + doubled + b"Ns.",
        b"\x80\x04" + doubled + b"\x8c\x01a\x93.",  # as a module's name
        many + b"}" + b"h\x01Ns" * 20_000 + b".",  # one tuple, a key many times
        many + b"\x8f(" + b"h\x01" * 20_000 + b"\x90.",
        b"\x80\x04" + long + b"\x940}" + long + b"h\x00\x86Ns.",
        b"\x80\x04" + b"(" * 1000,
        b"\x80\x04h\x05.",
        b"",
    ):
        with pytest.raises(SchemaError, match="damaged"):
            from_pickle(packed(data))
    for made, opcode in ((b"\x8f", 16 + 216), (b"}", 16 + 64), (b"(", 16), (b"N", 16)):
        monkeypatch.setattr(catalogue_pickle, "_MEMORY", 10_000 * opcode)
        with pytest.raises(SchemaError, match="larger than any catalogue"):
            from_pickle(packed(b"\x80\x04" + made * 11_000 + b"."))
        with pytest.raises(SchemaError, match="damaged: too many values"):
            from_pickle(packed(b"\x80\x04" + made * 9_000 + b"."))
    monkeypatch.setattr(catalogue_pickle, "_MEMORY", 1_000_000)
    names = b"".join(b"\x8c\x05%05dN" % number for number in range(7_000))
    with pytest.raises(SchemaError, match="larger than any catalogue"):
        from_pickle(packed(b"\x80\x04}(" + names + b"u."))
    monkeypatch.undo()
    monkeypatch.setattr(catalogue_pickle, "_MOST", 1_000_000)
    column = ColumnDefinition("a")
    definition = TableDefinition("d", "t", (column,) * 5000)
    wide = Catalogue()
    wide._tables = {("d", str(at)): TableState(definition) for at in range(5000)}
    with pytest.raises(SchemaError, match="larger than any catalogue"):
        from_pickle(packed(wide))


@each_case("text", ["", "?", "größe", base64.b64encode(b"no zlib").decode()])
def test_what_is_no_pickle(text):
    with pytest.raises(SchemaError, match="damaged"):
        from_pickle(text)


def test_a_pickle_that_is_cut(catalogue):
    data = pickled(catalogue)
    for end in range(0, len(data), 29):
        with pytest.raises(SchemaError, match="damaged"):
            from_pickle(packed(data[:end]))
    whole = zlib.compress(data)
    with pytest.raises(SchemaError, match="cut off"):
        from_pickle(base64.b64encode(whole[:-5]).decode())
    bomb = zlib.compress(b"\x80\x04" + bytes(80 << 20), 9)
    with pytest.raises(SchemaError, match="larger than any catalogue"):
        from_pickle(base64.b64encode(bomb).decode())
