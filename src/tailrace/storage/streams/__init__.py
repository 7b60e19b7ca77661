"""Streams of bytes that stack: they alone know where and how a log is stored."""
