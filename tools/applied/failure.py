"""What is raised where a server or its tool does not take a log."""

from __future__ import annotations


class ApplyFailed(AssertionError):
    """A server, its tool or its client refused a log; the message is theirs."""
