"""What collations hold equal, measured on the servers: all printable ASCII, and pairs of it."""

import pyarrow as pa
import pytest

from tailrace.constants import Flavour
from tailrace.spark.state.cascade.values import Comparison, comparison_by
from tailrace.spark.state.failure import RejectedError
from tailrace.values.charsets import collation_id

PRINTABLE = [chr(code) for code in range(0x20, 0x7F)]
TEXTS = ["", *PRINTABLE, *(one + two for one in PRINTABLE for two in PRINTABLE)]


def test_what_is_equal(server):
    """As many classes of texts as the server has, and the same ones."""
    flavour = Flavour.MYSQL if server.flavour == "mysql" else Flavour.MARIADB
    names = "SELECT collation_name FROM information_schema.collations"
    if flavour is Flavour.MARIADB:
        names = (
            "SELECT full_collation_name FROM "
            "information_schema.collation_character_set_applicability"
        )
    known = {}
    for (name,) in server.query(names):
        number = collation_id(name, flavour)
        if number is not None and (found := comparison_by(number)) is not None:
            known[name] = found
    assert len(known) >= 15
    values = ", ".join(f"(0x{text.encode().hex()})" if text else "('')" for text in TEXTS)
    server.execute("CREATE DATABASE collated")
    server.execute("USE collated")
    for name, how in sorted(known.items()):
        charset = name.partition("_")[0]
        server.execute("DROP TABLE IF EXISTS t")
        server.execute(
            f"CREATE TABLE t (s VARCHAR(4) CHARACTER SET {charset} COLLATE {name} NOT NULL)"
        )
        server.execute(f"INSERT INTO t VALUES {values}")
        counted = server.query("SELECT COUNT(DISTINCT s) FROM t")[0][0]
        ours = {how.of(text) for text in TEXTS}
        assert counted == len(ours), name
        groups = server.query(
            "SELECT HEX(MIN(CAST(s AS BINARY))), HEX(MAX(CAST(s AS BINARY))) FROM t GROUP BY s"
        )
        for pair in groups:
            one, two = (bytes.fromhex(each).decode() for each in pair)
            assert how.of(one) == how.of(two), (name, one, two)


@pytest.mark.parametrize("folds", [True, False])
@pytest.mark.parametrize("pads", [True, False])
def test_in_bulk(folds, pads):
    how = Comparison(folds, pads, ascii=True)
    bulk = how.of_all(pa.chunked_array([TEXTS])).to_pylist()
    assert bulk == [how.of(text) for text in TEXTS]
    for odd in ("é", "a\t", "\x7f"):
        with pytest.raises(RejectedError, match="printable ASCII"):
            how.of(odd)
        with pytest.raises(RejectedError, match="printable ASCII"):
            how.of_all(pa.chunked_array([["a", None, odd]]))


def test_unknown_collations():
    for name in (
        "latin1_german2_ci",
        "utf8mb4_swedish_ci",
        "big5_bin",
        "utf8mb4_uca1400_czech_ai_ci",
    ):
        number = collation_id(name, Flavour.MARIADB)
        assert number is not None
        assert comparison_by(number) is None
