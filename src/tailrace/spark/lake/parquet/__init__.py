"""A lake of plain Parquet files, in versions."""
