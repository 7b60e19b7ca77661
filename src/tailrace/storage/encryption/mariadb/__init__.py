"""Logs that MariaDB encrypts: event by event, after a clear head."""
