"""Draws figures as SVG by Vega-Lite, whose program comes with ``vl-convert``.

Colours are CSS variables of the page, so that one drawing serves light and dark. What a mark shows
is its ``<title>``, a tooltip in browsers. Text from the log is in the data only, never in the
specification. The drawing is parsed and written again, which escapes its text once more.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

import vl_convert

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tailrace.report.figures import Bar, Figure

_VERSION: Final = "6.4"
"""Of Vega-Lite: drawings must not change with the library's newest."""
_SVG: Final = "http://www.w3.org/2000/svg"
_SERIES: Final = 7
_LATEST: Final = 8_640_000_000_000
"""The last second that JavaScript has a date for."""
_GAP: Final = 80
"""Between bars over time: thousandths of a bar's width."""
_CLOCK: Final = {
    "year": "%Y",
    "quarter": "%b %d",
    "month": "%b %d",
    "week": "%b %d",
    "date": "%b %d",
    "day": "%b %d",
    "hours": "%H:%M",
    "minutes": "%H:%M",
    "seconds": "%H:%M:%S",
    "milliseconds": "%H:%M:%S",
}
_FONT: Final = "system-ui, sans-serif"
_AXIS: Final = {
    "labelFont": _FONT,
    "labelFontSize": 12,
    "labelColor": "var(--quiet)",
    "domainColor": "var(--line)",
    "tickColor": "var(--line)",
    "gridColor": "var(--line)",
    "titleFont": _FONT,
    "titleFontSize": 12,
    "titleFontWeight": "normal",
    "titleColor": "var(--quiet)",
}
_CONFIG: Final = {
    "axis": _AXIS,
    "view": {"stroke": None},
    "text": {"font": _FONT, "fontSize": 12, "color": "var(--ink)"},
    "legend": {"disable": True},
}
_COLOUR: Final = {
    "field": "series",
    "type": "ordinal",
    "scale": {
        "domain": list(range(_SERIES)),
        "range": [f"var(--series-{number})" for number in range(1, _SERIES + 1)],
    },
}
_TIP: Final = {"field": "tip", "type": "nominal"}
ET.register_namespace("", _SVG)


def draw(figure: Figure, width: int, *, narrow: bool) -> str:
    """The SVG of a figure, ``width`` pixels wide."""
    bars = figure.few_bars if narrow and figure.few_bars else figure.bars
    layers = {"time": _over_time, "columns": _columns, "rows": _rows}[figure.kind](
        figure, bars, narrow=narrow
    )
    step = {"step": 38} if figure.kind == "rows" else (170 if narrow else 240)
    specification = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": width,
        "height": step,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": {"left": 2, "right": 12, "top": 4, "bottom": 4},
        "background": None,
        "config": _CONFIG,
        **layers,
    }
    text = vl_convert.vegalite_to_svg(json.dumps(specification), vl_version=_VERSION)
    return _cleaned(text, figure.title + ". " + figure.summary)


def _axis_of_numbers(figure: Figure, *, grid: bool) -> dict[str, Any]:
    text = "format(datum.value, '~s')"
    if figure.unit == "bytes":
        text = f"replace({text}, /([kMGTPE]?)$/, ' $1B')"
    return {
        "title": None,
        "grid": grid,
        "domain": False,
        "ticks": False,
        "tickCount": 4,
        "tickMinStep": 1,
        "minExtent": 46,
        "labelExpr": f"datum.value % 1 ? '' : {text}",
    }


def _values(bars: Iterable[Bar]) -> list[dict[str, Any]]:
    return [each._asdict() for each in bars]


def _milliseconds(second: int) -> int:
    return 1000 * min(second, _LATEST)


