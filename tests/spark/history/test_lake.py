"""Histories in a lake that follows a server; what a rename does to one, with nothing behind it."""

from __future__ import annotations

from tests.spark.following import BOTH, Follow, no_spark, read, url_of
from tests.spark.replay import differences
from tools.dumps import dump_databases


@BOTH
def test_a_rename_alone_in_its_batch(source, tmp_path):
    lake = tmp_path / "lake"
    options = {"tables": ["renamed.*", "follow.*"], "keep": ["current", "history"]}
    with Follow(url_of(source), lake, spark=no_spark, **options) as following:
        source.execute("CREATE DATABASE renamed")
        source.execute("CREATE TABLE renamed.t (id INT PRIMARY KEY, v INT)")
        source.execute("INSERT INTO renamed.t VALUES (1, 1), (2, 2)")
        source.connection.commit()
        following.wait_for_mark(source)
        source.execute("RENAME TABLE renamed.t TO renamed.u")
        following.wait_for_mark(source)
        assert read(lake, "renamed.u").num_rows == 2
        source.execute("UPDATE renamed.u SET v = 9 WHERE id = 2")
        source.connection.commit()
        following.wait_for_mark(source)
    wanted = dump_databases(source, "renamed")["renamed.u"]
    assert differences(read(lake, "renamed.u"), wanted) == []
    found = read(lake, "renamed.u", "history")
    assert differences(found.filter(found.column("_is_current")), wanted) == []
    assert sorted(found.column("v").to_pylist()) == [1, 2, 9]
    ended = read(lake, "renamed.t", "history")
    assert ended.num_rows == 2
    assert not any(ended.column("_is_current").to_pylist())
    (moment,) = set(ended.column("_valid_to").to_pylist())
    begun = found.sort_by("_seq").to_pylist()[:2]  # MariaDB's times are seconds
    assert [(row["_valid_from"], row["_seq"]) for row in begun] == [(moment, begun[0]["_seq"])] * 2
