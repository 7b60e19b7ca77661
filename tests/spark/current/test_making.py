"""Units that fail: by what their rows are, or otherwise."""

from unittest import mock

import pyarrow as pa
import pytest

from tailrace.spark.manifest.manifest import DataFile, TableRows
from tailrace.spark.parquet.file import DataFolder
from tailrace.spark.state.current import jobs
from tailrace.spark.state.current.flat import Target
from tailrace.spark.state.current.jobs import Done, Unit, Work, make
from tailrace.spark.state.current.plan import TablePlan
from tailrace.spark.state.failure import RejectedError

TARGET = Target(pa.schema([("a", pa.int64())]), ("a",))


class Given(Work):
    """Fails, or not, as its spill files' names say."""

    def do(self):
        for each in self.spills:
            raise RejectedError("no rows") if each == "rejected" else ZeroDivisionError(each)
        return Done((DataFile("", 1, 2, 3), str(self.out.new("part"))), unseen=1)


class OfBuckets(Unit):
    """A unit whose buckets do what was given."""

    def job(self, base, pieces, spills):
        return Given(TARGET, base, pieces, spills, False, self.out())


def run(job, arguments):
    return [job(each) for each in arguments]


def made(folder, *buckets):
    count = len(buckets)
    rows = TableRows(TARGET.columns, TARGET.key, (None,) * count)
    plan = TablePlan(TARGET, rows, None, (), None, count, False, False, 0, 0, 0)
    unit = OfBuckets(plan, lambda: DataFolder(folder))
    spills = {number: [each] for number, each in enumerate(buckets) if each}
    with mock.patch.object(jobs, "_cut_all", return_value={"t": spills}):
        return make({"t": unit}, run, folder)["t"]


def test_the_files_of_all_buckets(tmp_path):
    built = made(tmp_path, None, None)
    assert [file.rows for file in built.rows.files] == [1, 1]
    assert built.rows.unseen == 2
    assert len(set(built.paths)) == 2
    assert built.failed is None


@pytest.mark.parametrize("order", [("rejected", "broken"), ("broken", "rejected")])
def test_a_table_that_also_failed_otherwise_is_not_unsupported(tmp_path, order):
    built = made(tmp_path, *order, None)
    assert built.rows.refused is None
    assert "broken" in built.failed.reason


def test_a_table_is_unsupported_by_what_its_rows_are(tmp_path):
    built = made(tmp_path, None, "rejected")
    assert built.rows.refused == "no rows"
    assert built.failed is None
    assert built.paths == ()
