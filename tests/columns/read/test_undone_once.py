"""What was taken back is looked for in a whole series, and not again for each of its files."""

import shutil

import tailrace
from tailrace.columns.read import begin, committed
from tests.recorded import CORPUS

FILES = 5


def test_a_series_with_rollbacks_in_each_file(tmp_path, monkeypatch):
    """But for the last file, which may have grown: here nothing is taken back in it."""
    decided, last = (CORPUS / f"mysql-9.7.{case}/binlog.000001" for case in ("xa", "integers-full"))
    for number in range(FILES):
        shutil.copy(decided, tmp_path / f"binlog.{number + 1:06}")
    shutil.copy(last, tmp_path / f"binlog.{FILES + 1:06}")
    looked = []

    def counted(series):
        looked.append(series)
        return committed.committed_in(series)

    def rows(path):
        return sum(batch.num_rows for batch in tailrace.changes(path, statements="skip"))

    expected = FILES * rows(decided) + rows(last)
    monkeypatch.setattr(begin, "committed_in", counted)
    assert rows(tmp_path) == expected
    assert len(looked) == 1
