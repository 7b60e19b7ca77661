"""Rows as lines: JSON, SQL and text, by kernels."""
