"""A full-text index that follows the log: WL#3283's reference application, on Tailrace's own API.

`index` builds an index of the text columns of tables, from logs or from a server, and follows it;
`Index` reads one. `ShardWriter` takes in rows and statements one by one, for programs that have
them otherwise. It needs the extra ``search``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.lazy import lazy

if TYPE_CHECKING:
    from tailrace.search.analysis import Analyser
    from tailrace.search.feed import Indexed, index
    from tailrace.search.manifest import Manifest
    from tailrace.search.reader import Hit, Hits, Index
    from tailrace.search.shard import ShardWriter

__all__ = ["Analyser", "Hit", "Hits", "Index", "Indexed", "Manifest", "ShardWriter", "index"]

if not TYPE_CHECKING:  # else any name would do
    __getattr__ = lazy(
        __name__,
        {
            "Analyser": "analysis",
            "Hit": "reader",
            "Hits": "reader",
            "Index": "reader",
            "Indexed": "feed",
            "Manifest": "manifest",
            "ShardWriter": "shard",
            "index": "feed",
        },
    )
