"""Tables' states from their changes: pyarrow and numpy, no lake inside."""
