"""``./run python -m benchmarks NAME`` makes its own logs on a real server, and compares."""
