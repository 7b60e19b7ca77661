"""`verify`: whether the current tables of a lake equal the server's."""

from tailrace.spark.verify.comparison import verify

__all__ = ["verify"]
