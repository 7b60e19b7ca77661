"""``--layers``, and files that are compressed, from the command line (WL#10956, stream chain)."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
import zstandard

from tests.cases import each_case
from tests.cli.test_errors import one_error


@pytest.fixture
def archive(shop, tmp_path):
    for path in (shop / "mysql").glob("binlog.0*"):
        (tmp_path / f"{path.name}.zst").write_bytes(zstandard.compress(path.read_bytes()))
    return tmp_path


@each_case("command", [["log"], ["log", "--as", "json"], ["stat"]])
def test_a_compressed_log_reads_as_the_plain_one(run, shop, archive, tmp_path, command):
    wanted = run(*command, shop / "mysql" / "binlog.000002")
    assert wanted.status == 0
    assert run(*command, archive / "binlog.000002.zst") == wanted
    bare = tmp_path / "binlog.000002"
    shutil.copy(archive / "binlog.000002.zst", bare)
    assert run(*command, bare, "--layers", "zstd") == wanted
    assert run(*command, bare, "--layers", "zstd", "--layers", "counting") == wanted
    assert run(*command, bare).status == 2


def test_a_folder_and_a_start(run, shop, archive):
    wanted = run("log", shop / "mysql", "--start", "binlog.000003", "--as", "json")
    found = run("log", archive, "--start", "binlog.000003", "--as", "json")
    assert found == wanted
    assert len(found.lines) > 100


def test_standard_input(shop, archive):
    """One file behind the other, as a pipe gives them."""
    packed, plain = (
        b"".join(path.read_bytes() for path in sorted(folder.glob("binlog.0*")))
        for folder in (archive, shop / "mysql")
    )
    given = [(packed, ["--layers", "zstd"]), (plain, [])]
    packed_out, plain_out = (
        subprocess.run(
            [sys.executable, "-m", "tailrace", "log", "-", "--as", "json", *options],
            input=raw,
            capture_output=True,
            check=True,
        ).stdout
        for raw, options in given
    )
    assert packed_out == plain_out
    assert packed_out.count(b"\n") > 500


def test_errors(run, archive):
    unknown = run("log", archive, "--layers", "gzip")
    assert unknown.status == 2
    assert "no stream is called 'gzip'" in one_error(unknown.err)
    server = run("log", "mysql://root@127.0.0.1:1", "--layers", "zstd")
    assert server.status == 2
    assert "layers are of files" in one_error(server.err)
    path = archive / "binlog.000001.zst"
    path.write_bytes(path.read_bytes()[:5000])
    cut = run("log", path)
    assert cut.status == 2
    assert f"{path}: zstd: the archive ends inside a frame" in one_error(cut.err)
