"""docs/worklogs/ has a table for each worklog: the names and the tests in it exist.

The form of a row is described in docs/worklogs/README.md.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import textwrap
from typing import NamedTuple

import pytest

from tests.recorded import ROOT

FOLDER = ROOT / "docs/worklogs"
PAGES = sorted(set(FOLDER.glob("*.md")) - {FOLDER / "README.md"})
COLUMNS = ["Requirement", "Section", "Name", "Test"]
NOT_APPLICABLE = "not applicable"
NONE_YET = "none yet"

_CODE = re.compile(r"`([^`]+)`")
_OPEN = re.compile(r"open: (issue \d+(?: point \d+)?)")
_ALLOWED = re.compile(r"^Open: (.+)\.$", re.MULTILINE)


class Row(NamedTuple):
    requirement: str
    section: str
    name: str
    test: str

    @property
    def applies(self):
        return self.name != NOT_APPLICABLE

    @property
    def names(self):
        return _CODE.findall(self.name)

    @property
    def tests(self):
        return _CODE.findall(self.test) if self.applies else []

    @property
    def open(self):
        return _OPEN.findall(self.test)


def table(text):
    """The cells of each line of the page's tables, without their heads."""
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if cells != COLUMNS:
                yield cells


def attribute(owner, name):
    """An attribute; of a class also a field that its objects have. Raises AttributeError."""
    if not inspect.isclass(owner) or hasattr(owner, name):
        return getattr(owner, name)
    for base in owner.__mro__:
        fields = {*inspect.get_annotations(base), *getattr(base, "FIELDS", ()), *set_at_first(base)}
        if name in fields:
            return None
    raise AttributeError(f"{owner.__name__} has no {name}")


def set_at_first(owner):
    """The attributes that a class's `__init__` sets."""
    init = vars(owner).get("__init__")
    if not inspect.isfunction(init):
        return set()
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(init)))
    except OSError:  # a dataclass's own
        return set()
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def resolve(name):
    """Import what a name says. Raises AttributeError, also for a parameter that is not there."""
    path, _, parameter = name.partition("(")
    parts = path.split(".")
    if parts[0] != "tailrace" or any(part.startswith("_") for part in parts):
        raise AttributeError(f"{name} is no public name")
    found = importlib.import_module(parts[0])
    for number, part in enumerate(parts[1:], 2):
        module = ".".join(parts[:number])
        if inspect.ismodule(found) and not hasattr(found, part):
            try:
                found = importlib.import_module(module)
            except ModuleNotFoundError:
                raise AttributeError(f"{name}: there is no {module}") from None
        else:
            found = attribute(found, part)
    if parameter and parameter.removesuffix("=)") not in inspect.signature(found).parameters:
        raise AttributeError(f"{name}: no such parameter")


def unresolved(names):
    """Those of the names that do not exist."""
    found = set()
    for name in names:
        try:
            resolve(name)
        except AttributeError:
            found.add(name)
    return found


@functools.cache
def defined_in(path):
    """The tests that a file defines: `test_x`, or `TestX::test_x`."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for kind in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        found |= {f"{kind.name}::{n.name}" for n in kind.body if isinstance(n, ast.FunctionDef)}
    return frozenset(name for name in found if name.rpartition("::")[2].startswith("test_"))


def exists(test):
    path, _, name = test.partition("::")
    return (ROOT / path).is_file() and name in defined_in(path)


def test_there_is_a_page_for_each_worklog():
    assert {page.stem for page in PAGES} == {"wl-7672", "wl-3283", "wl-10956", "wl-4398", "mwl-120"}
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"({page.name})" in index for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_rows(page):
    """Each has all columns, and a name and a test that exist, or the reason why not."""
    text = page.read_text(encoding="utf-8")
    cells = list(table(text))
    assert cells
    assert not [each for each in cells if len(each) != len(COLUMNS) or not all(each)]
    rows = [Row(*each) for each in cells]
    for row in rows:
        shown = [*row.tests, *row.open]
        if not row.applies:
            assert not shown, row
            continue
        assert row.names or (row.name == NONE_YET and row.open), row
        assert shown, row
        assert not _OPEN.sub("", _CODE.sub("", row.test)).replace(",", "").strip(), row
    assert not unresolved({name for row in rows if row.applies for name in row.names})
    assert not sorted({test for row in rows for test in row.tests if not exists(test)})
    # A point that is done leaves both the rows and the line; a new one is added to both.
    (said,) = _ALLOWED.findall(text)
    allowed = set() if said == "none" else set(said.split(", "))
    assert {point for row in rows for point in row.open} == allowed


def test_missing_names_and_tests_are_found():
    missing = {
        *("tailrace.nothing", "tailrace.nothing.Log", "tailrace.log.Log.nothing"),
        *("tailrace.events.QueryEvent.nothing", "tailrace.open(nothing=)"),
        *("tailrace.log.Log._begin", "os.path.join"),
    }
    present = {
        *("tailrace.open", "tailrace.open(start=)", "tailrace.log.Log.handlers"),
        *("tailrace.handlers.Pipeline.append", "tailrace.events.QueryEvent.exec_time"),
        *("tailrace.events.EventHeader.log_pos", "tailrace.live.stream.RPL_GTID"),
    }
    assert unresolved(missing | present) == missing
    here = "tests/docs/test_worklogs.py"
    assert exists(f"{here}::test_rows")
    assert not exists(f"{here}::test_nothing")
    assert not exists(f"{here}::exists")
    assert not exists("tests/docs/test_nothing.py::test_rows")
