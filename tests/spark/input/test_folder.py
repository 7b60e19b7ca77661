"""Looks at a folder that is written meanwhile."""

from pathlib import Path

import pytest

from tailrace.spark.input.folder import settled
from tailrace.storage import find

LOG = Path(__file__).resolve().parents[3] / "examples" / "shop" / "mariadb" / "binlog.000001"


@pytest.fixture
def look(tmp_path):
    """A function that looks at a folder; what happens in it between the looks is given."""

    def make(*steps):
        left = list(steps)

        def once():
            found = find(tmp_path)
            if left:
                for name, data in left.pop(0).items():
                    path = tmp_path / f"binlog.{name:06}"
                    path.unlink(missing_ok=True)
                    if data is not None:
                        path.write_bytes(data)
            return found

        (series,) = settled(once)
        return [(log.number, log.size) for log in series.files]

    (tmp_path / "binlog.000001").write_bytes(LOG.read_bytes()[:1000])
    return make


def test_a_file_that_had_a_successor_is_whole(look):
    """The first look saw 1,000 bytes of it; its server then wrote more, and rotated."""
    data = LOG.read_bytes()
    assert look({1: data[:2000], 2: data[:500]}) == [(1, 2000)]
    assert look({1: data, 3: data[:300]}, {2: data}) == [(1, len(data)), (2, 500)]


def test_files_that_are_purged_meanwhile(look):
    data = LOG.read_bytes()
    assert look({1: None, 2: data, 3: data[:500]}, {}) == [(2, len(data)), (3, 500)]