def _over_time(figure: Figure, bars: Sequence[Bar], *, narrow: bool) -> dict[str, Any]:
    values = [
        {
            **each._asdict(),
            "begin": _milliseconds(each.begin),
            "end": _milliseconds(each.end) - (each.end - each.begin) * _GAP,
        }
        for each in bars
    ]
    marks = [{"at": _milliseconds(second), "tip": tip} for second, tip in figure.marks]
    ends = [_milliseconds(end) for each in bars for end in (each.begin, each.end)]
    ends += [_milliseconds(second) for second, _ in figure.marks]
    space = max((max(ends) - min(ends)) // 100, 500)
    time = {
        "type": "temporal",
        "scale": {"type": "utc", "domain": [min(ends) - space, max(ends) + space]},
        "axis": {
            "title": None,
            "grid": False,
            "tickCount": 4 if narrow else 9,
            "labelOverlap": "greedy",
            "format": _CLOCK,
        },
    }
    stacked = {
        "data": {"values": values},
        "mark": "rect",
        "encoding": {
            "x": {"field": "begin", **time},
            "x2": {"field": "end"},
            "y": {
                "field": "low",
                "type": "quantitative",
                "axis": _axis_of_numbers(figure, grid=True),
            },
            "y2": {"field": "high"},
            "color": _COLOUR,
            "description": _TIP,
        },
    }
    if not marks:
        return {"layer": [stacked]}
    line = {
        "data": {"values": marks},
        "mark": {"type": "rule", "color": "var(--mark)", "strokeDash": [3, 3], "opacity": 0.6},
        "encoding": {"x": {"field": "at", **time}},
    }
    head = {
        "data": {"values": marks},
        "mark": {
            "type": "point",
            "shape": "triangle-down",
            "filled": True,
            "size": 70,
            "color": "var(--mark)",
            "opacity": 1,
        },
        "encoding": {"x": {"field": "at", **time}, "y": {"value": 2}, "description": _TIP},
    }
    return {"layer": [stacked, line, head]}


def _columns(figure: Figure, bars: Sequence[Bar], *, narrow: bool) -> dict[str, Any]:
    return {
        "data": {"values": _values(bars)},
        "mark": "bar",
        "encoding": {
            "x": {
                "field": "name",
                "type": "ordinal",
                "sort": None,
                "scale": {"paddingInner": 0.12},
                "axis": {
                    "title": None,
                    "labelAngle": 0,
                    "labelOverlap": "parity",
                    "labelSeparation": 6 if narrow else 10,
                    "ticks": False,
                },
            },
            "y": {
                "field": "high",
                "type": "quantitative",
                "axis": _axis_of_numbers(figure, grid=True),
            },
            "color": _COLOUR,
            "description": _TIP,
        },
    }


def _rows(_figure: Figure, bars: Sequence[Bar], *, narrow: bool) -> dict[str, Any]:
    names = _values({each.begin: each for each in bars}.values())
    row = {"field": "begin", "type": "ordinal", "axis": None}
    bar = {
        "data": {"values": _values(bars)},
        "mark": {"type": "bar", "height": 10, "yOffset": 9, "cornerRadius": 2},
        "encoding": {
            "y": row,
            "x": {"field": "low", "type": "quantitative", "axis": None},
            "x2": {"field": "high"},
            "color": _COLOUR,
            "description": _TIP,
        },
    }
    label: dict[str, Any] = {"type": "text", "baseline": "bottom", "yOffset": 0}
    name: dict[str, Any] = {
        "data": {"values": names},
        "mark": {**label, "align": "left", "limit": 170 if narrow else 330},
        "encoding": {"y": row, "x": {"value": 0}, "text": {"field": "name", "type": "nominal"}},
    }
    total: dict[str, Any] = {
        "data": {"values": names},
        "mark": {**label, "align": "right", "color": "var(--quiet)"},
        "encoding": {
            "y": row,
            "x": {"value": "width"},
            "text": {"field": "total", "type": "nominal"},
        },
    }
    return {"layer": [bar, name, total]}


def _cleaned(text: str, label: str) -> str:
    """The drawing without what a page has no use for; scaled to the page, with its label."""
    root = ET.fromstring(text)  # noqa: S314 - the renderer's own
    for attribute in ("width", "height", "version", "class"):
        root.attrib.pop(attribute, None)
    for parent in root.iter():
        parent[:] = [child for child in parent if not _is_empty(child)]
    for each in root.iter():
        tip = each.attrib.pop("aria-label", None)
        for attribute in list(each.attrib):
            if attribute.startswith("aria-") or attribute in {"role", "class", "pointer-events"}:
                del each.attrib[attribute]
        if tip is not None and each.tag == f"{{{_SVG}}}path":
            title = ET.SubElement(each, f"{{{_SVG}}}title")
            title.text = tip
    root.set("role", "img")
    root.set("aria-label", label)
    return ET.tostring(root, encoding="unicode")


def _is_empty(element: ET.Element) -> bool:
    """Whether a path shows nothing: the frames that Vega draws around each group."""
    kind = element.get("class")
    return kind in {"background", "foreground"} and element.get("stroke") is None
