"""Law 2: `import tailrace` stays light, and the warm column path does without Numba."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
