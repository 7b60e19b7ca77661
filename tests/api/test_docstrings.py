"""Each public name has a docstring with an example that runs as it stands, a signature whose words
are those of the others, and a test.
"""

import ast
import doctest
import inspect
import re
import shutil
from pathlib import Path

import pytest

import tailrace
from tests.cases import each_case

TOP = Path(__file__).resolve().parents[2]
NAMES = [each for each in tailrace.__all__ if each != "__version__"]
FUNCTIONS = [each for each in NAMES if each[0].islower()]
READS = ["open", "transactions", "rows", "changes", "table", "stat", "undo", "redo"]
COMMON = ["start", "until", "follow", "tables", "exclude", "schema", "keyring", "layers"]
WITHOUT = {
    "follow": {"table", "stat", "undo", "redo"},  # they read to the log's end before they give it
    "tables": {"table"},  # it is of one
    "exclude": {"table"},
}
SERVER = ("receive", "apply")


def run_examples(name, **given):
    finder = doctest.DocTestFinder(exclude_empty=True)
    tests = finder.find(getattr(tailrace, name), name, globs=given)
    tests = [test for test in tests if test.examples]
    assert tests, f"{name} has no example"
    runner = doctest.DocTestRunner()
    for test in tests:
        report = []
        runner.run(test, out=report.append)
        assert not runner.failures, "".join(report)


@pytest.mark.slow
@each_case("name", [each for each in NAMES if each not in SERVER])
def test_examples_run(name, tmp_path, monkeypatch):
    shutil.copytree(TOP / "examples" / "shop", tmp_path / "examples" / "shop")
    monkeypatch.chdir(tmp_path)
    run_examples(name)


def test_examples_with_a_server_run(mysql97, tmp_path, monkeypatch):
    shutil.copytree(TOP / "examples" / "shop", tmp_path / "examples" / "shop")
    monkeypatch.chdir(tmp_path)
    url = f"mysql://root@127.0.0.1:{mysql97.port}/?start=now"
    try:
        for name in SERVER:
            run_examples(name, url=url)
    finally:
        for database in ("shop", "tailrace"):
            mysql97.execute(f"DROP DATABASE IF EXISTS {database}")


@each_case("name", NAMES)
def test_docstrings_describe(name):
    """A sentence first; the errors by name where there are any; and each argument."""
    value = getattr(tailrace, name)
    text = inspect.getdoc(value)
    first, *_ = text.split("\n\n")
    assert first.endswith((".", ":"))
    if name not in FUNCTIONS:
        return
    assert re.search(r"\bRaises?\b|\berrors\s+are\s+those\s+of\b", text), name
    told = text
    for other in re.findall(r"(?<!`)`(?:tailrace\.)?(\w+)`(?!`)", text):
        if other in FUNCTIONS:  # where it refers to another function, that one's words count
            told += inspect.getdoc(getattr(tailrace, other))
    silent = {"verify_checksums", "source", "handlers", "expand_payloads"}
    for parameter in inspect.signature(value).parameters.values():
        if parameter.kind is not parameter.VAR_KEYWORD and parameter.name not in silent:
            assert f"``{parameter.name}" in told, f"{name}: {parameter.name}"


def test_functions_that_read_take_the_same_arguments():
    for name in READS:
        parameters = inspect.signature(getattr(tailrace, name)).parameters
        positional = [each for each, one in parameters.items() if one.kind is not one.KEYWORD_ONLY]
        assert positional == (["source", "name"] if name == "table" else ["source"])
        for word in COMMON:
            assert (word in parameters) != (name in WITHOUT.get(word, ())), (name, word)


def test_a_word_means_the_same_everywhere():
    """An argument that several functions take has one type and one default."""
    seen = {}
    for name in FUNCTIONS:
        for word, one in inspect.signature(getattr(tailrace, name)).parameters.items():
            seen.setdefault(word, set()).add((str(one.annotation), str(one.default)))
    several = {word: found for word, found in seen.items() if len(found) > 1}
    # A server's identity is what `append` takes from the log, and `create` must be told; a copy is
    # of a server only. A log is of the flavour that one says; events without a log are MySQL's.
    assert several.keys() <= {"source", "server_id", "options", "flavour"}, several


@pytest.mark.slow
def test_each_name_has_a_test():
    sources = [path.read_text(encoding="utf-8") for path in (TOP / "tests").rglob("test_*.py")]
    used = {
        node.attr
        for text in sources
        if "tailrace" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "tailrace"
    }
    assert set(NAMES) - {"Log", "GtidList", "GtidSet", "Position"} <= used
    imported = " ".join(sources)
    for name in ("Log", "GtidList", "GtidSet", "Position"):
        assert re.search(rf"import [^\n]*\b{name}\b", imported), name


def test_examples_and_documents_need_no_private_name():
    private = re.compile(
        r"(?:from|import)\s+tailrace[\w.]*\._|\btailrace(?:\.\w+)*\._(?!_)\w+|import\s+_\w+"
    )
    for path in [*TOP.glob("docs/**/*.md"), TOP / "README.md", *TOP.glob("examples/**/*.py")]:
        if "docs/design" in str(path) or "docs/worklogs" in str(path):
            continue
        found = private.findall(path.read_text(encoding="utf-8"))
        assert not found, f"{path}: {found}"
