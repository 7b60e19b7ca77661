"""Connections whose packets are compressed: the same is read, in fewer bytes."""

import random

import pytest

import tailrace
from tailrace.errors import UsageError
from tailrace.live.connect import connect
from tailrace.live.feed import Feed
from tailrace.live.url import Source
from tailrace.position import Position
from tailrace.wire.compressed import Algorithm, ConnectionCompression
from tests.cases import each_case
from tests.live.feeding import drain, files_of, fill, opened, source_of
from tools.campaign.hostile.fake import FakeServer
from tools.proxy import Proxy

WAYS = {"mysql": ("zlib", "zstd", "zstd:19"), "mariadb": ("zlib",)}
ROWS = "SELECT REPEAT('r', 20000) FROM information_schema.collations LIMIT 100"
FILES = {}

pytestmark = pytest.mark.usefixtures("patient")


def ways(server):
    return WAYS[server.flavour]


@pytest.fixture
def log(server):
    """The name of a log with small and large events in it, one of them in two packets."""
    if server.name not in FILES:
        server.rotate()
        FILES[server.name] = server.binlogs()[-1].name
        fill(server, 20)
        noise = random.Random(1).randbytes(100_000)  # it is not compressed
        server.execute("INSERT INTO feed.t (b) VALUES (%s), (%s)", (noise, noise[:200]))
        most = server.query("SELECT @@global.max_allowed_packet")[0][0]
        server.execute("SET GLOBAL max_allowed_packet = 64 << 20")
        try:
            server.execute("INSERT INTO feed.t (b) VALUES (REPEAT('l', 17 << 20))")
        finally:
            server.execute(f"SET GLOBAL max_allowed_packet = {most}")
        server.rotate()
    return FILES[server.name]


def status(source):
    with connect(source, source.hosts[0]) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW STATUS LIKE 'Compression%'")
        return dict(cursor.fetchall())


def test_the_server_says_so(server):
    for way in ways(server):
        said = status(source_of(server, compress=way))
        assert said["Compression"] == "ON"
        algorithm, _, level = way.partition(":")
        assert said.get("Compression_algorithm", algorithm) == algorithm
        if algorithm == "zstd":
            assert said["Compression_level"] == (level or "3")
    assert status(source_of(server))["Compression"] == "OFF"


@each_case("mode", ["DISABLED", "REQUIRED"])
def test_answers_are_the_same(server, mode):
    """Small ones, and some of more than a compressed packet holds."""
    asked = ("SELECT 1", "SELECT VERSION()", ROWS, "SHOW VARIABLES LIKE 'max%'")
    found = []
    for way in (None, *ways(server)):
        source = source_of(server, ssl_mode=mode, compress=way)
        with opened(source) as session:
            assert session.connection.is_tls == (mode == "REQUIRED")
            found.append([session.query(sql) for sql in asked])
    assert all(each == found[0] for each in found)


@each_case("mode", ["DISABLED", "REQUIRED"])
def test_what_is_read_is_the_file(server, log, mode):
    sizes = {}
    for way in (None, *ways(server)):
        with Proxy(server.port) as proxy:
            source = source_of(proxy.port, ssl_mode=mode, compress=way)
            with Feed(source, start=Position(log, 4), follow=False) as feed:
                assert bytes(drain(feed).files[log]) == files_of(server)[log]
            sizes[way] = proxy.counts.from_server
    assert sizes[None] > 17 << 20
    assert all(sizes[way] < sizes[None] / 20 for way in ways(server)), sizes


def test_through_breaks(server, log):
    """Also in the middle of a compressed packet: the connection after it begins anew."""
    for way in ways(server)[:2]:
        with Proxy(server.port) as proxy:
            done = proxy.cut_after_each([7000, 12_001, 30_000])
            source = source_of(proxy.port, compress=way)
            with Feed(source, start=Position(log, 4), follow=False) as feed:
                assert bytes(drain(feed).files[log]) == files_of(server)[log]
                assert feed.reconnects == len(done) > 1


# --- what cannot be ------------------------------------------------------------------------------


def test_mariadb_has_no_zstd(mariadb118):
    server = mariadb118
    with pytest.raises(UsageError, match=r"compress=zstd: the server \(.*MariaDB.*\) offers zlib"):
        list(tailrace.open(f"mysql://root@127.0.0.1:{server.port}/?compress=zstd"))


def test_a_server_that_offers_none():
    with (
        FakeServer() as server,
        pytest.raises(UsageError, match=r"offers no compression .*protocol_compression_algorithms"),
    ):
        list(tailrace.open(server.url("compress=zlib")))
    assert b"s3cret" not in server.heard


def test_what_a_server_was_told_not_to_offer(fresh_server):
    server = fresh_server("mysql-9.7", {"protocol_compression_algorithms": "zlib,uncompressed"})
    with pytest.raises(UsageError, match=r"offers zlib \(its protocol_compression_algorithms\)"):
        status(source_of(server, compress="zstd"))
    assert status(source_of(server, compress="zlib"))["Compression"] == "ON"


def test_the_option():
    def of(text, **more):
        return Source.parse(f"mysql://u@h/?{text}", **more).compress

    assert of("") is None
    assert of("compress=none") is None
    assert of("compress=zlib") == ConnectionCompression(Algorithm.ZLIB)
    assert of("compress=ZSTD:7") == ConnectionCompression(Algorithm.ZSTD, 7)
    assert of("", compress=ConnectionCompression(Algorithm.ZSTD)) == ConnectionCompression(
        Algorithm.ZSTD
    )
    for text in ("gzip", "1", "true", "zstd:99", ""):
        with pytest.raises(UsageError, match="compress"):
            of(f"compress={text}")
