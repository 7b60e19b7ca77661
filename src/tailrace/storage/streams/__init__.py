"""Streams of bytes that stack: where and how a log is stored is their affair alone."""
