"""`tailrace` lists its public names, and nothing else."""

import pkgutil
import pydoc
import subprocess
import sys
import tomllib
from pathlib import Path

import tailrace

TOP = Path(__file__).resolve().parents[2]
NAMES = [
    "GtidList",
    "GtidSet",
    "Log",
    "Position",
    "Table",
    "__version__",
    "append",
    "apply",
    "changes",
    "create",
    "local",
    "open",
    "receive",
    "redo",
    "rows",
    "serve",
    "stat",
    "table",
    "transactions",
    "undo",
]


def test_dir_lists_the_public_names():
    """Also once modules were imported, which become attributes of the package."""
    code = "import tailrace, tailrace.errors, tailrace.transaction\nprint(*dir(tailrace))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == sorted(tailrace.__all__) == sorted(NAMES)


def test_help_shows_each():
    text = pydoc.render_doc(tailrace, renderer=pydoc.plaintext)
    _, _, shown = text.partition("\nCLASSES\n")
    for name in NAMES:
        if name == "__version__":
            assert f"\nVERSION\n    {tailrace.__version__}\n" in shown
        elif name[0].isupper():
            assert f"\n    class {name}(" in shown
        else:
            assert f"\n    {name}(" in shown


def test_the_version_is_the_package_s():
    package = tomllib.loads((TOP / "pyproject.toml").read_text())
    assert tailrace.__version__ == package["project"]["version"]


def test_no_public_name_is_a_module():
    """A module of the package that is imported would replace the name."""
    modules = {module.name for module in pkgutil.iter_modules(tailrace.__path__)}
    assert "log" in modules
    assert not modules & set(NAMES)
