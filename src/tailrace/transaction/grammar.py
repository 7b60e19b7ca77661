"""Where transactions begin and end in a log: the one grammar, which the kernels execute as well.

The grammar has one alternative per line. Names in lower case are rules, in upper case events:

    log          = { transaction | CONTROL }
    transaction  = [GTID] BEGIN { PREFIX | STATEMENT | ROWS | ROWS_END | INCIDENT } end
                 | [GTID] { PREFIX } STATEMENT       DDL and the like, which commits itself
                 | [GTID] PAYLOAD                    a whole compressed transaction
                 | [GTID] INCIDENT
                 | GROUP { PREFIX | STATEMENT | ROWS | ROWS_END | INCIDENT } end      MariaDB
                 | SINGLE { PREFIX | ROWS } ( ROWS_END | STATEMENT | INCIDENT )       MariaDB
    end          = COMMIT | ROLLBACK | PREPARE

    BEGIN        = QUERY "BEGIN" or "XA START …"
    COMMIT       = XID | QUERY "COMMIT" | XA_PREPARE in one phase
    ROLLBACK     = QUERY "ROLLBACK", but not "ROLLBACK TO …"
    PREPARE      = XA_PREPARE; its "XA COMMIT …" is a STATEMENT of a later transaction
    STATEMENT    = any other QUERY (SAVEPOINT, ROLLBACK TO … among them), EXECUTE_LOAD_QUERY, …
    PREFIX       = INTVAR | RAND | USER_VAR | the blocks of a LOAD DATA
    ROWS         = TABLE_MAP | a rows event | ROWS_QUERY | ANNOTATE_ROWS | VIEW_CHANGE
    ROWS_END     = a rows event with STMT_END
    GROUP        = MariaDB's GTID; SINGLE = the same, flagged standalone
    CONTROL      = all others: ROTATE, STOP, heartbeats, …; may stand anywhere

A format description event between transactions is CONTROL. Inside a transaction it means that the
server crashed: the transaction is void. The exception is a relay log, which may change files in the
middle of a transaction, and then has two format descriptions, its own and the source's: there, a
ROTATE came before the event and ``created`` is 0. Source: facts sheet, section 9.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum, auto
from typing import Final

from tailrace.constants import EventType
from tailrace.errors import BoundaryError
from tailrace.events import (
    Event,
    FormatDescriptionEvent,
    MariadbGtidEvent,
    QueryEvent,
    RotateEvent,
    RowsEvent,
    XaPrepareEvent,
)
from tailrace.events.mariadb import MariadbGtidFlag
from tailrace.events.rows import ROWS_TYPES
from tailrace.transaction.statements import begins, commits, rolls_back, xa_end

_T = EventType


class Boundary(StrEnum):
    """An event's role in its transaction. A transaction of one event is only an END."""

    OUTSIDE = "outside"
    BEGIN = "begin"
    INSIDE = "inside"
    END = "end"


class TransactionKind(StrEnum):
    """How a transaction ended.

    ``xa_prepare``: not yet committed; the later XA COMMIT or XA ROLLBACK is a transaction of its
    own (of kind ``commit`` or ``rollback``). ``ddl``: a statement that commits itself;
    ``standalone``: MariaDB's group of one statement that is not DDL, or an incident.
    """

    COMMIT = "commit"
    ROLLBACK = "rollback"
    XA_PREPARE = "xa_prepare"
    DDL = "ddl"
    STANDALONE = "standalone"


class Token(IntEnum):
    """An event's part in the grammar."""

    CONTROL = auto()
    GTID = auto()
    GROUP = auto()
    SINGLE = auto()
    BEGIN = auto()
    COMMIT = auto()
    ROLLBACK = auto()
    PREPARE = auto()
    PREFIX = auto()
    STATEMENT = auto()
    ROWS = auto()
    ROWS_END = auto()
    PAYLOAD = auto()
    INCIDENT = auto()


class State(IntEnum):
    """The state of the grammar's machine after the events read so far."""

    OUTSIDE = auto()
    GTID = auto()
    PREFIXED = auto()
    OPEN = auto()
    SINGLE = auto()


