"""Encrypted logs on Spark, against what the server's SELECT said when they were recorded."""

import json

import pyarrow.parquet as pq
import pytest

from tailrace.cli.mirror.command import mirror as command
from tailrace.errors import KeyMissing
from tailrace.spark import mirror, register
from tests.recorded import CORPUS
from tools.expected import load_expected

NAMES = ("mysql-9.7", "mariadb-10.11", "mariadb-11.8")


def recorded(name):
    folder = CORPUS / f"{name}.encrypted"
    keys = next(path for path in folder.iterdir() if path.name in {"keys", "keyring"})
    rows = load_expected(folder)["tables"]["corpus.t"]["rows"]
    return folder, keys, rows


def test_the_data_source_takes_a_keyring(spark):
    register(spark)
    for name in NAMES:
        folder, keys, rows = recorded(name)
        read = spark.read.format("binlog").option("keyring", str(keys))
        typed = read.option("tables", "corpus.t").load(str(folder)).collect()
        assert [[str(row.id), row.v] for row in typed] == rows, name
        read = spark.read.format("binlog").option("keyring", str(keys)).option("split", "100")
        documents = [json.loads(row.after) for row in read.load(str(folder)).collect()]
        assert [list(map(str, each.values())) for each in documents] == rows, name
        with pytest.raises(Exception, match="--keyring FILE"):
            spark.read.format("binlog").load(str(folder)).collect()


def test_mirror_takes_a_keyring_and_goes_on(tmp_path):
    for name in NAMES:
        folder, keys, rows = recorded(name)
        lake = tmp_path / name
        with pytest.raises(KeyMissing, match="--keyring FILE"):
            mirror(folder, lake)
        assert mirror(folder, lake, keyring=keys).changes == len(rows)
        assert mirror(str(folder), lake, keyring=str(keys)).changes == 0
        current = pq.ParquetDataset(lake / "corpus.t" / "current").read()
        columns = [current.column(each).to_pylist() for each in ("id", "v")]
        assert [list(map(str, row)) for row in zip(*columns, strict=True)] == rows
    assert not any(b"secret_key" in path.read_bytes() for path in tmp_path.rglob("*.json"))


def test_the_command_takes_a_keyring(spark, tmp_path, capsys):
    folder, keys, rows = recorded("mysql-9.7")
    assert command(str(folder), into=tmp_path / "lake", keyring=str(keys)) == 0
    assert f"{len(rows)} change from" in capsys.readouterr().out
