"""Record batches of what a running server sends."""
