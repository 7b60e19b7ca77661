"""Tables of a lake as Iceberg tables."""
