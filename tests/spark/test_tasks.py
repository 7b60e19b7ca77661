"""Jobs as Spark tasks: results in order, progress, and errors that come back as they were."""

from __future__ import annotations

import os

import pytest

from tailrace.errors import ChecksumMismatch, PipelineError
from tailrace.spark.tasks import run


def double(argument, report):
    report.final(argument)
    return argument * 2, os.getpid()


def fail(argument, _report):
    if argument == 1:
        raise ChecksumMismatch("bad", file="binlog.000001", offset=4, event_type="XID")


def crash(_argument, _report):
    return {}["nothing"]


def test_results_in_order_from_other_processes(spark, tmp_path):
    told = []
    results = run(spark, double, [5, 1, 3], tmp_path / "run", told.append)
    assert [value for value, _ in results] == [10, 2, 6]
    assert os.getpid() not in {process for _, process in results}
    assert told[-1] == 9
    assert told == sorted(told)


def test_nothing_to_do(spark, tmp_path):
    assert run(spark, double, [], tmp_path / "run") == []


def test_our_errors_come_back_whole(spark, tmp_path):
    with pytest.raises(ChecksumMismatch) as caught:
        run(spark, fail, [0, 1], tmp_path / "run")
    assert str(caught.value) == "binlog.000001 at 4 (XID): bad"


def test_other_errors_are_told_on_a_line(spark, tmp_path):
    with pytest.raises(PipelineError) as caught:
        run(spark, crash, [0], tmp_path / "run")
    assert str(caught.value) == "a Spark task failed: KeyError: 'nothing'"


def test_a_folder_that_cannot_be_made(spark, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match="cannot write"):
        run(spark, double, [1], tmp_path / "file" / "run")
