"""What a comparison makes of values and rows before it compares them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tailrace.live.connect import ServerConnection
from tailrace.live.url import Source
from tailrace.spark.tasks import Report
from tailrace.spark.verify_digest import SideJob, look
from tailrace.spark.verify_server import Range, ServerColumn, ServerTable
from tailrace.spark.verify_values import Values, checksums
from tools.campaign.hostile.fake import OK, FakeServer


def test_values_of_any_length_have_a_checksum_of_their_own():
    texts = [None, "", *("a" * size for size in (1, 1023, 1024, 1025, 5000, 2_000_000))]
    texts += ["a" * 1024 + "b", "b" + "a" * 1024, "a" * 1_999_999 + "b"]
    one = checksums([Values(pa.array(texts))])
    assert len(set(one.tolist())) == len(texts)
    assert one.tolist() == checksums([Values(pa.array(["-" * 2000, *texts]).slice(1))]).tolist()
    alone = [int(checksums([Values(pa.array([each], pa.string()))])[0]) for each in texts]
    assert one.tolist() == alone


def no_memory(*_, **__):
    raise MemoryError


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("tailrace.live.connect.read_exactly", "there is not enough memory for it"),
        ("tailrace.spark.verify_digest.checksums", "there is not enough memory for its rows"),
    ],
)
def test_a_table_whose_rows_are_larger_than_memory(where, told, tmp_path, monkeypatch):
    def short(talk):
        talk.result(["id"], [["x"]])
        return True

    def begun(talk):
        talk.send(OK)
        return True

    def then_full(connection, cursor, count, size):
        monkeypatch.setattr(where, no_memory)
        return parsed_rows(connection, cursor, count, size)

    parsed_rows = ServerConnection.parsed_rows
    monkeypatch.setattr(ServerConnection, "parsed_rows", then_full)
    column = ServerColumn("id", "varchar", nullable=False)
    table = ServerTable("d", "t", (column,), (pa.string(),), ("id",))
    with FakeServer({"START": begun, "SELECT `id`": short}) as server:
        job = SideJob(table, Source.parse(server.url()), Range(0), out=tmp_path / "out")
        result = look(job, Report(tmp_path / "done"))
    assert result.unread
    assert result.refused.endswith(told)
