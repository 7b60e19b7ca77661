"""The statements that servers log word for word: BEGIN, COMMIT, SAVEPOINT, ROLLBACK TO."""

from __future__ import annotations

from tailrace.columns.frames import plan as k
from tailrace.columns.kernels.memory import helper, i64, u8, u16, u32


@helper
def begin_or_commit(text, length):
    """The token of BEGIN or COMMIT; 0 for any other statement."""
    if length == 5 and u32(text) == k.BEGIN and u8(text + 4) == 78:
        return k.T_BEGIN
    if length == 6 and u32(text) == k.COMMIT and u16(text + 4) == 0x5449:
        return k.T_COMMIT
    return 0


@helper
def sets_savepoint(text, length):
    """Whether a statement is SAVEPOINT and a name."""
    return length >= 11 and i64(text) == k.SAVEPOINT and u16(text + 8) == 0x2054


@helper
def rolls_back_to(text, length):
    """Whether a statement is ROLLBACK TO and a name."""
    return length >= 13 and i64(text) == k.ROLLBACK_TO and u32(text + 8) == k.TO
