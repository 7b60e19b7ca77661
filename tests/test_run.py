"""`./run` and what it installs: by hash, and as the lock file has it."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tailrace.cli.install import start_again
from tailrace.errors import MissingExtra
from tests.recorded import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKED = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
UV = re.search(r"^uv==(\S+)", (ROOT / "tools" / "uv.txt").read_text(), re.MULTILINE)[1]


@pytest.fixture
def machine(tmp_path):
    """A copy of `./run` with programs of the test's on the path; gives what they were called with."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "run", tmp_path)
    shutil.copy(ROOT / "tools" / "uv.txt", tmp_path / "tools")
    programs = tmp_path / "bin"
    programs.mkdir()
    told = tmp_path / "told"

    def program(path, *, says="", makes=""):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && echo "{says}" && exit\n'
            f'echo "$0 $*" >>"{told}"\n{makes}\n'
        )
        path.chmod(0o755)

    def run(*arguments, **environment):
        path = f"{programs}:/usr/bin:/bin"
        subprocess.run(
            [tmp_path / "run", *arguments],
            check=True,
            capture_output=True,
            env={"PATH": path, "HOME": os.environ["HOME"], **environment},
        )
        lines = told.read_text().splitlines() if told.exists() else []
        told.unlink(missing_ok=True)
        return [line.replace(f"{tmp_path}/", "") for line in lines]

    run.program = program
    run.folder = tmp_path
    return run


def test_another_uv_is_not_taken(machine):
    """The uv on the path may be any; the pinned one is installed, by hash."""
    own = machine.folder / ".uv" / "bin" / "uv"
    machine.program(machine.folder / "bin" / "uv", says="uv 0.1.0")
    made = f'case $3 in --version) ;; *) mkdir -p "{own.parent}" && cp "{machine.folder}/pinned" "{own}";; esac'
    machine.program(machine.folder / "pinned", says=f"uv {UV} (x)")
    machine.program(machine.folder / "bin" / "python3", makes=made)
    *asked, installed, ran = machine("pytest", "-q")
    assert all(line.startswith("bin/python3 -") for line in asked)
    assert "bin/python3 -m pip install " in installed
    for option in ("--require-hashes", "--only-binary :all:", "--requirement tools/uv.txt"):
        assert option in installed
    assert ran.startswith(".uv/bin/uv run --project ")
    assert ran.endswith(" --locked pytest -q")
    assert machine("true") == [ran.replace("pytest -q", "true")], "once"


def test_the_same_uv_is_taken(machine):
    machine.program(machine.folder / "bin" / "uv", says=f"uv {UV} (x86_64-unknown-linux-gnu)")
    (ran,) = machine("x")
    assert ran == f"bin/uv run --project {machine.folder} --locked x"
    machine.program(machine.folder / "bin" / "uv", says=f"uv {UV}1")
    machine.program(machine.folder / ".uv" / "bin" / "uv", says=f"uv {UV}")
    (ran,) = machine("x")
    assert ran.startswith(".uv/bin/uv run ")


def test_a_command_installs_what_it_needs(machine):
    """What reads logs; more as soon as the command starts again with it. No uv is its parent."""
    machine.program(machine.folder / "bin" / "uv", says=f"uv {UV}")
    machine.program(machine.folder / ".venv" / "bin" / "tailrace")
    least = "--no-default-groups --group build --extra columns --extra live"
    installed, ran = machine("tailrace", "mirror", "a b", "--into", "lake")
    assert installed.endswith(f" --locked {least} true")
    assert ran == ".venv/bin/tailrace mirror a b --into lake"
    installed, ran = machine("tailrace", "mirror", TAILRACE_EXTRAS="spark")
    assert installed.endswith(f" --locked {least} --extra spark true")
    assert ran == ".venv/bin/tailrace mirror"
    for command in (["python", "-c", "import tailrace"], ["pytest"]):
        (ran,) = machine(*command, TAILRACE_EXTRAS="spark")
        assert ran.endswith(f" --locked {' '.join(command)}")


@pytest.mark.parametrize(
    ("package", "given", "then"),
    [
        ("pyspark", {}, "spark"),
        ("tantivy", {"TAILRACE_EXTRAS": "spark"}, "spark search"),
        ("deltalake.writer", {}, "delta"),
        ("pyspark", {"TAILRACE_EXTRAS": "spark"}, None),
        ("unknown", {}, None),
        ("pyspark", {"TAILRACE_RUN": None}, None),
    ],
)
def test_a_command_starts_again_with_what_it_lacks(package, given, then, monkeypatch, capsys):
    started = []
    monkeypatch.setattr(os, "execv", lambda path, line: started.append([path, *line]))
    monkeypatch.delenv("TAILRACE_EXTRAS", raising=False)
    for name, value in {"TAILRACE_RUN": "/clone/run", **given}.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "argv", ["tailrace", "mirror", "logs"])
    start_again(MissingExtra("it is missing", name=package))
    if then is None:
        assert started == []
    else:
        assert started == [["/clone/run", "/clone/run", "tailrace", "mirror", "logs"]]
        assert os.environ["TAILRACE_EXTRAS"] == then
        assert f"the extra {then.split()[-1]}" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["tailrace", "log", "-"])
    start_again(MissingExtra("it is missing", name=package))
    assert len(started) == (then is not None), "what was read of stdin is gone"


def test_every_download_has_its_hash():
    for name, count in (("uv.txt", 6), ("pyspark42.txt", 2)):
        text = (ROOT / "tools" / name).read_text()
        assert len(set(re.findall(r"--hash=sha256:([0-9a-f]{64})\b", text))) == count
    for package in LOCKED:
        if "registry" in package["source"]:
            files = [*package.get("wheels", ()), package.get("sdist")]
            assert all(file["hash"].startswith("sha256:") for file in files if file)


def test_the_build_backend_is_locked():
    """Built without isolation, so from packages of the lock file."""
    names = {package["name"] for package in LOCKED}
    wanted = {re.match(r"[\w-]+", each)[0] for each in PROJECT["build-system"]["requires"]}
    assert wanted | {"editables", "trove-classifiers", "pluggy", "pathspec"} <= names
    assert PROJECT["tool"]["uv"]["no-build-isolation-package"] == ["tailrace"]


def test_what_has_private_parts_used_is_bounded():
    columns = PROJECT["project"]["optional-dependencies"]["columns"]
    for name in ("numba", "llvmlite"):
        (requirement,) = (each for each in columns if each.startswith(name))
        assert re.search(r",<0\.\d+$", requirement)


def test_no_fixed_names_for_temporary_files():
    """A name that others know is theirs to make first; `tempfile` and pytest's folders have none."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.py", "*.sh", "*.yml", "run", "tools", ".ci"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    found = []
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if (
            path == Path(__file__)
            or not path.is_file()
            or path.suffix not in {"", ".py", ".sh", ".yml"}
        ):
            continue
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
            if re.search(r"gettempdir\(|/(?:var/)?tmp/\w{2}", line):
                found.append(f"{name}:{number}: {line.strip()}")
    assert found == [], "use tempfile"
