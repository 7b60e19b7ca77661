"""Tables that nobody asked for, or of unknown columns: long logs hold no more of them than short."""

import gc

import numpy as np
import pytest

import tailrace
from tailrace.columns.frames.plan import PADDING
from tailrace.columns.read.decoder import LogDecoder
from tailrace.errors import SchemaError
from tailrace.events import TableMapEvent
from tailrace.events.rows import ROWS_TYPES
from tailrace.schema.catalogue import Catalogue
from tests.cases import each_case
from tests.recorded import CORPUS


class Unknowing(Catalogue):
    """A catalogue by which no table can be decoded."""

    def resolve(self, table_map, flavour):
        raise SchemaError(f"{table_map.table}: its columns are not known")


def without_rows(data):
    """A log without its rows events: their tables' maps are left."""
    found, at = data[:4], 4
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        found += b"" if data[at + 4] in ROWS_TYPES else data[at : at + size]
        at += size
    return found


def table_maps():
    gc.collect()
    return sum(type(each) is TableMapEvent for each in gc.get_objects())


def read(decoder, data, times):
    block = np.zeros(len(data) - 4 + PADDING, np.uint8)
    block[: len(data) - 4] = np.frombuffer(data[4:], np.uint8)
    for number in range(times):
        decoder.begin_file(f"binlog.{number + 1:06}")
        for _ in decoder.decode(block, len(data) - 4, 4, len(data), ends="file"):
            pass


@pytest.mark.slow
@each_case("case", ["mysql-9.7.ddl", "mariadb-11.8.ddl"])
@each_case("kind", ["ignored", "unresolved"])
def test_what_is_held_of_tables(kind, case):
    """A format description and each DDL statement let all table maps be met anew."""
    data = next(iter(sorted((CORPUS / case).glob("*.0*")))).read_bytes()
    if kind == "ignored":
        decoder = LogDecoder("s", wants=lambda _database, _table: False, statements="skip")
    else:
        data = without_rows(data)
        decoder = LogDecoder("s", catalogue=Unknowing(), statements="skip")
    read(decoder, data, 2)
    held = table_maps()
    read(decoder, data, 20)
    assert table_maps() <= held  # others may have let go of some


@pytest.mark.slow
def test_a_table_id_means_its_last_table_map(tmp_path):
    """A server that starts again gives the same ids to other tables; here there are more tables
    than the first table of known table maps holds, and each is met again after it has grown.
    """
    tables, rounds, ids = 200, 3, []
    for file in range(rounds):
        path = tmp_path / str(file) / f"binlog.{file + 1:06}"
        path.parent.mkdir()
        with tailrace.create(path, flavour="mysql", server_id=7) as out:
            for number in range(tables):
                # the same tables in turn, by other ids: the order differs from file to file
                chosen = number * (1, 3, 7)[file] % tables
                kind = "int" if chosen % 2 else "varchar(20)"
                table = tailrace.Table.parse(
                    f"create table d.t{chosen:03} (id int primary key, v {kind})", flavour="mysql"
                )
                value = chosen if chosen % 2 else f"text {chosen}"
                with out.transaction() as transaction:
                    transaction.insert(table, [{"id": file, "v": value}])
                    transaction.insert(table, [{"id": file + rounds, "v": value}])
        path.rename(tmp_path / path.name)
        with tailrace.open(tmp_path / path.name) as log:
            ids.append([each.table_id for each in log if isinstance(each, TableMapEvent)])
    assert set(ids[0]) == set(ids[1])
    found = {}
    for batch in tailrace.changes(tmp_path):
        rows = [(row["id"], row["v"]) for row in batch["after"].to_pylist()]
        found.setdefault(batch["_table"][0].as_py(), []).extend(rows)
    assert len(found) == tables
    for number in range(tables):
        value = number if number % 2 else f"text {number}"
        expected = [(each, value) for file in range(rounds) for each in (file, file + rounds)]
        assert found[f"t{number:03}"] == expected
