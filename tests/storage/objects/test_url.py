"""URLs of objects, and such as are refused because they may hold secrets."""

import pytest

import tailrace
from tailrace.errors import StorageError, TailraceError, UsageError
from tailrace.storage import find
from tailrace.storage.objects import ObjectUrl, names_object
from tests.cases import each_case
from tests.cli.conftest import run  # noqa: F401 - a fixture

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
def test_parts(url, parts, text):
    found = ObjectUrl.parse(url)
    assert (found.scheme, found.bucket, found.key) == parts
    assert str(found) == text
    assert ObjectUrl.parse(text) == found
    assert (found / "z").parent == found
    assert names_object(url)


@each_case("text", ["s3:/b/x", "memory:name", "file:///x", "/s3://", "s3", "x://y"])
def test_no_object(text):
    assert not names_object(text)
    with pytest.raises((UsageError, StorageError)):
        ObjectUrl.parse(text)


def test_other_schemes_are_named_with_those_that_are_known():
    with pytest.raises(StorageError, match=r"hdfs:.*s3://"):
        find("hdfs://place/logs")
    with pytest.raises(UsageError, match="names a bucket"):
        find("s3:///logs")


@each_case("url", [*WITH_SECRETS, *ELSEWHERE])
def test_credentials_in_a_url_are_refused_and_not_repeated(url, run):  # noqa: F811 - the fixture
    """Nor those of URLs that name no object."""
    said = []
    for call in (
        lambda: find(url),
        lambda: tailrace.open(url),
        lambda: list(tailrace.changes(url)),
        lambda: tailrace.create(url, flavour="mysql", server_id=1),
        lambda: tailrace.append(url),
        lambda: tailrace.open([url, url]),
    ):
        with pytest.raises(
            TailraceError, match="environment" if url in WITH_SECRETS else None
        ) as caught:
            call()
        said.append(f"{caught.value!s} {caught.value!r}")
    for command in ("log", "stat"):
        ran = run(command, url)
        assert ran.status
        said += [ran.out, ran.err]
    assert SECRET not in "".join(said)
    assert "environment" in said[-1] or url in ELSEWHERE
