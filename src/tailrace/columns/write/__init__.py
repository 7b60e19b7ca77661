"""Rows into events, by kernels."""
