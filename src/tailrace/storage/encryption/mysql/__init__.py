"""Logs that MySQL encrypts: a header, and all that follows as one stream."""
