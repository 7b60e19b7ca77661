"""``tailrace --help``, ``tailrace help``, each command's help, and their examples."""

import inspect
import os
import re
import select
import shlex
import signal
from typing import get_args

import pytest

import tailrace.spark
from tailrace.cli import app
from tailrace.cli.commands import COMMANDS, EPILOGUE
from tailrace.spark import LakeKeywords
from tests.cases import each_case
from tests.live.certificates import Authority
from tests.replication.conftest import url_of
from tests.waiting import DEADLINE

NAMES = [each.name for each in COMMANDS]
WITH_OPTIONS = [name for name in NAMES if name not in {"help", "completion"}]


@pytest.fixture(autouse=True)
def columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def test_it_fits_on_one_screen(run):
    ran = run("--help")
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert 24 <= len(lines) <= 36
    assert max(map(len, lines)) <= 80
    groups = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert groups == ["Look into logs:", "Copy logs:", "Load a lake:", "Search:", "Help:"]
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    assert [name for name in listed if name in NAMES] == NAMES


def test_without_a_command_it_is_the_help(run):
    assert run().out == run("--help").out == run("help").out


@each_case("name", NAMES)
def test_a_commands_help(run, name):
    ran = run(name, "--help")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == run("help", name).out
    lines = ran.out.splitlines()
    assert lines[0].startswith(f"Usage: tailrace {name}")
    assert "ARGS" not in lines[0]
    assert max(map(len, lines)) <= 80
    assert "Examples" in ran.out
    assert "Commands:" not in ran.out
    assert "Parameters:" not in ran.out, "an option is in no group"
    if name in WITH_OPTIONS:
        assert "Exit codes" in ran.out


@each_case("name", WITH_OPTIONS)
def test_each_option_is_described_by_a_sentence(name):
    for argument in app[name].assemble_argument_collection():
        text = argument.parameter.help or ""
        assert text.endswith((".", ".)")), argument.name
        flag = bool in {argument.hint, *get_args(argument.hint)}
        if argument.name.startswith("--") and not flag:
            assert argument.parameter.metavar, f"{argument.name} does not say what it takes"


def test_without_unicode(begin):
    """The command writes UTF-8 whatever the locale says, and so does its help."""
    process = begin(
        "help", "log", env={**os.environ, "PYTHONIOENCODING": "ascii"}, encoding="utf-8"
    )
    out, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("Usage: tailrace log [OPTIONS] SOURCE…")


COMMANDS_ONLY = {
    "stat": {"as", "html", "include_gtids", "exclude_gtids", "server_id", "skip_checksums"},
    "receive": {"plugin", "progress", "skip_torn_tail"},
    "serve": {"plugin", "wait"},
    "apply": {"skip_checksums", "skip_torn_tail"},
    "mirror": {"cores", "fail_on_set_aside", "skip_torn_tail"},
    "verify": {"cores"},
}
"""Options that the function has not: what it takes otherwise (an observer, a session), or text."""


@each_case("name", COMMANDS_ONLY)
def test_an_option_has_the_name_of_the_functions_parameter(name):
    """One name for one option, in the API and the command line."""
    function = getattr(
        tailrace if name in {"stat", "receive", "serve", "apply"} else tailrace.spark, name
    )
    known = app[name].assemble_argument_collection()
    options = {each.name[2:].replace("-", "_") for each in known if each.name.startswith("--")}
    taken = {*inspect.signature(function).parameters}
    if name == "mirror":
        taken |= LakeKeywords.__annotations__.keys()
    assert options - taken == COMMANDS_ONLY[name]


# --- the examples --------------------------------------------------------------------------------

EXAMPLES = [
    arguments
    for each in COMMANDS
    for _, arguments in each.examples
    if each.name != "completion"  # tests/cli/test_completion.py
]


@pytest.fixture(scope="module")
def source(fresh_server):
    made = fresh_server("mysql-9.7")
    made.execute("CREATE DATABASE shop")
    made.execute("CREATE TABLE shop.orders (id INT PRIMARY KEY, total INT)")
    made.execute("INSERT INTO shop.orders VALUES (1, 10), (2, 20)")
    made.connection.commit()
    return made


AUDIT = """
import sys
from tailrace.generators import StatementConsumer

class Audit(StatementConsumer):
    def stmt_start(self, event):
        print(event.position, flush=True)
"""
"""The consumer of the examples of ``tap``."""


@pytest.fixture(scope="module")
def target(fresh_server):
    return fresh_server("mysql-9.7", server_id=2)


@pytest.fixture(scope="module")
def place(tmp_path_factory, shop):
    """The folder where examples run, one after another: the lake of one is there for the next."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "logs").symlink_to(shop / "mysql")
    (folder / "audit.py").write_text(AUDIT)
    certificate, key = Authority(folder).issue("served", "localhost")
    certificate.rename(folder / "cert.pem")
    key.rename(folder / "key.pem")
    return folder


def _apart(begin, place, *given):
    """What a command prints that starts Spark: its tasks work in the folder in which it started, so
    that a session of this process would be of no use to other tests.
    """
    process = begin(*given, cwd=place, env=dict(os.environ))
    out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, err
    return out


@pytest.mark.parametrize("arguments", EXAMPLES)
def test_an_example(run, begin, source, place, request, monkeypatch, arguments):
    monkeypatch.chdir(place)
    if "db2" in arguments:
        target = request.getfixturevalue("target")
        for database in ("shop", "tailrace"):
            target.execute(f"DROP DATABASE IF EXISTS {database}")
        arguments = arguments.replace("mysql://root@db2/", url_of(target))
    given = shlex.split(arguments.replace("mysql://root@db1/", url_of(source)))
    if given[0] == "serve":  # of a copy that is there, whichever example was chosen
        given = [each.replace(":3307", ":0").replace("copy", "logs") for each in given]
    if "--serve" in given:
        given = [each.replace(":8080", ":0") for each in given]
    if given[0] == "verify" and not (place / "lake").exists():  # its example was not chosen
        _apart(begin, place, "mirror", url_of(source), "--into", "lake")
    if given[0] in {"mirror", "verify"} and "--follow" not in given:
        assert _apart(begin, place, *given)
        return
    if given[0] != "serve" and not {"--follow", "--serve"} & {*given}:
        ran = run(*given)
        assert ran.status == 0, ran.err
        assert ran.out or (place / "report.html").stat().st_size
        return
    if given[0] == "index":  # an index follows a log that has the names of columns
        source.execute("SET GLOBAL binlog_row_metadata = 'FULL'")
    env = {**os.environ, "TAILRACE_SERVE_PASSWORD": "secret"}
    process = begin(*given, cwd=place, env=env)
    seen = process.stdout if given[0] in {"log", "tap"} else process.stderr
    if given[0] in {"log", "tap"}:  # it says nothing until something comes
        while process.poll() is None and not _line_within(seen, 0.5):
            source.execute("INSERT INTO shop.orders SELECT max(id) + 1, 0 FROM shop.orders")
            source.connection.commit()
    else:
        assert seen.readline()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, err


def _line_within(stream, seconds):
    return bool(select.select([stream], [], [], seconds)[0])


def test_the_examples_of_the_command_line_itself():
    """They name a server and a folder that no test has; their options are those of the others."""
    for line in re.findall(r"^  tailrace (.*)$", EPILOGUE, re.MULTILINE):
        app.parse_args(shlex.split(line), print_error=False, exit_on_error=False)
