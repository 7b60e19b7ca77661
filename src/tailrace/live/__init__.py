"""The replication stream of a running server: a connection, a stream on it, and one that goes on."""
