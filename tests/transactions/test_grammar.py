"""The boundary grammar: every alternative, and everything it leaves out."""

import struct
from itertools import count

import pytest

from tailrace.constants import EventType
from tailrace.errors import BoundaryError
from tailrace.events import DecodeContext
from tailrace.gtid import Gtid, MariadbGtid
from tailrace.position import Position
from tailrace.transaction import (
    Boundary,
    BoundaryParser,
    Transaction,
    TransactionAssembler,
    TransactionKind,
)
from tests.cases import each_case
from tests.events.cases import GTID
from tests.events.made import query_body, raw_event, raw_format, table_map_body
from tests.events.test_payload import INNER, PLAIN, compress, payload_body

E = EventType
ROWS = bytes.fromhex("070000000000 {} 0200 01 01 00 01000000".format("0000"))
ROWS_END = bytes.fromhex("070000000000 {} 0200 01 01 00 01000000".format("0100"))
SINGLE, DDL, TRANS, XA = 0x01, 0x20, 0x04, 0x40


def maria(flags):
    xid = struct.pack("<iBB", 1, 1, 0) + b"x" if flags & 0xC0 else b""
    return E.MARIADB_GTID, (struct.pack("<QIB", 9, 0, flags) + xid).ljust(19, b"\0")


KINDS = {
    "gtid": (E.GTID, GTID),
    "anonymous": (E.ANONYMOUS_GTID, b"\0" + bytes(24)),
    "group": maria(TRANS),
    "single": maria(SINGLE),
    "single ddl": maria(SINGLE | DDL),
    "xa group": maria(TRANS | XA),
    "begin": (E.QUERY, query_body(b"BEGIN")),
    "begin, from a tool": (E.QUERY, query_body(b"BEGIN /* x */")),
    "xa start": (E.QUERY, query_body(b"XA START X'61',X'',1")),
    "xa end": (E.QUERY, query_body(b"XA END X'61',X'',1")),
    "xa commit": (E.QUERY, query_body(b"XA COMMIT X'61',X'',1")),
    "xa rollback": (E.QUERY, query_body(b"XA ROLLBACK X'61',X'',1")),
    "xa prepare": (E.XA_PREPARE, b"\0" + struct.pack("<iII", 1, 1, 0) + b"a"),
    "one phase": (E.XA_PREPARE, b"\1" + struct.pack("<iII", 1, 1, 0) + b"a"),
    "commit": (E.QUERY, query_body(b"COMMIT")),
    "rollback": (E.QUERY, query_body(b"rollback")),
    "rollback, from a tool": (E.QUERY, query_body(b"ROLLBACK /* added by mysqlbinlog */")),
    "savepoint": (E.QUERY, query_body(b"SAVEPOINT `s`")),
    "rollback to": (E.QUERY, query_body(b"ROLLBACK TO `s`")),
    "rollback work to": (E.QUERY, query_body(b"ROLLBACK WORK TO SAVEPOINT `s`")),
    "statement": (E.QUERY, query_body(b"CREATE TABLE commit_log (id INT)")),
    "begins like begin": (E.QUERY, query_body(b"BEGIN_WORK_PROCEDURE")),
    "xid": (E.XID, bytes(8)),
    "table map": (E.TABLE_MAP, table_map_body(b"\3")),
    "rows": (E.WRITE_ROWS, ROWS),
    "rows end": (E.WRITE_ROWS, ROWS_END),
    "rows query": (E.ROWS_QUERY, b"\0x"),
    "annotate": (E.ANNOTATE_ROWS, b"x"),
    "view change": (E.VIEW_CHANGE, bytes(52)),
    "int var": (E.INTVAR, b"\1" + bytes(8)),
    "user var": (E.USER_VAR, b"\1\0\0\0v\1"),
    "rand": (E.RAND, bytes(16)),
    "begin load": (E.BEGIN_LOAD_QUERY, bytes(4)),
    "execute load": (E.EXECUTE_LOAD_QUERY, query_body(b"LOAD", extra=bytes(13))),
    "payload": (E.TRANSACTION_PAYLOAD, payload_body(compress(PLAIN))),
    "incident": (E.INCIDENT, b"\1\0\0"),
    "stop": (E.STOP, b""),
    "previous": (E.PREVIOUS_GTIDS, bytes(8)),
    "list": (E.GTID_LIST, bytes(4)),
    "checkpoint": (E.BINLOG_CHECKPOINT, bytes(4)),
    "heartbeat": (E.HEARTBEAT, b"b"),
    "context": (E.TRANSACTION_CONTEXT, bytes(18)),
    "rotate": (E.ROTATE, bytes(8) + b"b.2"),
}


