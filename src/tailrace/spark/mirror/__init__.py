"""`mirror`: binary logs into a lake."""
