"""The full-text index of `tailrace.search` in shards, made by Spark: `index`. Its extra is
``search``, besides ``spark``.
"""

from tailrace.extras import importing

with importing("search", "an index"):
    from tailrace.spark.search.build import index

__all__ = ["index"]
