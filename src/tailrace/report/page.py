"""The report as one HTML page."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from tailrace.printable import printable, size
from tailrace.report import figures
from tailrace.report.drawing import draw

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.log.statistics import Statistics
    from tailrace.report.figures import Figure

_WHOLE: Final = 1016
_HALF: Final = 484
_NARROW: Final = 310


def page(logs: Iterable[tuple[str, Statistics]]) -> str:
    """A page of HTML that shows the statistics of logs, each with its name.

    It is complete: it has no script, loads nothing, and says so by a Content-Security-Policy.
    """
    here = files("tailrace.report")
    style = here.joinpath("page.css").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(here.joinpath("page.html").read_text(encoding="utf-8"))
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return template.render(
        logs=[_log(name, found) for name, found in logs],
        style=Markup(style),  # noqa: S704 - our own file
        policy=f"default-src 'none'; style-src 'sha256-{digest}'",
    )


def _log(name: str, found: Statistics) -> dict[str, Any]:
    tiles = [
        ("Size", size(found.bytes)),
        ("Files", f"{found.files:,}"),
        ("Transactions", f"{found.transactions:,}"),
        ("Changes", f"{sum(each.changes for each in found.tables.values()):,}"),
        ("Tables", f"{len(found.tables):,}"),
    ]
    return {
        "name": printable(name),
        "first": figures.moment(found.first) if found.first else None,
        "last": figures.moment(found.last),
        "tiles": tiles,
        "notes": found.not_counted,
        "figures": [_figure(each) for each in figures.of_log(found)],
        "listings": [
            each for each in (figures.largest(found), figures.definitions(found)) if each.rows
        ],
    }


def _figure(figure: Figure) -> dict[str, Any]:
    half = figure.kind != "time"
    return {
        "about": figure,
        "half": half,
        "legend": list(enumerate(figure.series, 1)) if len(figure.series) > 1 else [],
        # What `draw` gives is XML that it has written itself.
        "wide": Markup(draw(figure, _HALF if half else _WHOLE, narrow=False)),  # noqa: S704
        "narrow": Markup(draw(figure, _NARROW, narrow=True)),  # noqa: S704
    }
