"""No byte of a log that is a server's, or open in another process, ever changes."""

import subprocess
import sys
from pathlib import Path

import pytest

import tailrace
from tailrace.errors import StorageError
from tailrace.storage.purge import purge
from tools.campaign import owned

SERVERS = Path("tests/corpus/mysql-9.7.clean-shutdown")


def test_random_folders():
    """The campaign's small size."""
    assert owned.run(owned.SIZES["small"], seed=1).failures == []


def test_a_servers_log_next_to_compressed_ones_is_not_compressed(tmp_path):
    """It was, and the server's own file was removed."""
    tailrace.create(tmp_path / "x.000001", flavour="mysql", server_id=7, layers="zstd").close()
    content = next(SERVERS.glob("*.000001")).read_bytes()
    for number in (1, 2):
        (tmp_path / f"binlog.00000{number}").write_bytes(content)
    tailrace.append(tmp_path / "x.000001").close()
    for number in (1, 2):
        assert (tmp_path / f"binlog.00000{number}").read_bytes() == content


def test_a_purge_leaves_a_servers_last_log_as_it_is(tmp_path):
    """It was compressed, and the server's own file removed."""
    with tailrace.create(tmp_path / "x.000001", flavour="mysql", server_id=7, layers="zstd") as log:
        log.rotate()
    content = next(SERVERS.glob("*.000001")).read_bytes()
    (tmp_path / "x.000003").write_bytes(content)
    (tmp_path / "x.index").write_text("./x.000001\n./x.000002\n./x.000003\n")
    assert purge(tmp_path, to="x.000002") == ["x.000001"]
    assert (tmp_path / "x.000003").read_bytes() == content


def test_an_old_file_that_another_process_has_open_is_not_removed(tmp_path):
    """Only the last file was looked at."""
    with tailrace.create(tmp_path / "x.000001", flavour="mysql", server_id=7) as log:
        log.rotate()
        first = tmp_path / "x.000001"
        with subprocess.Popen(
            [sys.executable, "-S", "-c", owned.OPENED, str(first)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as holder:
            holder.stdout.readline()
            with pytest.raises(StorageError, match="writes to it"):
                log.purge(to="x.000002")
            assert first.exists()
            log.close()
            for call in (lambda: purge(tmp_path, to="x.000002"), lambda: tailrace.append(tmp_path)):
                with pytest.raises(StorageError, match="writes to it"):
                    call()
