"""Replication commands and packets as bytes, both directions: no socket here."""
