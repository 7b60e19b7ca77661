"""Names and types of columns where the log does not say them: from the user, or from its DDL."""

from tailrace.schema.catalogue import Catalogue
from tailrace.schema.classify import StatementKind, classify
from tailrace.schema.given import load, parse

__all__ = ["Catalogue", "StatementKind", "classify", "load", "parse"]
