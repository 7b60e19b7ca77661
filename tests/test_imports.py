"""Law 2: `import tailrace` stays light, and the warm column path does without Numba."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import tailrace
from tailrace.columns import native

HEAVY = ("numba", "numpy", "pandas", "pyarrow", "pymysql", "pyspark")
SHOP = Path(__file__).resolve().parents[1] / "examples" / "shop" / "mysql"


def loaded(code):
    """The heavy modules that a fresh interpreter has imported after running ``code``."""
    ask = f"import sys\n{code}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_import_is_light():
    assert loaded("import tailrace") == []


def test_modules_are_had_by_name():
    """``tailrace.errors`` needs no import of its own; what is no module is no attribute."""
    code = """
import tailrace
print(tailrace.errors.BadLogName.__name__, tailrace.open.__name__, hasattr(tailrace, "nothing"))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["BadLogName", "open", "False"]


def test_reading_events_is_light():
    assert loaded(f"import tailrace\nfor event in tailrace.open({str(SHOP)!r}): pass") == []


def test_decoding_with_kernels_cached_needs_no_numba():
    code = f"import tailrace\nfor batch in tailrace.changes({str(SHOP)!r}): pass"
    loaded(code)
    assert loaded(code) == ["numpy", "pyarrow"]


def started(*arguments):
    """The modules that the command has imported when it has run with these arguments."""
    code = f"""
import sys
from importlib import import_module
from tailrace.__main__ import main
sys.argv = ["tailrace", *{arguments!r}]
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ran.stderr.split())


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


def test_version_and_help_load_no_storage():
    """0.15 s of the processor is what they may take."""
    for option in "--version", "--help":
        assert "tailrace.storage" not in started(option)
    for option in "--version", "--help":
        assert not started(option) & {"rich.markdown", "rich.syntax", "tailrace.log"}


def after_main(expression):
    """What an expression is in a fresh process whose command line has ended."""
    code = f"""
import gc, os, sys
from tailrace.__main__ import main
sys.argv = ["tailrace", "--version"]
try:
    main()
finally:
    print({expression}, file=sys.stderr)
"""
    environment = {key: os.environ[key] for key in os.environ if key != "OPENBLAS_NUM_THREADS"}
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    (said,) = ran.stderr.split()
    return said


def test_the_command_starts_no_threads_for_matrices():
    """OpenBLAS's threads cost 30 ms of a start; NumPy makes them where nobody says how many."""
    assert after_main('__import__("numpy") and len(os.listdir("/proc/self/task"))') == "1"


def test_what_is_left_at_the_end_is_not_searched_for_cycles():
    """Python would, twice, which is 40 ms of what `stat` of a log of 74 MB takes."""
    assert after_main("gc.get_freeze_count() > 1000") == "True"


def test_kernels_from_the_cache_read_no_metadata():
    """`importlib.metadata` takes longer than all of the kernels."""
    code = f"import tailrace\nfor batch in tailrace.changes({str(SHOP)!r}): pass"
    loaded(code)
    ask = f"{code}\nimport sys; assert 'importlib.metadata' not in sys.modules"
    assert loaded(ask) == ["numpy", "pyarrow"]


def test_versions_are_those_of_the_metadata():
    """They are part of the names of cached kernels, read in a faster way."""
    for package in ("numba", "llvmlite"):
        assert native._version(package) == version(package)


def test_names_that_are_imported_when_asked_for_are_there():
    for package in ("tailrace", "tailrace.columns", "tailrace.handlers", "tailrace.schema"):
        module = import_module(package)
        for name in module.__all__:
            assert getattr(module, name) is not None
