"""Words of the frames by which Python calls kernels, and numbers that kernels compare."""
