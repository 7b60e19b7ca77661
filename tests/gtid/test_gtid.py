"""GTIDs and sets of them; against a real server where there is one."""

import pickle
import random
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymysql.err import MySQLError

from tailrace.errors import GtidError
from tailrace.gtid import STATES, Gtid, GtidList, GtidSet, MariadbGtid, advanced, parse_gtid
from tailrace.gtid.gtid_set import Intervals
from tests.cases import each_case

U = "896e7882-18fe-11ef-ab88-22222d34d411"
V = "196e7882-18fe-11ef-ab88-22222d34d411"
END = (1 << 63) - 1

# What MySQL 9.7.4 answers to GTID_SUBTRACT(text, ''); None: an error.
SERVER_SAYS = {
    f"{U}:5-3": "",
    f"{U.upper()}:1-3:5-7 : foo : 1-2:4,\n {V.upper()}:7,,": f"{V}:7,\n{U}:1-3:5-7:foo:1-2:4",
    f"{U.replace('-', '')}:1-3:5-7:Foo:1": f"{U}:1-3:5-7:foo:1",
    f"{{{U}}}:3-4": f"{U}:3-4",
    f"{U}:b:9:a:1:3": f"{U}:a:1:3:b:9",
    f"{U}": "",
    f"{U}:a": "",
    f"{U}:1:a": f"{U}:1",
    ",": "",
    "": "",
    f"{U}:007": f"{U}:7",
    f"{U}: 1 - 3 ": f"{U}:1-3",
    f"{U}:1-3:4:2-9": f"{U}:1-9",
    f"{U}:9223372036854775806": f"{U}:9223372036854775806",
    f"{U}:0": None,
    f"{U}:0-3": None,
    f"{U}:9223372036854775807": None,
    f"{U}:1-9223372036854775807": None,
    f"{U}:1::2": None,
    f"{U}:+1": None,
    f"{U}:1-": None,
    f"{U}:1-2-3": None,
    f"{U}:1 2": None,
    f"{U[:-1]}:1": None,
    f"{U}x:1": None,
    f"{{{U}:1": None,
    f"{U[:8]}-{U[9:13]}{U[13:]}:1": f"{U}:1",
    f"{U[:8]}{U[9:]}:1": None,
    f"{U}:9a:1": None,
    f"{U}:{'a' * 32}:1": f"{U}:{'a' * 32}:1",
    f"{U}:{'a' * 33}:1": None,
    f"{U}:a-b:1": None,
    "1": None,
}


@each_case("text", SERVER_SAYS)
def test_text_as_the_server_takes_it(text):
    said = SERVER_SAYS[text]
    if said is None:
        with pytest.raises(GtidError):
            GtidSet.parse(text)
        return
    parsed = GtidSet.parse(text)
    assert str(parsed) == said
    assert GtidSet.parse(str(parsed)) == parsed
    assert GtidSet.parse(parsed.text()) == parsed


def test_the_server_says_so(mysql97):
    for text, said in SERVER_SAYS.items():
        if said is None:
            with pytest.raises(MySQLError, match="Malformed GTID set"):
                mysql97.query("SELECT GTID_SUBTRACT(%s, '')", [text])
        else:
            assert mysql97.query("SELECT GTID_SUBTRACT(%s, '')", [text]) == [(said,)]


def test_algebra_against_the_server(mysql97):
    random.seed(1)

    def some():
        sources = []
        for uuid in random.sample([U, V], random.randint(0, 2)):
            items = []
            for tag in random.sample(["", "a", "b_1"], random.randint(1, 3)):
                starts = [random.randint(1, 30) for _ in range(random.randint(1, 4))]
                runs = [f"{start}-{start + random.randint(0, 6)}" for start in starts]
                items.append(":".join([tag, *runs] if tag else runs))
            items.sort(key=lambda item: not item[0].isdigit())
            sources.append(f"{uuid}:{':'.join(items)}")
        return ",".join(sources)

    for _ in range(60):
        one, two = some(), some()
        left, right = GtidSet.parse(one), GtidSet.parse(two)
        minus, subset, joined = mysql97.query(
            "SELECT GTID_SUBTRACT(%s, %s), GTID_SUBSET(%s, %s), GTID_SUBTRACT(%s, '')",
            [one, two, one, two, f"{one},{two}"],
        )[0]
        assert str(left - right) == minus
        assert (left <= right) == bool(subset)
        assert str(left | right) == joined
        assert left & right == left - (left - right)


def members(runs):
    return {number for start, end in runs for number in range(start, end)}


SETS = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 8))).map(
    lambda runs: Intervals.of((start, start + length) for start, length in runs)
)


