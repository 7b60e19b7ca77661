"""Whether the wheel keeps its word: installed alone, and with each extra alone.

`./run python -m tools.wheel [EXTRA...]` builds the wheel, and installs it into an environment of
its own for each extra: on the oldest supported Python and on the newest (`tools.servers.python`).
There it runs what the extra promises (`tools.wheel.promises`), in an empty folder, where nothing of
the repository can be imported. Versions and hashes are the lock file's.

The three extras with Spark run on one Python each, as a mirror takes up to a minute: Delta on the
newest, Iceberg and plain Parquet on the oldest. Delta and Iceberg have the newest PySpark that
their extra allows, not the lock file's, and Spark reads their lakes by the format's jars, which it
fetches. The last two checks are `uvx --from WHEEL tailrace`, and `pip install WHEEL` with the
oldest Python's own pip, which takes the newest versions that the wheel allows: there, the command
that an error names installs an extra.
"""
