"""Semi-synchronous replication, as plugins on the replication observers."""
