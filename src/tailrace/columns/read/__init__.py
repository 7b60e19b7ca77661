"""From log files to record batches: splits, the walk over events, the decoding of tables."""
