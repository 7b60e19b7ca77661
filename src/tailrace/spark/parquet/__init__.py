"""Parquet files of tables: written, read back, with their columns and deleted rows."""
