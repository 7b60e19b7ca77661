"""Every command takes a log in an object store, encrypted or not, by its URL."""

import json
import os
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from tests.recorded import CORPUS


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tailrace", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_commands(bucket, tmp_path, name):
    folder = CORPUS / f"{name}.encrypted"
    keys = next(path for path in folder.iterdir() if path.name in {"keys", "keyring"})
    rows = json.loads((folder / "expected.json").read_text())["tables"]["corpus.t"]["rows"]
    bucket.put("logs/binlog.000002", folder / "binlog.000002")
    url = f"{bucket.url}/logs"
    shown = run("log", url, "--as", "json", "--keyring", keys)
    assert shown.returncode == 0, shown.stderr
    records = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [[str(value) for value in each["after"].values()] for each in records] == rows
    counted = json.loads(run("stat", url, "--as", "json", "--keyring", keys).stdout)
    local = json.loads(run("stat", folder, "--as", "json", "--keyring", keys).stdout)
    del counted["log"], local["log"]
    assert counted == local
    refused = run("log", url)
    assert refused.returncode == 2
    assert "--keyring FILE" in refused.stderr


def test_a_mirror(bucket, tmp_path):
    folder = CORPUS / "mysql-9.7.encrypted"
    rows = json.loads((folder / "expected.json").read_text())["tables"]["corpus.t"]["rows"]
    bucket.put("logs/binlog.000002", folder / "binlog.000002")
    arguments = (f"{bucket.url}/logs", "--into", tmp_path / "lake", "--keyring", folder / "keyring")
    done = run("mirror", *arguments)
    assert done.returncode == 0, done.stderr
    assert f"{len(rows)} change from" in done.stdout
    current = pq.ParquetDataset(tmp_path / "lake" / "corpus.t" / "current").read()
    columns = [current.column(each).to_pylist() for each in ("id", "v")]
    assert [list(map(str, row)) for row in zip(*columns, strict=True)] == rows
    assert "nothing new" in run("mirror", *arguments).stdout
    secret = bucket.server.secret
    made = (path for path in (tmp_path / "lake").rglob("*") if path.is_file())
    assert not any(secret.encode() in path.read_bytes() for path in made)
