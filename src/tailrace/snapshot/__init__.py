"""The rows of a server's tables: columns, and ranges of the key by which readers share a table."""
