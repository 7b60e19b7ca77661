"""A random concurrent load for real servers: see `Load`."""

from tools.load.load import Load

__all__ = ["Load"]
