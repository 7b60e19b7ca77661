"""Every command takes a log in an object store, encrypted or not, by its URL."""

import json

import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import run  # noqa: F401 - a fixture
from tests.recorded import CORPUS
from tools.expected import load_expected


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_commands(bucket, name, run):  # noqa: F811 - the fixture
    folder = CORPUS / f"{name}.encrypted"
    keys = next(path for path in folder.iterdir() if path.name in {"keys", "keyring"})
    rows = load_expected(folder)["tables"]["corpus.t"]["rows"]
    bucket.put("logs/binlog.000002", folder / "binlog.000002")
    url = f"{bucket.url}/logs"
    shown = run("log", url, "--as", "json", "--keyring", keys)
    assert shown.status == 0, shown.err
    records = [json.loads(line) for line in shown.lines]
    assert [[str(value) for value in each["after"].values()] for each in records] == rows
    counted = json.loads(run("stat", url, "--as", "json", "--keyring", keys).out)
    local = json.loads(run("stat", folder, "--as", "json", "--keyring", keys).out)
    del counted["log"], local["log"]
    assert counted == local
    refused = run("log", url)
    assert refused.status == 2
    assert "--keyring FILE" in refused.err


def test_a_mirror(bucket, tmp_path, run):  # noqa: F811 - the fixture
    folder = CORPUS / "mysql-9.7.encrypted"
    rows = load_expected(folder)["tables"]["corpus.t"]["rows"]
    bucket.put("logs/binlog.000002", folder / "binlog.000002")
    arguments = (f"{bucket.url}/logs", "--into", tmp_path / "lake", "--keyring", folder / "keyring")
    done = run("mirror", *arguments)
    assert done.status == 0, done.err
    assert f"{len(rows)} change from" in done.out
    current = pq.ParquetDataset(tmp_path / "lake" / "corpus.t" / "current").read()
    columns = [current.column(each).to_pylist() for each in ("id", "v")]
    assert [list(map(str, row)) for row in zip(*columns, strict=True)] == rows
    assert "nothing new" in run("mirror", *arguments).out
    secret = bucket.server.secret
    made = (path for path in (tmp_path / "lake").rglob("*") if path.is_file())
    assert not any(secret.encode() in path.read_bytes() for path in made)
