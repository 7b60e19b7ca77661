"""Observers by entry point."""

import importlib.metadata

import pytest

from tailrace.errors import UsageError
from tailrace.observers import RelayIoObserver, TransmitObserver, find
from tailrace.replication.receiver import Receiver
from tailrace.replication.semisync.replica import SemisyncReplica
from tailrace.replication.semisync.source import SemisyncSource


def test_semisync_is_found_by_its_name():
    one, other = find(["semisync.replica", "semisync.replica"])
    assert type(one) is type(other) is SemisyncReplica
    assert one is not other
    (source,) = find(["semisync.source"])
    assert type(source) is SemisyncSource
    assert find([]) == []


def test_a_name_that_nobody_has():
    with pytest.raises(
        UsageError, match=r"'nope'; known are .*semisync\.replica, semisync\.source"
    ):
        find(["semisync.replica", "nope"])


def test_entry_points_of_another_package(monkeypatch):
    def installed(value):
        point = importlib.metadata.EntryPoint("own", value, "tailrace.observers")
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point])

    installed("tailrace.observers:RelayIoObserver")
    (found,) = find(["own"])
    assert type(found) is RelayIoObserver
    installed("builtins:dict")
    with pytest.raises(UsageError, match="own is a dict, not an observer of any kind"):
        find(["own"])


def test_receive_takes_plugins_of_several_kinds_and_none_that_it_never_calls(tmp_path):
    class Both(RelayIoObserver, TransmitObserver):
        pass

    url = "mysql://nobody@127.0.0.1:1/"
    Receiver(url, tmp_path, observers=[Both()])
    with pytest.raises(UsageError, match="is a transmit observer: receive calls relay I/O"):
        Receiver(url, tmp_path, observers=[TransmitObserver()])
