"""Law 2: `import tailrace` stays light, and the warm column path does without Numba."""

import os
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import tailrace
from tailrace.columns import native

HEAVY = {"numba", "numpy", "pandas", "pyarrow", "pymysql", "pyspark", "rich", "sqlglot"}
SHOP = Path(__file__).resolve().parents[1] / "examples" / "shop" / "mysql"


def said(code, **environment):
    """What a fresh interpreter prints on stderr."""
    known = {key: value for key, value in os.environ.items() if key != "OPENBLAS_NUM_THREADS"}
    argv = [sys.executable, "-c", code]
    ran = subprocess.run(argv, capture_output=True, text=True, check=True, env=known | environment)
    return ran.stderr


def test_import_is_light():
    """``tailrace.errors`` needs no import of its own; what is no module is no attribute."""
    code = f"""
import sys, tailrace
tailrace.create, tailrace.append
light = set(sys.modules)
for event in tailrace.open({str(SHOP)!r}): pass
print({{*light, *sys.modules}} & {HEAVY!r} or "light", file=sys.stderr)
print(tailrace.errors.BadLogName.__name__, hasattr(tailrace, "nothing"), file=sys.stderr)
"""
    assert said(code).split() == ["light", "BadLogName", "False"]


def test_decoding_with_kernels_cached_needs_no_numba():
    """And no `importlib.metadata`, which takes longer than all of the kernels."""
    code = f"import tailrace, sys\nfor batch in tailrace.changes({str(SHOP)!r}): pass\n"
    said(code)
    names = HEAVY | {"importlib.metadata"}
    found = said(f"{code}print(*({names!r} & set(sys.modules)), file=sys.stderr)")
    assert set(found.split()) == {"numpy", "pyarrow"}


def started(*arguments, more="0"):
    """The modules that the command has imported when it has run with these arguments, and more."""
    code = f"""
import gc, os, sys
from importlib import import_module
from tailrace.__main__ import main
sys.argv = ["tailrace", *{arguments!r}]
try:
    main()
finally:
    print(*sys.modules, {more}, file=sys.stderr)
"""
    return set(said(code).split())


SELDOM = {
    # what a log of files without DDL, read as text, needs nothing of
    "tailrace.live.url",
    "tailrace.log.changes",
    "tailrace.replication",
    "tailrace.schema.alter",
    "tailrace.schema.ddl",
    "tailrace.schema.user_schema",
    "tailrace.schema.session",
    "tailrace.spark",
    "tailrace.sql",
    "tailrace.log.statistics",
    "tailrace.storage.keyring",
    "tailrace.storage.objects.bucket",
    "tailrace.writing",
    # slow to import, of others
    "cryptography",
    "email",
    "importlib.metadata",
    "numba",
    "numpy",
    "pandas",
    "pyarrow",
    "rich",
    "secrets",
}


def test_the_command_starts_with_what_it_needs(tmp_path):
    """It is a good part of what a log of some 100 MB takes: see docs/evidence/speed.md."""
    path = str(tmp_path / "log.000001")
    with tailrace.create(path, flavour="mysql", server_id=1):
        pass
    assert started("log", path) & SELDOM == set()
    assert started("check", path) & SELDOM == set()
    assert started("stat", path) & SELDOM == {"tailrace.log.changes", "tailrace.log.statistics"}
    as_json = started("log", "--as", "json", str(SHOP))  # a small log needs no kernels
    assert not as_json & (HEAVY | {"sqlglot", "rich.table", "llvmlite"})


def test_version_and_help_load_no_storage():
    """0.15 s of the processor is what they may take.

    And OpenBLAS's threads cost 30 ms of a start; NumPy makes them where nobody says how many. What is
    left at the end is not searched for cycles: Python would, twice, which is 40 ms of what `stat` of
    a log of 74 MB takes.
    """
    slow = {"tailrace.storage", "rich.markdown", "rich.syntax", "tailrace.log"}
    assert not started("--help") & slow
    threads = '__import__("numpy") and "threads:%s" % len(os.listdir("/proc/self/task"))'
    ended = started("--version", more=f'"frozen:%s" % (gc.get_freeze_count() > 1000), {threads}')
    assert not ended & slow
    assert {"frozen:True", "threads:1"} <= ended


def test_versions_are_those_of_the_metadata():
    """They are part of the names of cached kernels, read in a faster way."""
    for package in ("numba", "llvmlite"):
        assert native._version(package) == version(package)


def test_names_that_are_imported_when_asked_for_are_there():
    for package in ("tailrace", "tailrace.columns", "tailrace.handlers", "tailrace.schema"):
        module = import_module(package)
        for name in module.__all__:
            assert getattr(module, name) is not None
