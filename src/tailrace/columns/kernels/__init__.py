"""Numba sources of the kernels. Only `tailrace.columns.native` imports them, to compile them."""
