"""``--layers``, and files that are compressed, from the command line (WL#10956, stream chain)."""

import shutil

import pytest
import zstandard

from tests.cases import each_case


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
