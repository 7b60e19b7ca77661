"""Tables of a lake as Delta tables."""
