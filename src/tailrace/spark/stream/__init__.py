"""The data source ``binlog``: a log's changes as a DataFrame, batch and streaming."""