_PLACES: Final = {
    State.OUTSIDE: "between transactions",
    State.GTID: "right after a GTID",
    State.PREFIXED: "before the statement that INTVAR, RAND or USER_VAR announced",
    State.OPEN: "inside a transaction",
    State.SINGLE: "inside a group of one statement",
}
_K = TransactionKind
_Step = tuple[Boundary, State, TransactionKind | None]
_ENDED: Final = State.OUTSIDE


def _end(kind: TransactionKind) -> _Step:
    return Boundary.END, _ENDED, kind


def _inside(state: State) -> _Step:
    return Boundary.INSIDE, state, None


def _begin(state: State) -> _Step:
    return Boundary.BEGIN, state, None


GRAMMAR: Final[dict[tuple[State, Token], _Step]] = {
    (State.OUTSIDE, Token.GTID): _begin(State.GTID),
    (State.OUTSIDE, Token.BEGIN): _begin(State.OPEN),
    (State.OUTSIDE, Token.GROUP): _begin(State.OPEN),
    (State.OUTSIDE, Token.SINGLE): _begin(State.SINGLE),
    (State.OUTSIDE, Token.PREFIX): _begin(State.PREFIXED),
    (State.OUTSIDE, Token.STATEMENT): _end(_K.DDL),
    (State.OUTSIDE, Token.PAYLOAD): _end(_K.COMMIT),
    (State.OUTSIDE, Token.INCIDENT): _end(_K.STANDALONE),
    (State.GTID, Token.BEGIN): _inside(State.OPEN),
    (State.GTID, Token.PREFIX): _inside(State.PREFIXED),
    (State.GTID, Token.STATEMENT): _end(_K.DDL),
    (State.GTID, Token.PAYLOAD): _end(_K.COMMIT),
    (State.GTID, Token.INCIDENT): _end(_K.STANDALONE),
    (State.PREFIXED, Token.PREFIX): _inside(State.PREFIXED),
    (State.PREFIXED, Token.STATEMENT): _end(_K.STANDALONE),
    (State.OPEN, Token.PREFIX): _inside(State.OPEN),
    (State.OPEN, Token.STATEMENT): _inside(State.OPEN),
    (State.OPEN, Token.ROWS): _inside(State.OPEN),
    (State.OPEN, Token.ROWS_END): _inside(State.OPEN),
    (State.OPEN, Token.INCIDENT): _inside(State.OPEN),
    (State.OPEN, Token.COMMIT): _end(_K.COMMIT),
    (State.OPEN, Token.ROLLBACK): _end(_K.ROLLBACK),
    (State.OPEN, Token.PREPARE): _end(_K.XA_PREPARE),
    (State.SINGLE, Token.PREFIX): _inside(State.SINGLE),
    (State.SINGLE, Token.ROWS): _inside(State.SINGLE),
    (State.SINGLE, Token.ROWS_END): _end(_K.STANDALONE),
    (State.SINGLE, Token.STATEMENT): _end(_K.STANDALONE),
    (State.SINGLE, Token.INCIDENT): _end(_K.STANDALONE),
}
"""The machine; the kernels execute it as well (`tailrace.columns.read.grammar`)."""

TOKENS: Final[dict[int, Token]] = {
    _T.GTID: Token.GTID,
    _T.ANONYMOUS_GTID: Token.GTID,
    _T.GTID_TAGGED: Token.GTID,
    _T.XID: Token.COMMIT,
    _T.TRANSACTION_PAYLOAD: Token.PAYLOAD,
    _T.INCIDENT: Token.INCIDENT,
    **dict.fromkeys(
        (_T.INTVAR, _T.RAND, _T.USER_VAR, _T.BEGIN_LOAD_QUERY, _T.APPEND_BLOCK, _T.CREATE_FILE),
        Token.PREFIX,
    ),
    **dict.fromkeys(
        (_T.EXECUTE_LOAD_QUERY, _T.DELETE_FILE, _T.LOAD, _T.NEW_LOAD, _T.EXEC_LOAD),
        Token.STATEMENT,
    ),
    **dict.fromkeys((_T.TABLE_MAP, _T.ROWS_QUERY, _T.ANNOTATE_ROWS, _T.VIEW_CHANGE), Token.ROWS),
}
"""Tokens of the event types that always have the same token."""


