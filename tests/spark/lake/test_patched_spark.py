"""Spark with Delta's own jars reads deletion vectors of ours, and we go on behind its own."""

from __future__ import annotations

import pytest

from tests.spark.lake.test_spark import on_spark

ROWS = 9000


@pytest.mark.slow
def test_spark_reads_and_writes_vectors(tmp_path):
    stages = on_spark(tmp_path / "lake", module="on_spark_vectors")
    ids = {*range(ROWS), ROWS} - {0, 7}
    named = {3: "new", ROWS: "new"}
    expect(stages["inline"], ids, named)
    ids -= set(range(10, 8010, 2))
    named |= {4: "new"}
    expect(stages["file"], ids | {4}, named)
    ids |= {20000}
    named |= {3: "merged", 20000: "inserted"}
    expect(stages["merged"], ids, named)
    named |= {5: "new"}
    expect(stages["after merge"], ids, named)
    ids -= {5, 11, 8999}
    named |= {6: "new"}
    del named[5]
    expect(stages["deleted"], ids, named)
    ids |= {8999}
    named |= {1: "new", 8999: "new"}
    expect(stages["after delete"], ids, named)
    named |= {2: "new"}
    expect(stages["optimized"], ids, named)
    ids -= {2}
    del named[2]
    expect(stages["after optimize"], ids, named)


def expect(stage, ids, named):
    assert stage["ids"] == sorted(ids)
    assert {int(key): name for key, name in stage["named"].items()} == named
    assert [row[0] for row in stage["few"]] == [each for each in sorted(ids) if each < 5]
