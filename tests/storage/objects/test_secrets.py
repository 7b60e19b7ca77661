"""Credentials come from the environment, and are in nothing that Tailrace says, keeps or sends."""

import logging
import pickle
import sys
import traceback

import pytest

import tailrace
from tailrace.cli import main
from tailrace.errors import StorageError, TailraceError
from tailrace.log.sources import transport_of
from tailrace.storage import find
from tailrace.storage.objects import ObjectFolder
from tailrace.storage.objects.bucket import without_secrets
from tests.cli.test_errors import one_error
from tests.storage.objects.test_find import FILES, put
from tests.writing.made import log as new_log

WRONG = "wrong+Secret/Key=0123456789"
TOKEN = "session-token-0123456789"


def test_nothing_that_works_tells_them(bucket, caplog, capfd, monkeypatch):
    caplog.set_level(logging.DEBUG)
    put(bucket, *FILES)
    said = []
    series = find(bucket.url)
    log = tailrace.open(bucket.url)
    events = list(log)
    folder = ObjectFolder(bucket.url)
    with new_log(f"{bucket.url}/out", "mysql") as writer:
        said += [writer, writer.files, writer.position, vars(writer)]
    said += [series, log, vars(log), events[0], folder, vars(folder), transport_of(bucket.url)]
    said += [vars(transport_of(bucket.url)), pickle.dumps(series), pickle.dumps(events)]
    monkeypatch.setattr(sys, "argv", ["tailrace", "stat", bucket.url])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    said += [caplog.text, *capfd.readouterr(), bucket.server.log("requests")]
    said += [path.read_bytes() for path in bucket.folder.rglob("*") if path.is_file()]
    everything = "\n".join(repr(each) for each in said)
    assert bucket.name in everything
    assert bucket.server.secret not in everything
    assert bucket.server.key not in everything


def test_a_refusal_tells_what_to_set_but_not_what_is_set(bucket, monkeypatch, capfd, caplog):
    caplog.set_level(logging.DEBUG)
    put(bucket, *FILES)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", WRONG)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    url = f"{bucket.url}/binlog.000001"
    monkeypatch.setattr(sys, "argv", ["tailrace", "stat", url])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = [*capfd.readouterr()]
    assert "AWS_SECRET_ACCESS_KEY" in one_error(said[-1])
    for call in (
        lambda: find(url),
        lambda: tailrace.open(url),
        lambda: list(tailrace.changes(url)),
        lambda: tailrace.create(f"{bucket.url}/new", flavour="mysql", server_id=1),
        lambda: tailrace.append(bucket.url),
    ):
        with pytest.raises(StorageError, match="AWS_SECRET_ACCESS_KEY") as caught:
            call()
        error = caught.value
        said += [str(error), repr(error), repr(pickle.dumps(error))]
        said += traceback.format_exception(error)
    assert "Debug source" not in "".join(said)
    everything = "\n".join([*said, caplog.text, *capfd.readouterr()])
    for secret in (WRONG, TOKEN, bucket.server.secret, bucket.server.key):
        assert secret not in everything


def test_a_file_is_read_with_the_readers_own(bucket, monkeypatch):
    """What was pickled opens where credentials are, and only there."""
    put(bucket, *FILES)
    data = pickle.dumps(find(bucket.url)[0])
    assert len(list(tailrace.open(pickle.loads(data)))) > 3
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "another")
    with pytest.raises(TailraceError, match="refuses access"):
        list(tailrace.open(pickle.loads(data)))
    for name, value in bucket.server.environment.items():
        monkeypatch.setenv(name, value)
    assert len(list(tailrace.open(pickle.loads(data)))) > 3


def test_what_stores_say_is_cleaned(monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=abcdef")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", WRONG)
    told = without_secrets(
        f"GET https://user:pass@host/c/b?sv=1&sig=zzz failed\nwith {WRONG} and sv=1&sig=abcdef,"
        f" why? <Error><Code>Denied</Code></Error> {'x' * 400}\n\nDebug source: {WRONG}"
    )
    for part in ("pass", "sig", WRONG, "Debug", "<", "\n"):
        assert part not in told
    assert told.startswith("GET https://***@host/c/b?*** failed with *** and ***, why? Denied xxx")
    assert len(told) <= 303
