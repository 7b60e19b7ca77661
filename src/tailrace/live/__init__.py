"""The replication stream of a running server: a connection, a stream on it, one that goes on."""
