"""The current state of tables, folded from their changes: pyarrow and numpy, no Spark inside."""
