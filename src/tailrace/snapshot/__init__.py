"""The rows of a server's tables: columns, ranges of the key by which readers share one, values."""
