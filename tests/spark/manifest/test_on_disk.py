"""Files of a lake by the requests of an object store."""

import os
from contextlib import nullcontext

from tailrace.spark.manifest.on_disk import LocalObjects


def test_a_file_that_goes_while_its_folder_is_listed(tmp_path, monkeypatch):
    """A writer's draft: readers that polled a lake met it once in 30 pauses of its writer."""
    for name in ("draft", "file"):
        (tmp_path / name).write_text("text")
    scandir = os.scandir

    def slow(path):
        entries = list(scandir(path))
        (tmp_path / "draft").unlink()
        return nullcontext(entries)

    monkeypatch.setattr(os, "scandir", slow)
    assert LocalObjects(tmp_path).list("").objects == {"file": 4}
