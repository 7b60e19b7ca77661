"""MariaDB's compressed columns: the column path gives what the server's own table holds."""

import zlib

import pyarrow as pa
import pytest

import tailrace
from tailrace.columns.read.finish import _uncompressed
from tailrace.columns.text_output import BadRow
from tailrace.errors import EventDecodeError
from tailrace.values.compressed import uncompress


def test_values_of_all_sizes(mariadb118, tmp_path):
    """Without metadata texts are bytes, too: NULL, empty, stored as they are, deflated, and deflated to more than 4 KB."""
    rows = ((1, "null"), (2, "''"), (3, "'short'"), (4, "repeat('ab', 500)"))
    long = (5, "(select group_concat(sha2(seq, 256) separator '') from seq_1_to_300)")
    for sql in (
        "create or replace database compressed_values",
        "use compressed_values",
        "set group_concat_max_len = 1000000",
        "create table t (id int primary key, v text compressed, b blob compressed)",
    ):
        mariadb118.execute(sql)
    mariadb118.rotate()
    for id_, value in (*rows, long):
        mariadb118.execute(f"insert into t values ({id_}, {value}, {value})")
    mariadb118.execute("insert into t select id + 10, v, b from t")
    log = mariadb118.rotate()
    batches = tailrace.changes(log, tables="compressed_values.t")
    found = [row for batch in batches for row in batch.column("after").to_pylist()]
    expected = mariadb118.query("select id, cast(v as binary), b from t order by id")
    mariadb118.execute("drop database compressed_values")
    assert [tuple(row.values()) for row in found] == expected


_TEXT = b"some text of it " * 30
_DEFLATED = zlib.compress(_TEXT)[2:-4]
_GOOD = b"\x8a" + len(_TEXT).to_bytes(2, "big") + _DEFLATED


@pytest.mark.parametrize(
    "bad",
    [
        _GOOD[:-5],
        b"\x8a" + (len(_TEXT) - 1).to_bytes(2, "big") + _DEFLATED,
        b"\x8a" + (len(_TEXT) + 1).to_bytes(2, "big") + _DEFLATED,
        b"\x8c\xff\xff\xff\xff" + _DEFLATED,
        b"\x88" + _DEFLATED,
        b"\x8a\x01",
        b"\x8a",
        b"\x7a" + _GOOD[1:],
    ],
)
def test_what_is_wrong_is_said_as_for_one_value(bad):
    limit = 1 << 16
    with pytest.raises(EventDecodeError) as one:
        uncompress(bad, limit)
    with pytest.raises(BadRow) as all_:
        _uncompressed(pa.array([_GOOD, None, b"", b"\0as it is", bad, _GOOD], pa.binary()), limit)
    assert (all_.value.row, all_.value.reason) == (4, one.value.message)