def events(*names):
    """These events, one after the other in a file; "format" and "restart" begin a new one."""
    context = DecodeContext()
    context.decode(raw_format())
    table = context.decode(raw_event(*KINDS["table map"]))
    made = []
    offset = 200
    numbers = count(1)
    file = f"b.{next(numbers)}"
    for name in names:
        if name in {"format", "restart"}:
            file, offset = f"b.{next(numbers)}", 4
            raw = raw_format(created=1_700_000_000 if name == "restart" else 0)
        else:
            raw = raw_event(*KINDS[name])
        context.table_maps[7] = table
        made.append(context.decode(raw, file=file, offset=offset))
        offset += len(raw)
    return made


O, B, I, X = Boundary.OUTSIDE, Boundary.BEGIN, Boundary.INSIDE, Boundary.END  # noqa: E741
K = TransactionKind

TRANSACTIONS = [
    (["gtid", "begin", "table map", "rows end", "xid"], K.COMMIT),
    (["anonymous", "begin", "rows query", "table map", "rows", "rows end", "xid"], K.COMMIT),
    (["begin", "table map", "rows end", "commit"], K.COMMIT),  # 5.6, MyISAM
    (["gtid", "begin", "commit"], K.COMMIT),  # empty, for its GTID
    (["gtid", "begin, from a tool", "rollback, from a tool"], K.ROLLBACK),
    (["gtid", "begin", "savepoint", "table map", "rows end", "rollback to", "xid"], K.COMMIT),
    (["begin", "rollback work to", "rollback"], K.ROLLBACK),
    (["gtid", "begin", "int var", "statement", "rand", "user var", "statement", "xid"], K.COMMIT),
    (["gtid", "begin", "statement", "table map", "rows end", "xid"], K.COMMIT),  # CREATE … SELECT
    (["begin", "begin load", "execute load", "xid"], K.COMMIT),
    (["gtid", "begin", "view change", "commit"], K.COMMIT),
    (["gtid", "begin", "incident", "commit"], K.COMMIT),
    (["gtid", "statement"], K.DDL),
    (["statement"], K.DDL),
    (["begins like begin"], K.DDL),
    (["anonymous", "statement"], K.DDL),
    (["int var", "statement"], K.STANDALONE),
    (["gtid", "user var", "rand", "statement"], K.STANDALONE),
    (["begin load", "execute load"], K.STANDALONE),
    (["gtid", "payload"], K.COMMIT),
    (["payload"], K.COMMIT),
    (["gtid", "incident"], K.STANDALONE),
    (["incident"], K.STANDALONE),
    (["gtid", "xa start", "table map", "rows end", "xa end", "xa prepare"], K.XA_PREPARE),
    (["gtid", "xa start", "table map", "rows end", "xa end", "one phase"], K.COMMIT),
    (["gtid", "xa commit"], K.COMMIT),
    (["gtid", "xa rollback"], K.ROLLBACK),
    (["xa commit"], K.COMMIT),
    (["group", "annotate", "table map", "rows end", "xid"], K.COMMIT),
    (["group", "table map", "rows end", "commit"], K.COMMIT),
    (["group", "statement", "rollback"], K.ROLLBACK),
    (["xa group", "table map", "rows end", "xa end", "xa prepare"], K.XA_PREPARE),
    (["single", "xa commit"], K.COMMIT),
    (["single", "xa rollback"], K.ROLLBACK),
    (["single", "statement"], K.STANDALONE),
    (["single ddl", "statement"], K.DDL),
    (["single", "int var", "user var", "statement"], K.STANDALONE),
    (["single", "annotate", "table map", "rows", "rows end"], K.STANDALONE),
    (["single", "begin load", "execute load"], K.STANDALONE),
    (["single", "incident"], K.STANDALONE),
]


