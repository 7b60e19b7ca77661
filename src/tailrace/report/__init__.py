"""A page that shows what logs hold: plots and tables in one HTML file (`page`).

The plots are drawn when the page is made, by Vega-Lite (``vl-convert``), as SVG: the page needs no
script and nothing from another host. Jinja2 escapes what comes from the log.
"""

from __future__ import annotations

from tailrace.report.page import page

__all__ = ["page"]
