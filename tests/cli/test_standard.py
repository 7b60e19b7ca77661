"""Standard streams that are closed, or that cannot be written."""

import subprocess
import sys

import pytest

from tests.cases import each_case


def ran(ends, *arguments):
    """The command with its streams redirected as a shell does it."""
    command = ["sh", "-c", f'exec "$@" {ends}', "sh", sys.executable, "-m", "tailrace"]
    command += map(str, arguments)
    return subprocess.run(command, check=False, capture_output=True, text=True)


FULL, CLOSED = (">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")


@pytest.mark.slow
@each_case(
    ("ends", "reason", "arguments"),
    [
        (*FULL, ("log",)),
        (*FULL, ("log", "--as", "json")),
        (*FULL, ("log", "--as", "sql")),
        (*FULL, ("check",)),
        (*FULL, ("stat",)),
        (*FULL, ("stat", "--as", "json")),
        (*FULL, ("--version",)),
        (*FULL, ("--help",)),
        (*CLOSED, ("log", "--as", "json")),
        (*CLOSED, ("stat",)),
        (*CLOSED, ("--help",)),
    ],
)
def test_standard_output_that_cannot_be_written(corpus, ends, reason, arguments):
    log = () if arguments[0].startswith("--") else (corpus / "mysql-9.7.image-full-full",)
    done = ran(ends, *arguments, *log)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"tailrace: standard output: {reason}"
    assert done.stderr.count("standard output") == 1
    assert "Traceback" not in done.stderr


def test_closed_standard_input():
    done = ran("<&-", "log", "-")
    assert done.returncode == 2
    assert done.stderr == "tailrace: standard input: Bad file descriptor\n"


@each_case("ends", ["2>/dev/full", "2>&-"])
def test_an_error_that_cannot_be_said_keeps_its_status(tmp_path, ends):
    assert ran(ends, "log", tmp_path / "nothing").returncode == 2


@each_case("ends", [">&- 2>&-", "<&- 2>&-"])
def test_closed_streams_that_are_not_used(corpus, tmp_path, ends):
    """A file that is opened then does not become one of them."""
    copy = tmp_path / "copy.000001"
    log = corpus / "mysql-9.7.image-full-full" / "binlog.000001"
    done = ran(ends, "log", log, "--as", "raw", "--into", copy)
    assert done.returncode == 0
    assert copy.exists()