@each_case(
    ("names", "kind"),
    TRANSACTIONS,
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_each_transaction(names, kind):
    made = events(*names, *names)  # twice: the first leaves nothing behind
    parser = BoundaryParser()
    where = [parser.feed(event) for event in made[: len(names)]]
    expected = [B, *[I] * (len(names) - 2), X] if len(names) > 1 else [X]
    assert where == expected
    assert parser.kind is kind
    assert not parser.inside
    assert [parser.feed(event) for event in made[len(names) :]] == expected

    assembler = TransactionAssembler()
    done = [done for event in made if (done := assembler.feed(event))]
    assert [transaction.kind for transaction in done] == [kind, kind]
    assert done[0].events + done[1].events == made
    assert all(transaction.complete for transaction in done)
    assert assembler.finish() is None


CONTROL = ["stop", "previous", "list", "checkpoint", "heartbeat", "context", "rotate"]


@each_case("control", CONTROL)
def test_control_events_may_stand_anywhere(control):
    names = [control, "gtid", control, "begin", control, "xid", control]
    made = events(*names)
    parser = BoundaryParser()
    assert [parser.feed(event) for event in made] == [O, B, I, I, I, X, O]
    assembler = TransactionAssembler()
    (done,) = [done for event in made if (done := assembler.feed(event))]
    assert [event.name for event in done.events] == ["GTID", "QUERY", "XID"]


CANNOT_FOLLOW = {
    "": ("xid", "commit", "rollback", "xa prepare", "table map", "rows", "rows end"),
    "gtid": ("gtid", "xid", "commit", "table map", "group"),
    "begin": ("begin", "gtid", "group", "single", "payload", "xa start"),
    "group": ("gtid", "begin", "payload"),
    "single": ("begin", "xid", "gtid", "payload"),
    "int var": ("begin", "gtid", "rows end", "xid"),
}


@each_case(
    ("before", "wrong"), [(before, each) for before, all_ in CANNOT_FOLLOW.items() for each in all_]
)
def test_what_cannot_follow(before, wrong):
    *first, last = events(*filter(None, [before]), wrong)
    parser = BoundaryParser()
    for event in first:
        parser.feed(event)
    with pytest.raises(BoundaryError, match=rf"b\.1 at {last.offset} .*it cannot come"):
        parser.feed(last)


def test_a_crash_makes_what_was_read_void():
    made = events("gtid", "begin", "table map", "restart", "gtid", "begin", "xid")
    parser = BoundaryParser()
    where = []
    discarded = []
    for event in made:
        where.append(parser.feed(event))
        discarded.append(parser.discarded)
    assert where == [B, I, I, O, B, I, X]
    assert discarded == [False] * 3 + [True] + [False] * 3
    assembler = TransactionAssembler()
    done = [done for event in made if (done := assembler.feed(event))]
    assert [(len(one.events), one.complete, one.kind) for one in done] == [
        (3, False, None),
        (3, True, K.COMMIT),
    ]
    assert done[0].end == Position("b.1", made[2].end_offset or 0)


def test_a_file_change_without_rotate_is_a_crash_too():
    assembler = TransactionAssembler()
    made = events("begin", "format", "begin", "xid")
    done = [done for event in made if (done := assembler.feed(event))]
    assert [one.complete for one in done] == [False, True]


def test_a_relay_log_may_change_files_in_mid_transaction():
    made = events("begin", "rotate", "format", "rotate", "format", "xid")
    parser = BoundaryParser()
    assert [parser.feed(event) for event in made] == [B, I, I, I, I, X]
    again = events("begin", "rotate", "restart", "begin")
    parser = BoundaryParser()
    assert [parser.feed(event) for event in again] == [B, I, O, B]


def test_the_tail_of_a_log_is_told_apart():
    assembler = TransactionAssembler()
    for event in events("gtid", "begin", "table map"):
        assert assembler.feed(event) is None
    left = assembler.finish()
    assert left is not None
    assert (left.complete, left.kind, len(left.events)) == (False, None, 3)
    assert assembler.finish() is None


def test_what_a_transaction_says():
    made = events("gtid", "payload")
    transaction = Transaction(made, K.COMMIT)
    assert transaction.gtid == Gtid("896e7882-18fe-11ef-ab88-22222d34d411", "", 5)
    assert transaction.gtid_event is made[0]
    assert transaction.start == Position("b.1", 200)
    assert transaction.end == Position("b.1", made[1].end_offset or 0)
    assert transaction.size == sum(event.header.length for event in made)
    assert transaction.timestamp == 1_700_000_000
    assert transaction.commit_timestamp is None
    names = [event.name for event in transaction.all_events()]
    assert names == ["GTID", "TRANSACTION_PAYLOAD", "QUERY", "TABLE_MAP", "WRITE_ROWS", "XID"]
    assert Transaction(events("group", "xid"), K.COMMIT).gtid == MariadbGtid(0, 1, 9)
    bare = Transaction(events("anonymous", "statement"), K.DDL)
    assert bare.gtid is None
    assert Transaction(events("statement"), K.DDL).gtid_event is None
    unplaced = Transaction([DecodeContext().decode(raw_format())], None)
    assert unplaced.start is unplaced.end is None


def test_events_inside_a_payload_change_nothing():
    (payload,) = events("payload")
    parser, assembler = BoundaryParser(), TransactionAssembler()
    assert parser.feed(payload) is X
    assert assembler.feed(payload) is not None
    inner = list(payload)
    assert len(inner) == len(INNER)
    assert [parser.feed(event) for event in inner] == [I] * len(INNER)
    assert not parser.inside
    assert [assembler.feed(event) for event in inner] == [None] * len(INNER)
