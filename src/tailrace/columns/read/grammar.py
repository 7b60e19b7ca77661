"""The grammar of transactions in the form that kernels use: tables of bytes, a state in a word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tailrace.columns.frames import event_codes as e
from tailrace.columns.frames import plan as k
from tailrace.events.rows import ROWS_TYPES, fixed_size
from tailrace.transaction import GRAMMAR, TOKENS, State, Token

if TYPE_CHECKING:
    from tailrace.events.base import Event
    from tailrace.events.description import FormatDescription
    from tailrace.transaction import Boundary, BoundaryParser

Array = np.ndarray[Any, Any]

_SIXTEEN: Final = 16


def _steps() -> Array:
    table = np.full((len(State) + 1, _SIXTEEN), k.NO_STEP, np.uint8)
    table[k.IN_PAYLOAD] = k.IN_PAYLOAD
    for (state, token), (_, after, _) in GRAMMAR.items():
        table[state, token] = after
    return table


STEPS: Final = _steps()
"""By state and token, 16 for each state, the next state (`tailrace.transaction`); or NO_STEP."""


def _steps_anyway() -> Array:
    table = STEPS.copy()
    for state in State:
        for token in Token:
            if table[state, token] != k.NO_STEP:
                continue
            begun = GRAMMAR.get((State.OUTSIDE, token))
            if begun is not None:
                table[state, token] = begun[1]
            else:
                table[state, token] = State.OUTSIDE if token in _ENDS else state
    return table


_ENDS: Final = (Token.COMMIT, Token.ROLLBACK, Token.PREPARE)
STEPS_ANYWAY: Final = _steps_anyway()
"""STEPS without NO_STEP, for a scan that leaves errors to the reader: a token that begins or ends a
transaction does so in every state, and any other token changes nothing."""


_STATES: Final = {int(state): state for state in State}


def place(parser: BoundaryParser, state: int, event: Event) -> Boundary:
    """An event's role, if a kernel is in this state. Raises BoundaryError if the grammar forbids
    it.
    """
    parser.state, parser.rotated = _STATES[state & 0xFF], bool(state & k.ROTATED)
    return parser.feed(event)


def state_after(parser: BoundaryParser) -> int:
    """The state for a kernel to continue with."""
    return parser.state | (k.ROTATED if parser.rotated else 0)


def types_of(form: FormatDescription | None) -> Array:
    """By type code, the token and what the kernel must know about the layout (``T_...``).

    The layout is unknown before the format description.
    """
    if form is None:
        return np.full(256, k.DOUBTED, np.uint8)
    types = np.zeros(256, np.uint8)
    for code, token in TOKENS.items():
        types[code] = token
    for code in ROWS_TYPES:
        said = fixed_size(form, code)
        types[code] = _ROWS_FORMS.get(said, k.DOUBTED)
    if form.differs:
        for code in e.QUERY, e.XID, e.TABLE_MAP:
            if form.other_post_header(code):
                types[code] |= k.DOUBTED
    if form.table_map_id_size == 4:
        types[e.TABLE_MAP] |= k.SHORT_ID
    return types


_ROWS_FORMS: Final = {6: k.SHORT_ID, 8: 0, 10: k.EXTRA_HEADER}
