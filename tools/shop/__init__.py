"""A small believable shop and its warehouse: what the examples are recorded from."""
