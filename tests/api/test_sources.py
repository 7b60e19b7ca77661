"""Every function that reads takes the same sources, by one resolver."""

import shutil

import pytest

import tailrace
from tailrace.errors import UsageError
from tailrace.live.url import Source
from tailrace.log.sources import logs_of
from tailrace.storage import find
from tailrace.transports import SeriesTransport
from tests.cases import each_case
from tests.recorded import SHOP as SHOPS

SHOP = SHOPS / "mysql"


def counted(batches):
    return sum(batch.num_rows for batch in batches)


def test_batches_of_every_kind_of_source():
    rows = counted(tailrace.changes(SHOP))
    (series,) = find(SHOP)
    for source in (str(SHOP), f"file://{SHOP}", series, SeriesTransport(series), [SHOP]):
        assert counted(tailrace.changes(source)) == rows > 0


def test_a_list_is_read_log_by_log(tmp_path):
    """Files of one folder and base name are one series, in any order."""
    copy = tmp_path / "again"
    shutil.copytree(SHOP, copy)
    files = sorted(copy.glob("binlog.0*"), reverse=True)
    assert counted(tailrace.changes([*files])) == counted(tailrace.changes(SHOP))
    assert counted(tailrace.changes([SHOP, copy])) == 2 * counted(tailrace.changes(SHOP))


def test_a_server_s_parsed_url_is_a_source():
    (log,) = logs_of(Source.parse("mysql://reader@host"))
    (other,) = logs_of("mysql://reader@host")
    assert (log.name, type(log)) == (other.name, type(other))


@each_case("read", [tailrace.open, tailrace.changes, tailrace.rows])
@each_case(
    ("arguments", "message"),
    [
        (([],), "give a log"),
        ((7,), "a log is a path, a URL, a list of these"),
        ((b"logs",), "a log is a path, .* not b'logs'"),
        ((SHOP, {"start": "yesterday"}), "start is oldest, now, a position"),
        ((SHOP, {"follow": "no"}), "follow is True or False, not 'no'"),
        (("mysql://reader@host", {"keyring": "keys"}), "a keyring has the keys of files"),
    ],
)
def test_arguments_are_checked_in_the_call(read, arguments, message):
    source, *options = arguments
    with pytest.raises(UsageError, match=message) as said:
        read(source, **(options[0] if options else {}))
    assert isinstance(said.value, ValueError)
