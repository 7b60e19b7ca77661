"""Transactions in a log: where they begin and end, what they hold, and what was rolled back."""

from tailrace.transaction.assembler import Transaction, TransactionAssembler
from tailrace.transaction.grammar import (
    GRAMMAR,
    TOKENS,
    Boundary,
    BoundaryParser,
    State,
    Token,
    TransactionKind,
    token_of,
)

__all__ = [
    "GRAMMAR",
    "TOKENS",
    "Boundary",
    "BoundaryParser",
    "State",
    "Token",
    "Transaction",
    "TransactionAssembler",
    "TransactionKind",
    "token_of",
]
