"""The shop's logs in ``examples/shop``, of two servers, and what SELECT gave at their ends."""

import json
from pathlib import Path
from typing import Any, Final

SHOP: Final = Path(__file__).parents[1] / "examples" / "shop"
SHOP_TABLES: Final[dict[str, Any]] = {
    name: table
    for flavour in json.loads((SHOP / "expected.json").read_text()).values()
    for name, table in flavour["tables"].items()
}
"""The tables of both servers, when the logs were recorded."""