_PASSED: Final = ROWS_TYPES | {
    code
    for code, token in TOKENS.items()
    if GRAMMAR.get((State.OPEN, token)) == _inside(State.OPEN)
}
"""Types of events that change nothing inside a transaction."""


def _query_token(sql: bytes) -> Token:
    if begins(sql):
        return Token.BEGIN
    if commits(sql):
        return Token.COMMIT
    return Token.ROLLBACK if rolls_back(sql) else Token.STATEMENT


def token_of(event: Event) -> Token:
    """An event's part in the grammar."""
    token = TOKENS.get(event.header.type)
    if token is not None:
        return token
    if isinstance(event, RowsEvent):
        return Token.ROWS_END if event.stmt_end else Token.ROWS
    if isinstance(event, QueryEvent):
        return _query_token(event.sql_bytes)
    if isinstance(event, MariadbGtidEvent):
        return Token.SINGLE if event.standalone else Token.GROUP
    if isinstance(event, XaPrepareEvent):
        return Token.COMMIT if event.one_phase else Token.PREPARE
    return Token.CONTROL


class BoundaryParser:
    """The machine of the grammar above. Feed it the events of one log, one after the other.

    After an END, ``kind`` says how the transaction ended. ``control`` is true after an event that
    belongs to no transaction, even if it came inside one. ``discarded`` is true after a format
    description event that made an unfinished transaction void. ``state`` is the machine's state.
    ``rotated`` says whether a ROTATE came after the last event of a transaction. Code that lets a
    kernel take some of the steps sets both. Events inside a payload are INSIDE and change nothing:
    the payload event itself is the transaction's END.
    """

    __slots__ = ("_ddl", "control", "discarded", "kind", "rotated", "state")

    def __init__(self) -> None:
        self.state = State.OUTSIDE
        self.rotated = False
        self._ddl = False
        self.kind: TransactionKind | None = None
        self.control = False
        self.discarded = False

    @property
    def inside(self) -> bool:
        """Whether a transaction is unfinished: reading must not stop or resume here."""
        return self.state is not State.OUTSIDE

    def passes(self, code: int) -> bool:
        """Whether an event of this type would change nothing here: `feed` need not be called."""
        return code in _PASSED and self.state is State.OPEN and not self.rotated

    def feed(self, event: Event) -> Boundary:
        """The event's role. Raises BoundaryError where the grammar does not allow the event."""
        if event.inner_index is not None:
            return Boundary.INSIDE
        if self.state is State.OPEN and event.header.type in _PASSED:
            self.control = self.discarded = self.rotated = False
            return Boundary.INSIDE
        token = token_of(event)
        if token is Token.CONTROL:
            return self._control(event)
        step = GRAMMAR.get((self.state, token))
        if step is None:
            raise event.error(
                f"it cannot come {_PLACES[self.state]}; start and resume reading where a"
                " transaction ends",
                BoundaryError,
            )
        boundary, self.state, kind = step
        self.control = self.discarded = self.rotated = False
        if token is Token.SINGLE:
            self._ddl = self._is_ddl(event)
        if boundary is Boundary.END:
            self.kind = self._refine(kind, event)
        return boundary

    @staticmethod
    def _is_ddl(event: Event) -> bool:
        return isinstance(event, MariadbGtidEvent) and bool(event.flags & MariadbGtidFlag.DDL)

    def _refine(self, kind: TransactionKind | None, event: Event) -> TransactionKind | None:
        """XA COMMIT and XA ROLLBACK end as they are named; a group flagged as DDL is DDL."""
        if kind not in {_K.DDL, _K.STANDALONE} or not isinstance(event, QueryEvent):
            return kind
        how = xa_end(event.sql_bytes)
        if how is not None:
            return _K.COMMIT if how == "COMMIT" else _K.ROLLBACK
        if self._ddl:
            self._ddl = False
            return _K.DDL
        return kind

    def _control(self, event: Event) -> Boundary:
        self.control = True
        self.discarded = False
        if isinstance(event, FormatDescriptionEvent):
            if self.inside and (event.created or not self.rotated):
                self.discarded = True
                self.state = State.OUTSIDE
                self.rotated = False
        elif isinstance(event, RotateEvent):
            self.rotated = True
        return Boundary.INSIDE if self.inside else Boundary.OUTSIDE
