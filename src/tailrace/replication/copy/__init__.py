"""A source's log, kept byte by byte in a folder."""
