"""Transactions that are cut inside: parts give the batches of the whole, in order, each row once."""

from itertools import pairwise

import pyarrow as pa
import pytest

from tailrace.columns import changes, plan_splits, read_split
from tailrace.columns.read.planner import SplitPlanner
from tailrace.errors import TailraceError
from tailrace.storage import find
from tests.cases import each_case
from tests.recorded import CORPUS

ENCRYPTED = {"mysql-9.7.encrypted", "mariadb-11.8.encrypted", "mariadb-10.11.encrypted"}
CASES = sorted(
    path.name for path in CORPUS.iterdir() if path.is_dir() and path.name not in ENCRYPTED
)
WITH_PARTS = {f"{server}.savepoints" for server in ("mysql-9.7", "mariadb-11.8", "mariadb-10.11")}


def tables(batches):
    """The batches of each table, one behind the other, by schema and table."""
    found = {}
    for batch in batches:
        names = batch.column("_db")[0].as_py(), batch.column("_table")[0].as_py()
        found.setdefault((str(batch.schema), *names), []).append(batch)
    return {key: plain(pa.Table.from_batches(each)) for key, each in found.items()}


def plain(table):
    """The same without dictionaries, which each batch has its own of."""
    kinds = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(kinds)).combine_chunks()


def read_all(splits):
    return tables(batch for split in splits for batch in read_split(split, statements="skip"))


def check_parts(splits):
    """Parts follow each other, and say which transaction they are inside of."""
    for before, after in pairwise(splits):
        if before.file == after.file:
            assert before.end == after.start
        if after.inside is not None:
            assert before.file == after.file
            assert after.inside.began < after.start
            assert before.inside is not None or before.start <= after.inside.began < before.end
    assert splits[0].inside is None


@pytest.mark.slow
@each_case("case", CASES)
def test_each_statement_alone(case):
    for series in find(CORPUS / case):
        splits = plan_splits(series, target_bytes=1)
        check_parts(splits)
        try:
            whole = tables(changes(series, statements="skip").record_batches())
        except TailraceError as error:  # rows that cannot be decoded
            with pytest.raises(type(error)):
                read_all(splits)
            continue
        assert read_all(splits) == whole
        assert read_all(plan_splits(series, target_bytes=1000)) == whole
        if case in WITH_PARTS:
            assert any(split.inside is not None for split in splits)
        planned = SplitPlanner(hold=False, target_bytes=1).plan(series)
        assert list(map(bounds, planned)) == list(map(bounds, splits))


def bounds(split):
    return split.file, split.start, split.end, split.inside, split.left_out
