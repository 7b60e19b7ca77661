"""Long-running readers of a server: the receiver and its plugins."""
