"""Log files into record batches: splits, the walk over events, the decoding of tables."""
