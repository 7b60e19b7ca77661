"""Layouts of the frames with which Python calls kernels, and numbers that kernels compare."""
