"""Logs that MySQL encrypts: a header, and the rest as one stream."""
