"""Replication observers: what plugins are told of, and the delegates that tell them (WL#4398)."""