@given(SETS, SETS)
def test_intervals_are_sets(one, two):
    assert members(one.minus(two)) == members(one) - members(two)
    assert members(one.meet(two)) == members(one) & members(two)
    added = one.copy()
    for start, end in two:
        added.add(start, end)
    assert members(added) == members(one) | members(two)
    for runs in (one, added, one.minus(two), one.meet(two)):
        pairs = list(runs)
        assert all(start < end for start, end in pairs)
        assert all(before[1] < after[0] for before, after in pairwise(pairs))
    assert all(number in one for number in members(one))
    assert 0 not in one
    assert (one == two) == (members(one) == members(two))
    assert one != members(one)


@given(
    st.dictionaries(
        st.tuples(st.sampled_from([U, V]), st.sampled_from(["", "a", "zz"])),
        st.lists(st.integers(1, 50)),
    )
)
@pytest.mark.slow
def test_binary_form_round_trips(sources):
    made = GtidSet()
    for (uuid, tag), numbers in sources.items():
        for number in numbers:
            made.add(Gtid(uuid, tag, number))
    raw = made.encode()
    assert GtidSet.decode(raw) == made
    assert GtidSet.decode(raw).encode() == raw
    assert GtidSet.parse(str(made)) == made
    assert len(made) == sum(len(set(numbers)) for numbers in sources.values())
    for size in range(len(raw)):
        with pytest.raises(GtidError):
            GtidSet.decode(raw[:size])
    with pytest.raises(GtidError, match="1 bytes follow"):
        GtidSet.decode(raw + b"\0")


def test_binary_forms():
    plain = GtidSet.parse(f"{U}:1-5:8")
    raw = bytes.fromhex(U.replace("-", ""))
    numbers = (1, 0, 0, 0, 0, 0, 0, 0)
    assert plain.encode() == bytes(numbers) + raw + bytes.fromhex(
        "0200000000000000 0100000000000000 0600000000000000 0800000000000000 0900000000000000"
    )
    tagged = GtidSet.parse(f"{U}:1:foo:2")
    assert tagged.encode() == bytes.fromhex("0102000000000001") + raw + bytes.fromhex(
        "00 0100000000000000 0100000000000000 0200000000000000"
    ) + raw + b"\x06foo" + bytes.fromhex("0100000000000000 0200000000000000 0300000000000000")


@each_case(
    "runs",
    [
        "0100000000000000 0500000000000000 0500000000000000",  # empty
        "0100000000000000 0000000000000000 0500000000000000",  # from 0
        "0100000000000000 0100000000000000 0000000000000080",  # past the end
        "0200000000000000 0100000000000000 0300000000000000 0300000000000000 0400000000000000",
        "0200000000000000 0500000000000000 0600000000000000 0100000000000000 0200000000000000",
        "0000000000000000",
        "ffffffffffffffff 0100000000000000 0200000000000000",
    ],
)
def test_runs_that_are_refused(runs):
    raw = bytes.fromhex("0100000000000000" + U.replace("-", "") + runs)
    with pytest.raises(GtidError):
        GtidSet.decode(raw)


@each_case(
    ("raw", "words"),
    [
        ("0000000000000002", "header"),
        ("0200000000000001", "header"),
        ("0101000000000001" + "00" * 16 + "05", "length byte is 0x05"),
        ("0101000000000001" + "00" * 16 + "46", "length byte is 0x46"),
        ("0101000000000001" + "00" * 16 + "0241", "not a tag"),
        ("0101000000000001" + "00" * 16 + "02ff", "not a tag"),
        (
            "0200000000000000"
            + ("01" * 16 + "0100000000000000" + "01" + "00" * 7 + "02" + "00" * 7) * 2,
            "not in order",
        ),
    ],
)
def test_headers_and_tags_that_are_refused(raw, words):
    with pytest.raises(GtidError, match=words):
        GtidSet.decode(bytes.fromhex(raw))


def test_operators():
    one, two = GtidSet.parse(f"{U}:1-10,{V}:5"), GtidSet.parse(f"{U}:4-6:tag:1")
    assert (one | two).text() == f"{V}:5,{U}:1-10:tag:1"
    assert (one - two).text() == f"{V}:5,{U}:1-3:7-10"
    assert (one & two).text() == f"{U}:4-6"
    assert GtidSet.parse(f"{U}:4-6") <= one
    assert not two <= one
    assert Gtid(U, "", 10) in one
    assert Gtid(U, "", 11) not in one
    assert Gtid(U, "tag", 1) in two
    assert not GtidSet()
    assert one
    assert (one == two, one == "x", one == one.copy()) == (False, False, True)
    copy = one.copy()
    copy.add(Gtid(V, "", 6))
    assert copy.sources[V, ""] == ((5, 7),)
    assert one.sources[V, ""] == ((5, 6),)
    assert repr(one) == f"GtidSet('{V}:5,{U}:1-10')"
    assert pickle.loads(pickle.dumps(two)) == two
    for refused in (hash, lambda made: made | U, lambda made: made & U):
        with pytest.raises(TypeError):
            refused(one)


