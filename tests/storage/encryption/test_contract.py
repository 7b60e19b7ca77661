"""The encrypting streams keep the contract that every stream keeps, alone and between others."""

import functools
import zlib

import pytest

from tailrace.constants import ChecksumAlgorithm, Flavour
from tailrace.events import FormatDescription, FormatDescriptionEvent
from tailrace.storage.encryption import Mode, mariadb_input, mariadb_output, mysql_output
from tailrace.storage.encryption.keystream import KeystreamInput
from tailrace.storage.encryption.mysql import HEADER_SIZE, MysqlHeader
from tailrace.storage.keyring import Keyring
from tailrace.storage.streams.base import read_exactly
from tailrace.storage.streams.layer import Layer
from tailrace.testing import CHECKS, Content
from tests.cases import each_case


class Fixed(Keyring):
    """One key for all."""

    def key(self, key_id, version=None):
        return bytes(range(32))


RING = Fixed()
FORM = FormatDescription.of(
    Flavour.MARIADB,
    server_version="11.8.0-MariaDB",
    checksum_algorithm=ChecksumAlgorithm.CRC32,
)
HEAD = b"\xfebin" + FormatDescriptionEvent.make(
    flavour=FORM.flavour,
    server_version=FORM.server_version,
    created=0,
    checksum_algorithm=FORM.checksum_algorithm,
    post_headers=FORM.post_headers,
).encode(FORM.checksum_algorithm)
BEGIN = len(HEAD) + 40


def mysql_of_any_bytes(lower):
    """`mysql_input`, without its look at whether the bytes are a log's."""
    header = MysqlHeader.parse(read_exactly(lower, 0, HEADER_SIZE), "log")
    return KeystreamInput(lower, header.open(RING, "log"), HEADER_SIZE)


def some_events(chance):
    """A log's events, a piece each; the checker appends them to what the file begins with."""
    made = []
    for _ in range(chance.randint(1, 30)):
        size = chance.choice((23, 24, 40, 47, 500, 4096, 9000))
        raw = bytearray(chance.randbytes(size))
        raw[4] = 2
        raw[9:13] = size.to_bytes(4, "little")
        raw[-4:] = zlib.crc32(raw[:-4]).to_bytes(4, "little")
        made.append(bytes(raw))
    return made


class Behind:
    """A stream from an offset on: what the checker wrote is all that it sees."""

    def __init__(self, stream):
        self.stream = stream
        if hasattr(stream, "seek"):
            stream.seek(BEGIN)

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def seek(self, offset):
        return (
            self.stream.seek(offset + BEGIN if isinstance(offset, int) and offset >= 0 else offset)
            - BEGIN
        )

    def tell(self):
        return self.stream.tell() - BEGIN


class BehindInput(Behind):
    def size(self):
        return self.stream.size() - BEGIN


class BehindOutput(Behind):
    """Its methods are written out: since Python 3.12 ``isinstance(it, RandomOutput)`` is false for
    methods that ``__getattr__`` gives, and the checker would take it for one that cannot be cut.
    """

    @property
    def size(self):
        return self.stream.size - BEGIN

    def write(self, data):
        self.stream.write(data)

    def update(self, offset, data):
        self.stream.update(offset + BEGIN, data)

    def flush(self):
        self.stream.flush()

    def sync(self):
        self.stream.sync()

    def close(self):
        self.stream.close()

    def truncate(self, size):
        self.stream.truncate(size + BEGIN)


MYSQL = Layer(
    "mysql", mysql_of_any_bytes, functools.partial(mysql_output, keyring=RING, key_id="k")
)
EVENTS = Content(some_events, free=False)


def mariadb(mode):
    return Layer(
        f"mariadb {mode}",
        lambda lower: BehindInput(mariadb_input(lower, RING, path="log")),
        lambda lower: BehindOutput(mariadb_output(lower, RING, HEAD, mode=mode, path="log")),
    )


@pytest.mark.slow
@each_case("check", CHECKS, ids=lambda check: check.__name__)
def test_each_encryption_alone(check):
    for seed in range(2):
        check(MYSQL, seed=seed)
        for mode in Mode:
            check(mariadb(mode), EVENTS, seed)
