"""URLs of objects, and such as are refused because they may hold secrets."""

from __future__ import annotations

import sys

import pytest

import tailrace
from tailrace.cli import main
from tailrace.errors import StorageError, TailraceError, UsageError
from tailrace.storage import find
from tailrace.storage.objects import ObjectUrl, names_object
from tests.cases import each_case

SECRET = "hunter2-very-secret"
WITH_SECRETS = [
    f"s3://user:{SECRET}@bucket/logs/binlog.000001",
    f"s3://{SECRET}@bucket/logs",
    f"gs://user:{SECRET}@bucket/logs",
    f"az://user:{SECRET}@container/logs",
    f"abfs://container:{SECRET}@account/logs",
    f"s3://bucket/binlog.000001?X-Amz-Signature={SECRET}",
    f"az://container/binlog.000001?sig={SECRET}",
    f"memory://user:{SECRET}@place/logs",
]
ELSEWHERE = [f"https://user:{SECRET}@host/logs", f"ftp://host/binlog.000001?key={SECRET}"]


@each_case(
    ("url", "parts", "text"),
    [
        ("s3://b/a/binlog.000001", ("s3", "b", "a/binlog.000001"), "s3://b/a/binlog.000001"),
        ("S3://b/a/", ("s3", "b", "a"), "s3://b/a"),
        ("gs://b", ("gs", "b", ""), "gs://b"),
        ("az://c//x/y/", ("az", "c", "x/y"), "az://c/x/y"),
        ("abfs://c@account/x", ("abfs", "c@account", "x"), "abfs://c@account/x"),
        ("s3://b/100%25/x y", ("s3", "b", "100%25/x y"), "s3://b/100%25/x y"),
        ("memory://m/x", ("memory", "m", "x"), "memory://m/x"),
    ],
)
def test_parts(url: str, parts: tuple[str, str, str], text: str) -> None:
    found = ObjectUrl.parse(url)
    assert (found.scheme, found.bucket, found.key) == parts
    assert str(found) == text
    assert ObjectUrl.parse(text) == found
    assert (found / "z").parent == found
    assert names_object(url)


@each_case("text", ["s3:/b/x", "memory:name", "file:///x", "/s3://", "s3", "x://y"])
def test_no_object(text: str) -> None:
    assert not names_object(text)
    with pytest.raises((UsageError, StorageError)):
        ObjectUrl.parse(text)


def test_other_schemes_are_named_with_those_that_are_known() -> None:
    with pytest.raises(StorageError, match=r"hdfs:.*s3://"):
        find("hdfs://place/logs")
    with pytest.raises(UsageError, match="names a bucket"):
        find("s3:///logs")


@each_case("url", WITH_SECRETS)
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str, capfd, monkeypatch) -> None:
    said = []
    for call in (
        lambda: find(url),
        lambda: tailrace.open(url),
        lambda: list(tailrace.changes(url)),
        lambda: tailrace.create(url, flavour="mysql", server_id=1),
        lambda: tailrace.append(url),
        lambda: tailrace.open([url, url]),
    ):
        with pytest.raises(TailraceError, match="environment") as caught:
            call()
        said.append(f"{caught.value!s} {caught.value!r}")
    for command in (["log", url], ["stat", url]):
        monkeypatch.setattr(sys, "argv", ["tailrace", *command])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code
    said.extend(capfd.readouterr())
    assert SECRET not in "".join(said)
    assert "environment" in said[-1]


@each_case("url", ELSEWHERE)
def test_nor_those_of_urls_that_name_no_object(url: str) -> None:
    for call in (
        lambda: find(url),
        lambda: tailrace.open(url),
        lambda: list(tailrace.changes(url)),
        lambda: tailrace.create(url, flavour="mysql", server_id=1),
        lambda: tailrace.append(url),
    ):
        with pytest.raises(TailraceError) as caught:
            call()
        assert SECRET not in f"{caught.value!s} {caught.value!r}"
