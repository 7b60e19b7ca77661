"""Errors are one line on stderr and status 2, without a traceback."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import tailrace.cli
from tailrace.extras import hint
from tests.cases import each_case


def one_error(err):
    """The error that stderr holds; a long one goes on in lines that are indented."""
    first, *more = err.splitlines()
    assert first.startswith("tailrace: ")
    assert all(line.startswith("tailrace:   ") for line in more), err
    return " ".join([first, *(line.removeprefix("tailrace:   ") for line in more)])


def assert_refused(ran, message):
    assert ran.status == 2
    assert message in one_error(ran.err)


def test_encrypted_logs(run, corpus):
    for folder in corpus.glob("*.encrypted"):
        ran = run("check", folder)
        assert ran.status == 2
        assert "encrypted" in ran.out


def test_verify(run, shop, corpus):
    ran = run("check", shop)
    assert ran.status == 0
    assert len(ran.lines) == 7
    assert all(": in order, " in line and line.endswith("rows, checksums") for line in ran.lines)
    counts = [re.search(r"([\d,]+) rows", line)[1] for line in ran.lines]
    assert sum(int(count.replace(",", "")) for count in counts) == 6232
    for case, end in (
        ("checksum-none", "rows, no checksums"),
        ("torn", "ends inside a transaction"),
    ):
        for folder in corpus.glob(f"*.{case}"):
            assert run("check", folder).lines[-1].endswith(end)


def test_verify_of_a_last_file_that_has_just_begun(run, shop, tmp_path):
    first, second, *_ = sorted((shop / "mysql").glob("binlog.0*"))
    shutil.copy(first, tmp_path)
    data = bytearray(second.read_bytes()[:60])
    for in_use, status, end in (
        (1, 0, "ends inside an event at 4: it is being written, or was cut off"),
        (0, 2, "and the file ends after 56"),
    ):
        data[21] = in_use
        (tmp_path / second.name).write_bytes(data)
        ran = run("check", tmp_path)
        assert ran.status == status
        assert ran.lines[0].endswith("rows, checksums")
        assert ran.lines[1].endswith(end)


def test_verify_goes_on_behind_a_damaged_file(run, shop, tmp_path):
    for path in (shop / "mysql").glob("binlog.0*"):
        shutil.copy(path, tmp_path)
    second = tmp_path / "binlog.000002"
    data = bytearray(second.read_bytes())
    data[100_000] ^= 1
    second.write_bytes(data)
    ran = run("check", tmp_path)
    assert ran.status == 2
    assert [": in order" in line for line in ran.lines] == [True, False, True, True]
    assert "checksum" in ran.lines[1]
    assert_refused(run("log", tmp_path, "--tables", "nothing.at_all"), "checksum")


def test_what_came_before_an_error_is_written(run, corpus, tmp_path):
    whole = (corpus / "mysql-9.7.image-full-full" / "binlog.000001").read_bytes()
    path = tmp_path / "binlog.000001"
    damaged = bytearray(whole)
    damaged[-60] ^= 1
    path.write_bytes(damaged)
    good = run("log", corpus / "mysql-9.7.image-full-full", "--as", "json")
    ran = run("log", path, "--as", "json")
    assert ran.status == 2
    assert ran.out
    assert good.out.startswith(ran.out)


def test_skip_checksums(run, corpus, tmp_path):
    path = tmp_path / "binlog.000001"
    data = bytearray((corpus / "mysql-9.7.image-full-full" / "binlog.000001").read_bytes())
    data[126] ^= 1  # in the format description's own checksum
    path.write_bytes(data)
    assert_refused(run("log", path), "checksum")
    assert run("log", path, "--skip-checksums").status == 0


def test_ctrl_c(run, monkeypatch):
    def interrupted(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(tailrace.cli, "app", interrupted)
    ran = run("log", "x")
    assert (ran.status, ran.err) == (130, "")


@each_case("module", ["cyclopts", "uuid"])
def test_ctrl_c_while_it_is_imported(tmp_path, module):
    """The first is what the command needs, the second what the package does."""
    (tmp_path / f"{module}.py").write_text(
        "import signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job ignores it\n"
        "signal.raise_signal(signal.SIGINT)\n"
    )
    script = Path(sys.executable).with_name("tailrace")
    ran = subprocess.run(
        [script, "stat", tmp_path],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, b"", b"")


def test_a_command_whose_extra_is_missing(run, monkeypatch):
    def missing(*_arguments, **_options):
        raise ImportError("wrapped") from ModuleNotFoundError(
            "No module named 'pyspark'", name="pyspark"
        )

    monkeypatch.setattr(tailrace.cli, "app", missing)
    assert_refused(
        run("mirror", "x"),
        f"this command needs the package pyspark, which is not installed: {hint('spark')}",
    )


def test_a_fault_of_ours_is_no_difference(run, monkeypatch):
    """Status 1 says that what was compared differs, and Python's own for a traceback is 1."""

    def fail(*_arguments, **_options):
        raise KeyError("nothing")

    monkeypatch.setattr("tailrace.cli.app", fail)
    ran = run("log", "somewhere")
    assert ran.status == 2
    assert ran.err.startswith("Traceback")
    assert ran.err.endswith("KeyError: 'nothing'\n")