def test_hundred_thousand_intervals():
    text = f"{U}:" + ":".join(str(number) for number in range(1, 200_001, 2))
    begun = time.thread_time()
    made = GtidSet.parse(text)
    other = GtidSet.parse(f"{U}:1-100000")
    assert len(made) == 100_000
    assert len(made | other) == 150_000
    assert len(made - other) == 50_000
    assert len(made & other) == 50_000
    assert GtidSet.decode(made.encode()) == made
    assert made.text() == text
    for number in range(2, 2_000, 2):
        made.add(Gtid(U, "", number))
    assert len(made) == 100_999
    assert time.thread_time() - begun < 60


def test_one_gtid():
    assert str(Gtid.parse(f" {U.upper()}:Tag:5 ")) == f"{U}:tag:5"
    assert Gtid.parse(f"{U}:5") == Gtid(U, "", 5)
    assert Gtid(U, "", 5) < Gtid(U, "", 10) < Gtid(U, "a", 1)
    for text in (
        U,
        f"{U}:x",
        f"{U}:0",
        f"{U}:{END}",
        f"{U}:a:b:1",
        f"{U}:1-2",
        f"{U}:9a:1",
        f"x:{U}:1",
        f"{U}:٤",
    ):
        with pytest.raises(GtidError):
            Gtid.parse(text)


def test_one_gtid_of_mariadb():
    assert MariadbGtid.parse(" 0-1-100 ") == MariadbGtid(0, 1, 100)
    assert str(MariadbGtid(4294967295, 2, (1 << 64) - 1)) == "4294967295-2-18446744073709551615"
    for text in (
        "",
        "0-1",
        "0-1-2-3",
        "a-1-2",
        "0-1-",
        "-1-2-3",
        "4294967296-1-1",
        "0-4294967296-1",
        f"0-1-{1 << 64}",
    ):
        with pytest.raises(GtidError):
            MariadbGtid.parse(text)


def test_lists():
    state = GtidList.parse("0-1-5,0-2-7,1-1-9")
    assert state.position == {0: MariadbGtid(0, 2, 7), 1: MariadbGtid(1, 1, 9)}
    before = state.copy()
    state.add(MariadbGtid(0, 1, 8))
    assert str(state) == "0-2-7,0-1-8,1-1-9"
    assert state.position[0] == MariadbGtid(0, 1, 8)
    assert str(before) == "0-1-5,0-2-7,1-1-9"
    assert (len(state), list(state), state == before) == (3, list(state.entries), False)
    assert GtidList.parse("") == GtidList()
    assert GtidList.parse(str(state)) == state
    assert pickle.loads(pickle.dumps(state)) == state
    assert repr(state) == "GtidList('0-2-7,0-1-8,1-1-9')"
    assert state != "x"
    with pytest.raises(GtidError):
        GtidList.parse("0-1-5,")


def test_a_state_advances_whatever_its_flavour():
    mysql, mariadb = Gtid.parse(f"{U}:7"), MariadbGtid.parse("0-1-7")
    for empty in (lambda: None, GtidSet, GtidList):
        assert advanced(empty(), mysql) == GtidSet.parse(f"{U}:7")
        assert advanced(empty(), mariadb) == GtidList.parse("0-1-7")
        assert advanced(empty(), None) == empty()
    known = GtidList.parse("0-1-6")
    assert advanced(known, mariadb) is known
    assert known.text() == "0-1-7"
    assert advanced(known, mysql) == GtidList.parse("0-1-7")


def test_a_state_of_either_flavour_answers_the_same_questions():
    uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    for text, has, lacks in (
        (f"{uuid}:1-5:8", f"{uuid}:5", f"{uuid}:7"),
        ("0-1-100,0-2-90,1-1-7", "0-2-90", "0-3-1"),
    ):
        gtid = parse_gtid(has)
        state = STATES[gtid.flavour].parse(text)
        assert state.flavour is gtid.flavour
        assert state.includes(gtid)
        assert not state.includes(parse_gtid(lacks))
        assert not state - state
        left = state.copy()
        left.discard(gtid)
        left.discard(parse_gtid(lacks))
        assert not left.includes(gtid)
        assert state - left == advanced(None, gtid)


def test_a_state_takes_no_gtid_of_the_other_flavour():
    mysql = GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1")
    mariadb = GtidList.parse("0-1-5")
    with pytest.raises(GtidError, match="no GTID of MySQL"):
        mysql.add(parse_gtid("0-1-5"))
    with pytest.raises(GtidError, match="no GTID of MariaDB"):
        mariadb.add(parse_gtid("3e11fa47-71ca-11e1-9e33-c80aa9429562:1"))
    for one, other in ((mysql, mariadb), (mariadb, mysql)):
        assert one - other == one
        assert not any(one.includes(parse_gtid(gtid)) for gtid in other.text().split(","))


def test_the_latest_of_a_list_is_one_gtid_for_each_domain():
    assert GtidList.parse("0-1-100,0-2-90,1-1-7").latest.text() == "0-2-90,1-1-7"
