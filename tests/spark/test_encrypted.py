"""Encrypted logs on Spark, against what the server's SELECT said when they were recorded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from tailrace.cli.mirror.command import mirror as command
from tailrace.errors import KeyMissing
from tailrace.spark import mirror, register
from tests.recorded import CORPUS

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("mysql-9.7", "mariadb-10.11", "mariadb-11.8")


def recorded(name: str) -> tuple[Path, Path, list[list[str]]]:
    folder = CORPUS / f"{name}.encrypted"
    keys = next(path for path in folder.iterdir() if path.name in {"keys", "keyring"})
    rows = json.loads((folder / "expected.json").read_text())["tables"]["corpus.t"]["rows"]
    return folder, keys, rows


@pytest.mark.parametrize("name", NAMES)
def test_the_data_source_takes_a_keyring(spark, name):
    register(spark)
    folder, keys, rows = recorded(name)

    def load(**options):
        read = spark.read.format("binlog").options(keyring=str(keys), **options)
        return read.load(str(folder)).collect()

    assert [[str(row.id), row.v] for row in load(tables="corpus.t")] == rows
    documents = load(split="100")
    assert [list(map(str, json.loads(row.after).values())) for row in documents] == rows


@pytest.mark.parametrize("name", NAMES)
def test_mirror_takes_a_keyring_and_goes_on(spark, name, tmp_path):
    folder, keys, rows = recorded(name)
    report = mirror(folder, tmp_path / "lake", spark=spark, keyring=keys)
    assert report.changes == len(rows)
    again = mirror(str(folder), tmp_path / "lake", spark=spark, keyring=str(keys))
    assert again.changes == 0
    current = pq.ParquetDataset(tmp_path / "lake" / "corpus.t" / "current").read()
    columns = [current.column(each).to_pylist() for each in ("id", "v")]
    assert [list(map(str, row)) for row in zip(*columns, strict=True)] == rows
    assert not any(b"secret_key" in path.read_bytes() for path in tmp_path.rglob("*.json"))


def test_the_command_takes_a_keyring(spark, tmp_path, capsys):
    folder, keys, rows = recorded("mysql-9.7")
    assert command(str(folder), into=tmp_path / "lake", keyring=str(keys)) == 0
    assert f"{len(rows)} changes" in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_without_the_key_nothing_is_begun(spark, name, tmp_path):
    folder, _, _ = recorded(name)
    with pytest.raises(KeyMissing, match="--keyring FILE"):
        mirror(folder, tmp_path / "lake", spark=spark)
    register(spark)
    with pytest.raises(Exception, match="--keyring FILE"):
        spark.read.format("binlog").load(str(folder)).collect()
